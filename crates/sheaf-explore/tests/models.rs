//! Interventions on learned models: without any, a run is the ordinary solve; with them, it is what was asked for.

use serde_json::json;
use sheaf_admm::admm::intervene::{Action, Agents, All, Intervention, Interventions, Values, Variable};
use sheaf_explore::{Limits, Script, Want, subject};
use sheaf_learn::model::ModelSection;
use sheaf_learn::model::evaluate::Single;
use sheaf_learn::task::{Task, Weights};
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::task::{Maze, MazeConfig};
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

fn at(k: usize, action: Action) -> Intervention {
    Intervention { k, before: None, action }
}

/// x after every iteration of the script `list`, by the subject.
fn x_of(task: &str, input: serde_json::Value, iterations: usize, list: Vec<Intervention>) -> Vec<f32> {
    let subject = subject::builtin(task).unwrap();
    let script = Script { iterations: Some(iterations), interventions: list, ..Script::plain(task, input) };
    let want = Want { compare: false, ..Want::everything() };
    subject.run(&script, &want).unwrap().run.x
}

#[test]
fn without_interventions_a_run_has_the_bits_of_a_trace() {
    let weights = Weights::<Maze>::builtin(sheaf_tasks::maze::task::BUILTIN).unwrap();
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 7, 1).unwrap();
    let board = Maze::board(&weights.experiment.model, &set).unwrap();
    let single =
        Single::new(&weights.model, &weights.params, &board.sheaf, &Maze::samples(&board, &set), 0).unwrap();
    let traced = single.trace(12).unwrap();
    assert_eq!(x_of("maze", json!({"seed": 7}), 12, Vec::new()), traced.states);
}

#[test]
fn every_task_runs_the_same_way_twice_and_feels_every_action() {
    let tasks = [
        ("maze", json!({"seed": 7}), [3usize, 4]),
        ("sudoku", json!({"seed": 5}), [0, 9]),
        ("mnist", json!({"seed": 3}), [40, 41]),
    ];
    for (task, input, pair) in tasks {
        let run = |list| x_of(task, input.clone(), 6, list);
        let plain = run(Vec::new());
        assert_eq!(plain, run(Vec::new()), "{task}");
        let agents = Agents::These(vec![pair[0]]);
        let noise = Action::Noise {
            of: Variable::Z,
            agents: agents.clone(),
            coordinates: None,
            deviation: 1.0,
            seed: 2,
        };
        let pin = Action::Pin {
            of: Variable::X,
            agents: agents.clone(),
            coordinates: Some(vec![0]),
            to: Some(Values::One(0.5)),
            until: None,
        };
        let scale =
            Action::Scale { of: Variable::U, agents: Agents::All(All::All), coordinates: None, by: 0.0 };
        for action in [
            noise,
            pin,
            scale,
            Action::Remove(agents),
            Action::Cut(vec![pair]),
            Action::Rho(0.9),
            Action::Relaxation(0.8),
        ] {
            let changed = run(vec![at(3, action.clone())]);
            let states = plain.len() / 6;
            assert_eq!(changed[..2 * states], plain[..2 * states], "{task} {action:?}: before it acts");
            assert_ne!(changed[2 * states..], plain[2 * states..], "{task} {action:?}: after");
            assert!(changed.iter().all(|x| x.is_finite()), "{task} {action:?}");
        }
    }
}

#[test]
fn an_input_that_changes_is_the_other_sample_from_then_on() {
    let subject = subject::builtin("maze").unwrap();
    let list = vec![at(1, Action::Input(1))];
    let script = Script {
        iterations: Some(5),
        inputs: vec![json!({"seed": 8})],
        interventions: list,
        ..Script::plain("maze", json!({"seed": 7}))
    };
    let outcome = subject.run(&script, &Want::everything()).unwrap();
    assert_eq!(outcome.run.input, [1; 5]);
    // From the first iteration on, only the start z = h is that of input 0: the other maze is not the same run.
    let other = x_of("maze", json!({"seed": 8}), 5, Vec::new());
    assert_ne!(outcome.run.x, other);
    let long = |script: &Script| {
        let script = Script { iterations: Some(100), ..script.clone() };
        subject.run(&script, &Want::everything()).unwrap().run.answer().unwrap().clone()
    };
    let answer = long(&script);
    assert!(answer.right, "the agents solve the maze that they see");
    assert_eq!(answer.classes, long(&Script::plain("maze", json!({"seed": 8}))).classes);
}

#[test]
fn message_passing_takes_interventions_on_its_state() {
    let common = ModelSection { coordination: "message-passing".into(), d_v: 12, ..ModelSection::default() };
    let config = MazeConfig { hidden: 16, common };
    let model = Maze::model(&config).unwrap();
    let params: Vec<f32> = model.init(3);
    let set = generate(&MazeShape::new(9, 9, 4).unwrap(), 1, 2).unwrap();
    let board = Maze::board(&config, &set).unwrap();
    let samples = Maze::samples(&board, &set);
    let single = Single::of_inputs(&model, &params, &board.sheaf, &samples, 0..2).unwrap();
    let play = |list: Vec<Intervention>| {
        let mut states = Vec::new();
        let all = Interventions { start: None, list };
        let played = single.play(6, &all, &mut |scene| {
            states.push(scene.states.to_vec());
            true
        });
        played.map(|()| states)
    };
    let alone = Single::new(&model, &params, &board.sheaf, &samples, 0).unwrap();
    let plain = play(Vec::new()).unwrap();
    assert_eq!(plain.concat(), alone.trace(6).unwrap().states);
    let set_h = |to| Action::Set {
        of: Variable::H,
        agents: Agents::These(vec![5]),
        coordinates: None,
        to: Values::One(to),
    };
    for action in
        [set_h(0.0), Action::Remove(Agents::These(vec![5])), Action::Cut(vec![[0, 1]]), Action::Input(1)]
    {
        let changed = play(vec![at(3, action.clone())]).unwrap();
        assert_eq!(changed[..2], plain[..2], "{action:?}");
        assert_ne!(changed[5], plain[5], "{action:?}");
    }
    let removed = play(vec![at(3, Action::Remove(Agents::These(vec![5])))]).unwrap();
    assert_eq!(removed[5][5 * 12..6 * 12], plain[1][5 * 12..6 * 12]);
    for action in [
        Action::Rho(1.0),
        Action::Set {
            of: Variable::Z,
            agents: Agents::These(vec![0]),
            coordinates: None,
            to: Values::One(0.0),
        },
    ] {
        assert!(play(vec![at(1, action)]).is_err());
    }
}

