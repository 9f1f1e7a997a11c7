//! What the guide promises, seen from the public interface alone.

use std::time::{Duration, Instant};

use sheaf_admm::admm::Status;
use sheaf_admm::network::{AgentId, Coupling, Edge, Network, Settings, Solver};
use sheaf_admm::x_update::{ProxGrad, Proximal, Quadratic};
use sheaf_admm::{Matrix, Result};
use sheaf_testkit::{TestRng, allocations};

fn close(a: f64, b: f64, limit: f64) {
    assert!((a - b).abs() <= limit * (1.0 + b.abs()), "{a} against {b}");
}

/// Agents with ½x² + qx, joined by edges.
fn scalars(q: &[f64], pairs: &[(usize, usize)], coupling: Coupling) -> (Network, Vec<AgentId>) {
    let mut net = Network::new();
    let agents: Vec<_> = q.iter().map(|&q| net.agent(Quadratic::new([[1.0]], [q])).unwrap()).collect();
    for &(a, b) in pairs {
        net.edge(Edge::new(agents[a], [[1.0]], agents[b], [[1.0]]).coupling(coupling)).unwrap();
    }
    (net, agents)
}

fn tight() -> Settings {
    Settings { tol: 1e-10, ..Settings::default() }
}

#[test]
fn a_tiny_relaxation_is_not_called_solved_where_it_is_not() {
    let (net, agents) = scalars(&[-1.0, -5.0], &[(0, 1)], Coupling::Hard);
    let mut solver = net.solver(Settings { relax: 1e-6, iterations: 300, ..Settings::default() }).unwrap();
    let solution = solver.solve().unwrap();
    // Combined iterations may get there; a single one is nowhere near, and must not say so.
    assert!(solution.iterations() > 5);
    if solution.is_solved() {
        close(solution.x(agents[0])[0], 3.0, 1e-4);
    }
    let mut early = net.solver(Settings { relax: 1e-6, iterations: 4, ..Settings::default() }).unwrap();
    let solution = early.solve().unwrap();
    assert_eq!(solution.status(), Status::IterationLimit);
    let (value, goal) = solution.misses().primal;
    assert!(value > 1e3 * goal, "{:?}", solution.misses());
}

#[test]
fn penalties_from_one_end_of_the_range_to_the_other_end_in_a_true_status() {
    for rho in [1e-300, 1e-30, 1e-12, 1e-6, 1e6, 1e12, 1e30, 1e300] {
        for linear in [false, true] {
            let mut net = Network::new();
            let f = |q: f64| match linear {
                true => Quadratic::linear([q]).bounds([-2.0], [2.0]),
                false => Quadratic::new([[1.0]], [q]),
            };
            let (a, b) = (net.agent(f(-1.0)).unwrap(), net.agent(f(-0.5)).unwrap());
            net.agree(a, [[1.0]], b, [[1.0]]).unwrap();
            let mut solver = net.solver(Settings { rho: Some(rho), ..Settings::default() }).unwrap();
            for _ in 0..20 {
                // An error of a factorisation is an answer, too.
                let Ok(solution) = solver.solve() else { break };
                assert!(solution.rho().is_finite() && solution.rho() > 0.0, "{rho} {linear}");
                if solution.is_solved() {
                    assert!(
                        (solution.x(a)[0] - if linear { 2.0 } else { 0.75 }).abs() < 1e-4,
                        "{rho} {linear}"
                    );
                }
                if (1e-6..=1e6).contains(&rho) {
                    assert!(solution.is_solved(), "{rho} {linear}: {}", solution.status());
                }
            }
        }
    }
}

#[test]
fn no_agent_is_left_behind_because_many_others_have_arrived() {
    // Ten thousand agents are at their solution from the start; the norm of all would hide the last two.
    let count = 10_000;
    let mut q = vec![0.0; count];
    (q[count - 2], q[count - 1]) = (-1.0, -5.0);
    let pairs: Vec<_> = (0..count / 2).map(|i| (2 * i, 2 * i + 1)).collect();
    for coupling in [Coupling::Hard, Coupling::Soft { weight: 10.0 }] {
        let (net, agents) = scalars(&q, &pairs, coupling);
        let mut solver = net.solver(Settings { tol: 1e-4, ..Settings::default() }).unwrap();
        let solution = solver.solve().unwrap();
        assert!(solution.is_solved());
        let expected = match coupling {
            Coupling::Hard => [3.0, 3.0],
            _ => [3.0 - 2.0 / 21.0, 3.0 + 2.0 / 21.0],
        };
        for (agent, expected) in agents[count - 2..].iter().zip(expected) {
            assert!((solution.x(*agent)[0] - expected).abs() < 5e-4, "{:?}", solution.x(*agent));
        }
    }
}

