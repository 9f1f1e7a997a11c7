//! Input that no honest user would give: refused by size, shown safely, and with a documented exit code.

use std::path::Path;

use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::{Precision, WeightsMeta, encode_weights};
use sheaf_tasks::npz::{Array, Values, write};

use super::support::{fails, file, json, ok, sheaf};

const PUZZLE: &str = "514029680792038004683541792146952837837164025925873146250397408468215079079486201";
const SOLUTION: &str = "514729683792638514683541792146952837837164925925873146251397468468215379379486251";

#[test]
fn a_puzzle_that_lost_a_character_is_never_scored() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "p.csv", format!("{PUZZLE},{SOLUTION}\n{},{SOLUTION}\n", &PUZZLE[1..]));
    for command in [
        "eval --weights builtin:sudoku --data p.csv",
        "trace --weights builtin:sudoku --data p.csv --out t.safetensors",
        "data sudoku --from p.csv --out q.csv",
        "solve sudoku p.csv --index 1",
    ] {
        let output = fails(here, command);
        assert!(
            output.starts_with("exit 1") && output.contains("line 2") && output.contains("80 cells"),
            "{output}"
        );
    }
}

#[test]
fn mazes_without_a_way_are_listed_and_not_scored() {
    let dir = tempfile::tempdir().unwrap();
    let walled = [1, 1, 1, 1, 1, 1, 3, 1, 4, 1, 1, 1, 1, 1, 1];
    let open = [1, 1, 1, 1, 1, 1, 3, 2, 4, 1, 1, 1, 1, 1, 1];
    let array = |mazes: [[u8; 15]; 3]| Array::new(vec![3, 3, 5], Values::U8(mazes.concat())).unwrap();
    let labels = open.map(|t| if t == 2 { 5 } else { t });
    let (inputs, labels) = (array([open, walled, open]), array([labels, walled, open]));
    write(&dir.path().join("m.npz"), &[("inputs", &inputs), ("labels", &labels)]).unwrap();
    let output = fails(dir.path(), "eval --weights builtin:maze --data m.npz");
    assert!(output.contains("maze 1 (walls between start and goal)"), "{output}");
    assert!(output.contains("none in 2 of 3 mazes: 1, 2") && output.contains("hint: "), "{output}");
}

/// A PNG file that declares this size and holds nothing.
fn png(width: u32, height: u32) -> Vec<u8> {
    let sum = |bytes: &[u8]| {
        let step = |sum: u32, _| (sum >> 1) ^ (0xEDB8_8320 & (sum & 1).wrapping_neg());
        !bytes.iter().fold(!0u32, |sum, &byte| (0..8).fold(sum ^ u32::from(byte), step))
    };
    let chunk = |kind: &[u8], data: &[u8]| {
        let body = [kind, data].concat();
        [&(data.len() as u32).to_be_bytes()[..], &body, &sum(&body).to_be_bytes()].concat()
    };
    let head = [&width.to_be_bytes()[..], &height.to_be_bytes(), &[8, 2, 0, 0, 0]].concat();
    [b"\x89PNG\r\n\x1a\n".to_vec(), chunk(b"IHDR", &head), chunk(b"IDAT", b""), chunk(b"IEND", b"")].concat()
}

#[test]
fn sizes_without_meaning_are_refused_before_anything_is_allocated() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "bomb.png", png(60_000, 2_147_483_647));
    file(here, "wide.txt", format!("{}{}\n", "#\n".repeat(200_000), "#".repeat(200_000)));
    let many = Array::new(vec![1 << 28, 1, 1], Values::U8(vec![1; 1 << 28])).unwrap();
    assert!(write(&here.join("large.npz"), &[("inputs", &many)]).is_ok());
    drop(many);
    let mut codes = Vec::new();
    for (command, word) in [
        ("solve maze bomb.png", "at most 16777216 pixels"),
        ("solve mnist bomb.png", "at most 16777216 pixels"),
        ("solve maze wide.txt", "at most 4194304 pixels"),
        ("solve maze /dev/zero", "at most 67108864 bytes"),
        ("eval --weights /dev/zero --data x", "at most 1073741824 bytes"),
        ("train /dev/zero --out run", "at most 1048576 bytes"),
        ("solve maze --size 1000001", "at most 4194304 pixels"),
        ("data maze --count 1000000000000000000 --out a.npz", "at most 743588 mazes"),
        ("data sudoku --count 100000000000 --out a.csv", "at most 3000000 puzzles"),
        ("bench train --batch 100000000000", "at most 65536"),
        ("bench solve --task mnist --size 8192 --batch 65536 --seconds 0.1", "in all"),
        ("bench --threads 100000", "at most 1024"),
        ("solve maze --iterations 1000000000000000000", "at most 1000000"),
        ("solve sudoku --rounds 82", "at most 81"),
        ("export --weights builtin:maze --set model.d_v=1000000000 --out o", "at most 16384"),
        ("export --weights builtin:sudoku --set model.mixers=1000000000000 --out o", "at most 256"),
        ("export --weights builtin:maze --set train.batch=1000000000000 --out o", "at most 65536"),
        ("export --weights builtin:maze --set data.count=1000000000000000000 --out o", "at most 743588"),
        ("export --weights builtin:mnist-cnn --set model.hidden=1000000000 --out o", "at most 16384"),
    ] {
        let output = fails(here, command);
        assert!(output.contains(word), "`{word}` for {command}: {output}");
        codes.push(output[..6].to_string());
    }
    assert!(codes.iter().all(|code| code == "exit 1" || code == "exit 2"), "{codes:?}");
}

