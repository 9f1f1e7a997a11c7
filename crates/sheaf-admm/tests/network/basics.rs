//! Small networks with known answers.

use sheaf_admm::admm::Status;
use sheaf_admm::network::{Coupling, Edge, Network, Settings};
use sheaf_admm::x_update::Quadratic;
use sheaf_admm::{ErrorKind, Matrix};
use sheaf_testkit::allocations;

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-6 * (1.0 + b.abs()), "{a} against {b}");
}

/// Two agents with ½‖x‖² + qᵀx that share their first number up to an offset.
fn two(coupling: Coupling, offset: f64) -> (Network, sheaf_admm::network::EdgeId) {
    let mut net = Network::new();
    let a = net.agent(Quadratic::new(Matrix::identity(2), [-1.0, -7.0])).unwrap();
    let b = net.agent(Quadratic::new(Matrix::identity(3), [-2.0, 3.0, -1.0])).unwrap();
    let edge = Edge::new(a, [[1.0, 0.0]], b, [[1.0, 0.0, 0.0]]).offset([offset]).coupling(coupling);
    let edge = net.edge(edge).unwrap();
    (net, edge)
}

#[test]
fn an_offset_is_kept_between_two_agents() {
    let (net, edge) = two(Coupling::Hard, 0.5);
    let solution = net.solve(1e-9).unwrap();
    assert_eq!(solution.status(), Status::Solved);
    let expected = [1.75, 7.0, 1.25, -3.0, 1.0];
    solution.all_x().iter().zip(expected).for_each(|(x, e)| close(*x, e));
    // x_a − 1 + λ = 0.
    close(solution.price(edge)[0], -0.75);
    close(solution.objective().unwrap(), 0.5 * 0.75 * 0.75 * 2.0 - 0.5 - 2.0 - 24.5 - 4.5 - 0.5);
}

#[test]
fn every_coupling_has_its_closed_form() {
    // s = x_a − x_b minimises (s + 1)²/4 + φ(s): r without coupling is −1.
    for (coupling, gap) in [
        (Coupling::Soft { weight: 1.0 }, -1.0 / 3.0),
        (Coupling::L1 { weight: 0.2 }, -0.6),
        (Coupling::L1 { weight: 0.7 }, 0.0),
        (Coupling::L2 { weight: 0.2 }, -0.6),
        (Coupling::Huber { weight: 1.0, delta: 0.1 }, -0.8),
        (Coupling::Huber { weight: 1.0, delta: 1.0 }, -1.0 / 3.0),
    ] {
        let (net, edge) = two(coupling, 0.0);
        let solution = net.solve(1e-9).unwrap();
        assert_eq!(solution.status(), Status::Solved, "{coupling:?}");
        close(solution.all_x()[0] - solution.all_x()[2], gap);
        close(solution.price(edge)[0], 1.0 - solution.all_x()[0]);
    }
}

#[test]
fn a_solver_can_be_updated_and_allocates_nothing_then() {
    let (net, edge) = two(Coupling::Hard, 0.5);
    let agents: Vec<_> = net.agent_ids().collect();
    let mut solver = net.solver(Settings { tol: 1e-9, ..Settings::default() }).unwrap();
    solver.solve().unwrap();
    let count = allocations(|| {
        solver.update_q(agents[0], &[-3.0, -1.0]).unwrap();
        solver.update_offset(edge, &[1.0]).unwrap();
        solver.solve().unwrap();
    });
    assert!(solver.solution().is_solved(), "{:?}", solver.solution());
    assert_eq!(count, 0);
    let expected = [3.0, 1.0, 2.0, -3.0, 1.0];
    solver.solution().all_x().iter().zip(expected).for_each(|(x, e)| close(*x, e));
}

#[test]
fn scaling_and_penalties_change_nothing_in_the_solution() {
    for (scale, rho) in [(true, Some(1e-6)), (true, Some(1e6)), (false, None), (false, Some(1e3))] {
        let (mut net, edge) = two(Coupling::Hard, 0.5);
        let agents: Vec<_> = net.agent_ids().collect();
        net.set_penalty(agents[0], &[3.0, 0.1]).unwrap();
        let settings = Settings { tol: 1e-9, scale, rho, ..Settings::default() };
        let mut solver = net.solver(settings).unwrap();
        let solution = solver.solve().unwrap();
        assert_eq!(solution.status(), Status::Solved, "{scale} {rho:?}");
        close(solution.x(agents[0])[0], 1.75);
        close(solution.price(edge)[0], -0.75);
    }
}

#[test]
fn mistakes_are_errors_with_their_place() {
    let mut net = Network::new();
    let a = net.agent(Quadratic::new(Matrix::identity(2), [0.0; 2])).unwrap();
    let error = net.agent(Quadratic::new(Matrix::identity(3), [0.0; 2])).unwrap_err();
    assert!(error.kind() == ErrorKind::Shape && error.place().starts_with("agent 1"), "{error}");
    let error = net.agree(a, [[1.0, 0.0]], a, [[1.0]]).unwrap_err();
    assert!(error.kind() == ErrorKind::Shape && error.place().starts_with("edge 0"), "{error}");
    assert!(net.edge(Edge::new(a, [[1.0, 0.0]], a, [[0.0, 1.0]]).offset([1.0, 2.0])).is_err());
    assert!(net.edge(Edge::new(a, [[1.0, 0.0]], a, [[0.0, 1.0]]).soft(0.0)).is_err());
    assert!(Network::new().solve(1e-6).is_err());
    assert!(net.solve(0.0).is_err() && net.solve(f64::NAN).is_err());
}

#[test]
fn offsets_that_contradict_each_other_are_infeasible_and_not_an_error() {
    let mut net = Network::new();
    let agents: Vec<_> = (0..3).map(|_| net.agent(Quadratic::new([[1.0]], [1.0])).unwrap()).collect();
    let mut last = None;
    for k in 0..3 {
        let edge = Edge::new(agents[k], [[1.0]], agents[(k + 1) % 3], [[1.0]]);
        last = Some(net.edge(edge.offset([1.0])).unwrap());
    }
    let mut solver = net.solver(Settings::default()).unwrap();
    assert_eq!(solver.solve().unwrap().status(), Status::PrimalInfeasible);
    // Mended, the same solver finds the solution.
    solver.update_offset(last.unwrap(), &[-2.0]).unwrap();
    let x = solver.solve().unwrap();
    assert!(x.is_solved() && (x.all_x()[0] - x.all_x()[1] - 1.0).abs() < 1e-5, "{}", x.status());
}

#[test]
fn numbers_that_are_compared_by_other_factors_have_a_closed_form_too() {
    // 2a = 3b, 5b = c, 2a = 0.6c: a cycle whose ratios multiply to 1.
    let mut net = Network::new();
    let agents: Vec<_> = [-1.0, -2.0, 4.0].map(|q| net.agent(Quadratic::new([[1.0]], [q])).unwrap()).into();
    for (a, f, b, g) in [(0, 2.0, 1, 3.0), (1, 5.0, 2, 1.0), (0, 2.0, 2, 0.6)] {
        net.agree(agents[a], [[f]], agents[b], [[g]]).unwrap();
    }
    // x = (3, 2, 10)·t: t minimises ½·113 t² + (−3 − 4 + 40) t.
    let (solution, t) = (net.solve(1e-10).unwrap(), -33.0 / 113.0);
    for (x, s) in solution.all_x().iter().zip([3.0, 2.0, 10.0]) {
        assert!((x - s * t).abs() < 1e-7, "{:?}", solution.all_x());
    }
}