#[test]
fn the_maps_of_an_agent_are_those_of_its_projections() {
    let weights = Weights::<Sudoku>::builtin(sheaf_tasks::sudoku::task::BUILTIN).unwrap();
    let mut set = sheaf_tasks::sudoku::data::SudokuSet::default();
    let drawn = sheaf_tasks::sudoku::generate::draw(sheaf_tasks::sudoku::generate::Kind::Singles, 5, 0);
    set.push(drawn.puzzle, drawn.solution, false);
    let board = Sudoku::board(&weights.experiment.model, &set).unwrap();
    let single =
        Single::new(&weights.model, &weights.params, &board.sheaf, &Sudoku::samples(&board, &set), 0)
            .unwrap();
    let maps = single.maps(0, 3).unwrap();
    let u = board.sheaf.as_uniform().unwrap();
    assert_eq!(maps.len(), u.slots * u.d_e * u.d_v);
    assert!(maps.iter().any(|&m| m != 0.0));
    let local = single.local(0, 3).unwrap();
    assert_eq!((local.diag.len(), local.q.len(), local.lo), (u.d_v, u.d_v, Some(0.0)));
    assert!(single.local(0, 27).is_err());
}

#[test]
fn limits_and_mistakes_of_scripts_are_errors_with_a_place() {
    let maze = subject::builtin("maze").unwrap();
    let want = Want { limits: Limits::REQUEST, ..Want::everything() };
    let tall = "#".repeat(60_000);
    for (script, place) in [
        (json!({"task": "sudoku"}), "task"),
        (json!({"task": "maze", "iterations": 0}), "iterations"),
        (json!({"task": "maze", "iterations": 1_000_000}), "iterations"),
        (
            json!({"task": "maze", "interventions": [{"k": 1, "do": {"steps": 1001}}]}),
            "interventions[0].do.steps",
        ),
        (json!({"task": "maze", "input": {"size": 999}}), "input.size"),
        (json!({"task": "maze", "input": {"text": tall}}), "input.text"),
        (json!({"task": "maze", "input": {"text": "###\n#S#\n###"}}), "input"),
        (json!({"task": "maze", "input": {"goal": [99, 0]}}), "input.goal"),
        (json!({"task": "maze", "input": {"gaol": [1, 1]}}), "input"),
        (json!({"task": "maze", "inputs": [{"size": 9}]}), "inputs[0]"),
        (
            json!({"task": "maze", "interventions": [{"k": 1, "do": {"input": 3}}]}),
            "interventions[0].do.input",
        ),
        (json!({"task": "maze", "input": {"size": 101}, "iterations": 1000}), "iterations × states"),
    ] {
        let script = Script::parse(&script.to_string(), "script").unwrap();
        let error = maze.run(&script, &want).err().unwrap_or_else(|| panic!("{place} passes"));
        assert_eq!(error.place(), place, "{error}");
    }
    for text in [
        "",
        "[]",
        "{\"task\": 3}",
        "{\"task\": \"maze\", \"interventions\": [{\"k\": 1, \"do\": {\"explode\": 1}}]}",
    ] {
        assert!(Script::parse(text, "script").is_err(), "{text}");
    }
    let mnist = subject::builtin(Mnist::NAME).unwrap();
    let blank = Script::plain("mnist", json!({"seed": 1, "blank": [81]}));
    assert_eq!(mnist.run(&blank, &want).err().unwrap().place(), "input.blank");
}

#[test]
fn a_script_survives_json() {
    let text = json!({
        "task": "maze", "input": {"seed": 1}, "iterations": 9,
        "interventions": [
            {"k": 2, "before": "z", "do": {"set": {"of": "x", "agents": [1, 2], "coordinates": [0], "to": [1.0]}}},
            {"k": 3, "do": {"noise": {"of": "u", "agents": {"share": 0.1, "seed": 4}, "deviation": 0.5, "seed": 1}}},
            {"k": 3, "do": {"pin": {"of": "z", "agents": "all", "until": 5}}},
            {"k": 4, "do": {"remove": [3]}}, {"k": 5, "do": {"restore": "all"}},
            {"k": 4, "do": {"cut": [[0, 1]]}}, {"k": 5, "do": {"join": [[1, 0]]}},
            {"k": 6, "do": {"rho": 0.5}}, {"k": 6, "do": {"gamma": 1.5}}, {"k": 6, "do": {"relaxation": 1.2}},
            {"k": 6, "do": {"steps": 3}}, {"k": 7, "do": {"input": 0}}
        ]
    });
    let script = Script::parse(&text.to_string(), "script").unwrap();
    assert_eq!(serde_json::to_value(&script).unwrap(), text);
    let outcome = subject::builtin("maze").unwrap().run(&script, &Want::everything()).unwrap();
    assert_eq!(outcome.run.iterations, 9);
}
