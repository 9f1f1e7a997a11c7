//! After the first solve of a kind, solving and differentiating do not allocate and give the same bits again.

use sheaf_admm::admm::{Adjoint, Gradients, Mode, Options, Problem, Seeds, Start, Workspace};
use sheaf_admm::x_update::{Curvature, Dense, Diagonal, Equality, Objective, ObjectiveGrad, Tether};
use sheaf_admm::z_update::{
    Agreement, Cg, Descent, EdgeMethod, EdgePotential, EdgeSpace, Exact, Potential, Stop, ZUpdate,
};
use sheaf_kernels::gemm::may_allocate;
use sheaf_testkit::{CountingAllocator, TestRng, allocations};

use crate::net::{Kind, MapBuffers, Net, penalty};
use crate::point::Point;

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Every kind of solver, hard and soft, by steps and to a tolerance.
fn z_updates(net: &Net) -> Vec<(&'static str, ZUpdate<f64>)> {
    let mut all = Vec::new();
    for agreement in [Agreement::Hard, Agreement::Soft { gamma: 1.3 }] {
        let stop = Stop::Steps(4);
        let edges = |method| ZUpdate::EdgeSpace(EdgeSpace { agreement, method, stop, warm: true });
        all.push(("cg", ZUpdate::Cg(Cg::published(agreement, 5))));
        all.push(("cg to a tolerance", ZUpdate::Cg(Cg::to_tolerance(agreement, 1e-3, 30))));
        all.push(("descent", ZUpdate::Descent(Descent::nesterov(agreement, 0.05, 6))));
        all.push(("edge cg", edges(EdgeMethod::Cg { guard: 1e-8 })));
        all.push(("edge descent", edges(EdgeMethod::Descent { eta: 0.05, momentum: 0.5 })));
        all.push(("exact", ZUpdate::Exact(Exact::new(&net.sheaf, agreement))));
    }
    let (potential, stop) = (EdgePotential::Huber { delta: 0.4 }, Stop::Steps(5));
    all.push((
        "potential",
        ZUpdate::Potential(Potential { potential, gamma: 1.3, eta: 0.05, momentum: 0.5, stop }),
    ));
    all
}

/// A solve of six iterations, or until a tolerance, then its reverse; returns the results of both.
fn round(
    net: &Net,
    point: &Point,
    problem: &Problem<'_, f64>,
    options: &Options<f64>,
    adjoint: Adjoint<f64>,
    ws: &mut Workspace<f64>,
    buffers: &mut (MapBuffers, Vec<f64>, Vec<f64>),
) -> f64 {
    problem.solve(Start::At(point.get("h")), options, ws, &mut ()).expect("solves");
    let (maps, d_rho, d_start) = buffers;
    d_rho.fill(0.0);
    d_start.fill(0.0);
    let mut maps = maps.grad(net.kind);
    let (mut d_gamma, mut d_eta, mut objective) = (0.0, 0.0, ObjectiveGrad::None);
    let mut grads = Gradients {
        objective: &mut objective,
        maps: &mut maps,
        rho: d_rho,
        gamma: &mut d_gamma,
        eta: &mut d_eta,
        offsets: &mut [],
        edge_weights: &mut [],
        start: d_start,
    };
    let seeds = Seeds { d_x: point.get("d_x"), d_z: None, d_u: None };
    problem.reverse(adjoint, &seeds, &mut grads, ws).expect("reverses");
    let sum = |values: &[f64]| values.iter().sum::<f64>();
    sum(ws.x()) + sum(ws.z()) + sum(d_rho) + sum(d_start) + d_gamma + d_eta
}

