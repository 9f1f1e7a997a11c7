//! The tool under `mpirun`: the output and the files of one process; what happens when a rank is killed.

use std::path::Path;
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

use serde_json::Value;

/// Nine agents with small states, as many steps as a kill needs.
const TINY: &str = r#"task = "maze"
[data]
size = 7
min_path = 4
count = 64
test_count = 8
[model]
d_v = 4
d_e = 2
hidden = 8
rank = 2
[iterations]
train_min = 2
train_max = 4
eval = 5
[train]
steps = 60
batch = 16
warmup = 2
loss_window = 2
eval_every = 30
checkpoint_every = 5
log_every = 5
[eval]
larger = 0
"#;

/// The tool on so many ranks; one is a process without `mpirun`.
fn sheaf(folder: &Path, ranks: usize, arguments: &str) -> Command {
    let mut command = match ranks {
        1 => Command::new(env!("CARGO_BIN_EXE_sheaf")),
        _ => {
            let mut command = Command::new("mpirun");
            command.args(["--oversubscribe", "-n", &ranks.to_string(), env!("CARGO_BIN_EXE_sheaf")]);
            command
        }
    };
    command.envs([("OMPI_ALLOW_RUN_AS_ROOT", "1"), ("OMPI_ALLOW_RUN_AS_ROOT_CONFIRM", "1")]);
    command.args(arguments.split_whitespace()).current_dir(folder);
    command
}

fn text(output: &Output) -> String {
    format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr))
}

fn json(folder: &Path, ranks: usize, arguments: &str) -> Value {
    let output = sheaf(folder, ranks, &format!("{arguments} --json")).output().unwrap();
    assert!(output.status.success(), "{ranks} ranks: {}", text(&output));
    // One report, and nothing else on standard output: the other ranks are silent.
    serde_json::from_slice(&output.stdout).unwrap_or_else(|e| panic!("{e}: {}", text(&output)))
}

#[test]
fn a_maze_of_several_chunks_is_solved_alike_by_any_number_of_ranks() {
    let dir = tempfile::tempdir().unwrap();
    let answer = |ranks| {
        let mut found = json(dir.path(), ranks, "solve maze --size 201 --seed 5 --iterations 6");
        let object = found.as_object_mut().unwrap();
        for key in ["seconds", "samples_per_s", "peak_rss_mb"] {
            object.remove(key);
        }
        assert!(object["residuals"]["primal"].as_array().is_some_and(|curve| curve.len() == 6));
        found
    };
    let one = answer(1);
    for ranks in [2, 4] {
        assert_eq!(answer(ranks), one, "{ranks} ranks");
    }
}

