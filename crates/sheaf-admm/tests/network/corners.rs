//! Small networks in which one thing is unusual: a curvature, a bound, an order, an update, a direction.

use sheaf_admm::admm::Status;
use sheaf_admm::network::{AgentGrad, Coupling, Edge, Network, Settings};
use sheaf_admm::x_update::{Ball, Huber, Norm, Proximal, Quadratic, Simplex};
use sheaf_admm::{ErrorKind, Matrix, Result};

fn close(a: f64, b: f64) {
    assert!((a - b).abs() < 1e-6 * (1.0 + b.abs()), "{a} against {b}");
}

fn tight() -> Settings {
    Settings { tol: 1e-10, ..Settings::default() }
}

#[test]
fn an_objective_that_curves_down_is_refused_and_not_solved() {
    for quad in [Matrix::diagonal([1.0, -30.0]), Matrix::from([[1.0, 0.0], [0.0, -30.0]])] {
        let mut net = Network::new();
        let a = net.agent(Quadratic::new(quad, [1.0, 1.0]));
        let b = net.agent(Quadratic::new(Matrix::identity(2), [0.0; 2])).unwrap();
        let solved = a.and_then(|a| net.agree(a, Matrix::identity(2), b, Matrix::identity(2)));
        let error = solved.and_then(|_| net.solve(1e-6).map(|_| ())).unwrap_err();
        assert_ne!(error.kind(), ErrorKind::SolverFailed, "{error}");
    }
}

/// What was wrong and where is in every error; so is what to do.
#[test]
fn mistakes_of_agents_edges_and_settings_come_with_a_hint() {
    let (mut net, q) = (Network::new(), || Quadratic::new(Matrix::identity(2), [0.0; 2]));
    let a = net.agent(q()).unwrap();
    let edge = |cols: usize, rows: usize| {
        Edge::new(a, Matrix::identity(2), a, Matrix::dense(rows, cols, vec![1.0; rows * cols]))
    };
    let settings = |settings: Settings| settings.validate().map(|_| ());
    let errors = [
        net.agent(Quadratic::new(Matrix::identity(3), [0.0; 2])).map(|_| ()),
        net.agent(Quadratic::new(Matrix::identity(2), [0.0, f64::NAN])).map(|_| ()),
        net.agent(q().bounds([0.0], [1.0])).map(|_| ()),
        net.agent(q().bounds([2.0; 2], [1.0; 2])).map(|_| ()),
        net.agent(q().l1([1.0])).map(|_| ()),
        net.agent(q().equal([[1.0]], [1.0])).map(|_| ()),
        net.agent(q().at_most([[1.0, 1.0]], [1.0, 2.0])).map(|_| ()),
        net.edge(edge(3, 2)).map(|_| ()),
        net.edge(edge(2, 1)).map(|_| ()),
        net.edge(edge(2, 2).offset([1.0])).map(|_| ()),
        net.edge(edge(2, 2).soft(-1.0)).map(|_| ()),
        net.set_penalty(a, &[0.0]),
        net.set_penalty(a, &[1.0; 3]),
        settings(Settings { tol: 0.0, ..Settings::default() }),
        settings(Settings { rho: Some(-1.0), ..Settings::default() }),
        settings(Settings { relax: f64::NAN, ..Settings::default() }),
        Network::new().solve(1e-6).map(|_| ()),
    ];
    let b = net.agent(q().bounds([0.0; 2], [1.0; 2])).unwrap();
    let e = net.agree(a, Matrix::identity(2), b, Matrix::identity(2)).unwrap();
    let mut larger = net.clone();
    let far = larger.agent(q()).unwrap();
    let other = larger.solver(Settings::default()).unwrap().state();
    let mut solver = net.solver(Settings::default()).unwrap();
    solver.solve().unwrap();
    let updates = [
        net.agree(a, Matrix::dense(0, 2, vec![]), a, Matrix::dense(0, 2, vec![])).map(|_| ()),
        solver.update_q(a, &[1.0]),
        solver.update_q(a, &[f64::NAN, 0.0]),
        solver.update_q(far, &[1.0; 2]),
        solver.update_bounds(a, &[0.0; 2], &[1.0; 2]),
        solver.update_bounds(b, &[2.0; 2], &[1.0; 2]),
        solver.update_equal(a, &[1.0]),
        solver.update_offset(e, &[1.0]),
        solver.start_at(&[1.0]),
        solver.start_from(&other),
    ];
    solver.solve().unwrap();
    let gradients = [vec![1.0], vec![f64::NAN; 4]].map(|d_x| solver.gradient(&d_x).map(|_| ()));
    for (i, error) in errors.into_iter().chain(updates).chain(gradients).enumerate() {
        let error = error.expect_err(&format!("mistake {i}"));
        assert!(error.hint_text().is_some(), "mistake {i}: {error}");
    }
}

