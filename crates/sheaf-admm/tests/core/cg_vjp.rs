//! The adjoint of conjugate gradients, for every input, kind of maps, start, stop and penalty.

use sheaf_admm::z_update::{Agreement, Cg, CgStart, ConsensusGrad, ZUpdate};
use sheaf_testkit::TestRng;

use crate::net::{MapBuffers, Net, penalty};
use crate::point::{Point, dot};

/// The solver of a case; gamma comes from the point.
type Solver = fn(Agreement<f64>) -> Cg<f64>;

fn point(net: &Net, per_agent: bool, soft: bool) -> Point {
    let mut rng = TestRng::new(7);
    let mut point = Point::default();
    net.draw_maps(&mut rng, &mut point);
    point.push("w", rng.normals(net.states()));
    point.push("z_prev", rng.normals(net.states()));
    point.push("rho", rng.ranges(if per_agent { net.agents() } else { 1 }, 0.3, 1.5));
    if soft {
        point.push("gamma", vec![1.7]);
    }
    point
}

fn z_update(solver: Solver, point: &Point) -> ZUpdate<f64> {
    let agreement =
        if point.has("gamma") { Agreement::Soft { gamma: point.one("gamma") } } else { Agreement::Hard };
    ZUpdate::Cg(solver(agreement))
}

fn forward(net: &Net, solver: Solver, point: &Point) -> (Vec<f64>, usize) {
    let (op, z_update) = (net.op(point), z_update(solver, point));
    z_update.validate(&op).expect("the options are valid");
    let mut scratch = vec![f64::NAN; z_update.forward_scratch_len(&op)];
    let mut z = vec![f64::NAN; net.states()];
    let rho = penalty(point.get("rho"));
    let (w, z_prev) = (point.get("w"), point.get("z_prev"));
    let report = z_update.forward(&op, &rho, w, z_prev, &mut [], &mut z, &mut scratch).expect("solves");
    assert!(report.converged, "{}: after {} steps", net.name, report.steps);
    (z, report.steps)
}

fn vjp(net: &Net, solver: Solver, point: &Point, d_z: &[f64]) -> Point {
    let (op, z_update) = (net.op(point), z_update(solver, point));
    let mut scratch = vec![f64::NAN; z_update.scratch_len(&op)];
    let [mut d_w, mut d_z_prev, mut d_rho] = ["w", "z_prev", "rho"].map(|name| point.grad_buffer(name));
    let (mut gamma, mut eta) = (Point::OFFSET, Point::OFFSET);
    let mut buffers = MapBuffers::new(point);
    let mut maps = buffers.grad(net.kind);
    let mut grad = ConsensusGrad {
        maps: &mut maps,
        rho: &mut d_rho,
        gamma: &mut gamma,
        eta: &mut eta,
        offsets: &mut [],
        edge_weights: &mut [],
    };
    let rho = penalty(point.get("rho"));
    let (w, z_prev) = (point.get("w"), point.get("z_prev"));
    z_update
        .vjp(&op, &rho, w, z_prev, &[], d_z, &mut d_w, &mut d_z_prev, &mut [], &mut grad, &mut scratch)
        .expect("the adjoint runs");
    assert_eq!(eta, Point::OFFSET, "conjugate gradients have no step size");
    let mut grad = Point::default();
    buffers.push_to(point, &mut grad);
    grad.push_added("w", d_w);
    grad.push_added("z_prev", d_z_prev);
    grad.push_added("rho", d_rho);
    grad.push_added("gamma", vec![gamma]);
    grad
}

/// Checks all kinds of maps, with one penalty and with one per agent. `constant` lists the inputs that have no
/// gradient; theirs must be exactly zero.
fn assert_adjoint(nets: &[Net], soft: bool, solver: Solver, constant: impl Fn(bool) -> Vec<&'static str>) {
    for net in nets {
        for per_agent in [false, true] {
            let point = point(net, per_agent, soft);
            let d_z = TestRng::new(8).normals(net.states());
            let mut grad = vjp(net, solver, &point, &d_z);
            for name in constant(per_agent) {
                assert!(grad.get(name).iter().all(|&g| g == 0.0), "{}: {name} is a constant", net.name);
                grad = grad.without(name);
            }
            let name = format!("{}, one penalty per agent: {per_agent}", net.name);
            point.assert_gradient(&name, &grad, &|at| dot(&forward(net, solver, at).0, &d_z));
        }
    }
}

#[test]
fn soft_published_steps_have_the_adjoint_of_what_ran() {
    assert_adjoint(&Net::all(), true, |a| Cg::published(a, 5), |_| vec!["z_prev"]);
}

#[test]
fn soft_warm_start_is_differentiated_with_the_previous_state_as_a_constant() {
    let solver: Solver = |a| Cg { start: CgStart::Warm, ..Cg::published(a, 5) };
    assert_adjoint(&Net::all(), true, solver, |_| vec!["z_prev"]);
}

#[test]
fn hard_published_steps_have_the_adjoint_of_what_ran() {
    // A single penalty has no effect: it cancels from the hard problem.
    let constant = |per_agent| if per_agent { vec!["gamma"] } else { vec!["gamma", "rho"] };
    // With the published 1e-5, the part of the gradient of w beyond the identity is the remainder of a cancellation,
    // five digits smaller than the terms that cancel: rounding alone then reaches 1e-6 of it. A larger term runs the
    // same code and leaves a gradient that finite differences can measure; the reference arrays cover the published
    // value.
    assert_adjoint(&Net::all(), false, |a| Cg { tikhonov: 0.05, ..Cg::published(a, 5) }, constant);
}

#[test]
fn hard_steps_from_zero_have_the_adjoint_of_what_ran() {
    let constant =
        |per_agent| if per_agent { vec!["gamma", "z_prev"] } else { vec!["gamma", "z_prev", "rho"] };
    assert_adjoint(&Net::all(), false, |a| Cg { start: CgStart::Zero, ..Cg::published(a, 5) }, constant);
}

#[test]
fn solves_to_a_fine_tolerance_have_the_adjoint_of_the_solution() {
    assert_adjoint(&Net::all_small(), true, |a| Cg::to_tolerance(a, 1e-13, 200), |_| vec!["z_prev"]);
    let constant =
        |per_agent| if per_agent { vec!["gamma", "z_prev"] } else { vec!["gamma", "z_prev", "rho"] };
    assert_adjoint(&Net::all_small(), false, |a| Cg::to_tolerance(a, 1e-13, 200), constant);
}
