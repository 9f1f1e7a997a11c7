//! Random networks of all families of objectives, and problems without a solution of several kinds, against an
//! interior-point method.

use sheaf_admm::admm::Status;
use sheaf_admm::network::{Coupling, Settings};
use sheaf_admm::x_update::Norm;
use sheaf_testkit::TestRng;

use crate::oracle::{AgentSpec, EdgeSpec, Form, MapSpec, Spec};
use crate::random::{Tally, below, psd, rows};

/// A quadratic with l2 and a tether, or one of the maps that are none.
fn agent(rng: &mut TestRng, d: usize) -> AgentSpec {
    let none = AgentSpec { quad: vec![vec![0.0; d]; d], q: vec![0.0; d], ..AgentSpec::default() };
    let map = |map: MapSpec| AgentSpec { map: Some(map), ..none.clone() };
    match below(rng, 8) {
        0 => map(MapSpec::Huber { weight: rng.range(0.5, 2.0), delta: 0.3, centre: rng.normals(d) }),
        1 => map(MapSpec::Ball { norm: Norm::L1, radius: rng.range(0.5, 2.0), centre: rng.normals(d) }),
        2 => map(MapSpec::Ball { norm: Norm::L2, radius: rng.range(0.5, 2.0), centre: rng.normals(d) }),
        3 => map(MapSpec::Ball { norm: Norm::LInf, radius: rng.range(0.5, 2.0), centre: rng.normals(d) }),
        4 => map(MapSpec::Simplex { total: rng.range(0.5, 2.0) }),
        5 => map(MapSpec::Cone),
        _ => {
            let form = [Form::Dense, Form::Diagonal, Form::Sparse][below(rng, 3)];
            let mut quad = psd(rng, d, 10.0);
            for (i, row) in quad.iter_mut().enumerate() {
                let far =
                    |j: usize| form == Form::Diagonal && i != j || form == Form::Sparse && i.abs_diff(j) > 1;
                row.iter_mut().enumerate().filter(|(j, _)| far(*j)).for_each(|(_, v)| *v = 0.0);
            }
            // A band of a positive definite matrix need not be one.
            quad.iter_mut()
                .enumerate()
                .for_each(|(i, row)| row[i] += if form == Form::Sparse { 20.0 } else { 0.0 });
            let tether = (below(rng, 2) == 0).then(|| (rng.range(0.1, 1.0), rng.normals(d)));
            AgentSpec {
                quad,
                form,
                q: rng.normals(d),
                l2: rng.range(0.0, 0.5),
                tether,
                ..AgentSpec::default()
            }
        }
    }
}

/// Agents of all families, each compared with a well-conditioned quadratic, so that the solution is unique.
fn draw(seed: u64) -> Spec {
    let mut rng = TestRng::new(7000 + seed);
    let (count, mut spec) = (2 + below(&mut rng, 4), Spec::default());
    for _ in 0..count {
        let d = 2 + below(&mut rng, 3);
        spec.agents.push(agent(&mut rng, d));
        let form = Form::Dense;
        let mate = AgentSpec { quad: psd(&mut rng, d, 3.0), form, q: rng.normals(d), ..AgentSpec::default() };
        spec.agents.push(mate);
        let eye: Vec<Vec<f64>> =
            (0..d).map(|i| (0..d).map(|j| if i == j { 1.0 } else { 0.0 }).collect()).collect();
        let ends = [spec.agents.len() - 2, spec.agents.len() - 1];
        let maps = [eye.clone(), eye];
        spec.edges.push(EdgeSpec { ends, maps, offset: vec![0.0; d], coupling: Coupling::Hard });
    }
    for _ in 0..count {
        let (a, b) = (below(&mut rng, 2 * count), below(&mut rng, 2 * count));
        let (da, db) = (spec.agents[a].q.len(), spec.agents[b].q.len());
        let weight = rng.range(0.1, 2.0);
        let coupling = [
            Coupling::Soft { weight },
            Coupling::Huber { weight, delta: 0.3 },
            Coupling::L1 { weight },
            Coupling::L2 { weight },
        ][below(&mut rng, 4)];
        let m = 1 + below(&mut rng, 2);
        let maps = [rows(&mut rng, m, da), rows(&mut rng, m, db)];
        spec.edges.push(EdgeSpec { ends: [a, b], maps, offset: rng.ranges(m, -0.3, 0.3), coupling });
    }
    spec
}

fn settings() -> Settings {
    Settings { tol: 1e-8, iterations: 50_000, ..Settings::default() }
}

#[test]
fn every_family_of_objectives_agrees_with_an_interior_point_method() {
    let mut tally = Tally::default();
    for seed in 0..30 {
        let spec = draw(seed);
        tally.compare(&format!("families {seed}"), &spec, &spec.oracle(), settings(), (1.0, true));
    }
    tally.assert_all(30);
}

