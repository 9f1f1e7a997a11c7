//! Figures: their structure as snapshots, their three formats, and what they refuse. `SHEAF_FIGURES=DIR` writes them, to
//! be looked at.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::path::{Path, PathBuf};

use sheaf_figures::asynchronous::{asynchronous, parse};
use sheaf_figures::class_emergence::class_emergence;
use sheaf_figures::compare::compare;
use sheaf_figures::curves::{Learning, learning_curves};
use sheaf_figures::dynamics::dynamics;
use sheaf_figures::evolution::{SHOWN, evolution};
use sheaf_figures::sizes::{AtSize, Sweep, sizes};
use sheaf_figures::trajectories::trajectories;
use sheaf_figures::views::views;
use sheaf_figures::{Chosen, Figure, Format, Story};
use sheaf_learn::model::Model;
use sheaf_learn::task::{Experiment, Task};
use sheaf_learn::train::{Precision, WeightsFile, WeightsMeta, encode_weights};
use sheaf_tasks::{maze, mnist, sudoku};

fn builtin(task: &str) -> WeightsFile {
    let bytes = match task {
        "maze" => maze::task::BUILTIN,
        "mnist" => mnist::task::BUILTIN,
        _ => sudoku::task::BUILTIN,
    };
    WeightsFile::parse(task, bytes).unwrap()
}

/// Untrained weights of message passing.
fn talking() -> WeightsFile {
    let mut experiment: Experiment<maze::task::Maze> = maze::task::Maze::published();
    experiment.model.common.coordination = "message-passing".into();
    experiment.iterations.train_max = 0;
    let model = experiment.model().unwrap();
    let params: Vec<f32> = Model::init(&model, 3);
    let config = sheaf_learn::config::strict::to_toml(&experiment).unwrap();
    let about = WeightsMeta { task: "maze".into(), config, record: String::new() };
    let bytes = encode_weights(model.layout(), &params, &about, Precision::F32).unwrap();
    WeightsFile::parse("message passing", bytes).unwrap()
}

fn story(task: &str, seed: u64, size: Option<usize>, iterations: usize) -> Story {
    Story::of(&builtin(task), &Chosen::Fresh { seed, size }, Some(iterations)).unwrap()
}

/// How many shapes of each kind there are, and all texts, in order. Cells of one colour that are neighbours are one
/// rectangle, so that the last digit of a state, which depends on the kernels, changes their number: it is not kept.
fn structure(figure: &Figure) -> String {
    let svg = figure.svg();
    let (mut shapes, mut texts) = (BTreeMap::<&str, usize>::new(), Vec::new());
    for (at, _) in svg.match_indices('<').filter(|(at, _)| svg[at + 1..].starts_with(char::is_alphabetic)) {
        let rest = &svg[at + 1..];
        let name = rest.split(|c: char| !c.is_alphanumeric()).next().unwrap_or("");
        *shapes.entry(name).or_default() += 1;
        if name == "text" {
            let body = rest.split_once('>').and_then(|(_, after)| after.split_once('<')).map_or("", |p| p.0);
            texts.push(body.trim().to_string());
        }
    }
    let mut out = svg.lines().next().unwrap_or("").split(" xmlns").next().unwrap_or("").to_string();
    let number = |(name, n): (&&str, &usize)| match (*name, *n) {
        ("rect", 100..) => "\"rect\": 100 or more".to_string(),
        (name, n) => format!("{name:?}: {n}"),
    };
    let shapes: Vec<String> = shapes.iter().map(number).collect();
    // Writing to a string cannot fail.
    let _ = write!(out, "\n{{{}}}\n{}", shapes.join(", "), texts.join(" | "));
    out
}

fn look(name: &str, figure: &Figure) {
    if let Some(folder) = std::env::var_os("SHEAF_FIGURES").map(PathBuf::from) {
        for ending in ["svg", "png", "pdf"] {
            figure.write(&folder.join(format!("{name}.{ending}"))).unwrap();
        }
    }
    insta::assert_snapshot!(name, structure(figure));
}

#[test]
fn figures_of_one_sample_keep_their_structure() {
    let maze = story("maze", 5, None, 40);
    look("evolution_maze", &evolution(&maze, &SHOWN).unwrap());
    look("trajectories", &trajectories(&maze).unwrap());
    look("views_maze", &views(&maze).unwrap());
    let larger = story("maze", 7, Some(37), 60);
    look("dynamics", &dynamics(&larger, &SHOWN).unwrap());
    let digit = story("mnist", 4, None, 30);
    look("class_emergence", &class_emergence(&digit, &SHOWN).unwrap());
    look("evolution_mnist", &evolution(&digit, &SHOWN).unwrap());
    look("views_mnist", &views(&digit).unwrap());
    let board = story("sudoku", 11, None, 30);
    look("sudoku_evolution", &evolution(&board, &SHOWN).unwrap());
}

