//! `sheaf reproduce` at a tiny scale, killed once in the middle; and `sheaf figure`.
#![cfg(unix)]

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;
use sheaf_learn::config::strict;
use sheaf_learn::task::Experiment;
use sheaf_learn::train::CheckpointFile;
use sheaf_tasks::maze::task::Maze;

use super::support::{fails, json, ok, sheaf};

const WANTED: &str = "reproduce maze-baselines --only sheaf-admm --only cm-max --scale quick --out";

fn weights(folder: &Path, out: &str, run: &str) -> PathBuf {
    folder.join(out).join("runs/quick").join(run).join("final.safetensors")
}

/// Starts the tool and kills it once `until` exists.
fn killed_after(folder: &Path, arguments: &str, until: &Path) {
    let mut child = Command::new(env!("CARGO_BIN_EXE_sheaf"))
        .args(arguments.split_whitespace())
        .current_dir(folder)
        .stdout(Stdio::null())
        .stderr(Stdio::null())
        .spawn()
        .unwrap();
    let start = Instant::now();
    while !until.exists() && start.elapsed() < Duration::from_secs(300) {
        assert!(child.try_wait().unwrap().is_none(), "it ended before {}", until.display());
        std::thread::sleep(Duration::from_millis(2));
    }
    child.kill().unwrap();
    child.wait().unwrap();
}

fn record(folder: &Path, out: &str, run: &str) -> Value {
    let path = folder.join(out).join("results/quick").join(run).join("result.json");
    serde_json::from_str(&std::fs::read_to_string(path).unwrap()).unwrap()
}

#[test]
fn a_killed_reproduction_goes_on_to_the_same_bits_and_repeats_nothing() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let report = json(folder, &format!("{WANTED} whole"));
    assert_eq!((report["runs"].as_u64(), report["finished"].as_u64()), (Some(2), Some(2)));
    // Killed in the middle of the first training.
    let first = folder.join("killed/runs/quick/maze-s42");
    killed_after(folder, &format!("{WANTED} killed"), &first.join("checkpoints/step-00000004.safetensors"));
    assert!(!first.join("final.safetensors").exists(), "killed too late to show anything");
    let list = ok(folder, &format!("{WANTED} killed --list"));
    assert!(list.contains("stopped after step") && list.contains("not started"), "{list}");
    assert!(!list.contains("16 steps to make"), "steps that were made are counted again: {list}");
    ok(folder, &format!("{WANTED} killed"));
    for run in ["maze-s42", "maze-mpnn-cm-max-s42"] {
        let [whole, killed] =
            ["whole", "killed"].map(|out| std::fs::read(weights(folder, out, run)).unwrap());
        assert!(whole == killed, "{run}: other bits after a kill");
        let [whole, killed] = ["whole", "killed"].map(|out| record(folder, out, run));
        assert_eq!(whole["evals"], killed["evals"], "{run}");
        assert_eq!(whole["status"], "finished");
    }
    let made = |run: &str| std::fs::metadata(weights(folder, "killed", run)).unwrap().modified().unwrap();
    let before = made("maze-s42");
    ok(folder, &format!("{WANTED} killed"));
    assert_eq!(before, made("maze-s42"), "a finished run is not repeated");
    // Killed after the training was recorded and before its curve was: the curve is copied all the same.
    let kept = folder.join("killed/results/quick/maze-s42");
    let curve = std::fs::read(kept.join("metrics.jsonl")).unwrap();
    let unfinished = std::fs::read_to_string(kept.join("result.json")).unwrap();
    std::fs::write(kept.join("result.json"), unfinished.replace("\"finished\"", "\"unfinished\"")).unwrap();
    std::fs::remove_file(kept.join("config.toml")).unwrap();
    std::fs::remove_file(kept.join("metrics.jsonl")).unwrap();
    let said = ok(folder, &format!("{WANTED} killed"));
    assert!(said.contains("2 runs at scale quick, all finished"), "{said}");
    assert!(
        std::fs::read(kept.join("metrics.jsonl")).unwrap() == curve && kept.join("config.toml").is_file()
    );
    let report = std::fs::read_to_string(folder.join("killed/report.md")).unwrap();
    assert!(report.contains("/ 99.9 ± 0.1") && report.contains("not comparable"), "{report}");
    assert!(report.contains("`sheaf reproduce maze-baselines --only maze --scale quick"), "{report}");
    let page = std::fs::read_to_string(folder.join("killed/report.html")).unwrap();
    assert!(page.contains("<svg") && page.contains("<table>") && !page.contains("<script"));
    // Another table takes the same training and only evaluates.
    ok(folder, "reproduce sizes --only n-19 --scale quick --out killed --list");
    let from = "reproduce maze-baselines --from killed/results --out again";
    ok(folder, from);
    let again = std::fs::read_to_string(folder.join("again/report.md")).unwrap();
    assert!(again.contains("not run / 93.8 ± 6.3"), "rows without records say so: {again}");
}

