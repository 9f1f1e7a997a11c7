//! Interventions in the solve of a network, in its own agents, edges and units.

use sheaf_admm::admm::intervene::{
    Action, Agents, All, Intervention, Interventions, StartAt, Values, Variable,
};
use sheaf_admm::network::{Consensus, Coupling, Edge, Network, Played, Settings, Solver};
use sheaf_admm::x_update::Quadratic;
use sheaf_admm::{ErrorKind, Matrix, Result};

const STEADY: Settings = Settings {
    tol: 1e-9,
    iterations: 10_000,
    time_limit: None,
    rho: None,
    adapt: false,
    relax: 1.6,
    scale: true,
    threads: 0,
    consensus: Consensus::Exact,
};

/// A chain of three agents of different sizes, so that scaling has work to do.
fn chain(q: f64, coupling: Coupling) -> Network {
    let mut net = Network::new();
    let a = net.agent(Quadratic::new(Matrix::diagonal([9.0, 1.0]), [-18.0, q])).unwrap();
    let b = net.agent(Quadratic::new(Matrix::identity(1), [-3.0])).unwrap();
    let c = net.agent(Quadratic::new([[0.25]], [-1.0])).unwrap();
    net.edge(Edge::new(a, [[3.0, 0.0]], b, [[0.5]]).coupling(coupling)).unwrap();
    net.edge(Edge::new(b, [[1.0]], c, [[1.0]]).offset([2.0]).coupling(coupling)).unwrap();
    net
}

fn play(solver: &Solver, k: usize, list: Vec<Intervention>) -> Result<(Vec<[Vec<f64>; 3]>, Played)> {
    let mut seen = Vec::new();
    let script = Interventions { start: None, list };
    let end = solver.play(&[], &script, k, |now| {
        assert_eq!(now.k, seen.len() + 1);
        seen.push([now.x.to_vec(), now.z.to_vec(), now.u.to_vec()]);
        true
    })?;
    Ok((seen, end))
}

fn at(k: usize, action: Action) -> Intervention {
    Intervention { k, before: None, action }
}

fn near(a: &[f64], b: &[f64], far: f64) {
    assert_eq!(a.len(), b.len());
    let close = a.iter().zip(b).all(|(a, b)| (a - b).abs() <= far * (1.0 + b.abs()));
    assert!(close, "{a:?} {b:?}");
}

#[test]
fn without_interventions_it_is_the_solve() {
    for coupling in [Coupling::Hard, Coupling::Soft { weight: 3.0 }, Coupling::L1 { weight: 0.5 }] {
        let net = chain(1.0, coupling);
        let mut solver = net.solver(STEADY).unwrap();
        let (seen, end) = play(&solver, 4_000, Vec::new()).unwrap();
        assert_eq!((end.iterations, seen.len()), (4_000, 4_000));
        assert_eq!(end.x, seen[3_999][0]);
        let solution = solver.solve().unwrap();
        assert!(solution.is_solved(), "{coupling:?}: {}", solution.status());
        near(&end.x, solution.all_x(), 1e-6);
    }
}

#[test]
fn states_are_set_pinned_scaled_and_kicked_in_the_units_of_the_network() {
    let solver = chain(1.0, Coupling::Hard).solver(STEADY).unwrap();
    let one = |agent: usize| Agents::These(vec![agent]);
    let set = Action::Set {
        of: Variable::X,
        agents: one(0),
        coordinates: Some(vec![1]),
        to: Values::Each(vec![7.5]),
    };
    let pin = Action::Pin {
        of: Variable::Z,
        agents: one(2),
        coordinates: None,
        to: Some(Values::One(-4.0)),
        until: Some(9),
    };
    let end = Some(sheaf_admm::admm::Before::End);
    let scale = Action::Scale { of: Variable::U, agents: one(1), coordinates: None, by: 0.0 };
    let (plain, _) = play(&solver, 12, Vec::new()).unwrap();
    let list = vec![at(3, set), at(5, pin), Intervention { k: 12, before: end, action: scale }];
    let (seen, _) = play(&solver, 12, list).unwrap();
    assert_eq!(seen[1], plain[1]);
    assert!((seen[2][0][1] - 7.5).abs() < 1e-12);
    (4..8).for_each(|k| assert!((seen[k][1][3] + 4.0).abs() < 1e-12, "{k}"));
    assert!((seen[8][1][3] + 4.0).abs() > 1e-6);
    assert_eq!(seen[11][2][2], 0.0);

    // Noise of the same key is the same number in any units.
    let noise = |agent: usize| {
        let action =
            Action::Noise { of: Variable::Z, agents: one(agent), coordinates: None, deviation: 2.0, seed: 5 };
        let seen = play(&solver, 4, vec![Intervention { k: 4, before: end, action }]).unwrap().0;
        seen[3][1].iter().zip(&plain[3][1]).map(|(a, b)| a - b).collect::<Vec<f64>>()
    };
    let kicked = noise(1);
    assert!((kicked[2] - 2.0 * sheaf_admm::admm::intervene::normal(5, 4, 1, 0)).abs() < 1e-9, "{kicked:?}");
    assert_eq!((kicked[0], kicked[1], kicked[3]), (0.0, 0.0, 0.0));
}

