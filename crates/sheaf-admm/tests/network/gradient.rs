//! Gradients of a solution against finite differences of the solution, at generic and at special points.

use sheaf_admm::Matrix;
use sheaf_admm::network::{AgentGrad, Coupling, Edge, Network, Settings, Solver};
use sheaf_admm::x_update::{Huber, Quadratic};
use sheaf_testkit::{GradientCheck, TestRng};

const D: usize = 3;

/// Agents on a ring, their parameters in one vector: per agent q, lower bound, b of one equality, l2, tether; per edge
/// two maps, an offset and a weight.
struct Ring {
    hard: bool,
    special: bool,
}

const AGENTS: usize = 4;

impl Ring {
    fn params(&self) -> Vec<f64> {
        let mut rng = TestRng::new(3);
        let mut p = Vec::new();
        for _ in 0..AGENTS {
            // At the special point all agents want the same and the edges agree already.
            p.extend(if self.special { vec![-0.5; D] } else { rng.normals(D) });
            p.extend(rng.ranges(D, -0.4, -0.1));
            p.extend([rng.range(-0.1, 0.3), 0.3, 0.2]);
            p.extend(rng.normals(D));
        }
        for _ in 0..AGENTS {
            let map = rng.normals(D);
            p.extend(map.clone());
            p.extend(if self.special { map } else { rng.normals(D) });
            p.extend([if self.special { 0.0 } else { rng.range(-0.3, 0.3) }, 1.5]);
        }
        p
    }

    fn network(&self, p: &[f64]) -> Network {
        let (mut net, mut rest) = (Network::new(), p);
        let mut take = |n: usize| {
            let (front, back) = rest.split_at(n);
            rest = back;
            front.to_vec()
        };
        let mut ids = Vec::new();
        for i in 0..AGENTS {
            let (q, lo, own) = (take(D), take(D), take(3));
            let anchor = take(D);
            let mut f = Quadratic::new([[2.0, 0.3, 0.0], [0.3, 1.5, 0.2], [0.0, 0.2, 1.0]], q)
                .l2(own[1])
                .tether(own[2], anchor);
            if !self.special {
                f = f.bounds(lo, [f64::INFINITY; D]);
            }
            if i % 2 == 0 && !self.special {
                f = f.equal([[1.0, 1.0, -1.0]], [own[0]]);
            }
            ids.push(net.agent(f).unwrap());
        }
        for i in 0..AGENTS {
            let (a, b) = (take(D), take(D));
            let own = take(2);
            let (from, to) = (ids[i], ids[(i + 1) % AGENTS]);
            let edge = Edge::new(from, Matrix::dense(1, D, a), to, Matrix::dense(1, D, b)).offset([own[0]]);
            let coupling = match (self.hard, i) {
                (true, 0 | 1) => Coupling::Hard,
                (true, 2) => Coupling::Huber { weight: own[1], delta: 0.2 },
                _ => Coupling::Soft { weight: own[1] },
            };
            net.edge(edge.coupling(coupling)).unwrap();
        }
        net
    }

    fn flat(&self, gradient: &sheaf_admm::network::Gradient) -> Vec<f64> {
        let mut out = Vec::new();
        for agent in &gradient.agents {
            let AgentGrad::Quadratic(g) = agent else { panic!("a quadratic") };
            out.extend(&g.q);
            out.extend(if g.lo.is_empty() { vec![0.0; D] } else { g.lo.clone() });
            out.extend([g.equal_to.first().copied().unwrap_or(0.0), g.l2, g.beta]);
            out.extend(&g.anchor);
        }
        for edge in &gradient.edges {
            out.extend(&edge.maps[0]);
            out.extend(&edge.maps[1]);
            out.extend([edge.offset[0], edge.weight]);
        }
        out
    }

    fn check(&self, name: &str) {
        let (params, c) = (self.params(), TestRng::new(8).normals(AGENTS * D));
        let settings = Settings { tol: 1e-12, iterations: 200_000, ..Settings::default() };
        let mut solver = self.network(&params).solver(settings).unwrap();
        assert!(solver.solve().unwrap().is_solved(), "{name}: {:?}", solver.solution().misses());
        let claimed = self.flat(&solver.gradient(&c).unwrap());
        let mut f = |p: &[f64]| {
            let mut solver = self.network(p).solver(settings).unwrap();
            solver.solve().unwrap().all_x().iter().zip(&c).map(|(x, c)| x * c).sum()
        };
        let check = GradientCheck { directions: 3, step: 1e-3, tolerance: 1e-5, ..GradientCheck::default() };
        check.assert(name, &mut f, &params, &claimed);
    }
}

