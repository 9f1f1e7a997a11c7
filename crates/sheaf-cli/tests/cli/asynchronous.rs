//! Agents that are not in step: `--asynchronous` of eval and solve, the key of training, and the figure.

use std::path::Path;

use serde_json::Value;

use super::support::{TINY, fails, file, json, ok};

/// A folder with a quick descent model, `run/final.safetensors`, and mazes, `mazes.npz`.
fn trained() -> tempfile::TempDir {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "tiny.toml", TINY);
    ok(dir.path(), "train tiny.toml --out run --set model.consensus=descent");
    ok(dir.path(), "data maze --size 7 --min-path 4 --count 300 --seed 3 --out mazes.npz");
    dir
}

/// What an evaluation found, without what depends on the clock and without the lag itself.
fn eval(folder: &Path, more: &str) -> Value {
    let mut found = json(folder, &format!("eval --weights run/final.safetensors --data mazes.npz {more}"));
    let object = found.as_object_mut().unwrap();
    for key in ["seconds", "samples_per_s", "peak_rss_mb", "threads", "asynchronous"] {
        object.remove(key);
    }
    found
}

#[test]
fn no_lag_is_the_same_as_agents_in_step_and_any_number_of_threads_draws_the_same_lag() {
    let dir = trained();
    let in_step = eval(dir.path(), "");
    assert_eq!(eval(dir.path(), "--asynchronous delay=0,loss=0,activity=1"), in_step);
    let late = "--asynchronous delay=3,loss=0.2,activity=0.7,seed=5";
    let one = eval(dir.path(), &format!("{late} --threads 1"));
    assert_eq!(eval(dir.path(), &format!("{late} --threads 2")), one);
    assert_ne!(one["cell_accuracy"], in_step["cell_accuracy"], "{one}");
    let other = eval(dir.path(), "--asynchronous delay=3,loss=0.2,activity=0.7,seed=6");
    assert_ne!(one["cell_accuracy"], other["cell_accuracy"], "another seed, other draws");
    let shown = json(
        dir.path(),
        "eval --weights run/final.safetensors --data mazes.npz --asynchronous loss=0.2,delay=3",
    );
    assert_eq!(shown["asynchronous"], "delay=3,loss=0.2,activity=1");
}

#[test]
fn solve_has_the_option_too() {
    let dir = trained();
    let solve = |more: &str| {
        let arguments = format!("solve maze --size 7 --seed 4 --weights run/final.safetensors {more}");
        json(dir.path(), &arguments)["residuals"].clone()
    };
    assert_eq!(solve("--asynchronous delay=0"), solve(""));
    assert_ne!(solve("--asynchronous delay=4,activity=0.8"), solve(""));
}

#[test]
fn training_out_of_step_resumes_to_the_same_bits_and_its_weights_keep_the_lag() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "tiny.toml", TINY);
    let keys = "--set model.consensus=descent --set model.asynchronous=delay=2,loss=0.1,activity=0.9";
    ok(dir.path(), &format!("train tiny.toml --out whole {keys} --threads 1"));
    ok(dir.path(), &format!("train tiny.toml --out half {keys} --threads 2"));
    std::fs::remove_file(dir.path().join("half/checkpoints/step-00000020.safetensors")).unwrap();
    ok(dir.path(), "train --resume --out half");
    let weights = |run: &str| std::fs::read(dir.path().join(run).join("final.safetensors")).unwrap();
    assert!(weights("whole") == weights("half"));
    ok(dir.path(), "data maze --size 7 --min-path 4 --count 300 --seed 3 --out mazes.npz");
    let accuracy = |more: &str| {
        let found =
            json(dir.path(), &format!("eval --weights whole/final.safetensors --data mazes.npz {more}"));
        found["cell_accuracy"].clone()
    };
    assert_eq!(accuracy(""), accuracy("--asynchronous delay=2,loss=0.1,activity=0.9"));
    assert_ne!(accuracy(""), accuracy("--asynchronous delay=0"));
}

#[test]
fn what_a_lag_cannot_be_is_said() {
    let dir = trained();
    let eval = |lag: &str| {
        fails(
            dir.path(),
            &format!("eval --weights run/final.safetensors --data mazes.npz --asynchronous {lag}"),
        )
    };
    for wrong in ["delay=-1", "loss=1.5", "activity=0", "dely=3", "delay", "delay=1,delay=2"] {
        insta::assert_snapshot!(format!("lag {wrong}").replace([' ', '=', ',', '.'], "_"), eval(wrong));
    }
    let cg = fails(dir.path(), "eval --weights builtin:maze --data mazes.npz --asynchronous delay=1");
    insta::assert_snapshot!("lag_of_weights_with_conjugate_gradients", cg);
    file(dir.path(), "tiny.toml", TINY);
    let key = fails(dir.path(), "train tiny.toml --out no --set model.asynchronous=delay=1");
    insta::assert_snapshot!("lag_of_a_training_with_conjugate_gradients", key);
    let key = fails(
        dir.path(),
        "train tiny.toml --out no --set model.consensus=descent --set model.asynchronous=late",
    );
    insta::assert_snapshot!("lag_key_that_is_not_understood", key);
    assert!(!dir.path().join("no").exists());
}

#[test]
fn the_figure_is_drawn_from_a_results_folder() {
    let dir = tempfile::tempdir().unwrap();
    file(
        dir.path(),
        "rates.csv",
        "task,kind,weights,value,solved\nmaze,delay,in step,0,1\nmaze,delay,in step,4,0.5\n",
    );
    file(
        dir.path(),
        "convex.csv",
        "kind,curve,iteration,error\nin step,in step,0,1\nin step,in step,1,0.1\n",
    );
    ok(dir.path(), "figure asynchronous --from . --out late.svg");
    let svg = std::fs::read_to_string(dir.path().join("late.svg")).unwrap();
    assert!(svg.contains("longest delay (rounds)") && svg.contains("Maze"), "{svg}");
    file(dir.path(), "rates.csv", "task,kind,weights,value,solved\nmaze,delay,in step,0\n");
    let error = fails(dir.path(), "figure asynchronous --from . --out late.svg");
    assert!(error.contains("rates.csv, line 2"), "{error}");
    let error = fails(dir.path(), "figure asynchronous --from nowhere --out late.svg");
    assert!(error.contains("nowhere/rates.csv"), "{error}");
}