#[test]
fn an_experiment_that_cannot_work_is_refused_where_it_enters() {
    let dir = tempfile::tempdir().unwrap();
    for (weights, key) in [
        ("builtin:maze", "iterations.eval=0"),
        ("builtin:sudoku", "iterations.rounds=0"),
        ("builtin:mnist", "train.batch=0"),
        ("builtin:maze", "data.size=20"),
        ("builtin:maze", "train.best_metric=accuracy"),
        ("builtin:mnist-cnn", "train.best_metric=solved"),
        ("builtin:maze", "data.size=-1"),
        ("builtin:maze", "iterations.eval=1000000000"),
        ("builtin:mnist", "iterations.train=1000000000000000000"),
        ("builtin:sudoku", "iterations.tolerance=1e-300"),
        ("builtin:maze", "model.alpha=nan"),
        ("builtin:maze", "model.gamma=1e39"),
        ("builtin:mnist", "model.cg_tolerance=1e-50"),
        ("builtin:sudoku", "model.rho_init=1e300"),
    ] {
        let output =
            fails(dir.path(), &format!("export --weights {weights} --set {key} --out o.safetensors"));
        assert!(output.starts_with("exit 1") && !dir.path().join("o.safetensors").exists(), "{output}");
        for internal in ["usize", "u64", "struct ", "Workspace", "invalid value"] {
            assert!(!output.contains(internal), "`{internal}` in {output}");
        }
    }
}

/// No byte that a terminal would obey.
fn assert_safe(text: &[u8]) {
    let text = String::from_utf8_lossy(text);
    let bad = text.chars().find(|&c| (c.is_control() && c != '\n') || ('\u{202a}'..='\u{202e}').contains(&c));
    assert_eq!(bad, None, "{text:?}");
}

#[test]
fn strings_from_files_cannot_command_a_terminal() {
    const EVIL: &str = "\u{1b}[2Jred\u{9b}31m\u{202e}";
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    let mut layout = ParamLayout::new();
    layout.add(format!("name{EVIL}"), &[2]);
    let config = "task = \"maze\"\n# \u{202e}a comment\n".to_string();
    let record = serde_json::json!({ "note": EVIL, "history": [{ "step": EVIL }] }).to_string();
    let about = WeightsMeta { task: "maze".into(), config, record };
    file(here, "w.safetensors", encode_weights(&layout, &[1.0, 2.0], &about, Precision::F32).unwrap());
    let about = WeightsMeta { task: EVIL.into(), ..about };
    file(here, "t.safetensors", encode_weights(&layout, &[1.0, 2.0], &about, Precision::F32).unwrap());
    file(here, "m.txt", format!("#####\n#S{EVIL}G#\n#####\n"));
    file(here, "p.csv", format!("puzzle,solution\n{}{EVIL},x\n", &PUZZLE[..70]));
    let names = "[[agents]]\nname = \"EVIL\"\nq = [1]\nlower = 0\n[[agents]]\nq = [1]\nlower = 0\n[[edges]]\n\
                 name = \"EVIL\"\na = 0\nF_a = [[1]]\nb = 1\nF_b = [[1]]\n";
    let names = names.replace("EVIL", "\\u001b[2J\\u202e");
    file(here, "n.toml", names.replace("q = [1]", "q = [1, \"x\"]"));
    file(here, "p.toml", names);
    file(here, "k.toml", "[[agents]]\n\"\\u001b[2J\" = 1\n");
    file(here, "f.toml", "[[agents]]\nQ = { file = \"\\u001b[2J.npy\" }\n");
    file(here, "e.toml", format!("task = \"maze\"\n[train]\n\"st{}\" = 1\n", "\\u001b[2J"));
    let path = format!("missing{EVIL}.txt");
    for arguments in [
        &["inspect", "w.safetensors", "--history"][..],
        &["inspect", "w.safetensors"],
        &["inspect", "w.safetensors", "--json"],
        &["inspect", "t.safetensors"],
        &["eval", "--weights", "t.safetensors", "--data", "x"],
        &["eval", "--weights", "w.safetensors", "--data", "x"],
        &["solve", "maze", "m.txt"],
        &["solve", "maze", &path],
        &["data", "sudoku", "--from", "p.csv", "--out", "q.csv"],
        &["train", "e.toml", "--out", "run"],
        &["solve", EVIL],
        &["run", "p.toml", "--report"],
        &["run", "p.toml", "--json"],
        &["run", "n.toml"],
        &["run", "k.toml"],
        &["run", "f.toml"],
        &["train", "--out", EVIL, "--nonsense", EVIL],
    ] {
        let output = sheaf(here, "").args(arguments).output().unwrap();
        assert_safe(&output.stdout);
        assert_safe(&output.stderr);
        assert!(matches!(output.status.code(), Some(0..=2)), "{arguments:?}: {}", output.status);
    }
}