#[test]
fn the_gradient_of_a_network_with_hard_soft_and_huber_edges_is_the_derivative() {
    Ring { hard: true, special: false }.check("hard");
}

#[test]
fn the_gradient_of_a_network_with_soft_edges_alone_is_the_derivative() {
    Ring { hard: false, special: false }.check("soft");
}

#[test]
fn the_gradient_is_the_derivative_where_agents_agree_from_the_start() {
    Ring { hard: true, special: true }.check("agreed");
    Ring { hard: false, special: true }.check("agreed, soft");
}

#[test]
fn the_parameters_of_another_map_have_gradients_too() {
    let solve = |p: &[f64]| {
        let mut net = Network::new();
        let a = net.agent(Huber { weight: p[0], delta: p[1], centre: p[2..].to_vec() }).unwrap();
        let b = net.agent(Quadratic::new(Matrix::identity(2), [-3.0, 0.1])).unwrap();
        net.agree(a, Matrix::identity(2), b, Matrix::identity(2)).unwrap();
        let mut solver = net.solver(Settings { tol: 1e-12, ..Settings::default() }).unwrap();
        assert!(solver.solve().unwrap().is_solved());
        solver
    };
    let (params, c) = ([1.5, 0.4, 0.2, -0.3], [1.0, 2.0, 0.5, -1.0]);
    let gradient = solve(&params).gradient(&c).unwrap();
    let AgentGrad::Own(claimed) = &gradient.agents[0] else { panic!("a map") };
    let mut f = |p: &[f64]| solve(p).solution().all_x().iter().zip(&c).map(|(x, c)| x * c).sum();
    let check = GradientCheck { tolerance: 1e-5, ..GradientCheck::default() };
    check.assert("huber", &mut f, &params, claimed);
}

/// Agents with ½x² + qx on a graph, solved twice: the second solve starts at the solution.
fn solved(q: &[f64], pairs: &[(usize, usize)], coupling: Coupling) -> sheaf_admm::network::Solver {
    let mut net = Network::new();
    let agents: Vec<_> = q.iter().map(|&q| net.agent(Quadratic::new([[1.0]], [q])).unwrap()).collect();
    for &(a, b) in pairs {
        net.edge(Edge::new(agents[a], [[1.0]], agents[b], [[1.0]]).coupling(coupling)).unwrap();
    }
    let mut solver = net.into_solver(Settings { tol: 1e-12, ..Settings::default() }).unwrap();
    for _ in 0..2 {
        assert!(solver.solve().unwrap().is_solved());
    }
    solver
}

/// (I + w L)⁻¹ b by conjugate gradients, L the Laplacian of the graph.
fn balanced(pairs: &[(usize, usize)], w: f64, b: &[f64]) -> Vec<f64> {
    let apply = |p: &[f64]| {
        let mut out = p.to_vec();
        for &(i, j) in pairs {
            let r = w * (p[i] - p[j]);
            (out[i], out[j]) = (out[i] + r, out[j] - r);
        }
        out
    };
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let (mut x, mut r, mut p) = (vec![0.0; b.len()], b.to_vec(), b.to_vec());
    for _ in 0..2000 {
        let c = dot(&r, &r);
        if c < 1e-28 {
            break;
        }
        let q = apply(&p);
        let a = c / dot(&p, &q);
        (0..b.len()).for_each(|k| (x[k], r[k]) = (x[k] + a * p[k], r[k] - a * q[k]));
        let next = dot(&r, &r) / c;
        (0..b.len()).for_each(|k| p[k] = r[k] + next * p[k]);
    }
    x
}

