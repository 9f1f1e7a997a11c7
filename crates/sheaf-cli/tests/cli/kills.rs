//! Kills at random moments: whatever happens, the run ends in the same file, bit for bit.
//!
//! `SHEAF_KILLS` sets the number of kills per task (10 if not given).
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use super::support::{TINY, file};
use super::{mnist, sudoku};

fn train(folder: &Path, experiment: &str, run: &str, resume: bool) -> Child {
    let mut command = Command::new(env!("CARGO_BIN_EXE_sheaf"));
    command.args(["train", experiment, "--out", run, "--threads", "1"]).current_dir(folder);
    if resume {
        command.arg("--resume");
    }
    command.stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap()
}

fn finished(mut child: Child) {
    let status = child.wait().unwrap();
    let mut error = String::new();
    if let Some(mut stderr) = child.stderr.take() {
        std::io::Read::read_to_string(&mut stderr, &mut error).unwrap();
    }
    assert!(status.success(), "{status}: {error}");
}

/// The newest checkpoint of a run, or of its last stage that has one, if there is one to resume from.
fn newest(run: &Path) -> Option<PathBuf> {
    let newest_in = |folder: PathBuf| {
        let entries = std::fs::read_dir(folder.join("checkpoints")).ok()?.flatten().map(|e| e.path());
        entries.filter(|path| path.extension().is_some_and(|e| e == "safetensors")).max()
    };
    ["stage-2", "stage-1", ""].into_iter().find_map(|stage| newest_in(run.join(stage)))
}

/// Kills per task.
fn kills() -> u64 {
    std::env::var("SHEAF_KILLS").map_or(10, |n| n.parse().expect("SHEAF_KILLS"))
}

/// A moment between 0 and 1, different for each kill.
fn moment(kill: u64) -> f64 {
    let mixed = (kill + 1).wrapping_mul(0x9E37_79B9_7F4A_7C15);
    ((mixed ^ (mixed >> 29)).wrapping_mul(0xBF58_476D_1CE4_E5B9) >> 11) as f64 / (1u64 << 53) as f64
}

/// Trains once undisturbed and once with kills, and compares what is left.
fn survives_kills(folder: &Path, experiment: &str, text: &str) {
    let kills = kills();
    file(folder, experiment, text);
    let start = Instant::now();
    finished(train(folder, experiment, "whole", false));
    let whole = start.elapsed();
    // Short lives: starting over and what a kill destroys leave some of the run for the last one.
    let longest = whole.mul_f64(0.8 / kills as f64).max(Duration::from_millis(60));
    let (run, mut done, mut advanced) = (folder.join("killed"), 0, 0);
    while done < kills && !run.join("final.safetensors").exists() {
        let before = newest(&run);
        let mut child = train(folder, experiment, "killed", before.is_some());
        std::thread::sleep(longest.mul_f64(moment(done)));
        child.kill().unwrap();
        child.wait().unwrap();
        done += 1;
        advanced += u64::from(newest(&run) != before);
    }
    finished(train(folder, experiment, "killed", newest(&run).is_some()));
    println!(
        "{experiment}: {done} kills, {advanced} of them after a new checkpoint; an undisturbed run takes {whole:?}"
    );
    let last = |run: &str| std::fs::read(folder.join(run).join("final.safetensors")).unwrap();
    assert!(last("whole") == last("killed"), "{experiment}: the weights differ after {done} kills");
    let folders = ["", "checkpoints", "stage-1", "stage-1/checkpoints", "stage-2", "stage-2/checkpoints"];
    let left = folders.into_iter().filter_map(|folder| std::fs::read_dir(run.join(folder)).ok()).flatten();
    let parts: Vec<_> =
        left.flatten().filter(|e| e.path().extension().is_some_and(|e| e == "part")).collect();
    assert!(parts.is_empty(), "temporary files are left: {parts:?}");
}

/// The experiment with more steps, the more the more kills, and frequent checkpoints.
fn longer(text: &str, steps: u64) -> String {
    let steps = steps * kills().div_ceil(10);
    let lines = text.lines().map(|line| match line.split(" = ").next() {
        Some("steps") => format!("steps = {steps}"),
        Some("checkpoint_every") => "checkpoint_every = 5".into(),
        Some("eval_every") => format!("eval_every = {}", steps / 2),
        _ => line.into(),
    });
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn a_killed_training_on_mazes_ends_in_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    survives_kills(dir.path(), "maze.toml", &longer(TINY, 600));
}

#[test]
fn a_killed_training_in_stages_ends_in_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let half = 300 * kills().div_ceil(10);
    let stages = format!(
        "\n\n[[stage]]\nname = \"first\"\ntrain.steps = {half}\ntrain.average_last = 3\n\n\
         [[stage]]\nname = \"second\"\ntrain.steps = {half}\ntrain.learning_rate = 1e-4\ntrain.seed = 8\n"
    );
    survives_kills(dir.path(), "stages.toml", &(longer(TINY, 600) + &stages));
}

#[test]
fn a_killed_training_on_puzzles_ends_in_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    survives_kills(dir.path(), "sudoku.toml", &longer(sudoku::TINY, 120));
}

#[test]
fn a_killed_training_on_pictures_ends_in_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    mnist::make_set(dir.path(), "set", mnist::SIDE);
    survives_kills(dir.path(), "mnist.toml", &longer(mnist::TINY, 200));
}

#[test]
fn a_killed_training_of_the_network_ends_in_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    mnist::make_set(dir.path(), "set", mnist::SIDE);
    survives_kills(dir.path(), "cnn.toml", &longer(mnist::NETWORK, 300));
}