#[test]
fn hard_edges_have_their_prices_beside_soft_ones() {
    // a = b hard, b ~ c soft with weight 1: ½(a − 3)², ½b², ½(c + 3)².
    let mut net = Network::new();
    let agents = [-3.0, 0.0, 3.0].map(|q| net.agent(Quadratic::new([[1.0]], [q])).unwrap());
    let hard = net.agree(agents[0], [[1.0]], agents[1], [[1.0]]).unwrap();
    let soft = Edge::new(agents[1], [[1.0]], agents[2], [[1.0]]).coupling(Coupling::Soft { weight: 1.0 });
    let soft = net.edge(soft).unwrap();
    // With a = b = s: 2s − 3 + (s − c) = 0 and c + 3 − (s − c) = 0.
    let (s, c) = (0.6, -1.2);
    let solution = net.solve(1e-10).unwrap();
    assert_eq!(solution.status(), Status::Solved);
    [s, s, c].iter().zip(solution.all_x()).for_each(|(want, x)| close(*x, *want));
    close(solution.price(hard)[0], 3.0 - s);
    close(solution.price(soft)[0], s - c);
}

#[test]
fn edges_may_point_towards_the_first_agent() {
    // A chain whose edges are given from its far end: x2 − x1 = 1, x1 − x0 = 2, x3 − x0 = −4.
    let mut net = Network::new();
    let agents: Vec<_> = (0..4).map(|i| net.agent(Quadratic::new([[1.0]], [i as f64])).unwrap()).collect();
    for (from, to, offset) in [(2, 1, 1.0), (1, 0, 2.0), (3, 0, -4.0)] {
        net.edge(Edge::new(agents[from], [[1.0]], agents[to], [[1.0]]).offset([offset])).unwrap();
    }
    let solution = net.solve(1e-10).unwrap();
    // x = t + (0, 2, 3, −4) with Σ x + Σ q = 0.
    let t = -(0.0 + 2.0 + 3.0 - 4.0 + 6.0) / 4.0;
    [t, t + 2.0, t + 3.0, t - 4.0].iter().zip(solution.all_x()).for_each(|(want, x)| close(*x, *want));
}

#[test]
fn limits_and_bounds_can_be_updated() {
    let mut net = Network::new();
    let a =
        net.agent(Quadratic::new(Matrix::identity(2), [-5.0, -5.0]).at_most([[1.0, 1.0]], [4.0])).unwrap();
    let b = net.agent(Quadratic::new([[1.0]], [0.0])).unwrap();
    net.agree(a, [[1.0, 0.0]], b, [[1.0]]).unwrap();
    let mut solver = net.solver(tight()).unwrap();
    solver.solve().unwrap();
    solver.update_at_most(a, &[2.0]).unwrap();
    let solution = solver.solve().unwrap();
    // ½(x² + y²) + ½x² − 5(x + y) on x + y = 2: 2x = y.
    close(solution.x(a)[0], 2.0 / 3.0);
    close(solution.x(a)[1], 4.0 / 3.0);
    assert!(solver.update_at_most(a, &[2.0, 3.0]).is_err() && solver.update_at_most(a, &[f64::NAN]).is_err());
    // The multiplier of x + y ≤ 2: −y + 5.
    close(solver.duals(a).unwrap().at_most[0], 5.0 - 4.0 / 3.0);
}