#[test]
fn a_plain_locale_gets_plain_characters() {
    let dir = tempfile::tempdir().unwrap();
    let run = |arguments: &str| {
        let output = sheaf(dir.path(), arguments).env("LC_ALL", "C").env("TERM", "dumb").output().unwrap();
        assert!(output.stdout.is_ascii() && output.stderr.is_ascii(), "{arguments}: {output:?}");
    };
    run("solve maze --seed 1 --iterations 5");
    run("solve maze --size 1000001");
    run("solve maze --help");
    run("doctor");
}

/// A limit of the shell stands for a machine without memory.
#[cfg(target_os = "linux")]
#[test]
fn memory_that_the_system_refuses_ends_with_a_documented_exit_code() {
    let (tool, dir) = (env!("CARGO_BIN_EXE_sheaf"), tempfile::tempdir().unwrap());
    let out = dir.path().join("a.npz");
    let line = format!("ulimit -v 500000; exec {tool} data maze --count 740000 --out {}", out.display());
    let output = std::process::Command::new("sh").args(["-c", &line]).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("error: ") && error.contains("memory"), "{error}");
    assert!(!out.exists());
}

#[test]
fn options_without_effect_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    for command in [
        "solve maze --animate --json",
        "solve maze --heat",
        "solve mnist 3 --as-it-is",
        "solve mnist digit.png --split train",
        "eval --weights builtin:mnist --data x --draws 3",
        "eval --weights builtin:maze --data x --max-iterations 3",
        "export --weights builtin:maze --share 0.3 --out o",
        "train tiny.toml --out run --checkpoint c.safetensors",
        "bench scaling --batch 3",
        "bench solve --threads 2",
        "inspect builtin:maze --history --json",
        "solve sudoku --index 2",
        "solve mnist --digit 3 --data x",
        "data sudoku --count 3 --skip-bad --out o",
        "run two.toml --report --json",
        "train tiny.toml --out run --seed 1 --set train.seed=2",
        "train tiny.toml --out run --on-nan stop --set train.on_nan=rollback",
        "train tiny.toml --out run --set train.steps=1 --set train.steps=2",
        "export --weights builtin:maze --set model.alpha=1 --set model.alpha=2 --out o",
        "reproduce sizes --from results --scale quick --out o",
        "reproduce sizes --from results --seeds 1 --out o",
    ] {
        assert!(fails(dir.path(), command).starts_with("exit 2"), "{command}");
    }
    let typed = fails(dir.path(), &format!("solve sudoku {PUZZLE} --index 1"));
    assert!(typed.contains("--index") && typed.starts_with("exit 2"), "{typed}");
}

#[test]
fn the_doctor_finds_this_installation_sound() {
    let output = json(Path::new("."), "doctor");
    assert_eq!(
        (output["self_test"].as_bool(), output["weights"].as_array().map(Vec::len)),
        (Some(true), Some(sheaf_tasks::builtin::ALL.len()))
    );
    assert!(output["threads"].as_u64().unwrap() > 0 && output["version"].as_str().is_some());
}

#[test]
fn completions_and_manual_pages_know_every_command() {
    let dir = tempfile::tempdir().unwrap();
    for shell in ["bash", "zsh", "fish", "elvish", "powershell"] {
        let script = ok(dir.path(), &format!("completions {shell}"));
        assert!(script.contains("doctor") && script.contains("inspect"), "{shell}");
    }
    ok(dir.path(), "man --out man");
    let page = std::fs::read_to_string(dir.path().join("man/sheaf-train.1")).unwrap();
    assert!(page.contains("checkpoint") && dir.path().join("man/sheaf-solve-maze.1").exists(), "{page}");
}