#[test]
fn a_cut_edge_frees_its_agents_whatever_it_costs() {
    let alone = [2.0, -1.0, 3.0, 4.0];
    for coupling in
        [Coupling::Hard, Coupling::Soft { weight: 3.0 }, Coupling::Huber { weight: 1.0, delta: 0.1 }]
    {
        let solver = chain(1.0, coupling).solver(STEADY).unwrap();
        let (_, end) = play(&solver, 6_000, vec![at(10, Action::Cut(vec![[1, 0], [1, 2]]))]).unwrap();
        near(&end.x, &alone, 1e-5);
        // Cut for a while only, it is as if nothing had been.
        let list = vec![at(10, Action::Cut(vec![[0, 1]])), at(50, Action::Join(vec![[0, 1]]))];
        let joined = play(&solver, 6_000, list).unwrap().1;
        near(&joined.x, &play(&solver, 6_000, Vec::new()).unwrap().1.x, 1e-5);
    }
}

#[test]
fn a_removed_agent_stays_where_it_was_and_leaves_the_others_alone() {
    let solver = chain(1.0, Coupling::L1 { weight: 0.5 }).solver(STEADY).unwrap();
    let script = Interventions { start: None, list: vec![at(4, Action::Remove(Agents::These(vec![1])))] };
    let mut held = None;
    let end = solver
        .play(&[], &script, 6_000, |now| {
            assert_eq!(
                (now.removed, now.cut),
                if now.k < 4 {
                    (&[false; 3][..], &[false; 2][..])
                } else {
                    (&[false, true, false][..], &[true; 2][..])
                }
            );
            let own = now.z[2];
            if now.k >= 4 {
                assert_eq!((*held.get_or_insert(own), now.x[2]), (own, own));
            }
            true
        })
        .unwrap();
    near(&[end.x[0], end.x[1], end.x[3]], &[2.0, -1.0, 4.0], 1e-5);
}

#[test]
fn another_input_leads_to_the_solution_of_that_network() {
    let solver = chain(1.0, Coupling::Hard).solver(STEADY).unwrap();
    let other = chain(-9.0, Coupling::Hard);
    let script = Interventions { start: None, list: vec![at(30, Action::Input(1))] };
    let end = solver.play(std::slice::from_ref(&other), &script, 4_000, |_| true).unwrap();
    let mut own = other.solver(STEADY).unwrap();
    near(&end.x, own.solve().unwrap().all_x(), 1e-6);
    assert!((end.x[1] - 9.0).abs() < 1e-6);
}

#[test]
fn gamma_multiplies_the_weights_of_soft_edges() {
    let solver = chain(1.0, Coupling::Soft { weight: 3.0 }).solver(STEADY).unwrap();
    let (_, end) = play(&solver, 6_000, vec![at(20, Action::Gamma(2.0)), at(40, Action::Rho(0.9))]).unwrap();
    let mut twice = chain(1.0, Coupling::Soft { weight: 6.0 }).solver(STEADY).unwrap();
    near(&end.x, twice.solve().unwrap().all_x(), 1e-6);
}

#[test]
fn a_start_is_in_the_units_of_the_network_and_a_run_ends_when_it_is_told_to() {
    let solver = chain(1.0, Coupling::Hard).solver(STEADY).unwrap();
    let solved = play(&solver, 4_000, Vec::new()).unwrap().1;
    let start = Some(StartAt { z: solved.z.clone(), u: solved.u.clone() });
    let script = Interventions { start, list: Vec::new() };
    let end = solver.play(&[], &script, 100, |now| now.k < 3).unwrap();
    assert_eq!(end.iterations, 3);
    near(&end.x, &solved.x, 1e-9);
}

#[test]
fn the_same_script_gives_the_same_bits() {
    let solver = chain(1.0, Coupling::L1 { weight: 0.5 }).solver(STEADY).unwrap();
    let all = Agents::All(All::All);
    let list = || {
        vec![at(
            7,
            Action::Noise {
                of: Variable::Z,
                agents: all.clone(),
                coordinates: None,
                deviation: 1.0,
                seed: 3,
            },
        )]
    };
    assert_eq!(play(&solver, 50, list()).unwrap(), play(&solver, 50, list()).unwrap());
}

#[test]
fn mistakes_are_errors_that_name_their_place() {
    let net = chain(1.0, Coupling::Hard);
    let solver = net.solver(STEADY).unwrap();
    let set = |agents: Vec<usize>, to: Values| Action::Set {
        of: Variable::Z,
        agents: Agents::These(agents),
        coordinates: None,
        to,
    };
    for (action, k, kind, place) in [
        (set(vec![3], Values::One(0.0)), 1, ErrorKind::OutOfRange, "interventions[0].do.set.agents"),
        (set(vec![0], Values::Each(vec![0.0; 3])), 1, ErrorKind::Shape, "interventions[0].do.set.to"),
        (set(vec![0], Values::One(f64::NAN)), 1, ErrorKind::NotFinite, "interventions[0].do.set.to"),
        (set(vec![0], Values::One(0.0)), 11, ErrorKind::OutOfRange, "interventions[0].k"),
        (Action::Cut(vec![[0, 2]]), 1, ErrorKind::OutOfRange, "interventions[0].do.cut"),
        (Action::Input(1), 1, ErrorKind::OutOfRange, "interventions[0].do.input"),
        (Action::Gamma(2.0), 1, ErrorKind::Unsupported, "gamma"),
    ] {
        let error = play(&solver, 10, vec![at(k, action)]).unwrap_err();
        assert_eq!((error.kind(), error.place()), (kind, place), "{error}");
    }
    let soft = chain(1.0, Coupling::Soft { weight: 1.0 });
    let mut larger = net.clone();
    larger.agent(Quadratic::new([[1.0]], [0.0])).unwrap();
    for (other, place) in [(soft, "inputs[0]"), (larger, "inputs[0]: agents")] {
        let error = solver.play(&[other], &Interventions::default(), 10, |_| true).unwrap_err();
        assert_eq!((error.kind(), error.place()), (ErrorKind::Shape, place), "{error}");
    }
}