#[test]
fn residuals_are_in_the_units_of_the_problem() {
    // The same problem in metres and in micrometres, with the tolerance in both.
    for unit in [1.0, 1e6] {
        let mut net = Network::new();
        let f = |q: f64| Quadratic::new([[1.0 / (unit * unit)]], [q / unit]);
        let (a, b) = (net.agent(f(-1.0)).unwrap(), net.agent(f(-5.0)).unwrap());
        net.agree(a, [[1.0]], b, [[1.0]]).unwrap();
        let mut solver = net.solver(Settings { tol: 1e-8, ..Settings::default() }).unwrap();
        let solution = solver.solve().unwrap();
        assert!(solution.is_solved(), "{} {:?}", solution.status(), solution.misses());
        // A slope may be off by the tolerance, and x by as much divided by the curvature.
        close(solution.x(a)[0] / unit, 3.0, 1e-6 + 1e-8 * unit);
        let (value, goal) = solution.misses().edges;
        assert!(value <= goal && (solution.x(a)[0] - solution.x(b)[0]).abs() <= goal);
        close(goal, 1e-8 * (1.0 + 3.0 * unit), 1e-3);
        let last = solution.history().last().unwrap();
        assert_eq!(last.primal, solution.misses().primal.0);
    }
}

#[test]
fn prices_and_duals_are_slopes_of_the_optimal_value() {
    // min ½‖x‖² − 3x₀ + … over two agents with bounds, an equality, an inequality and a hard edge with an offset.
    let build = |b: f64, g: f64, hi: f64, offset: f64| {
        let mut net = Network::new();
        let a = net
            .agent(
                Quadratic::new([[2.0, 0.4], [0.4, 1.0]], [-3.0, -2.0])
                    .equal([[1.0, 1.0]], [b])
                    .bounds([-9.0, -9.0], [hi, 9.0]),
            )
            .unwrap();
        let c =
            net.agent(Quadratic::new(Matrix::identity(2), [-4.0, -1.0]).at_most([[1.0, 1.0]], [g])).unwrap();
        let edge = net.edge(Edge::new(a, [[0.0, 1.0]], c, [[1.0, 0.0]]).offset([offset])).unwrap();
        let mut solver = net.into_solver(Settings { tol: 1e-11, iterations: 100_000, ..Settings::default() });
        assert!(solver.as_mut().unwrap().solve().unwrap().is_solved());
        (solver.unwrap(), a, c, edge)
    };
    let point = [2.0, 1.2, 0.3, 0.1];
    let value = |p: &[f64; 4]| build(p[0], p[1], p[2], p[3]).0.solution().objective().unwrap();
    let slope = |k: usize| {
        let [mut up, mut down] = [point; 2];
        (up[k], down[k]) = (up[k] + 1e-4, down[k] - 1e-4);
        (value(&up) - value(&down)) / 2e-4
    };
    let (solver, a, c, edge) = build(point[0], point[1], point[2], point[3]);
    let (of_a, of_c) = (solver.duals(a).unwrap(), solver.duals(c).unwrap());
    // A multiplier of g(x) ≤ r is the decrease of the value per unit of r.
    close(-of_a.equal[0], slope(0), 1e-5);
    close(-of_c.at_most[0], slope(1), 1e-5);
    close(-of_a.upper[0], slope(2), 1e-5);
    close(-solver.solution().price(edge)[0], slope(3), 1e-5);
    assert!(of_a.upper[0] > 0.1 && of_c.at_most[0] > 0.1 && of_a.lower == [0.0; 2], "{of_a:?} {of_c:?}");
}

/// A ring of agents with dense maps, so that consensus is a factorisation; hard or soft edges, or both and Huber.
fn ring(mix: usize) -> (Network, Vec<AgentId>) {
    let (mut net, mut rng) = (Network::new(), TestRng::new(40));
    let mut agents = Vec::new();
    for _ in 0..6 {
        let f = Quadratic::new([[2.0, 0.3], [0.3, 1.0]], rng.normals(2))
            .bounds([-5.0; 2], [5.0; 2])
            .equal([[1.0, -0.5]], [0.2])
            .at_most([[1.0, 1.0]], [3.0]);
        agents.push(net.agent(f).unwrap());
    }
    for i in 0..6 {
        let map = |rng: &mut TestRng| Matrix::dense(1, 2, rng.normals(2));
        let edge = Edge::new(agents[i], map(&mut rng), agents[(i + 1) % 6], map(&mut rng)).offset([0.1]);
        let coupling = match (mix, i % 3) {
            (0, _) | (2, 0) => Coupling::Hard,
            (2, 1) => Coupling::Huber { weight: 2.0, delta: 0.1 },
            _ => Coupling::Soft { weight: 3.0 },
        };
        // A ring of hard edges would leave nothing free.
        if !(coupling == Coupling::Hard && i > 3) {
            net.edge(edge.coupling(coupling)).unwrap();
        }
    }
    (net, agents)
}

