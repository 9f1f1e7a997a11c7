//! Networks of more than one chunk: the same bits on any number of threads, no allocation, and the right point.

use std::time::Duration;

use sheaf_admm::Matrix;
use sheaf_admm::chunks::AGENTS;
use sheaf_admm::network::{Edge, Network, Settings, Solver};
use sheaf_admm::x_update::Quadratic;
use sheaf_testkit::{TestRng, allocations};

const D: usize = 4;
const SHARED: usize = 3;
const SIDE: usize = 96;

struct Case {
    quad: Vec<Vec<f64>>,
    q: Vec<Vec<f64>>,
    pairs: Vec<(usize, usize)>,
}

/// A grid of agents with dense quadratics, and some long edges.
fn case() -> Case {
    const { assert!(SIDE * SIDE > 2 * AGENTS) };
    let (mut rng, count) = (TestRng::new(5), SIDE * SIDE);
    let mut case = Case { quad: vec![], q: vec![], pairs: vec![] };
    for i in 0..count {
        let m = rng.normals(D * D);
        let entry = |i: usize, j: usize| (0..D).map(|l| m[i * D + l] * m[j * D + l]).sum::<f64>() / D as f64;
        case.quad
            .push((0..D * D).map(|k| entry(k / D, k % D) + if k / D == k % D { 0.5 } else { 0.0 }).collect());
        case.q.push(rng.normals(D));
        if i % SIDE + 1 < SIDE {
            case.pairs.push((i, i + 1));
        }
        if i + SIDE < count {
            case.pairs.push((i, i + SIDE));
        }
        if i % 100 == 7 {
            case.pairs.push((i, (i * 31) % count));
        }
    }
    case
}

impl Case {
    fn solver(&self, soft: Option<f64>, settings: Settings) -> Solver {
        let mut net = Network::new();
        let agents: Vec<_> = self
            .quad
            .iter()
            .zip(&self.q)
            .map(|(m, q)| net.agent(Quadratic::new(Matrix::dense(D, D, m.clone()), q.clone())).unwrap())
            .collect();
        let first = Matrix::selector(D, [0, 1, 2]);
        for &(a, b) in &self.pairs {
            let edge = Edge::new(agents[a], &first, agents[b], &first);
            net.edge(match soft {
                Some(weight) => edge.soft(weight),
                None => edge,
            })
            .unwrap();
        }
        net.solver(settings).unwrap()
    }

    /// Q x + q of every number.
    fn slopes(&self, x: &[f64]) -> Vec<f64> {
        let of = |k: usize| {
            let (i, row) = (k / D, k % D);
            (0..D).map(|j| self.quad[i][row * D + j] * x[i * D + j]).sum::<f64>() + self.q[i][row]
        };
        (0..x.len()).map(of).collect()
    }
}

fn largest(values: impl IntoIterator<Item = f64>) -> f64 {
    values.into_iter().fold(0.0, |m, v| m.max(v.abs()))
}

#[test]
fn a_large_soft_network_ends_where_all_slopes_cancel() {
    let (case, weight) = (case(), 2.0);
    let mut solver = case.solver(Some(weight), Settings { tol: 1e-9, ..Settings::default() });
    let solution = solver.solve().unwrap();
    assert!(solution.is_solved(), "{} {:?}", solution.status(), solution.misses());
    let x = solution.all_x();
    let mut slopes = case.slopes(x);
    for &(a, b) in &case.pairs {
        for k in 0..SHARED {
            let r = weight * (x[a * D + k] - x[b * D + k]);
            slopes[a * D + k] += r;
            slopes[b * D + k] -= r;
        }
    }
    assert!(largest(slopes) < 1e-6, "solved in {} iterations", solution.iterations());
}

#[test]
fn a_large_hard_network_agrees_and_its_prices_balance_the_slopes() {
    let case = case();
    let mut solver = case.solver(None, Settings { tol: 1e-9, ..Settings::default() });
    let solution = solver.solve().unwrap().clone();
    assert!(solution.is_solved(), "{} {:?}", solution.status(), solution.misses());
    let x = solution.all_x();
    assert!(
        largest(case.pairs.iter().flat_map(|&(a, b)| (0..SHARED).map(move |k| x[a * D + k] - x[b * D + k])))
            < 1e-6
    );
    // 0 = ∇f + Fᵀλ for every agent: the prices are multipliers, though not the only ones.
    let mut slopes = case.slopes(x);
    for (edge, &(a, b)) in solver.network().edge_ids().zip(&case.pairs) {
        for (k, price) in solution.price(edge).iter().enumerate() {
            slopes[a * D + k] += price;
            slopes[b * D + k] -= price;
        }
    }
    assert!(largest(slopes) < 1e-4);
}