/// A quadratic agent ½‖x‖² + qᵀx of two numbers.
fn plain(q: [f64; 2]) -> AgentSpec {
    let quad = vec![vec![1.0, 0.0], vec![0.0, 1.0]];
    AgentSpec { quad, form: Form::Diagonal, q: q.to_vec(), ..AgentSpec::default() }
}

fn flat(q: [f64; 2]) -> AgentSpec {
    AgentSpec { quad: vec![vec![0.0; 2]; 2], ..plain(q) }
}

fn agree(a: usize, b: usize, map: [f64; 2], offset: f64, coupling: Coupling) -> EdgeSpec {
    EdgeSpec { ends: [a, b], maps: [vec![map.to_vec()], vec![map.to_vec()]], offset: vec![offset], coupling }
}

fn infeasible() -> Vec<(&'static str, Spec)> {
    let hard = |a, b, offset| agree(a, b, [1.0, 0.0], offset, Coupling::Hard);
    let boxed =
        |lo: f64, hi: f64| AgentSpec { bounds: Some((vec![lo; 2], vec![hi; 2])), ..plain([1.0, -1.0]) };
    let fixed = |b: f64| AgentSpec { equal: (vec![vec![1.0, 1.0]], vec![b]), ..plain([0.3, 0.1]) };
    let sum = |a, b, coupling| agree(a, b, [1.0, 1.0], 0.0, coupling);
    vec![
        (
            "offsets around a cycle",
            Spec {
                agents: vec![plain([1.0, 0.0]), plain([0.0, 1.0]), plain([-1.0, 0.0])],
                edges: vec![hard(0, 1, 1.0), hard(1, 2, 1.0), hard(2, 0, 1.0)],
            },
        ),
        (
            "boxes across a path",
            Spec {
                agents: vec![boxed(0.0, 1.0), plain([0.0, 0.0]), boxed(2.0, 3.0)],
                edges: vec![hard(0, 1, 0.0), hard(1, 2, 0.0)],
            },
        ),
        (
            "equalities across an edge",
            Spec { agents: vec![fixed(1.0), fixed(2.0)], edges: vec![sum(0, 1, Coupling::Hard)] },
        ),
        (
            "an offset at an agent itself",
            Spec {
                agents: vec![plain([1.0, 0.0]), plain([0.0, 1.0])],
                edges: vec![hard(0, 0, 1.0), hard(0, 1, 0.0)],
            },
        ),
        (
            "boxes beside soft and Huber edges",
            Spec {
                agents: vec![boxed(0.0, 1.0), boxed(2.0, 3.0)],
                edges: vec![
                    hard(0, 1, 0.0),
                    sum(0, 1, Coupling::Soft { weight: 2.0 }),
                    sum(0, 1, Coupling::Huber { weight: 1.0, delta: 0.1 }),
                ],
            },
        ),
    ]
}

fn unbounded() -> Vec<(&'static str, Spec)> {
    let half = |q: [f64; 2]| AgentSpec { bounds: Some((vec![0.0; 2], vec![f64::INFINITY; 2])), ..flat(q) };
    let l1 = AgentSpec { l1: vec![0.2; 2], ..flat([-1.0, 0.1]) };
    let both = |coupling| agree(0, 1, [1.0, 0.0], 0.0, coupling);
    vec![
        ("a slope alone", Spec { agents: vec![flat([0.0, 1.0]), plain([1.0, 1.0])], edges: vec![] }),
        (
            "two slopes that agree",
            Spec { agents: vec![half([-1.0, 1.0]), half([0.5, 1.0])], edges: vec![both(Coupling::Hard)] },
        ),
        (
            "slopes beside a soft edge",
            Spec {
                agents: vec![half([-1.0, 1.0]), half([0.5, 1.0])],
                edges: vec![both(Coupling::Soft { weight: 1.0 })],
            },
        ),
        (
            "a slope above the weights of l1 edges",
            Spec { agents: vec![l1, plain([0.0, 0.0])], edges: vec![both(Coupling::L1 { weight: 0.3 })] },
        ),
    ]
}

#[test]
fn problems_without_a_solution_are_recognised_and_never_called_solved() {
    let mut tally = Tally::default();
    for (name, spec) in infeasible() {
        let status = tally.compare(name, &spec, &spec.oracle(), settings(), (1.0, false));
        assert!(matches!(status, Status::PrimalInfeasible | Status::SuspectedInfeasible), "{name}: {status}");
    }
    for (name, spec) in unbounded() {
        let status = tally.compare(name, &spec, &spec.oracle(), settings(), (1.0, false));
        assert!(matches!(status, Status::Unbounded | Status::SuspectedUnbounded), "{name}: {status}");
    }
    println!("{tally:?}");
    assert_eq!((tally.solvable, tally.infeasible[0], tally.unbounded[0]), (0, 5, 4));
}
