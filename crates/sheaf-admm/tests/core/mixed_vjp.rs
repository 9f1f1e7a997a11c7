//! The reverse sweep through agents of all families: diagonal with l1 and box, tether, dense, equality, general.

use sheaf_admm::admm::{
    Adjoint, Balancing, Gradients, Iteration, Mode, Options, Problem, Seeds, Start, Workspace,
};
use sheaf_admm::x_update::{
    Coefficient, Curvature, Dense, DenseGrad, Diagonal, DiagonalGrad, Equality, EqualityGrad, Objective,
    ObjectiveGrad, Qp, QpGrad, Tether, TetherGrad,
};
use sheaf_admm::z_update::{Agreement, Cg, Exact, ZUpdate};
use sheaf_testkit::TestRng;

use crate::net::{MapBuffers, Net, penalty};
use crate::point::{Point, dot};

const ITERATIONS: usize = 6;

/// Stalks of the agents of the irregular net; the families are in this order.
const DIMS: [usize; 5] = [3, 2, 4, 3, 5];

fn draw(net: &Net, seed: u64, soft: bool) -> Point {
    let (mut rng, mut point) = (TestRng::new(seed), Point::default());
    net.draw_maps(&mut rng, &mut point);
    point.push("diag 0", rng.ranges(3, 0.4, 1.5));
    point.push("q 0", rng.normals(3));
    point.push("l1 0", rng.ranges(3, 0.05, 0.3));
    point.push("lo 0", rng.ranges(3, -0.6, -0.2));
    point.push("hi 0", rng.ranges(3, 0.2, 0.6));
    point.push("beta 1", vec![0.7]);
    point.push("anchor 1", rng.normals(2));
    point.push("root 2", rng.normals(16));
    point.push("q 2", rng.normals(4));
    point.push("diag 3", rng.ranges(3, 0.4, 1.5));
    point.push("q 3", rng.normals(3));
    point.push("a 3", rng.normals(3));
    point.push("b 3", rng.normals(1));
    point.push("root 4", rng.normals(25));
    point.push("q 4", rng.normals(5));
    point.push("g 4", rng.normals(10));
    point.push("h 4", rng.ranges(2, 0.05, 0.3));
    point.push("lo 4", rng.ranges(5, -0.5, -0.2));
    point.push("hi 4", rng.ranges(5, 0.2, 0.5));
    point.push("rho", rng.ranges(net.agents(), 0.4, 0.9));
    if soft {
        point.push("gamma", vec![1.4]);
    }
    point.push("start", rng.normals(net.states()));
    point
}

/// Q = M Mᵀ + 0.3 I: every M gives a matrix that is symmetric and positive definite.
fn quad(root: &[f64], d: usize) -> Vec<f64> {
    let entry =
        |i: usize, j: usize| dot(&root[i * d..][..d], &root[j * d..][..d]) + if i == j { 0.3 } else { 0.0 };
    (0..d * d).map(|k| entry(k / d, k % d)).collect()
}

/// d_M = (d_Q + d_Qᵀ) M.
fn quad_vjp(root: &[f64], d_quad: &[f64], d: usize) -> Vec<f64> {
    let both = |i: usize, k: usize| d_quad[i * d + k] + d_quad[k * d + i];
    (0..d * d).map(|e| (0..d).map(|k| both(e / d, k) * root[k * d + e % d]).sum()).collect()
}

fn objective<'a>(point: &'a Point, dense: &'a [f64], general: &'a [f64]) -> Objective<'a, f64> {
    let each = |name| Some(Coefficient::PerCoordinate(point.get(name)));
    let (l1, lo, hi) = (each("l1 0"), each("lo 0"), each("hi 0"));
    let (a, b) = (point.get("a 3"), point.get("b 3"));
    let plain = Qp::new(Curvature::Dense(general), point.get("q 4"));
    let (g, h, low, high) = (point.get("g 4"), point.get("h 4"), each("lo 4"), each("hi 4"));
    let quad = Curvature::Diagonal(point.get("diag 3"));
    Objective::Mixed(vec![
        Objective::Diagonal(Diagonal { l1, lo, hi, ..Diagonal::new(point.get("diag 0"), point.get("q 0")) }),
        Objective::Tether(Tether { beta: point.one("beta 1"), anchor: point.get("anchor 1") }),
        Objective::Dense(Dense { quad: dense, q: point.get("q 2") }),
        Objective::Equality(Equality { quad, q: point.get("q 3"), rows: &[1], a, b }),
        Objective::Qp(Qp { in_rows: &[2], g, h, lo: low, hi: high, ..plain }),
    ])
}

fn options() -> Options<f64> {
    Options {
        balancing: Some(Balancing { factor: 2.0, ratio: 1.1, until: 4, ..Balancing::default() }),
        ..Options::fixed(ITERATIONS)
    }
}