#[test]
fn a_run_that_cannot_be_made_leaves_a_row_that_says_so_and_exit_code_1() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let arguments = "reproduce robustness --only none --scale quick --mnist nowhere --out out --json";
    let output = sheaf(folder, arguments).output().unwrap();
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("error: out: expected 3 finished runs, got 3 that failed\nhint: "), "{said}");
    // The plan says so before anything is made, and the way out is an option of this command.
    assert!(said.contains("note: 3 runs will fail: nowhere: expected the folder"), "{said}");
    assert!(said.contains("; time unknown; ") && said.contains("--mnist DIR says where they are"), "{said}");
    let report: Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!((report["finished"].as_u64(), report["failed"].as_u64()), (Some(0), Some(3)));
    let report = std::fs::read_to_string(folder.join("out/report.md")).unwrap();
    assert!(report.contains("failed / 99.3") && report.contains("nowhere"), "{report}");
}

#[test]
fn wrong_options_of_reproduce_and_figure_name_the_right_ones() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::write(folder.join("taken"), "").unwrap();
    for (arguments, said) in [
        ("reproduce mazes --out x", "maze-baselines"),
        ("reproduce all --scale tiny --out x", "full, half, tenth, quick"),
        ("reproduce maze-baselines --only pm --out x", "pm-max"),
        ("reproduce maze-baselines --only pm --out x", "hint: "),
        ("reproduce maze-baselines --seeds 1,2,1 --out x", "each seed once"),
        ("reproduce maze-baselines --seeds 1,two --out x", "such as 42,123,456"),
        ("reproduce maze-baselines --seeds -1 --out x", "such as 42,123,456"),
        ("figure pie --out x.svg", "evolution"),
        ("figure evolution --out x.jpg", ".svg, .png or .pdf"),
        ("figure learning-curve --out x.svg", "--runs"),
        ("figure sizes --out x.svg", "--from"),
        ("figure compare --out x.svg", "--with"),
        ("figure views --with builtin:maze --out x.svg", "figure compare"),
        ("figure views --at 3 --out x.svg", "--at"),
        ("figure sizes --from . --size 19 --out x.svg", "a figure of one sample"),
        ("reproduce maze-baselines --out taken", "--out taken: expected a folder, got a file\nhint: "),
    ] {
        let text = fails(folder, arguments);
        assert!(text.starts_with("exit 2") && text.contains(said), "{arguments}: {text}");
    }
}

#[test]
fn a_plan_that_was_not_measured_names_no_time() {
    let folder = tempfile::tempdir().unwrap();
    let list = ok(folder.path(), "reproduce maze-baselines --list --out x");
    assert!(list.contains("time not measured yet") && !list.contains("about 0 s"), "{list}");
    let one = ok(folder.path(), "reproduce maze-baselines --only cm-max --seeds 42 --list --out x");
    assert!(one.contains("1 run at scale full"), "{one}");
    assert!(list.contains("maze-baselines: sheaf-admm, pm-max, pm-mean, cm-max, cm-mean\n"), "{list}");
}

#[test]
fn a_folder_without_records_is_refused() {
    let folder = tempfile::tempdir().unwrap();
    let text = fails(folder.path(), "reproduce all --from . --out x");
    assert!(text.contains("records of runs") && text.contains("hint: "), "{text}");
    assert!(!folder.path().join("x").exists());
}

#[test]
fn a_report_that_was_not_written_is_not_named() {
    // A file where the folder of results should be: no record, and so no report, can be written.
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("out")).unwrap();
    std::fs::write(folder.join("out/results"), "").unwrap();
    let output =
        sheaf(folder, "reproduce maze-baselines --only cm-max --scale quick --out out").output().unwrap();
    let (shown, said) = (String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(!shown.contains("report.md") && !said.contains("report.md"), "{shown}{said}");
    assert!(said.contains("expected 1 finished run, got 1 that failed\nhint: the lines above"), "{said}");
}

#[test]
fn a_run_that_cannot_be_written_leaves_a_row_and_the_others_are_made() {
    // A file where the folder of the run should be: nothing can be written there.
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    std::fs::create_dir_all(folder.join("out/runs/quick")).unwrap();
    std::fs::write(folder.join("out/runs/quick/maze-mpnn-cm-max-s42"), "").unwrap();
    let arguments = "reproduce maze-baselines --only cm-max --only cm-mean --scale quick --out out";
    let output = sheaf(folder, arguments).output().unwrap();
    assert_eq!(output.status.code(), Some(1), "{}", String::from_utf8_lossy(&output.stderr));
    let report = std::fs::read_to_string(folder.join("out/report.md")).unwrap();
    assert!(report.contains("failed / 35.1 ± 37.2") && report.contains("maze-mpnn-cm-max-s42"), "{report}");
    assert!(record(folder, "out", "maze-mpnn-cm-max-s42")["commit"].as_str().is_some_and(|c| !c.is_empty()));
    assert_eq!(record(folder, "out", "maze-mpnn-cm-mean-s42")["status"], "finished", "the other run is made");
}