#[test]
fn two_models_are_compared_side_by_side() {
    let chosen = Chosen::Fresh { seed: 5, size: None };
    let other = Story::of(&talking(), &chosen, Some(30)).unwrap();
    assert!(
        other.primal.is_empty() && other.iterations == 30 && other.first.len() == other.outputs.len() / 30
    );
    let maze = story("maze", 5, None, 30);
    look("compare", &compare(("Sheaf-ADMM", &maze), ("untrained messages", &other), &SHOWN).unwrap());
    let error = compare(("a", &maze), ("b", &story("sudoku", 1, None, 2)), &SHOWN).unwrap_err();
    assert!(error.to_string().contains("weights of maze"), "{error}");
    for refused in [dynamics(&other, &SHOWN), class_emergence(&other, &SHOWN)] {
        assert!(refused.unwrap_err().hint_text().is_some());
    }
    let states = trajectories(&other).unwrap();
    assert!(states.svg().contains("state h") && !states.svg().contains("agreement z"));
    look("trajectories_messages", &states);
    let still = Story { iterations: 0, ..other };
    // A model that does not iterate does not cost the other its panels, and its answer is a level line.
    let beside = compare(("Sheaf-ADMM", &maze), ("no coordination", &still), &SHOWN).unwrap();
    for said in ["k = 1", "k = 3", "k = 30", "no iterations"] {
        assert_eq!(beside.svg().matches(&format!("\n{said}\n")).count(), 1, "{said}");
    }
    assert!(trajectories(&still).unwrap_err().hint_text().is_some());
}

#[test]
fn a_first_step_out_of_scale_is_left_out_of_trajectories_and_noted() {
    // The first proposals of the pictures' agents are some hundred times as far away as all that follow.
    let digit = story("mnist", 3, None, 30);
    let figure = trajectories(&digit).unwrap();
    look("trajectories_mnist", &figure);
    assert!(figure.svg().contains("from k = 2 on: at k = 1 states are"), "nothing else would be seen");
    let maze = trajectories(&story("maze", 5, None, 5)).unwrap();
    assert!(!maze.svg().contains("from k = 2 on"), "nothing is left out without need");
}

#[test]
fn figures_of_runs_and_results_keep_their_structure() {
    let run = |name: &str, rate: f64| {
        let mut text = String::new();
        for step in 1..=200 {
            let (samples, loss) = (128 * step, (-rate * f64::from(step) / 60.0).exp() + 0.01);
            text += &format!("{{\"step\":{step},\"samples\":{samples},\"seconds\":1.0,\"loss\":{loss}}}\n");
            if step % 25 == 0 {
                let solved = 1.0 - (-rate * f64::from(step) / 80.0).exp();
                text += &format!("{{\"step\":{step},\"samples\":{samples},\"eval/solved\":{solved}}}\n");
            }
        }
        Learning::parse(name, "test", &(text + "{\"step\":201,\"sam")).unwrap()
    };
    look("learning_curve", &learning_curves(&[run("Sheaf-ADMM", 1.0), run("MPNN (PM; max)", 0.6)]).unwrap());
    assert!(
        Learning::parse("x", "x.jsonl", "nonsense\n{}\n")
            .unwrap_err()
            .to_string()
            .contains("x.jsonl, line 1")
    );
    assert!(learning_curves(&[]).is_err());
    // Runs of different tasks stand in one figure; its label names the metrics of all.
    // More runs than colours: those of one colour differ in their dashes, also in the legend.
    let eight: Vec<Learning> = (0..8).map(|i| run(&format!("run {i}"), 0.2 + 0.1 * f64::from(i))).collect();
    let lines = |runs: &[Learning]| learning_curves(runs).unwrap().svg().matches("<polyline").count();
    assert!(lines(&eight) > lines(&eight[..7]) + 20, "the eighth curve is not dashed");
    let other = Learning { metric: ("accuracy".into(), vec![(1.0, 0.5), (2.0, 0.6)]), ..run("digits", 1.0) };
    let mixed = learning_curves(&[run("mazes", 1.0), other]).unwrap();
    assert!(mixed.svg().contains("solved or accuracy on held-out samples (%)"));
    let at = |size: usize| {
        let part = 1.0 / (1.0 + ((size as f64 - 52.0) / 5.0).exp());
        AtSize { size, solved: (part, 0.03), first_solve: (part > 0.05).then_some((size as f64, 4.0)) }
    };
    let sweep = Sweep { name: "Sheaf-ADMM".into(), sizes: (19..=73).step_by(4).map(at).collect() };
    look("sizes", &sizes(&[sweep], 100, "half of the published steps").unwrap());
    assert!(sizes(&[], 100, "").is_err());
}

