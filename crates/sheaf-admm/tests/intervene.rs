//! Interventions: each against the same thing done by hand.

use sheaf_admm::admm::intervene::{
    Action, Agents, All, Intervention, Interventions, Played, StartAt, Values, Variable, normal,
};
use sheaf_admm::admm::{Before, Mode, Options, Problem, Start, Workspace};
use sheaf_admm::sheaf::{AgentGraph, Connectivity, Maps, Sheaf, SheafOp};
use sheaf_admm::x_update::{Diagonal, Objective, Penalty};
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Exact, Stop, ZUpdate};
use sheaf_admm::{ErrorKind, Result};
use sheaf_testkit::{TestRng, assert_close_max};

/// x, z and u after every iteration.
type Seen = Vec<[Vec<f64>; 3]>;

const D_V: usize = 3;
const AGENTS: usize = 9;

/// Nine agents on a grid.
struct Grid {
    sheaf: Sheaf,
    stacks: Vec<f64>,
    diag: Vec<f64>,
    q: Vec<f64>,
    z_update: ZUpdate<f64>,
}

impl Grid {
    fn new(seed: u64) -> Self {
        let rng = &mut TestRng::new(seed);
        let graph = AgentGraph::grid(3, 3, Connectivity::Eight).unwrap();
        let sheaf = Sheaf::uniform(&graph, D_V, 2).unwrap();
        let mut stacks = vec![0.0; sheaf.stack_len()];
        for agent in 0..AGENTS {
            let rows: Vec<f64> = (0..8 * 2 * D_V).map(|_| rng.normal()).collect();
            Sheaf::pack_stack(&rows, D_V, &mut stacks[sheaf.stack_offsets()[agent]..]).unwrap();
        }
        let diag = (0..AGENTS * D_V).map(|_| 0.5 + rng.uniform()).collect();
        let q = (0..AGENTS * D_V).map(|_| rng.normal()).collect();
        let z_update = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 2.0 }, 5));
        Self { sheaf, stacks, diag, q, z_update }
    }

    fn problem<'a>(&'a self, sheaf: &'a Sheaf) -> Problem<'a, f64> {
        Problem {
            op: SheafOp::new(sheaf, Maps::PerAgent(&self.stacks)).unwrap(),
            objective: Objective::Diagonal(Diagonal::new(&self.diag, &self.q)),
            z_update: &self.z_update,
            rho: Penalty::Scalar(0.7),
            relax: 1.3,
        }
    }

    /// x, z and u after every iteration, and the end.
    fn play(&self, iterations: usize, list: Vec<Intervention>) -> Result<(Seen, Played<f64>)> {
        self.play_all(iterations, &Interventions { start: None, list })
    }

    fn play_all(&self, k: usize, all: &Interventions) -> Result<(Seen, Played<f64>)> {
        let (problem, mut seen) = (self.problem(&self.sheaf), Vec::new());
        let options = Options::fixed(k);
        let ws = &mut Workspace::default();
        let played = Problem::play(&[problem], Start::Zeros, &options, all, ws, &mut |view, _| {
            assert_eq!(view.k, seen.len());
            seen.push([view.x.to_vec(), view.z.to_vec(), view.u.to_vec()]);
            true
        })?;
        Ok((seen, played))
    }

    /// x, z, u after so many iterations from a state, by the ordinary solver.
    fn solve(&self, problem: &Problem<'_, f64>, z: &[f64], u: &[f64], k: usize) -> [Vec<f64>; 3] {
        let ws = &mut Workspace::new(problem, Mode::Solve);
        problem.solve(Start::Warm { z, u }, &Options::fixed(k), ws, &mut ()).unwrap();
        [ws.x().to_vec(), ws.z().to_vec(), ws.u().to_vec()]
    }
}

fn at(k: usize, action: Action) -> Intervention {
    Intervention { k, before: None, action }
}

fn set(of: Variable, agents: Vec<usize>, to: f64) -> Action {
    Action::Set { of, agents: Agents::These(agents), coordinates: None, to: Values::One(to) }
}

fn zeros() -> Vec<f64> {
    vec![0.0; AGENTS * D_V]
}

