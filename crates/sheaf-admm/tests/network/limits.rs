//! What a solve returns when its time is up.

use std::thread::sleep;
use std::time::Duration;

use sheaf_admm::Matrix;
use sheaf_admm::admm::Status;
use sheaf_admm::network::{Coupling, Edge, Network, Record, Settings, Solver};
use sheaf_admm::x_update::Quadratic;
use sheaf_testkit::TestRng;

/// Agents with bounds and edges with kinks: combinations of iterations often lead astray.
fn network() -> Network {
    let (mut net, mut rng, count) = (Network::new(), TestRng::new(3), 30);
    let agents: Vec<_> = (0..count)
        .map(|_| {
            let q: Vec<f64> = rng.normals(2).iter().map(|q| 10.0 * q).collect();
            net.agent(Quadratic::new(Matrix::diagonal([0.0, 0.02]), q).bounds([-1.0; 2], [1.0; 2])).unwrap()
        })
        .collect();
    for i in 0..count {
        let edge =
            Edge::new(agents[i], Matrix::identity(2), agents[(i * 7 + 1) % count], Matrix::identity(2));
        let coupling = if i % 3 == 0 { Coupling::L1 { weight: 3.0 } } else { Coupling::L2 { weight: 5.0 } };
        net.edge(edge.coupling(coupling)).unwrap();
    }
    net
}

/// Without scaling, proposals of an iteration are in the units of the solution.
fn solver(iterations: usize, time_limit: Option<Duration>) -> Solver {
    let settings =
        Settings { tol: 1e-12, scale: false, adapt: false, iterations, time_limit, ..Settings::default() };
    network().solver(settings).unwrap()
}

/// x and the record of every iteration of a solve that nothing ends.
fn iterations() -> (Vec<Vec<f64>>, Vec<Record>) {
    let (mut seen, mut records): (Vec<Vec<f64>>, Vec<Record>) = Default::default();
    solver(120, None)
        .solve_with(|progress| {
            seen.push(progress.scaled_x.to_vec());
            records.push(progress.record);
            true
        })
        .unwrap();
    (seen, records)
}

/// A combination of iterations is on trial until the next iteration has judged it: here the clock runs out during that one.
#[test]
fn a_time_limit_returns_no_step_on_trial_that_makes_things_worse() {
    let limit = Duration::from_millis(100);
    let (seen, records) = iterations();
    let taken_back = (20..seen.len()).find(|&last| {
        let mut solver = solver(usize::MAX, Some(limit));
        let solution = solver
            .solve_with(|progress| {
                if progress.iteration == last {
                    sleep(limit);
                }
                true
            })
            .unwrap();
        // A machine that is too slow has ended it before.
        if solution.iterations() != last + 1 {
            return false;
        }
        assert_eq!(solution.status(), Status::TimeLimit);
        let (x, n) = (solution.all_x(), solution.all_x().len());
        if x == &seen[last][..n] {
            return false;
        }
        assert_eq!(x, &seen[last - 1][..n], "neither of the last two iterations, {last}");
        assert_eq!(solution.misses().primal.0, records[last - 1].primal);
        true
    });
    assert!(taken_back.is_some(), "no step on trial was taken back in {} iterations", seen.len());
}

/// The same where a callback stops the solve.
#[test]
fn a_callback_that_stops_a_solve_gets_no_step_on_trial_that_makes_things_worse() {
    let (seen, records) = iterations();
    let mut taken_back = 0;
    for last in 20..seen.len() - 1 {
        let mut solver = solver(usize::MAX, None);
        let solution = solver.solve_with(|progress| progress.iteration < last).unwrap();
        assert_eq!((solution.status(), solution.iterations()), (Status::Stopped, last + 1));
        let (x, n) = (solution.all_x(), solution.all_x().len());
        let whole = if x == &seen[last][..n] { last } else { last - 1 };
        assert_eq!(x, &seen[whole][..n], "neither of the last two iterations, {last}");
        assert_eq!(solution.misses().primal.0, records[whole].primal);
        taken_back += usize::from(whole < last);
    }
    assert!(taken_back > 0, "no step on trial was taken back in {} iterations", seen.len());
}

#[test]
fn a_time_limit_that_is_over_before_the_first_iteration_is_said_to_be() {
    let mut solver = solver(1000, Some(Duration::ZERO));
    let solution = solver.solve().unwrap();
    assert_eq!((solution.status(), solution.iterations()), (Status::TimeLimit, 0));
    let misses = *solution.misses();
    assert!([misses.primal, misses.dual, misses.edges].iter().all(|m| m.0.is_infinite()));
    assert!(solution.objective().is_none() && solution.all_x().iter().all(|x| *x == 0.0));
    // Nothing is missing when there is time again.
    solver.settings_mut().time_limit = None;
    solver.settings_mut().tol = 1e-6;
    let solution = solver.solve().unwrap().clone();
    assert!(solution.is_solved(), "{}", solution.status());
}

#[test]
fn an_offset_that_was_updated_before_a_solve_without_time_counts_in_the_next() {
    let mut net = Network::new();
    let a = net.agent(Quadratic::new([[1.0]], [0.0])).unwrap();
    let b = net.agent(Quadratic::new([[1.0]], [0.0])).unwrap();
    let edge = net.agree(a, [[1.0]], b, [[1.0]]).unwrap();
    let mut solver = net.solver(Settings { tol: 1e-9, ..Settings::default() }).unwrap();
    assert!(solver.solve().unwrap().is_solved());
    solver.update_offset(edge, &[2.0]).unwrap();
    solver.settings_mut().time_limit = Some(Duration::ZERO);
    assert_eq!(solver.solve().unwrap().status(), Status::TimeLimit);
    solver.settings_mut().time_limit = None;
    let solution = solver.solve().unwrap();
    assert!(
        solution.is_solved()
            && (solution.x(a)[0] - 1.0).abs() < 1e-6
            && (solution.x(b)[0] + 1.0).abs() < 1e-6
    );
}

/// Numbers that overflow end a solve; the next one, of other numbers, does not start from what is left of them.
#[test]
fn a_solver_that_has_failed_solves_other_numbers() {
    let mut net = Network::new();
    let a = net.agent(Quadratic::new([[1.0]], [0.0])).unwrap();
    let b = net.agent(Quadratic::new([[1.0]], [0.0])).unwrap();
    net.agree(a, [[1.0]], b, [[1.0]]).unwrap();
    let mut solver = net.solver(Settings { scale: false, ..Settings::default() }).unwrap();
    solver.update_q(a, &[1.7e308]).unwrap();
    solver.update_q(b, &[1.7e308]).unwrap();
    let status = solver.solve().map(|s| s.status());
    assert_eq!(status.unwrap(), Status::NumericalFailure);
    solver.update_q(a, &[-1.0]).unwrap();
    solver.update_q(b, &[-3.0]).unwrap();
    let solution = solver.solve().unwrap();
    assert!(solution.is_solved() && (solution.x(a)[0] - 2.0).abs() < 1e-4, "{}", solution.status());
}