/// Solves; with `seeds` (of the last two x, of z and of u) also reverses. Returns the loss, the penalties that were
/// used, and the gradients.
fn run(net: &Net, point: &Point, weights: &[f64], reverse: bool) -> (f64, Vec<f64>, Point) {
    let n = net.states();
    let (dense, general) = (quad(point.get("root 2"), 4), quad(point.get("root 4"), 5));
    let z_update = match point.has("gamma") {
        true => ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: point.one("gamma") }, 4)),
        false => ZUpdate::Exact(Exact::new(&net.sheaf, Agreement::Hard)),
    };
    let problem = Problem {
        op: net.op(point),
        objective: objective(point, &dense, &general),
        z_update: &z_update,
        rho: penalty(point.get("rho")),
        relax: 1.6,
    };
    problem.validate().expect("valid");
    let (mut ws, mut forces) =
        (Workspace::new(&problem, Mode::Differentiate { iterations: ITERATIONS }), vec![]);
    let mut watch = |view: &Iteration<'_, '_, f64>| {
        forces.push(view.rho.of(0) / point.get("rho")[0]);
        true
    };
    problem.solve(Start::At(point.get("start")), &options(), &mut ws, &mut watch).expect("solves");
    let (d_x, rest) = weights.split_at(2 * n);
    let (d_z, d_u) = rest.split_at(n);
    let loss = dot(d_x, ws.last_x(2).expect("recorded")) + dot(d_z, ws.z()) + dot(d_u, ws.u());
    let mut grad = Point::default();
    if !reverse {
        return (loss, forces, grad);
    }
    let names = [
        "diag 0", "q 0", "l1 0", "lo 0", "hi 0", "beta 1", "anchor 1", "root 2", "q 2", "diag 3", "q 3",
        "a 3", "b 3", "root 4", "q 4", "g 4", "h 4", "lo 4", "hi 4", "rho", "start",
    ];
    let mut buffers = names.map(|name| point.grad_buffer(name));
    let [
        diag,
        q,
        l1,
        lo,
        hi,
        beta,
        anchor,
        quad_2,
        q_2,
        diag_3,
        q_3,
        a,
        b,
        quad_4,
        q_4,
        g,
        h,
        low,
        high,
        rho,
        start,
    ] = &mut buffers;
    let mut objective = ObjectiveGrad::Mixed(vec![
        ObjectiveGrad::Diagonal(DiagonalGrad {
            diag: Some(diag),
            q: Some(q),
            l1: Some(l1),
            lo: Some(lo),
            hi: Some(hi),
            l2: None,
        }),
        ObjectiveGrad::Tether(TetherGrad { beta: beta.first_mut(), anchor: Some(anchor) }),
        ObjectiveGrad::Dense(DenseGrad { quad: Some(quad_2), q: Some(q_2) }),
        ObjectiveGrad::Equality(EqualityGrad { quad: Some(diag_3), q: Some(q_3), a: Some(a), b: Some(b) }),
        ObjectiveGrad::Qp(QpGrad {
            quad: Some(quad_4),
            q: Some(q_4),
            g: Some(g),
            h: Some(h),
            lo: Some(low),
            hi: Some(high),
            ..QpGrad::default()
        }),
    ]);
    let (mut maps, mut gamma, mut eta) = (MapBuffers::new(point), Point::OFFSET, Point::OFFSET);
    let mut grads = Gradients {
        objective: &mut objective,
        maps: &mut maps.grad(net.kind),
        rho,
        gamma: &mut gamma,
        eta: &mut eta,
        offsets: &mut [],
        edge_weights: &mut [],
        start,
    };
    let seeds = Seeds { d_x, d_z: Some(d_z), d_u: Some(d_u) };
    problem.reverse(Adjoint::Unrolled, &seeds, &mut grads, &mut ws).expect("reverses");
    maps.push_to(point, &mut grad);
    for (name, added) in names.into_iter().zip(buffers) {
        let free: Vec<f64> = added.iter().map(|g| g - Point::OFFSET).collect();
        match name {
            "root 2" => grad.push(name, quad_vjp(point.get(name), &free, 4)),
            "root 4" => grad.push(name, quad_vjp(point.get(name), &free, 5)),
            _ => grad.push(name, free),
        }
    }
    if point.has("gamma") {
        grad.push("gamma", vec![gamma - Point::OFFSET]);
    }
    (loss, forces, grad)
}

#[test]
fn agents_of_every_family_are_differentiated_together_through_balanced_iterations() {
    let net = Net::irregular();
    let stalks: Vec<usize> = net.sheaf.state_offsets().windows(2).map(|w| w[1] - w[0]).collect();
    assert_eq!(stalks, DIMS);
    let weights = TestRng::new(61).normals(4 * net.states());
    // Seeds for which every bound, inequality and weight has an effect.
    for (soft, seed) in [(true, 15), (false, 15), (false, 14), (false, 27)] {
        let point = draw(&net, seed, soft);
        let (_, forces, grad) = run(&net, &point, &weights, true);
        assert!(forces.windows(2).any(|pair| pair[0] != pair[1]), "the penalty moved: {forces:?}");
        // Every block has a gradient, those of bounds and inequalities too: they were active.
        point.assert_gradient(&format!("soft {soft}"), &grad, &|at| run(&net, at, &weights, false).0);
    }
}