#[test]
fn a_large_network_has_the_same_bits_on_any_number_of_threads() {
    let case = case();
    // Edges are cut into runs of their own, and weights of 10,000 are tried and factored.
    assert!(case.pairs.len() > 16_384);
    for soft in [Some(2.0), Some(1e4), None] {
        let solve = |threads: usize| {
            let settings = Settings { tol: 1e-4, threads, ..Settings::default() };
            let mut solver = case.solver(soft, settings);
            let edges: Vec<_> = solver.network().edge_ids().collect();
            let solution = solver.solve().unwrap();
            let bits = |values: &[f64]| values.iter().map(|v| v.to_bits()).collect::<Vec<_>>();
            let misses = solution.misses();
            let single = [solution.rho(), solution.objective().unwrap(), misses.primal.0, misses.edges.0];
            let prices: Vec<f64> = edges.iter().flat_map(|&e| solution.price(e).to_vec()).collect();
            (solution.iterations(), bits(solution.all_x()), bits(&prices), bits(&single))
        };
        let one = solve(1);
        assert!(solve(2) == one && solve(0) == one, "soft {soft:?}");
    }
}

#[test]
fn a_large_network_is_solved_again_without_allocation() {
    let case = case();
    for soft in [Some(2.0), None] {
        let mut solver = case.solver(soft, Settings { tol: 1e-4, ..Settings::default() });
        solver.solve().unwrap();
        let (agent, edge) = {
            let net = solver.network();
            (net.agent_ids().nth(7).unwrap(), net.edge_ids().next().unwrap())
        };
        let count = allocations(|| {
            solver.update_q(agent, &[3.0, -1.0, 0.5, 0.1]).unwrap();
            if soft.is_some() {
                solver.update_offset(edge, &[0.1, 0.2, 0.3]).unwrap();
            }
            assert!(solver.solve().unwrap().is_solved());
        });
        assert_eq!(count, 0, "soft {soft:?}");
    }
}

/// The clock may run out in the middle of the preparation: what is done in part must not count as done.
#[test]
fn a_solve_after_preparations_that_were_cut_short_has_the_bits_of_a_first_one() {
    let case = case();
    for soft in [Some(2.0), None] {
        let settings = Settings { tol: 1e-4, ..Settings::default() };
        let first = case.solver(soft, settings).solve().unwrap().clone();
        for micros in [100, 300, 1000, 2000, 4000, 8000] {
            let mut solver = case.solver(soft, settings);
            for limit in [Some(micros), Some(micros), None] {
                solver.reset();
                solver.settings_mut().time_limit = limit.map(Duration::from_micros);
                solver.solve().unwrap();
            }
            let again = solver.solution();
            assert!(again.is_solved() && again.all_x() == first.all_x(), "soft {soft:?}, {micros} µs");
        }
    }
}

/// Weights far above the curvature of the agents, in a network too large to be accelerated from its first iteration.
#[test]
fn a_stiff_soft_network_is_solved_whatever_its_size() {
    const SIDE: usize = 64;
    const D: usize = 6;
    let (mut net, mut rng) = (Network::new(), TestRng::new(11));
    let mut agent = |net: &mut Network| {
        let m = rng.normals(D * D);
        let entry = |i: usize, j: usize| (0..D).map(|l| m[i * D + l] * m[j * D + l]).sum::<f64>() / D as f64;
        let quad: Vec<f64> =
            (0..D * D).map(|k| entry(k / D, k % D) + if k / D == k % D { 0.5 } else { 0.0 }).collect();
        net.agent(Quadratic::new(Matrix::dense(D, D, quad), rng.normals(D))).unwrap()
    };
    let agents: Vec<_> = (0..SIDE * SIDE).map(|_| agent(&mut net)).collect();
    let first = Matrix::selector(D, vec![0, 1, 2]);
    for (row, column) in (0..SIDE * SIDE).map(|i| (i / SIDE, i % SIDE)) {
        for (down, right) in [(0, 1), (1, 0), (1, 1)] {
            if row + down < SIDE && column + right < SIDE {
                let (a, b) = (agents[row * SIDE + column], agents[(row + down) * SIDE + column + right]);
                net.edge(Edge::new(a, &first, b, &first).soft(1e4)).unwrap();
            }
        }
    }
    let settings = Settings { tol: 1e-4, iterations: 200, ..Settings::default() };
    let mut solver = net.solver(settings).unwrap();
    let solution = solver.solve().unwrap();
    assert!(solution.is_solved(), "{} after {}", solution.status(), solution.iterations());
}