#[test]
fn bounds_have_their_multipliers_with_and_without_a_term_of_absolute_values() {
    // ½x² − 5x on x ≤ 2, and ½y² + 4y on y ≥ −1, with l1: the slope that is left at the bound.
    for l1 in [0.0, 0.5] {
        let mut net = Network::new();
        let f = Quadratic::new(Matrix::identity(2), [-5.0, 4.0]).bounds([-1.0, -1.0], [2.0, 2.0]).l1([l1; 2]);
        let a = net.agent(f).unwrap();
        let b = net.agent(Quadratic::new([[1.0]], [0.0])).unwrap();
        net.agree(a, [[0.0, 0.0]], b, [[1.0]]).unwrap();
        let mut solver = net.solver(tight()).unwrap();
        assert!(solver.solve().unwrap().is_solved());
        let duals = solver.duals(a).unwrap();
        [3.0 - l1, 0.0].iter().zip(&duals.upper).for_each(|(want, nu)| close(*nu, *want));
        [0.0, 3.0 - l1].iter().zip(&duals.lower).for_each(|(want, nu)| close(*nu, *want));
    }
}

#[test]
fn an_equality_may_fix_what_an_absolute_value_pulls_at() {
    // x0 is fixed at 2 and x0 + x1 at 5, both under |x|: rows that depend on each other.
    let mut net = Network::new();
    let f = Quadratic::new(Matrix::identity(2), [0.3, -0.2])
        .l1([1.5, 0.7])
        .equal([[1.0, 0.0], [1.0, 1.0]], [2.0, 5.0]);
    let a = net.agent(f).unwrap();
    let b = net.agent(Quadratic::new(Matrix::identity(2), [0.0; 2])).unwrap();
    net.agree(a, Matrix::identity(2), b, Matrix::identity(2)).unwrap();
    let solution = net.solve(1e-10).unwrap();
    assert!(solution.is_solved(), "{}", solution.status());
    [2.0, 3.0].iter().zip(solution.x(a)).for_each(|(want, x)| close(*x, *want));
}

#[test]
fn the_gradient_of_every_entry_of_a_scaled_curvature_is_the_derivative() {
    let quad = [4.0e3, 7.0, 7.0, 0.05];
    let solve = |quad: &[f64]| {
        let mut net = Network::new();
        let a = net.agent(Quadratic::new(Matrix::dense(2, 2, quad.to_vec()), [-900.0, 0.4])).unwrap();
        let b = net.agent(Quadratic::new(Matrix::identity(2), [0.2, -1.0])).unwrap();
        let edge = Edge::new(a, Matrix::identity(2), b, Matrix::identity(2));
        net.edge(edge.coupling(Coupling::Soft { weight: 0.7 })).unwrap();
        let mut solver = net.solver(Settings { tol: 1e-13, iterations: 200_000, ..tight() }).unwrap();
        solver.solve().unwrap();
        solver
    };
    let d_x = [1.0, -2.0, 0.5, 3.0];
    let gradient = solve(&quad).gradient(&d_x).unwrap();
    let AgentGrad::Quadratic(own) = &gradient.agents[0] else { panic!("a quadratic") };
    let value =
        |quad: &[f64]| -> f64 { solve(quad).solution().all_x().iter().zip(d_x).map(|(x, d)| x * d).sum() };
    // Q stays symmetric: both entries beside the diagonal move together.
    for (entries, step) in [(vec![0], 1.0), (vec![1, 2], 1e-3), (vec![3], 1e-4)] {
        let moved = |by: f64| {
            let mut quad = quad;
            entries.iter().for_each(|&k| quad[k] += by);
            value(&quad)
        };
        let (slope, claimed) =
            ((moved(step) - moved(-step)) / (2.0 * step), entries.iter().map(|&k| own.quad[k]).sum::<f64>());
        assert!((slope - claimed).abs() < 1e-4 * slope.abs().max(1e-6), "{entries:?}: {claimed} for {slope}");
    }
}

