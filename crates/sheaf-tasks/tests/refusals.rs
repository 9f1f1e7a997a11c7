//! Values and combinations of an experiment file that make no sense: each is rejected by the name of its key.

mod common;

use common::experiment;
use sheaf_learn::task::{Experiment, Task};
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

/// Checks the place of the error, and that it has a reason and a hint.
fn refusal<K: Task>(keys: &[&str]) -> String {
    let error = experiment::<K>(keys).check().expect_err(&format!("{keys:?} should be refused"));
    let text = error.to_string();
    assert!(text.contains("expected") && text.contains("got"), "{text}");
    error.place().to_string()
}

/// The reason why `--set` refuses the last of these keys.
fn refused_set<K: Task>(keys: &[&str]) -> (String, bool) {
    let text = sheaf_learn::config::strict::to_toml(&K::published()).unwrap();
    let keys: Vec<String> = keys.iter().map(|key| key.to_string()).collect();
    let read = sheaf_learn::config::strict::parse::<Experiment<K>>("test", &text, &keys);
    let error = read.expect_err(&format!("{keys:?} should be refused"));
    (error.place().to_string(), error.hint_text().is_some())
}

#[test]
fn keys_of_messages_in_a_file_are_refused_where_nothing_passes_messages() {
    for (keys, place) in [
        ("aggregation = \"mean\"", "model.aggregation"),
        ("messages = \"shared\"", "model.messages"),
        ("message_width = 4\ncoordination = \"none\"", "model.message_width"),
    ] {
        let text = format!("[model]\n{keys}\n");
        let read = sheaf_learn::config::strict::parse::<Experiment<Maze>>("test", &text, &[]).unwrap();
        let error = read.check().expect_err(&format!("{keys} should be refused"));
        assert_eq!((error.place(), error.hint_text().is_some()), (place, true));
    }
}

#[test]
fn a_key_that_the_coordination_does_not_read_is_refused_when_it_is_set() {
    let talk = "model.coordination=message-passing";
    for (keys, place) in [
        // Also with its default: who sets it wants messages.
        (&["model.aggregation=max"][..], "--set model.aggregation"),
        (&["model.message_width=0"], "--set model.message_width"),
        (&["model.messages=directional", "model.coordination=none"], "--set model.messages"),
    ] {
        assert_eq!(refused_set::<Maze>(keys), (place.to_string(), true), "{keys:?}");
    }
    let config = experiment::<Maze>(&[talk, "model.d_e=7", "model.d_v=6"]).model;
    assert_eq!(Maze::section(&config).message_width(), 7, "messages are as wide as d_e unless it is said");
}

#[test]
fn combinations_without_meaning_are_refused_with_a_hint() {
    for (keys, place) in [
        (&["model.consensus=closed-form"][..], "model.consensus"),
        (&["model.consensus=gram", "model.penalty=per-agent"], "model.penalty"),
        (&["model.maps=orthonormal", "model.sharing=global", "model.d_v=40"], "model.sharing"),
        (&["model.scales=true"], "model.scales"),
        (&["model.sharing=agent", "model.agents=81"], "model.maps"),
        (&["model.sharing=agent", "model.maps=shared"], "model.agents"),
        (
            &["model.sharing=agent", "model.maps=shared", "model.agents=81", "model.consensus=gram"],
            "model.consensus",
        ),
        (&["model.consensus=huber", "model.agreement=hard"], "model.agreement"),
        (
            &["model.consensus=cg", "model.agreement=hard", "model.maps=orthonormal", "model.d_v=40"],
            "model.consensus",
        ),
        (&["model.consensus=cg-warm", "model.agreement=hard"], "model.consensus"),
        (&["model.rank=0"], "model.rank"),
        (&["model.gates=true", "model.maps=shared"], "model.gates"),
        (&["model.objective=dense", "model.objective_rank=0"], "model.objective_rank"),
        (&["model.objective=qp", "model.objective_rows=0"], "model.objective_rows"),
        (&["model.objective=equality", "model.objective_rows=10"], "model.objective_rows"),
        (&["model.coordination=none", "iterations.tolerance=0.1"], "iterations.tolerance"),
        (&["model.coordination=none", "iterations.adjoint=implicit"], "iterations.adjoint"),
        (&["model.relaxation=2"], "model.relaxation"),
        (&["iterations.adjoint=implicit", "model.agreement=hard"], "iterations.adjoint"),
        (&["model.asynchronous=delay=2"], "model.asynchronous"),
        (&["model.asynchronous=delay=2", "model.consensus=gram"], "model.asynchronous"),
        (&["model.asynchronous=late=2", "model.consensus=descent"], "model.asynchronous"),
        (&["model.asynchronous=loss=1", "model.consensus=descent"], "model.asynchronous: loss"),
        (
            &["model.consensus=descent", "model.agreement=hard", "model.descent_start=previous"],
            "model.descent_start",
        ),
        (
            &["model.asynchronous=delay=2", "model.consensus=descent", "model.cg_tolerance=1e-3"],
            "model.cg_tolerance",
        ),
        (
            &["model.asynchronous=delay=2", "model.consensus=descent", "model.balancing=true"],
            "model.balancing",
        ),
        (
            &["model.asynchronous=delay=2", "model.consensus=descent", "iterations.adjoint=implicit"],
            "iterations.adjoint",
        ),
        (
            &["model.asynchronous=delay=2", "model.consensus=descent", "iterations.tolerance=0.1"],
            "iterations.tolerance",
        ),
        (&["iterations.adjoint=implicit", "model.consensus=cg-carried"], "iterations.adjoint"),
    ] {
        assert_eq!(refusal::<Maze>(keys), place, "{keys:?}");
        let error = experiment::<Maze>(keys).check().unwrap_err();
        assert!(error.hint_text().is_some(), "{keys:?}: {error}");
    }
}