#[test]
fn without_interventions_a_play_has_the_bits_of_a_solve() {
    let grid = Grid::new(1);
    let (seen, played) = grid.play(12, Vec::new()).unwrap();
    let problem = grid.problem(&grid.sheaf);
    let [x, z, u] = grid.solve(&problem, &zeros(), &zeros(), 12);
    assert_eq!(seen[11], [x, z.clone(), u.clone()]);
    assert_eq!((played.z, played.u, played.iterations), (z, u, 12));
}

#[test]
fn a_script_is_empty_without_start_and_actions() {
    let one = at(1, set(Variable::Z, vec![0], 1.0));
    assert!(Interventions::default().is_empty());
    assert!(!Interventions { start: None, list: vec![one] }.is_empty());
    assert!(!Interventions { start: Some(StartAt::default()), list: Vec::new() }.is_empty());
}

#[test]
fn a_z_that_is_set_is_a_start_from_there() {
    let grid = Grid::new(2);
    let (seen, _) = grid.play(10, vec![at(5, set(Variable::Z, vec![4], 2.5))]).unwrap();
    let (before, _) = grid.play(4, Vec::new()).unwrap();
    let [_, mut z, u] = before[3].clone();
    z[4 * D_V..5 * D_V].fill(2.5);
    let problem = grid.problem(&grid.sheaf);
    assert_eq!(seen[9], grid.solve(&problem, &z, &u, 6));
    assert_eq!(seen[..4], before[..]);
}

#[test]
fn a_z_that_is_set_is_not_taken_for_the_one_whose_product_was_carried_on() {
    for before in [Before::X, Before::Z, Before::U, Before::End] {
        let kick = Intervention { k: 5, before: Some(before), action: set(Variable::Z, vec![4], 2.5) };
        let [carried, computed] = [CgStart::Carried, CgStart::Published].map(|start| {
            let hard = Cg { start, ..Cg::published(Agreement::Hard, 5) };
            Grid { z_update: ZUpdate::Cg(hard), ..Grid::new(2) }.play(7, vec![kick.clone()]).unwrap().0
        });
        assert_close_max("states after a kick", &carried[6].concat(), &computed[6].concat(), 1e-11);
    }
}

#[test]
fn a_proposal_that_is_set_enters_the_consensus_and_the_dual() {
    // z' = consensus(w), u' = w − z' with w = α x + (1 − α) z + u: with the x that was set.
    let grid = Grid::new(3);
    let (seen, _) = grid.play(3, vec![at(3, set(Variable::X, vec![2], -1.0))]).unwrap();
    let (plain, _) = grid.play(3, Vec::new()).unwrap();
    let [mut x, ..] = plain[2].clone();
    x[2 * D_V..3 * D_V].fill(-1.0);
    assert_eq!(seen[2][0], x);
    let [_, z_before, u_before] = &plain[1];
    for i in 0..AGENTS * D_V {
        let w = 1.3 * x[i] - 0.3 * z_before[i] + u_before[i];
        assert!((seen[2][1][i] + seen[2][2][i] - w).abs() < 1e-12, "{i}");
    }
    assert_ne!(seen[2][1], plain[2][1]);
}

#[test]
fn duals_change_at_every_point_of_an_iteration() {
    let grid = Grid::new(4);
    let all = |before| {
        let action =
            Action::Scale { of: Variable::U, agents: Agents::All(All::All), coordinates: None, by: 0.0 };
        let one = Intervention { k: 6, before: Some(before), action };
        grid.play(6, vec![one]).unwrap().0[5].clone()
    };
    let (plain, _) = grid.play(6, Vec::new()).unwrap();
    // At the end nothing else changes; before z, z follows x alone; before u, u' = x̃ − z'.
    let [x, z, u] = all(Before::End);
    assert_eq!((&x, &z, u), (&plain[5][0], &plain[5][1], zeros()));
    let [x, z, u] = all(Before::U);
    assert_eq!((&x, &z), (&plain[5][0], &plain[5][1]));
    for i in 0..x.len() {
        assert!((u[i] - (1.3 * x[i] - 0.3 * plain[4][1][i] - z[i])).abs() < 1e-12);
    }
    let [x, z, _] = all(Before::Z);
    assert!(x == plain[5][0] && z != plain[5][1]);
    assert_ne!(all(Before::X)[0], plain[5][0]);
}