#[test]
fn every_update_is_without_allocation_and_has_the_solution_of_a_new_solver() {
    for mix in 0..3 {
        let (net, agents) = ring(mix);
        let edges: Vec<_> = net.edge_ids().collect();
        let mut solver = net.solver(Settings { tol: 1e-9, ..Settings::default() }).unwrap();
        assert!(solver.solve().unwrap().is_solved(), "{mix}");
        let update = |solver: &mut Solver| {
            solver.update_q(agents[0], &[0.3, -0.8]).unwrap();
            solver.update_equal(agents[1], &[-0.1]).unwrap();
            solver.update_at_most(agents[2], &[0.5]).unwrap();
            solver.update_bounds(agents[3], &[-0.2, -0.3], &[0.4, 0.1]).unwrap();
            solver.update_offset(edges[0], &[-0.2]).unwrap();
            solver.update_offset(edges[1], &[0.3]).unwrap();
        };
        // The first one after a change of the penalty may still grow something.
        let count = allocations(|| {
            update(&mut solver);
            solver.solve().unwrap();
        });
        assert_eq!(count, 0, "{mix}: {}", solver.solution().status());
        let warm = solver.solution().clone();
        assert!(warm.is_solved(), "{mix}: {}", warm.status());
        let mut fresh = solver.network().solver(tight()).unwrap();
        let fresh = fresh.solve().unwrap();
        assert!(fresh.is_solved());
        for (x, y) in warm.all_x().iter().zip(fresh.all_x()) {
            close(*x, *y, 1e-6);
        }
    }
}

#[test]
fn a_solve_that_starts_at_the_solution_ends_at_once() {
    for mix in 0..3 {
        let (net, _) = ring(mix);
        let settings = Settings { tol: 1e-8, ..Settings::default() };
        let mut first = net.solver(settings).unwrap();
        let cold = first.solve().unwrap().iterations();
        assert!(cold > 5);
        assert!(first.solve().unwrap().iterations() <= 2, "the same solver");
        let mut second = net.solver(settings).unwrap();
        second.start_from(&first.state()).unwrap();
        assert!(second.solve().unwrap().iterations() <= 2, "another solver");
        // A start without multipliers still helps, and the point is the same.
        let mut third = net.solver(settings).unwrap();
        third.start_at(first.solution().all_x()).unwrap();
        third.solve().unwrap();
        for (x, y) in third.solution().all_x().iter().zip(first.solution().all_x()) {
            close(*x, *y, 1e-5);
        }
        first.reset();
        assert_eq!(first.solve().unwrap().iterations(), cold, "reset forgets");
    }
}

/// −Σ ln(x − s), with the shift s as its parameter.
#[derive(Debug)]
struct Barrier {
    dim: usize,
    shift: f64,
}

impl Proximal<f64> for Barrier {
    fn dim(&self) -> usize {
        self.dim
    }

    fn prox(&self, rho: f64, v: &[f64], x: &mut [f64], _scratch: &mut [f64]) -> Result<()> {
        for (x, v) in x.iter_mut().zip(v) {
            let y = v - self.shift;
            *x = self.shift + 0.5 * (y + (y * y + 4.0 / rho).sqrt());
        }
        Ok(())
    }

    fn value(&self, x: &[f64]) -> Option<f64> {
        Some(x.iter().map(|x| -(x - self.shift).ln()).sum())
    }

    fn param_len(&self) -> usize {
        1
    }

    fn vjp(
        &self,
        rho: f64,
        v: &[f64],
        x: &[f64],
        d_x: &[f64],
        grad: &mut ProxGrad<'_, f64>,
        _scratch: &mut [f64],
    ) -> Result<()> {
        for k in 0..self.dim {
            // (1/y² + ρ) dx = ρ dv + (v − x) dρ + ds/y², y = x − s.
            let curve = (x[k] - self.shift).powi(-2);
            let lambda = d_x[k] / (curve + rho);
            grad.v[k] += rho * lambda;
            *grad.rho += lambda * (v[k] - x[k]);
            if let [shift] = &mut *grad.params {
                *shift += curve * lambda;
            }
        }
        Ok(())
    }
}

