//! Invalid input: a clear error with a hint, and no data is lost.

use std::path::Path;

use super::support::{TINY, fails, file, ok, sheaf};

/// The error messages of these commands, in order.
fn all(folder: &Path, commands: &[&str]) -> String {
    commands.iter().map(|c| format!("$ sheaf {c}\n{}\n", fails(folder, c))).collect()
}

#[test]
fn inputs_that_are_no_mazes() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "empty.txt", "\n\n");
    file(here, "no_start.txt", "#####\n#  G#\n#####\n");
    file(here, "two_goals.txt", "#####\n#SGG#\n#####\n");
    file(here, "even.txt", "####\n#SG#\n####\n####\n");
    file(here, "walled.txt", "#####\n#S#G#\n#####\n");
    file(here, "prose.txt", "Dear reader,\n");
    file(here, "bytes.bin", [0xff, 0xfe, 0x00, 0x80]);
    file(here, "broken.png", b"\x89PNG\r\n\x1a\nnothing");
    let commands = [
        "empty.txt",
        "no_start.txt",
        "two_goals.txt",
        "even.txt",
        "walled.txt",
        "prose.txt",
        "bytes.bin",
        "broken.png",
        "missing.txt",
    ]
    .map(|name| format!("solve maze {name}"));
    insta::assert_snapshot!(all(here, &commands.each_ref().map(String::as_str)));
}

#[test]
fn arguments_that_make_no_sense_are_refused_before_anything_is_done() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "tiny.toml", TINY);
    insta::assert_snapshot!(all(
        dir.path(),
        &[
            "solve maze --size 20",
            "solve maze --out picture.bmp",
            "solve maze --out nowhere/picture.png",
            "solve maze --out /dev/full.png",
            "solve maze --iterations 0",
            "solve maze maze.txt --size 19",
            "solve maze --weights builtin:chess",
            "data maze --count 0 --out x.npz",
            "data maze --count 1 --min-path 1000 --out x.npz",
            "data maze --count 1 --out .",
            "eval --weights builtin:maze --data x.npz --max-iterations 5",
            "train tiny.toml",
            "train tiny.toml --out run --set steps",
            "import --task chess --from a --out b",
            "bench --seconds 0",
        ]
    ));
    let left: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
    assert_eq!(left, ["tiny.toml"]);
}

#[test]
fn experiments_with_mistakes() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "typo.toml", TINY.replace("warmup", "warm_up"));
    file(here, "kind.toml", TINY.replace("steps = 20", "steps = \"many\""));
    file(here, "task.toml", TINY.replace("\"maze\"", "\"chess\""));
    file(here, "none.toml", "[train]\nsteps = 1\n");
    file(here, "broken.toml", "task = \"maze\"\n[train\n");
    file(here, "tiny.toml", TINY);
    let commands = [
        "train typo.toml --out run",
        "train kind.toml --out run",
        "train task.toml --out run",
        "train none.toml --out run",
        "train broken.toml --out run",
        "train missing.toml --out run",
        "train tiny.toml --out run --set train.stepps=3",
        "train tiny.toml --out run --set train.batch=12",
        "train tiny.toml --out run --resume",
    ];
    insta::assert_snapshot!(all(here, &commands));
    assert!(!here.join("run").exists(), "nothing was begun");

    ok(here, "train tiny.toml --out run");
    // Which of the existing files is named depends on the file system.
    let taken = fails(here, "train tiny.toml --out run");
    assert!(
        taken.contains("run: expected an empty directory") && taken.contains("hint: continue"),
        "{taken}"
    );
    insta::assert_snapshot!(
        "a_resumed_run_cannot_change_its_numbers",
        all(here, &["train tiny.toml --out run --resume --set train.learning_rate=0.5"])
    );
}