#[test]
fn a_simplex_costs_nothing() {
    let mut net = Network::new();
    let a = net.agent(Simplex { dim: 3, total: 1.0 }).unwrap();
    let b = net.agent(Quadratic::new(Matrix::identity(3), [-2.0, 0.0, 0.0])).unwrap();
    net.agree(a, Matrix::identity(3), b, Matrix::identity(3)).unwrap();
    let solution = net.solve(1e-9).unwrap();
    close(solution.x(a)[0], 1.0);
    close(solution.objective().unwrap(), 0.5 - 2.0);
}

/// x ≥ −5 as an objective that says nothing about its extent.
#[derive(Debug)]
struct Floor;

impl Proximal<f64> for Floor {
    fn dim(&self) -> usize {
        1
    }

    fn prox(&self, _rho: f64, v: &[f64], x: &mut [f64], _scratch: &mut [f64]) -> Result<()> {
        x[0] = v[0].max(-5.0);
        Ok(())
    }
}

#[test]
fn a_way_up_or_into_the_unknown_is_no_proof_of_unboundedness() {
    // All agents move together for long: up to x ≥ 50 against a cost, or down to a floor that nobody declared.
    for up in [true, false] {
        let mut net = Network::new();
        let a = match up {
            true => net.agent(Quadratic::zero(1).bounds([50.0], [f64::INFINITY])).unwrap(),
            false => net.agent(Floor).unwrap(),
        };
        let b = net.agent(Quadratic::linear([0.1])).unwrap();
        net.agree(a, [[1.0]], b, [[1.0]]).unwrap();
        let settings = Settings { tol: 1e-8, scale: false, rho: Some(0.05), ..Settings::default() };
        let mut solver = net.solver(settings).unwrap();
        let solution = solver.solve().unwrap();
        assert_eq!(solution.status(), Status::Solved, "{up}");
        close(solution.x(b)[0], if up { 50.0 } else { -5.0 });
    }
}

#[test]
fn a_long_walk_in_a_straight_line_is_shortened() {
    // A vertex of the ball holds x while its multiplier grows by the same step in every iteration, thousands of times. A penalty
    // that followed from a combination of such steps sent Huber's x to 1e14, and it did not come back.
    let mut net = Network::new();
    let centre = vec![-0.2675030966685704, 1.2928820854952336, 0.6006606057021006];
    let a = net.agent(Huber { weight: 1.3, delta: 0.4, centre }).unwrap();
    let q = [-0.5763334472113669, 0.4829713241917044, 1.6462746863131144];
    let b = net.agent(Quadratic::new(Matrix::identity(3), q)).unwrap();
    let centre = vec![-0.6382879918060448, -1.2298664782164033, 0.9628123198102597];
    let c = net.agent(Ball { norm: Norm::L1, radius: 0.8, centre }).unwrap();
    let first = [[-0.5150655771368, 0.8790665124253744, 0.8798133362504735]];
    let second = [[-0.1384600560206546, -0.18352518351364305, 0.9996912527361539]];
    net.edge(Edge::new(a, first, b, second).offset([-0.11148830626780329])).unwrap();
    let first = [[0.8035605612500148, 0.39110079032537354, 0.929660817065375]];
    let second = [[1.657750369481729, 1.31029744226408, -0.5522667513011656]];
    net.edge(Edge::new(b, first, c, second).offset([0.1])).unwrap();
    let settings = Settings { tol: 1e-8, ..Settings::default() };
    let mut solver = net.solver(settings).unwrap();
    let solution = solver.solve().unwrap();
    assert!(solution.is_solved() && solution.iterations() < 1000, "{}", solution.status());
    // Whatever the limit of iterations, the last one is not on trial.
    for iterations in 20..80 {
        let mut solver = net.solver(Settings { iterations, ..settings }).unwrap();
        let solution = solver.solve().unwrap();
        assert!(solution.all_x().iter().all(|x| x.abs() < 10.0), "{iterations}: {:?}", solution.all_x());
    }
}