#[test]
fn a_map_of_ones_own_is_solved_reported_and_differentiated() {
    let build = |shift: f64, q: f64| {
        let mut net = Network::new();
        let a = net.agent(Barrier { dim: 1, shift }).unwrap();
        let b = net.agent(Quadratic::new([[1.0]], [q])).unwrap();
        net.agree(a, [[1.0]], b, [[2.0]]).unwrap();
        let mut solver = net.into_solver(tight()).unwrap();
        assert!(solver.solve().unwrap().is_solved());
        solver
    };
    let (shift, q) = (0.4, 0.3);
    let solver = build(shift, q);
    // x = 2y: −2/(2y − s) + y + q = 0.
    let y = solver.solution().all_x()[1];
    close(-2.0 / (2.0 * y - shift) + y + q, 0.0, 1e-7);
    close(solver.solution().objective().unwrap(), -(2.0 * y - shift).ln() + 0.5 * y * y + q * y, 1e-8);
    let loss = |shift: f64| build(shift, q).solution().all_x()[1];
    let slope = (loss(shift + 1e-4) - loss(shift - 1e-4)) / 2e-4;
    let agents: Vec<_> = solver.network().agent_ids().collect();
    let gradient = solver.gradient_of(&[0.0, 1.0], &agents[..1], &[]).unwrap();
    let [sheaf_admm::network::AgentGrad::Own(own)] = &gradient.agents[..] else { panic!("one map") };
    close(own[0], slope, 1e-6);
}

#[test]
fn a_callback_sees_every_iteration_and_can_end_the_solve() {
    let (net, _) = ring(0);
    let mut solver = net.solver(Settings { tol: 1e-12, ..Settings::default() }).unwrap();
    let mut seen = Vec::new();
    let solution = solver
        .solve_with(|progress| {
            seen.push((progress.iteration, progress.record.primal));
            progress.iteration < 4
        })
        .unwrap();
    assert_eq!((solution.status(), solution.iterations(), solution.history().len()), (Status::Stopped, 5, 5));
    let history: Vec<_> = solution.history().iter().map(|r| r.primal).enumerate().collect();
    assert_eq!(seen, history);
}

#[test]
fn a_batch_has_the_solutions_of_its_variants_on_any_number_of_threads() {
    let (net, agents) = ring(2);
    let mut solver = net.solver(Settings::default()).unwrap();
    solver.solve().unwrap();
    let change = |i: usize, s: &mut Solver| s.update_q(agents[1], &[0.1 * i as f64, -0.2]);
    let one = solver.solve_batch(5, 1, change).unwrap();
    let two = solver.solve_batch(5, 3, change).unwrap();
    for i in 0..5 {
        assert!(one[i].is_solved() && one[i].all_x() == two[i].all_x());
    }
}

#[test]
fn a_time_limit_ends_large_solves() {
    let side = 60;
    let (mut net, mut rng) = (Network::new(), TestRng::new(2));
    let agents: Vec<_> = (0..side * side)
        .map(|_| net.agent(Quadratic::new(Matrix::identity(3), rng.normals(3))).unwrap())
        .collect();
    for k in 0..side * side {
        for next in [(k % side + 1 < side).then_some(k + 1), (k + side < side * side).then_some(k + side)] {
            // General maps on two numbers: the hard edges are no selectors.
            let Some(next) = next else { continue };
            let map = |rng: &mut TestRng| Matrix::dense(1, 3, rng.normals(3));
            net.edge(Edge::new(agents[k], map(&mut rng), agents[next], map(&mut rng))).unwrap();
        }
    }
    let limit = Duration::from_millis(300);
    let settings =
        Settings { tol: 1e-14, time_limit: Some(limit), iterations: usize::MAX, ..Settings::default() };
    let mut solver = net.into_solver(settings).unwrap();
    // The first solve factorises.
    solver.solve().unwrap();
    // Other tests share the machine, and may keep a solve waiting: the best of a few counts.
    let over = (0..5).map(|_| {
        solver.reset();
        let began = Instant::now();
        let status = solver.solve().unwrap().status();
        assert!(matches!(status, Status::TimeLimit | Status::Inexact(_)), "{status}");
        began.elapsed().saturating_sub(limit)
    });
    let over = over.min().unwrap();
    assert!(over < Duration::from_millis(100), "{over:?}");
}
