//! Closed pipes and failed starts: the tool neither panics nor hangs.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Stdio};

use super::support::{TINY, fails, file, json};

/// Runs the tool in a shell line; returns exit code and standard error of the tool itself.
fn shell(folder: &Path, line: &str) -> (Option<i32>, String) {
    let line = line.replace("SHEAF", env!("CARGO_BIN_EXE_sheaf"));
    let output = Command::new("sh").args(["-c", &line]).current_dir(folder).output().unwrap();
    (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
}

#[test]
fn results_that_nobody_reads_end_quietly() {
    let dir = tempfile::tempdir().unwrap();
    for arguments in [
        &["solve", "maze", "--seed", "1"][..],
        &["solve", "maze", "--seed", "1", "--json"],
        &["inspect", "builtin:maze"],
        &["solve", "--help"],
        &[],
    ] {
        let mut child = Command::new(env!("CARGO_BIN_EXE_sheaf"))
            .args(arguments)
            .current_dir(dir.path())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .unwrap();
        // The reader closes the pipe before anything is written: every write fails.
        drop(child.stdout.take());
        let output = child.wait_with_output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr);
        assert_eq!((output.status.code(), &*error), (Some(0), ""), "sheaf {arguments:?}");
    }
}

#[test]
fn a_run_goes_on_when_nobody_follows_it() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);
    let mut child = Command::new(env!("CARGO_BIN_EXE_sheaf"))
        .args(["train", "tiny.toml", "--out", "run"])
        .current_dir(here)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop((child.stdout.take(), child.stderr.take()));
    assert_eq!(child.wait().unwrap().code(), Some(0));
    assert!(here.join("run/final.safetensors").exists());
    // With standard error closed, an error is still an error.
    let mut child = Command::new(env!("CARGO_BIN_EXE_sheaf"))
        .args(["train", "tiny.toml", "--out", "run"])
        .current_dir(here)
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    drop(child.stderr.take());
    assert_eq!(child.wait().unwrap().code(), Some(1));
}

#[test]
fn a_start_without_room_for_its_first_checkpoint_can_be_repeated() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);
    // The shell's file size limit simulates a full disk: 4 blocks hold the configuration, but no checkpoint.
    let (code, error) = shell(here, "trap '' XFSZ; ulimit -f 4; exec SHEAF train tiny.toml --out run");
    assert_eq!(code, Some(1), "{error}");
    assert!(error.contains("step-00000000") && error.contains("hint: "), "{error}");
    assert!(!error.contains("panicked"), "{error}");
    assert!(here.join("run/config.toml").exists(), "it got as far as the checkpoint");
    let output = fails(here, "train --resume --out run");
    assert!(
        output.contains("before its first checkpoint") && output.contains("without --resume"),
        "{output}"
    );
    let again = json(here, "train tiny.toml --out run");
    assert_eq!(again["step"].as_u64(), Some(20));
}