#[test]
fn a_pin_holds_its_coordinates_until_it_is_released() {
    let grid = Grid::new(5);
    for (of, index) in [(Variable::X, 0), (Variable::Z, 1), (Variable::U, 2)] {
        let pin = Action::Pin {
            of,
            agents: Agents::These(vec![1, 7]),
            coordinates: Some(vec![0, 2]),
            to: Some(Values::Each(vec![0.25, -0.5])),
            until: Some(8),
        };
        let (seen, _) = grid.play(20, vec![at(3, pin)]).unwrap();
        for (k, states) in seen.iter().enumerate() {
            let held =
                [1, 7].iter().all(|&a| states[index][a * D_V] == 0.25 && states[index][a * D_V + 2] == -0.5);
            assert_eq!(held, (2..7).contains(&k), "{of:?} after iteration {}", k + 1);
        }
    }
}

#[test]
fn a_pin_without_values_holds_what_is_there() {
    let grid = Grid::new(6);
    let pin = Action::Pin {
        of: Variable::Z,
        agents: Agents::These(vec![0]),
        coordinates: None,
        to: None,
        until: None,
    };
    let (seen, _) = grid.play(9, vec![at(4, pin)]).unwrap();
    assert!(seen[3..].iter().all(|s| s[1][..D_V] == seen[2][1][..D_V]));
    assert_ne!(seen[8][1][D_V..], seen[2][1][D_V..]);
}

#[test]
fn a_kick_is_forgotten_because_the_problem_is_convex() {
    let grid = Grid::new(7);
    let noise = Action::Noise {
        of: Variable::U,
        agents: Agents::Share { share: 0.4, seed: 5 },
        coordinates: None,
        deviation: 3.0,
        seed: 11,
    };
    let (kicked, _) = grid.play(600, vec![at(40, noise.clone())]).unwrap();
    let (plain, _) = grid.play(600, Vec::new()).unwrap();
    let far =
        |k: usize| (0..AGENTS * D_V).map(|i| (kicked[k][0][i] - plain[k][0][i]).abs()).fold(0.0, f64::max);
    assert!(far(40) > 0.1 && far(599) < 1e-6, "{} then {}", far(40), far(599));
    // The same list gives the same bits.
    assert_eq!(grid.play(60, vec![at(40, noise)]).unwrap().0[..], kicked[..60]);
}

#[test]
fn noise_is_that_of_its_key() {
    let grid = Grid::new(8);
    let noise = |seed| Action::Noise {
        of: Variable::Z,
        agents: Agents::These(vec![3]),
        coordinates: Some(vec![1]),
        deviation: 2.0,
        seed,
    };
    let one = Intervention { k: 2, before: Some(Before::End), action: noise(9) };
    let (seen, _) = grid.play(2, vec![one]).unwrap();
    let (plain, _) = grid.play(2, Vec::new()).unwrap();
    let moved = seen[1][1][3 * D_V + 1] - plain[1][1][3 * D_V + 1];
    assert!((moved - 2.0 * normal(9, 2, 3, 1)).abs() < 1e-12);
}

#[test]
fn a_cut_edge_is_a_sheaf_without_it_and_a_joined_one_is_back() {
    let grid = Grid::new(9);
    let ends: Vec<_> = grid.sheaf.edge_ends().collect();
    let meets = |e: usize| matches!((ends[e].0.0, ends[e].1.0), (0, 1) | (4, 8));
    let cut = grid.sheaf.without_edges(meets).unwrap();
    let (seen, _) = grid
        .play(9, vec![at(4, Action::Cut(vec![[1, 0], [4, 8]])), at(7, Action::Join(vec![[0, 1], [8, 4]]))])
        .unwrap();
    let (whole, without) = (grid.problem(&grid.sheaf), grid.problem(&cut));
    let [_, z, u] = grid.solve(&whole, &zeros(), &zeros(), 3);
    let after = grid.solve(&without, &z, &u, 3);
    assert_eq!(seen[5], after);
    assert_eq!(seen[8], grid.solve(&whole, &after[1], &after[2], 3));
}

