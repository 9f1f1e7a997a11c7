//! Runs that something happens to: two processes, a damaged checkpoint, lost numbers, a second Ctrl-C.
#![cfg(unix)]

use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{TINY, fails, file, json, ok, sheaf};

/// A run that goes on for long, once it has begun.
fn long_run(folder: &Path) -> Child {
    let long = TINY.replace("steps = 20", "steps = 1000000").replace("eval_every = 10", "eval_every = 0");
    file(folder, "long.toml", &long);
    let child = Command::new(env!("CARGO_BIN_EXE_sheaf"))
        .args(["train", "long.toml", "--out", "run", "--threads", "1"])
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let begin = Instant::now();
    while !folder.join("run/checkpoints/step-00000010.safetensors").exists() {
        assert!(begin.elapsed() < Duration::from_secs(60), "the run does not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    child
}

#[test]
fn a_second_process_in_a_run_is_refused_and_told_who_is_there() {
    let dir = tempfile::tempdir().unwrap();
    let mut first = long_run(dir.path());
    let output = fails(dir.path(), "train --resume --out run");
    assert!(output.contains(&format!("process {} at work", first.id())), "{output}");
    assert!(fails(dir.path(), "train long.toml --out run").starts_with("exit 1"));
    first.kill().unwrap();
    first.wait().unwrap();
    // The lock dies with its process.
    let steps = "train long.toml --resume --out run --set train.steps=1000000 --on-nan rollback";
    let mut again = sheaf(dir.path(), steps);
    let output = again.timeout(Duration::from_millis(1500)).output().unwrap();
    assert!(!String::from_utf8_lossy(&output.stderr).contains("at work"), "{output:?}");
}

#[test]
fn a_second_interrupt_leaves_at_once_and_says_that_nothing_was_saved() {
    let dir = tempfile::tempdir().unwrap();
    file(
        dir.path(),
        "slow.toml",
        TINY.replace("eval_every = 10", "eval_every = 1").replace("eval = 5", "eval = 400000"),
    );
    let child = Command::new(env!("CARGO_BIN_EXE_sheaf"))
        .args(["train", "slow.toml", "--out", "run", "--threads", "1"])
        .current_dir(dir.path())
        .stdout(Stdio::null())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // The first evaluation takes long, so both signals arrive within one step.
    while !dir.path().join("run/checkpoints/step-00000000.safetensors").exists() {
        std::thread::sleep(Duration::from_millis(2));
    }
    for _ in 0..2 {
        std::thread::sleep(Duration::from_millis(300));
        Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    }
    let output = child.wait_with_output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(130), "{error}");
    assert!(error.contains("nothing was saved since the last checkpoint"), "{error}");
}

#[test]
fn a_damaged_checkpoint_is_passed_over_and_another_can_be_chosen() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);
    ok(here, "train tiny.toml --out run");
    let whole = std::fs::read(here.join("run/final.safetensors")).unwrap();
    let newest = here.join("run/checkpoints/step-00000020.safetensors");
    let mut bytes = std::fs::read(&newest).unwrap();
    // One bit of the configuration in the header.
    let place = bytes.windows(8).position(|w| w == b"cg_steps").unwrap();
    bytes[place + 11] ^= 1;
    std::fs::write(&newest, bytes).unwrap();
    let output = sheaf(here, "train --resume --out run").output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{error}");
    assert!(error.contains("step 20 is damaged") && error.contains("continuing after step 10"), "{error}");
    assert!(std::fs::read(here.join("run/final.safetensors")).unwrap() == whole, "the same bits");
    let chosen = "train --resume --out run --checkpoint run/checkpoints/step-00000000.safetensors";
    assert_eq!(json(here, chosen)["step"].as_u64(), Some(20));
    assert!(
        std::fs::read(here.join("run/final.safetensors")).unwrap() == whole,
        "the same bits from the start"
    );
}

#[test]
fn a_rate_far_too_high_rolls_back_until_it_gives_up() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "tiny.toml", TINY);
    let wild =
        "train tiny.toml --out run --set train.learning_rate=1e4 --set train.warmup=0 --on-nan rollback";
    let output = sheaf(dir.path(), wild).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    if !output.status.success() {
        assert!(error.contains("rollbacks did not help") && error.contains("rollback 1"), "{error}");
        assert!(error.contains("the last good checkpoint is"), "{error}");
    }
    assert!(!error.contains("error: rho"), "{error}");
}

#[test]
fn mistakes_are_told_before_samples_are_generated() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    // Generating these would take minutes.
    file(here, "slow.toml", "task = \"sudoku\"\n[data]\ncount = 2000000\nkind = \"minimal\"\n");
    file(here, "taken", "a file");
    let start = Instant::now();
    for command in [
        "train slow.toml --out taken",
        "train slow.toml --out taken/run",
        "train slow.toml --out run --init builtin:maze",
        "train slow.toml --out run --init missing.safetensors",
        "train slow.toml --out run --set model.d_v=36 --init builtin:sudoku",
        "train slow.toml --out run --set train.best_metric=x",
        "train slow.toml --out run --resume",
    ] {
        assert!(fails(here, command).starts_with("exit 1"), "{command}");
    }
    assert!(start.elapsed() < Duration::from_secs(60), "{:?}", start.elapsed());
    assert!(!here.join("run").exists(), "nothing was begun");
}

#[test]
fn everything_wrong_is_found_before_samples_are_prepared() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);
    ok(here, "train tiny.toml --out run");
    // Drawing these samples would take minutes.
    file(here, "slow.toml", TINY.replace("count = 64", "count = 190000").replace("size = 7", "size = 37"));
    file(here, "file", "mine");
    for (command, expected) in [
        ("train slow.toml --out run --resume", "data.count"),
        ("train slow.toml --out run", "an empty directory"),
        ("train slow.toml --out file/run", "a directory for a run"),
        ("train slow.toml --out new --init builtin:sudoku", "expected `maze`"),
        ("train slow.toml --out new --init builtin:maze", "shape"),
        ("train slow.toml --out new --init missing", "a readable file"),
        ("train slow.toml --out new --set train.best_metric=accuracy", "one of solved"),
        ("train slow.toml --out run --resume --checkpoint tiny.toml", "safetensors"),
    ] {
        let begin = Instant::now();
        let error = fails(here, command);
        assert!(error.starts_with("exit 1") && error.contains(expected), "{command}: {error}");
        assert!(begin.elapsed() < Duration::from_secs(20), "{command}");
    }
    assert!(!here.join("new").exists(), "a run that cannot start leaves nothing");
}

#[test]
fn a_signal_to_end_exits_with_130_in_every_command() {
    let dir = tempfile::tempdir().unwrap();
    for signal in ["INT", "TERM"] {
        let child = Command::new(env!("CARGO_BIN_EXE_sheaf"))
            .args(["data", "sudoku", "--kind", "minimal", "--count", "3000000", "--out", "p.csv"])
            .current_dir(dir.path())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .unwrap();
        std::thread::sleep(Duration::from_millis(1000));
        Command::new("kill").args([&format!("-{signal}"), &child.id().to_string()]).status().unwrap();
        let output = child.wait_with_output().unwrap();
        assert_eq!(output.status.code(), Some(130), "{signal}");
        assert!(!dir.path().join("p.csv").exists());
    }
}