#[test]
fn files_that_are_damaged_or_something_else() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);
    ok(here, "train tiny.toml --out run");
    ok(here, "data maze --size 7 --count 3 --out mazes.npz");
    let whole = std::fs::read(here.join("run/final.safetensors")).unwrap();
    file(here, "short.safetensors", &whole[..whole.len() - 100]);
    let mut flipped = whole.clone();
    *flipped.last_mut().unwrap() ^= 1;
    file(here, "flipped.safetensors", flipped);
    file(here, "text.safetensors", "not weights");
    let npz = std::fs::read(here.join("mazes.npz")).unwrap();
    file(here, "short.npz", &npz[..npz.len() / 2]);
    flat_arrays(&here.join("flat.npz"));
    let eval = |weights: &str, data: &str| format!("eval --weights {weights} --data {data}");
    let commands = [
        eval("short.safetensors", "mazes.npz"),
        eval("flipped.safetensors", "mazes.npz"),
        eval("text.safetensors", "mazes.npz"),
        eval("missing.safetensors", "mazes.npz"),
        eval("builtin:maze", "missing.npz"),
        eval("builtin:maze", "short.npz"),
        eval("builtin:maze", "tiny.toml"),
        eval("builtin:maze", "flat.npz"),
        "trace --weights builtin:maze --data mazes.npz --index 3 --out t.safetensors".into(),
        "import --task maze --from run/final.safetensors --out w.safetensors".into(),
        "inspect text.safetensors".into(),
    ];
    insta::assert_snapshot!(all(here, &commands.each_ref().map(String::as_str)));
}

/// Arrays with the right names and the wrong shapes.
fn flat_arrays(path: &Path) {
    use sheaf_tasks::npz::{Array, Values, write};
    let array = Array::new(vec![2, 9], Values::U8(vec![1; 18])).unwrap();
    write(path, &[("inputs", &array), ("labels", &array)]).unwrap();
}

/// The shell's file size limit simulates a full disk.
#[cfg(unix)]
#[test]
fn a_disk_without_space_costs_nothing_that_was_there() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    ok(here, "data maze --size 19 --count 2 --out mazes.npz");
    let before = std::fs::read(here.join("mazes.npz")).unwrap();
    let tool = env!("CARGO_BIN_EXE_sheaf");
    let limited = |arguments: &str| {
        let line = format!("trap '' XFSZ; ulimit -f 8; exec {tool} {arguments}");
        let output = std::process::Command::new("sh").args(["-c", &line]).current_dir(here).output().unwrap();
        let error = String::from_utf8_lossy(&output.stderr).into_owned();
        assert_eq!(output.status.code(), Some(1), "{arguments}: {error}");
        assert!(error.starts_with("error: ") && error.contains("hint: "), "{error}");
        assert!(!error.contains("panicked"), "{error}");
    };
    limited("data maze --size 19 --count 500 --out mazes.npz");
    assert!(std::fs::read(here.join("mazes.npz")).unwrap() == before, "the old file is as it was");
    limited("trace --weights builtin:maze --data mazes.npz --iterations 3 --out t.safetensors");
    limited("solve maze --seed 1 --iterations 60 --out a.gif");
    let mut left: Vec<_> = std::fs::read_dir(here).unwrap().map(|e| e.unwrap().file_name()).collect();
    left.sort();
    assert_eq!(left, ["mazes.npz"], "nothing half-written is left");
}

#[test]
fn a_loss_that_is_no_number_stops_with_step_sample_and_checkpoint_or_rolls_back() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "tiny.toml", TINY);
    let wild = "--set train.learning_rate=1e30 --set train.warmup=3 --set train.clip=0 --set train.weight_decay=1e10";
    let output = fails(here, &format!("train tiny.toml --out run {wild}"));
    assert!(output.starts_with("exit 1\n"), "{output}");
    for part in ["step ", "batch ", "finite", "hint: the last good checkpoint is", "--on-nan rollback"] {
        assert!(output.contains(part), "`{part}` in {output}");
    }
    let resumed = sheaf(here, "train --resume --out run --on-nan rollback").output().unwrap();
    let error = String::from_utf8_lossy(&resumed.stderr);
    assert!(error.contains("rollback 1"), "{error}");
}