#[test]
fn the_gradient_is_that_of_the_solution_where_a_solve_has_nothing_to_do() {
    let mut grid = Vec::new();
    for k in 0..400 {
        grid.extend((k % 20 + 1 < 20).then_some((k, k + 1)));
        grid.extend((k + 20 < 400).then_some((k, k + 20)));
    }
    let rows: Vec<f64> = (0..400).map(|k| ((k / 20) as f64).sin()).collect();
    // Two agents that start at their solution, three on a path that agree from the start, targets constant along rows.
    type Case<'c> = (&'c [f64], &'c [(usize, usize)]);
    let cases: [Case<'_>; 3] = [(&[1.0, -2.0], &[(0, 1)]), (&[2.0; 3], &[(0, 1), (1, 2)]), (&rows, &grid)];
    for (q, pairs) in cases {
        let d_x = TestRng::new(9).normals(q.len());
        let mean = d_x.iter().sum::<f64>() / q.len() as f64;
        let soft = balanced(pairs, 3.0, &d_x).into_iter().map(|g| -g).collect();
        for (coupling, expected) in
            [(Coupling::Hard, vec![-mean; q.len()]), (Coupling::Soft { weight: 3.0 }, soft)]
        {
            let solver = solved(q, pairs, coupling);
            let agents: Vec<_> = solver.network().agent_ids().collect();
            let gradient = solver.gradient_of(&d_x, &agents, &[]).unwrap();
            for (agent, expected) in gradient.agents.iter().zip(&expected) {
                let AgentGrad::Quadratic(g) = agent else { panic!("a quadratic") };
                assert!((g.q[0] - expected).abs() < 1e-8, "{coupling:?}: {} against {expected}", g.q[0]);
            }
        }
    }
}

#[test]
fn the_gradient_by_a_part_is_that_part_of_the_gradient() {
    for hard in [true, false] {
        let ring = Ring { hard, special: false };
        let settings = Settings { tol: 1e-11, iterations: 200_000, ..Settings::default() };
        let mut solver = ring.network(&ring.params()).solver(settings).unwrap();
        assert!(solver.solve().unwrap().is_solved());
        let (agents, edges): (Vec<_>, Vec<_>) =
            (solver.network().agent_ids().collect(), solver.network().edge_ids().collect());
        let d_x = TestRng::new(8).normals(AGENTS * D);
        let all = solver.gradient(&d_x).unwrap();
        let some = solver.gradient_of(&d_x, &[agents[3], agents[1]], &[edges[2]]).unwrap();
        assert_eq!(some.agents, [all.agents[3].clone(), all.agents[1].clone()]);
        assert_eq!(some.edges, [all.edges[2].clone()]);
        let edges_only = solver.gradient_of(&d_x, &[], &edges).unwrap();
        assert!(edges_only.agents.is_empty() && edges_only.edges == all.edges);
        assert!(solver.gradient_of(&d_x[1..], &agents, &[]).is_err());
    }
}

/// The multipliers and the state that a gradient is taken at would be those of another problem.
#[test]
fn a_gradient_or_a_dual_of_a_solver_that_was_changed_is_refused_until_it_has_solved() {
    let mut net = Network::new();
    let a = net.agent(Quadratic::new([[1.0]], [-1.0]).bounds([0.0], [9.0])).unwrap();
    let b = net.agent(Quadratic::new([[1.0]], [-5.0])).unwrap();
    let edge = net.agree(a, [[1.0]], b, [[1.0]]).unwrap();
    let mut solver = net.solver(Settings { tol: 1e-9, ..Settings::default() }).unwrap();
    assert!(solver.duals(a).is_err() && solver.gradient(&[1.0, 0.0]).is_err());
    solver.solve().unwrap();
    let state = solver.state();
    let changes: [&dyn Fn(&mut Solver); 6] = [
        &|s| s.reset(),
        &|s| s.update_q(a, &[-2.0]).unwrap(),
        &|s| s.update_bounds(a, &[0.5], &[8.0]).unwrap(),
        &|s| s.update_offset(edge, &[0.5]).unwrap(),
        &|s| s.start_at(&[1.0, 1.0]).unwrap(),
        &|s| s.start_from(&state).unwrap(),
    ];
    for (i, change) in changes.into_iter().enumerate() {
        assert!(solver.solve().unwrap().is_solved(), "change {i}");
        assert!(solver.gradient(&[1.0, 0.0]).is_ok() && solver.duals(a).is_ok(), "change {i}");
        change(&mut solver);
        for error in [solver.gradient(&[1.0, 0.0]).map(|_| ()), solver.duals(a).map(|_| ())] {
            assert!(
                error.unwrap_err().hint_text().is_some_and(|hint| hint.contains("solve()")),
                "change {i}"
            );
        }
    }
}