/// A ring of agents that should agree, exactly or nearly, as a problem file, and a partition of them into two parts.
fn write_ring(folder: &Path, agents: usize, coupling: &str) {
    let numbers = |i: usize| (i as f64 * 0.7).sin();
    let all: Vec<String> = (0..agents)
        .map(|i| format!(r#"{{"Q": [[{}, 0], [0, 2]], "q": [{}, 0.5]}}"#, 1.5 + numbers(i), numbers(3 * i)))
        .collect();
    let edge = |i: usize| {
        let next = (i + 1) % agents;
        format!(r#"{{"a": {i}, "F_a": [[1, 0]], "b": {next}, "F_b": [[1, 0.5]], "coupling": {coupling}}}"#)
    };
    let edges: Vec<String> = (0..agents).map(edge).collect();
    let text = format!(r#"{{"agents": [{}], "edges": [{}]}}"#, all.join(","), edges.join(","));
    std::fs::write(folder.join("ring.json"), text).unwrap();
    let parts: Vec<String> = (0..agents).map(|i| (i / 7 % 2).to_string()).collect();
    std::fs::write(folder.join("parts.txt"), parts.join("\n")).unwrap();
}

#[test]
fn a_problem_file_is_solved_alike_by_any_number_of_ranks_in_any_order_of_its_agents() {
    let dir = tempfile::tempdir().unwrap();
    for (coupling, how, counts) in [
        (r#"{"kind": "soft", "weight": 2}"#, "--consensus cg", &[2, 4][..]),
        (r#"{"kind": "soft", "weight": 2}"#, "--consensus cg --partition parts.txt", &[2]),
        (r#"{"kind": "hard"}"#, "--consensus cg", &[2, 4]),
        (r#"{"kind": "l1", "weight": 0.3}"#, "--consensus cg", &[2]),
        (r#"{"kind": "hard"}"#, "", &[2]),
    ] {
        write_ring(dir.path(), 5000, coupling);
        let answer = |ranks| {
            let mut found = json(dir.path(), ranks, &format!("run ring.json {how}"));
            assert_eq!(found["status"], "solved", "{coupling} {how}");
            found.as_object_mut().unwrap().remove("seconds");
            found
        };
        let one = answer(1);
        for &ranks in counts {
            assert!(answer(ranks) == one, "{coupling} {how}, {ranks} ranks");
        }
    }
}

#[test]
fn a_factorisation_is_left_to_rank_0_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    write_ring(dir.path(), 10, r#"{"kind": "hard"}"#);
    let said = text(&sheaf(dir.path(), 2, "run ring.json").output().unwrap());
    assert!(said.matches("rank 0 solves this problem alone").count() == 1, "{said}");
}

#[test]
fn the_bench_of_a_solve_counts_messages() {
    let dir = tempfile::tempdir().unwrap();
    let row = json(dir.path(), 2, "bench solve --size 201 --iterations 5 --seconds 0.1");
    assert_eq!((row["ranks"].as_u64(), row["agents"].as_u64()), (Some(2), Some(10_000)));
    // Five steps of conjugate gradients and their start.
    assert!(row["exchanges_per_iteration"].as_f64().is_some_and(|n| (4.0..=6.0).contains(&n)), "{row}");
    assert!(row["halo_bytes_per_iteration"].as_f64().is_some_and(|n| n > 1000.0), "{row}");
}

#[test]
fn what_ranks_cannot_share_is_done_once() {
    let dir = tempfile::tempdir().unwrap();
    let one = json(dir.path(), 1, "doctor");
    assert_eq!(json(dir.path(), 2, "doctor").as_object().map(|o| o.len()), one.as_object().map(|o| o.len()));
    let wrong = sheaf(dir.path(), 2, "solve maze no-such-file").output().unwrap();
    let said = text(&wrong);
    assert!(!wrong.status.success() && said.matches("no-such-file").count() == 1, "{said}");
}

fn weights(folder: &Path, run: &str) -> Vec<u8> {
    std::fs::read(folder.join(run).join("final.safetensors")).unwrap()
}

#[test]
fn training_has_the_bits_of_one_process() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tiny.toml"), TINY).unwrap();
    for ranks in [1, 2, 4] {
        let run = format!("train tiny.toml --out run{ranks} --set train.steps=20");
        let output = sheaf(dir.path(), ranks, &run).output().unwrap();
        assert!(output.status.success(), "{ranks} ranks: {}", text(&output));
        assert!(weights(dir.path(), &format!("run{ranks}")) == weights(dir.path(), "run1"), "{ranks} ranks");
    }
}

/// Waits until a condition holds.
fn until(what: &str, limit: Duration, mut holds: impl FnMut() -> bool) {
    let began = Instant::now();
    while !holds() {
        assert!(began.elapsed() < limit, "{what}: not within {limit:?}");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// The process of a rank that this `mpirun` started.
fn process_of(mpirun: &Child, rank: usize) -> Option<u32> {
    let (parent, wanted) = (format!("PPid:\t{}", mpirun.id()), format!("OMPI_COMM_WORLD_RANK={rank}"));
    std::fs::read_dir("/proc").ok()?.flatten().find_map(|entry| {
        let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
        let status = std::fs::read_to_string(entry.path().join("status")).ok()?;
        let environment = std::fs::read(entry.path().join("environ")).ok()?;
        let is_rank = environment.split(|&b| b == 0).any(|v| v == wanted.as_bytes());
        (status.lines().any(|line| line == parent) && is_rank).then_some(pid)
    })
}

#[test]
fn a_killed_rank_ends_the_job_and_the_checkpoint_resumes_on_another_number_of_ranks() {
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("tiny.toml"), TINY).unwrap();
    let whole = sheaf(dir.path(), 1, "train tiny.toml --out whole").output().unwrap();
    assert!(whole.status.success(), "{}", text(&whole));

    let mut job = sheaf(dir.path(), 2, "train tiny.toml --out killed")
        .env("SHEAF_MPI_DELAY", "3000")
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    let checkpoints = dir.path().join("killed/checkpoints");
    let some = || {
        std::fs::read_dir(&checkpoints).is_ok_and(|found| {
            found.flatten().any(|file| file.path().extension().is_some_and(|e| e == "safetensors"))
        })
    };
    until("a checkpoint", Duration::from_secs(60), some);
    let rank = process_of(&job, 1).expect("rank 1");
    let killed = Command::new("kill").args(["-KILL", &rank.to_string()]).status().unwrap();
    let began = Instant::now();
    until("the end of the job", Duration::from_secs(10), || job.try_wait().unwrap().is_some());
    let output = job.wait_with_output().unwrap();
    let said = text(&output);
    assert!(killed.success() && !output.status.success(), "{said}");
    assert!(
        began.elapsed() < Duration::from_secs(10) && said.contains("rank 1") && said.contains("signal 9"),
        "{said}"
    );

    let resumed = sheaf(dir.path(), 3, "train tiny.toml --out killed --resume").output().unwrap();
    assert!(resumed.status.success(), "{}", text(&resumed));
    assert!(weights(dir.path(), "killed") == weights(dir.path(), "whole"));
}