#[test]
fn agents_out_of_step() {
    let mut rates = "task,kind,weights,value,solved\n".to_string();
    for (task, weights, falls) in
        [("maze", "in step", 0.5), ("maze", "out of step", 0.1), ("mnist", "in step", 0.3)]
    {
        for (kind, values) in
            [("delay", [0.0, 2.0, 10.0]), ("loss", [0.0, 0.1, 0.4]), ("activity", [1.0, 0.9, 0.6])]
        {
            let rows = values.into_iter().enumerate();
            rows.for_each(|(i, v)| {
                rates += &format!("{task},{kind},{weights},{v},{}\n", 0.9 - falls * i as f64 / 2.0)
            });
        }
    }
    // Agents that diverge have no share.
    rates += "mnist,delay,in step,20,nan\n";
    let mut convex = "kind,curve,iteration,error\n".to_string();
    let delays = [1, 2, 4, 8, 16, 32].map(|delay| ("delay", format!("delay={delay}")));
    let others = [("in step", "in step"), ("loss", "loss=0.1"), ("activity", "activity=0.9")];
    for (kind, curve) in others.map(|(kind, curve)| (kind, curve.to_string())).into_iter().chain(delays) {
        (0..4).for_each(|k| convex += &format!("{kind},{curve},{k},{:e}\n", 0.1f64.powi(k)));
    }
    let mut panels = Vec::new();
    parse("rates.csv", &rates, 5, &mut panels).unwrap();
    parse("convex.csv", &convex, 4, &mut panels).unwrap();
    let figure = asynchronous(&panels).unwrap();
    for delay in ["1", "2", "4", "8", "16", "32"] {
        assert!(structure(&figure).contains(&format!(" | {delay} | ")), "the legend has no delay of {delay}");
    }
    look("asynchronous", &figure);
    assert!(asynchronous(&[]).is_err());
    for wrong in ["a,b\nmaze,delay,in step,1", "a,b\nmaze,delay,in step,x,0.5"] {
        let error = parse("rates.csv", wrong, 5, &mut Vec::new()).unwrap_err();
        assert!(error.to_string().contains("rates.csv, line 2"), "{error}");
    }
}

#[test]
fn every_format_holds_the_figure() {
    let figure = evolution(&story("maze", 5, None, 3), &SHOWN).unwrap();
    let folder = tempfile::tempdir().unwrap();
    for (name, start) in [("f.svg", &b"<svg"[..]), ("f.png", b"\x89PNG"), ("f.pdf", b"%PDF")] {
        let path = folder.path().join(name);
        figure.write(&path).unwrap();
        assert!(std::fs::read(&path).unwrap().starts_with(start), "{name}");
    }
    // 680 pixels at 96 an inch are 510 points at 72: a page as wide as the text of a paper.
    let pdf = figure.bytes(Format::Pdf).unwrap();
    assert!(pdf.windows(17).any(|part| part == b"/MediaBox [0 0 51"), "a page of another width");
    // The text is there as outlines of our own fonts: a figure with text has more dark pixels than one without.
    let dark = |svg: &str| {
        let figure = figure.clone().with_svg(svg.to_string());
        let png = figure.bytes(Format::Png).unwrap();
        let image = sheaf_figures::draw::png::decode(&png, "test").unwrap();
        image.rgb.iter().filter(|&&v| v < 90).count()
    };
    let without: String = figure.svg().replace("k = 1", "");
    assert!(dark(figure.svg()) > dark(&without) + 50);
    let error = Format::of(Path::new("figure.jpg")).unwrap_err();
    assert!(error.to_string().contains(".svg, .png or .pdf"), "{error}");
}

#[test]
fn a_sample_that_is_not_there_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let path = folder.path().join("none.npz");
    assert!(Story::of(&builtin("maze"), &Chosen::File { path, index: 0 }, None).is_err());
    let nine = Story::of(&builtin("sudoku"), &Chosen::Fresh { seed: 1, size: Some(16) }, None);
    assert!(nine.unwrap_err().to_string().contains("--size"));
    let cnn = WeightsFile::parse("cnn", sheaf_tasks::baselines::cnn::experiment::BUILTIN).unwrap();
    let refused = Story::of(&cnn, &Chosen::Fresh { seed: 1, size: None }, None).unwrap_err();
    assert!(refused.to_string().contains("weights of agents"), "{refused}");
}