#[test]
fn an_exact_solver_is_planned_again_for_what_is_left() {
    let mut grid = Grid::new(10);
    grid.z_update = ZUpdate::Exact(Exact::new(&grid.sheaf, Agreement::Soft { gamma: 2.0 }));
    let (exact, _) = grid.play(5, vec![at(2, Action::Cut(vec![[0, 1]]))]).unwrap();
    let stop = Stop::Tolerance { absolute: 0.0, relative: 1e-12, max_steps: 500 };
    let published = Cg::published(Agreement::Soft { gamma: 2.0 }, 500);
    // The guard of the published steps would be the largest error.
    grid.z_update = ZUpdate::Cg(Cg { stop, guard: 0.0, ..published });
    let (cg, _) = grid.play(5, vec![at(2, Action::Cut(vec![[0, 1]]))]).unwrap();
    for (a, b) in exact[4].iter().flatten().zip(cg[4].iter().flatten()) {
        assert!((a - b).abs() < 1e-9, "{a} {b}");
    }
}

#[test]
fn a_removed_agent_stays_where_it_is_and_nobody_hears_it() {
    let grid = Grid::new(11);
    let remove = at(3, Action::Remove(Agents::These(vec![4])));
    let kick = Intervention { k: 2, before: Some(Before::End), action: set(Variable::Z, vec![4], 100.0) };
    let (seen, _) = grid.play(8, vec![remove.clone()]).unwrap();
    let (kicked, _) = grid.play(8, vec![kick, remove.clone()]).unwrap();
    for k in 2..8 {
        assert_eq!(seen[k][1][4 * D_V..5 * D_V], seen[1][1][4 * D_V..5 * D_V]);
        assert_eq!(seen[k][0][4 * D_V..5 * D_V], seen[k][1][4 * D_V..5 * D_V]);
        assert_eq!(seen[k][1][..4 * D_V], kicked[k][1][..4 * D_V], "iteration {}", k + 1);
    }
    let back = at(6, Action::Restore(Agents::These(vec![4])));
    let (restored, _) = grid.play(8, vec![remove, back]).unwrap();
    assert_ne!(restored[7][1][4 * D_V..5 * D_V], restored[4][1][4 * D_V..5 * D_V]);
}

#[test]
fn another_penalty_keeps_the_dual() {
    let grid = Grid::new(12);
    let (seen, _) = grid.play(5, vec![at(4, Action::Rho(1.4))]).unwrap();
    let mut problem = grid.problem(&grid.sheaf);
    let [_, z, mut u] = grid.solve(&problem, &zeros(), &zeros(), 3);
    u.iter_mut().for_each(|u| *u *= 0.7 / 1.4);
    problem.rho = Penalty::Scalar(1.4);
    assert_eq!(seen[4], grid.solve(&problem, &z, &u, 2));
}

#[test]
fn gamma_relaxation_and_steps_are_those_of_a_problem_made_with_them() {
    let grid = Grid::new(13);
    let list = vec![at(2, Action::Gamma(0.3)), at(2, Action::Relaxation(1.0)), at(2, Action::Steps(2))];
    let (seen, _) = grid.play(4, list).unwrap();
    let mut problem = grid.problem(&grid.sheaf);
    let [_, z, u] = grid.solve(&problem, &zeros(), &zeros(), 1);
    let z_update = ZUpdate::Cg(Cg::published(Agreement::Soft { gamma: 0.3 }, 2));
    (problem.z_update, problem.relax) = (&z_update, 1.0);
    assert_eq!(seen[3], grid.solve(&problem, &z, &u, 3));
}

#[test]
fn another_input_is_another_problem_from_the_same_states() {
    let (grid, other) = (Grid::new(14), Grid::new(15));
    let mut second = grid.problem(&grid.sheaf);
    second.objective = Objective::Diagonal(Diagonal::new(&other.diag, &other.q));
    let inputs = [grid.problem(&grid.sheaf), second.clone()];
    let all = Interventions { start: None, list: vec![at(3, Action::Input(1))] };
    let (ws, options) = (&mut Workspace::default(), Options::fixed(6));
    let mut numbers = Vec::new();
    let played = Problem::play(&inputs, Start::Zeros, &options, &all, ws, &mut |_, now| {
        numbers.push(now.part.input);
        true
    });
    let [_, z, u] = grid.solve(&inputs[0], &zeros(), &zeros(), 2);
    assert_eq!(played.unwrap().z, grid.solve(&second, &z, &u, 4)[1]);
    assert_eq!(numbers, [0, 0, 1, 1, 1, 1]);
}

