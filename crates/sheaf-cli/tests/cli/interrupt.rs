//! Ctrl-C: the run saves, exits with 130, and resumes bit for bit like an uninterrupted run.
#![cfg(unix)]

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use sheaf_learn::train::TensorFile;

use super::support::{TINY, fails, file, json};

/// The newest checkpoint of a run.
fn newest(run: &Path) -> TensorFile {
    let folder = std::fs::read_dir(run.join("checkpoints")).unwrap();
    let path = folder.map(|e| e.unwrap().path()).max().unwrap();
    TensorFile::read(&path).unwrap()
}

#[test]
fn an_interrupted_run_is_saved_and_resumes_to_the_same_bits() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    let long = TINY.replace("steps = 20", "steps = 1500").replace("_every = 10", "_every = 0");
    file(here, "long.toml", &long);
    json(here, "train long.toml --out whole");

    let mut child = Command::new(env!("CARGO_BIN_EXE_sheaf"))
        .args(["train", "long.toml", "--out", "halves", "--threads", "1", "--json"])
        .current_dir(here)
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    // Once the first line of metrics exists, the run is under way.
    let metrics = here.join("halves/metrics.jsonl");
    let begin = Instant::now();
    while !metrics.exists() || std::fs::metadata(&metrics).unwrap().len() == 0 {
        assert!(begin.elapsed() < Duration::from_secs(30), "the run does not start");
        std::thread::sleep(Duration::from_millis(2));
    }
    let killed = Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap();
    assert!(killed.success());
    assert_eq!(child.wait().unwrap().code(), Some(130));
    let output = child.wait_with_output().unwrap();
    let output: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(output["interrupted"].as_bool(), Some(true));
    let step = output["step"].as_u64().unwrap();
    assert!((1..1500).contains(&step), "stopped in the middle, at step {step}");
    assert!(here.join(output["checkpoint"].as_str().unwrap()).exists());

    let resumed = json(here, "train --resume --out halves");
    assert_eq!((resumed["step"].as_u64(), resumed["interrupted"].as_bool()), (Some(1500), Some(false)));
    let (whole, halves) = (newest(&here.join("whole")), newest(&here.join("halves")));
    assert_eq!(whole.names(), halves.names());
    for name in whole.names() {
        let shape = whole.info(&name).unwrap().1;
        let values = |f: &TensorFile| f.tensor(&name, shape, &[safetensors::Dtype::F32]).unwrap();
        assert!(values(&whole) == values(&halves), "{name} differs after resuming at step {step}");
    }
}

#[test]
fn a_run_that_is_made_longer_ends_in_the_bits_of_a_long_run() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);
    json(here, "train tiny.toml --out whole --set train.steps=30");
    json(here, "train tiny.toml --out parts");
    json(here, "train --resume --out parts --set train.steps=30");
    let (whole, parts) = (newest(&here.join("whole")), newest(&here.join("parts")));
    for name in whole.names() {
        let shape = whole.info(&name).unwrap().1;
        let values = |f: &TensorFile| f.tensor(&name, shape, &[safetensors::Dtype::F32]).unwrap();
        assert!(values(&whole) == values(&parts), "{name} differs in the longer run");
    }

    let output = fails(here, "train --resume --out parts --set train.steps=25");
    assert!(output.contains("`train.steps`: expected at least 30") && output.contains("hint: "), "{output}");
    file(here, "decay.toml", TINY.replace("warmup", "decay = \"linear\"\nwarmup"));
    json(here, "train decay.toml --out decay");
    let output = fails(here, "train --resume --out decay --set train.steps=30");
    assert!(output.contains("`train.steps`: expected 20"), "{output}");
}