#[test]
fn a_figure_is_drawn_from_a_file_or_a_seed() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    ok(folder, "data maze --size 9 --count 2 --out m.npz");
    let report = json(folder, "figure evolution --data m.npz --index 1 --iterations 5 --at 1,5 --out e.svg");
    assert_eq!(report["figure"], "evolution");
    let svg = std::fs::read_to_string(folder.join("e.svg")).unwrap();
    assert!(svg.contains("k = 5") && !svg.contains("k = 3"));
    ok(folder, "figure sudoku-evolution --seed 3 --iterations 5 --out s.pdf");
    assert!(std::fs::read(folder.join("s.pdf")).unwrap().starts_with(b"%PDF"));
    let text = fails(folder, "figure compare --weights builtin:mnist --with builtin:mnist-cnn --out c.svg");
    assert!(text.contains("error: --with: expected weights of agents") && text.contains("hint: "), "{text}");
    let text = fails(folder, "figure dynamics --data m.npz --index 2 --out d.svg");
    assert!(text.contains("--index"), "{text}");
    let text = fails(folder, "figure evolution --data m.npz --iterations 5 --at 1,9 --out f.svg");
    assert!(text.contains("--at: expected iterations from 1 to 5, got 9\nhint: "), "{text}");
    std::fs::write(folder.join("maze-42.jsonl"), "{\"step\":1,\"samples\":8,\"loss\":0.5}\n").unwrap();
    ok(folder, "figure learning-curve --runs maze-42.jsonl --out c.svg");
    assert!(std::fs::read_to_string(folder.join("c.svg")).unwrap().contains("maze-42"));
    let text = fails(folder, "figure learning-curve --runs nowhere --out c.svg");
    assert!(text.contains("hint: name the folder of a run"), "{text}");
}

/// Parameters so large that every product overflows: what a training that has diverged leaves.
fn diverge(run: &Path) {
    let path = run.join("checkpoints/step-00000004.safetensors");
    let file = CheckpointFile::read(&path).unwrap();
    let experiment: Experiment<Maze> = strict::parse("checkpoint", file.config().unwrap(), &[]).unwrap();
    let model = experiment.model().unwrap();
    let mut checkpoint = file.load(model.layout()).unwrap();
    checkpoint.state.params.fill(f32::MAX);
    std::fs::remove_file(&path).unwrap();
    checkpoint.save(&path, model.layout()).unwrap();
}

#[test]
fn a_run_that_loses_its_numbers_says_so_costs_no_other_and_goes_on_without_the_bad_batch() {
    let folder = tempfile::tempdir().unwrap();
    let folder = folder.path();
    let arguments = "reproduce maze-baselines --only cm-max --only cm-mean --scale quick --out out";
    ok(folder, &arguments.replace("--only cm-mean ", ""));
    // Back to step 4 of 8, where the training diverges.
    let lost = folder.join("out/runs/quick/maze-mpnn-cm-max-s42");
    std::fs::remove_file(lost.join("final.safetensors")).unwrap();
    std::fs::remove_file(lost.join("checkpoints/step-00000008.safetensors")).unwrap();
    std::fs::remove_dir_all(folder.join("out/results")).unwrap();
    diverge(&lost);
    let report = || std::fs::read_to_string(folder.join("out/report.md")).unwrap();
    // The second time is the same command again: it tries the run that failed, and only that.
    for made in [1, 0] {
        let output = sheaf(folder, &format!("{arguments} --json")).output().unwrap();
        let said = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(1), "{said}");
        assert!(said.contains("maze-mpnn-cm-max-s42: failed: step 4 (batch 4"), "{said}");
        assert!(said.contains("hint: --on-nan rollback returns to the last good checkpoint"), "{said}");
        assert_eq!(said.matches("maze-mpnn-cm-mean-s42: finished in ").count(), made, "{said}");
        assert_eq!(said.matches("test solved ").count(), made, "{said}");
        let row = "| failed / 35.1 ± 37.2 |";
        let why = "maze-mpnn-cm-max-s42 failed: step 4 (batch 4, sample ";
        assert!(report().contains(row) && report().contains(why), "{}", report());
        let failed = record(folder, "out", "maze-mpnn-cm-max-s42");
        assert!(failed["status"] == "failed" && failed["train_seconds"].as_f64() > Some(0.0), "{failed}");
        assert_eq!(record(folder, "out", "maze-mpnn-cm-mean-s42")["status"], "finished");
    }
    let list = ok(folder, &format!("{arguments} --list"));
    assert!(list.contains("1 finished; 4 steps to make"), "steps that were made are kept: {list}");
    ok(folder, &format!("{arguments} --on-nan rollback"));
    assert!(report().contains("--seeds 42 --on-nan rollback --out DIR`"), "{}", report());
    assert!(
        report().contains("; batches skipped by rollbacks (loss or gradient not finite): ")
            && !report().contains("failed"),
        "{}",
        report()
    );
    assert_eq!(record(folder, "out", "maze-mpnn-cm-max-s42")["status"], "finished");
}