#[test]
fn a_start_is_the_state_before_the_first_iteration() {
    let grid = Grid::new(16);
    let rng = &mut TestRng::new(1);
    let [z, u] = [(); 2].map(|()| (0..AGENTS * D_V).map(|_| rng.normal()).collect::<Vec<f64>>());
    let start = Some(StartAt { z: z.clone(), u: u.clone() });
    let (seen, _) = grid.play_all(3, &Interventions { start, list: Vec::new() }).unwrap();
    assert_eq!(seen[2], grid.solve(&grid.problem(&grid.sheaf), &z, &u, 3));
}

#[test]
fn mistakes_are_typed_and_name_their_place() {
    let grid = Grid::new(17);
    let each = Action::Set {
        of: Variable::Z,
        agents: Agents::These(vec![0, 1]),
        coordinates: Some(vec![0]),
        to: Values::Each(vec![1.0, 2.0, 3.0]),
    };
    let coordinate = Action::Scale {
        of: Variable::U,
        agents: Agents::All(All::All),
        coordinates: Some(vec![D_V]),
        by: 1.0,
    };
    let early = Intervention { k: 1, before: Some(Before::X), action: set(Variable::X, vec![0], 1.0) };
    let late = Intervention { k: 1, before: Some(Before::U), action: Action::Rho(1.0) };
    let share = Action::Remove(Agents::Share { share: 1.5, seed: 1 });
    for (one, kind, place) in [
        (at(0, Action::Rho(1.0)), ErrorKind::OutOfRange, "interventions[1].k"),
        (at(11, Action::Rho(1.0)), ErrorKind::OutOfRange, "interventions[1].k"),
        (at(1, set(Variable::Z, vec![9], 0.0)), ErrorKind::OutOfRange, "interventions[1].do.set.agents"),
        (at(1, set(Variable::H, vec![1], 0.0)), ErrorKind::Unsupported, "interventions[1].do.set.of"),
        (at(1, set(Variable::Z, vec![1], f64::NAN)), ErrorKind::NotFinite, "interventions[1].do.set.to"),
        (at(1, each), ErrorKind::Shape, "interventions[1].do.set.to"),
        (at(1, coordinate), ErrorKind::OutOfRange, "interventions[1].do.scale.coordinates"),
        (at(1, Action::Cut(vec![[0, 8]])), ErrorKind::OutOfRange, "interventions[1].do.cut"),
        (at(1, Action::Input(1)), ErrorKind::OutOfRange, "interventions[1].do.input"),
        (at(1, Action::Gamma(-1.0)), ErrorKind::NotPositive, "interventions[1].do.gamma"),
        (at(1, Action::Steps(0)), ErrorKind::NotPositive, "interventions[1].do.steps"),
        (at(1, share), ErrorKind::OutOfRange, "interventions[1].do.remove.share"),
        (early, ErrorKind::Unsupported, "interventions[1].before"),
        (late, ErrorKind::Unsupported, "interventions[1].before"),
    ] {
        let error = grid.play(10, vec![at(1, Action::Steps(5)), one.clone()]).unwrap_err();
        assert_eq!((error.kind(), error.place()), (kind, place), "{one:?}: {error}");
    }
    let start = Some(StartAt { z: vec![0.0; 4], u: Vec::new() });
    let error = grid.play_all(3, &Interventions { start, list: Vec::new() }).unwrap_err();
    assert_eq!((error.kind(), error.place()), (ErrorKind::Shape, "start.z"));
    let error = grid.play(3, vec![at(1, Action::Relaxation(2.5))]).unwrap_err();
    assert_eq!(error.place(), "relaxation");
}

#[test]
fn a_solve_that_is_acted_upon_has_no_tape() {
    struct Idle;
    impl sheaf_admm::admm::Actor<f64> for Idle {
        fn act(&mut self, _k: usize, _before: Before, _states: sheaf_admm::admm::States<'_, f64>) -> bool {
            false
        }
    }
    let grid = Grid::new(18);
    let problem = grid.problem(&grid.sheaf);
    let ws = &mut Workspace::new(&problem, Mode::Differentiate { iterations: 4 });
    let refused = problem.solve_acting(Start::Zeros, &Options::fixed(4), ws, &mut (), &mut Idle);
    assert_eq!(refused.unwrap_err().kind(), ErrorKind::Unsupported);
}