#[test]
fn keys_that_make_no_sense_are_refused_by_name() {
    for (key, place) in [
        ("task=sudoku", "task"),
        ("model.d_v=0", "model.d_v"),
        ("model.d_e=0", "model.d_e"),
        ("model.hidden=0", "model.hidden"),
        ("model.cg_steps=0", "model.cg_steps"),
        ("model.gamma=0", "model.gamma"),
        ("model.gamma=nan", "model.gamma"),
        ("model.rho_init=-1", "model.rho_init"),
        ("model.eta_init=inf", "model.eta_init"),
        ("model.huber_width=0", "model.huber_width"),
        ("model.l1=-1", "model.l1"),
        ("model.l1_init=0", "model.l1_init"),
        ("model.upper_init=0", "model.upper_init"),
        ("model.cg_tolerance=-1", "model.cg_tolerance"),
        ("model.momentum=1", "model.momentum"),
        ("model.maps=dense", "model.maps"),
        ("model.maps=orthonormal", "model.d_e"),
        ("model.sharing=some", "model.sharing"),
        ("model.objective=cubic", "model.objective"),
        ("model.agreement=none", "model.agreement"),
        ("model.consensus=newton", "model.consensus"),
        ("model.penalty=own", "model.penalty"),
        ("model.descent_start=here", "model.descent_start"),
        ("model.start=here", "model.start"),
        ("model.coordination=some", "model.coordination"),
        ("iterations.train=0", "iterations.train"),
        ("iterations.eval=0", "iterations.eval"),
        ("data.test_count=0", "data.test_count"),
        ("data.count=3", "data.count"),
        ("iterations.rounds=2", "iterations.rounds"),
    ] {
        assert_eq!(refusal::<Maze>(&[key]), place, "{key}");
    }
    for (key, place) in [
        ("task=maze", "task"),
        ("model.rank=0", "model.rank"),
        ("model.neighbours=6", "model.neighbours"),
        ("model.classes=0", "model.classes"),
        ("model.patch=9", "model.patch"),
        ("model.stride=0", "model.stride"),
        ("model.l1=-1.0", "model.l1"),
        ("model.maps=dense", "model.maps"),
        ("iterations.rounds=2", "iterations.rounds"),
    ] {
        assert_eq!(refusal::<Mnist>(&[key]), place, "{key}");
    }
    for (key, place) in [
        ("model.d_v=20", "model.d_v"),
        ("model.channels=0", "model.channels"),
        ("model.decoder_hidden=0", "model.decoder_hidden"),
        ("model.gamma=-1", "model.gamma"),
        ("iterations.rounds=82", "iterations.rounds"),
        ("train.batch=36", "train.batch"),
        ("data.count=3", "data.count"),
        ("data.test_count=0", "data.test_count"),
    ] {
        assert_eq!(refusal::<Sudoku>(&[key]), place, "{key}");
    }
}