#[test]
fn solving_and_differentiating_allocate_nothing_after_the_first_time() {
    for kind in [Kind::Table, Kind::PerAgent, Kind::Shared, Kind::LowRank { bases: 8, gate: true }] {
        let net = Net::grid(kind);
        let (n, agents, mut rng, mut point) = (net.states(), net.agents(), TestRng::new(3), Point::default());
        net.draw_maps(&mut rng, &mut point);
        point.push("h", rng.normals(n));
        point.push("d_x", rng.normals(2 * n));
        let (diag, q, rho) = (rng.ranges(n, 0.5, 1.5), rng.normals(n), rng.ranges(agents, 0.5, 1.5));
        let quad: Vec<f64> = (0..5 * n).map(|k| if k / 5 % 5 == k % 5 { 1.0 } else { 0.1 }).collect();
        let (rows, b) = (vec![1; agents], vec![0.2; agents]);
        let equality = Equality { quad: Curvature::Diagonal(&diag), q: &q, rows: &rows, a: &q, b: &b };
        let objectives = [
            Objective::Diagonal(Diagonal::new(&diag, &q)),
            Objective::Tether(Tether { beta: 0.7, anchor: &q }),
            Objective::Dense(Dense { quad: &quad, q: &q }),
            Objective::Equality(equality),
        ];
        for (name, z_update) in z_updates(&net) {
            for (i, objective) in objectives.iter().enumerate() {
                let rho = penalty(if i % 2 == 0 { &rho } else { &rho[..1] });
                let (op, objective) = (net.op(&point), objective.clone());
                let problem = Problem { op, objective, z_update: &z_update, rho, relax: 1.6 };
                problem.validate().expect("valid");
                let balanced =
                    Options { balancing: Some(Default::default()), ..Options::until(1e-6, 0.0, 12) };
                let implicit = Adjoint::Implicit { tolerance: 1e-3, max_terms: 5000 };
                let (replay, keep) = (Mode::Differentiate { iterations: 12 }, Mode::Keep { iterations: 12 });
                let rounds = [
                    (replay, Options::fixed(6), Adjoint::Unrolled),
                    (replay, balanced, Adjoint::LastSteps(3)),
                    (keep, Options::fixed(6), Adjoint::Unrolled),
                    (replay, Options::fixed(12), implicit),
                ];
                // Only with an exact consensus step is the series certain to converge.
                let count = if name == "exact" { 4 } else { 3 };
                for (mode, options, adjoint) in rounds.into_iter().take(count) {
                    let mut ws = Workspace::new(&problem, mode);
                    let d_rho = vec![0.0; rho.grad_len(agents)];
                    let mut buffers = (MapBuffers::new(&point), d_rho, vec![0.0; n]);
                    let first = round(&net, &point, &problem, &options, adjoint, &mut ws, &mut buffers);
                    let mut again = f64::NAN;
                    let count = allocations(|| {
                        again = round(&net, &point, &problem, &options, adjoint, &mut ws, &mut buffers);
                    });
                    let place = format!("{}, {name}, objective {i}, {mode:?}, {adjoint:?}", net.name);
                    // The product for CPUs without our kernels may allocate.
                    assert!(count == 0 || may_allocate(), "{place}: {count} requests for memory");
                    assert!(
                        first.is_finite() && first.to_bits() == again.to_bits(),
                        "{place}: {first} {again}"
                    );
                }
            }
        }
    }
}

#[test]
fn a_workspace_serves_problems_of_different_sizes_in_turn() {
    let z_update = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 1.3 }, 5));
    let solve = |net: &Net, ws: &mut Workspace<f64>| {
        let (mut rng, mut point) = (TestRng::new(3), Point::default());
        net.draw_maps(&mut rng, &mut point);
        point.push("h", rng.normals(net.states()));
        point.push("d_x", rng.normals(2 * net.states()));
        let (diag, q) = (rng.ranges(net.states(), 0.5, 1.5), rng.normals(net.states()));
        let rho = rng.ranges(if net.agents() > 5 { 1 } else { net.agents() }, 0.5, 1.5);
        let objective = Objective::Diagonal(Diagonal::new(&diag, &q));
        let problem =
            Problem { op: net.op(&point), objective, z_update: &z_update, rho: penalty(&rho), relax: 1.6 };
        ws.fit(&problem, Mode::Differentiate { iterations: 6 });
        let mut buffers = (MapBuffers::new(&point), vec![0.0; rho.len()], vec![0.0; net.states()]);
        round(net, &point, &problem, &Options::fixed(6), Adjoint::Unrolled, ws, &mut buffers)
    };
    let nets = [Net::irregular(), Net::grid(Kind::Table), Net::small(Kind::Shared), Net::irregular()];
    let alone = nets.each_ref().map(|net| solve(net, &mut Workspace::default()));
    let mut shared = Workspace::default();
    let in_turn = nets.each_ref().map(|net| solve(net, &mut shared));
    assert_eq!(alone, in_turn);
}
