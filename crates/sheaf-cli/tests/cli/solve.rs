//! `sheaf solve maze` and its pictures.

use std::path::Path;

use super::support::{file, json, ok, sheaf};

const SMALL: &str = "\
#######
#S#   #
# # # #
#   #G#
#######
";

#[test]
fn a_seed_draws_the_same_maze_each_time_and_the_report_agrees_with_itself() {
    let here = Path::new(".");
    let first = ok(here, "solve maze --seed 3 --iterations 12");
    let lines: Vec<&str> = first.lines().collect();
    assert!(lines[..19].iter().all(|l| l.chars().count() == 19), "{first}");
    assert!(first.contains("--seed 3"));
    let result = json(here, "solve maze --seed 3 --iterations 12");
    assert_eq!((result["iterations"].as_u64(), result["agents"].as_u64()), (Some(12), Some(81)));
    assert_eq!(result["residuals"]["primal"].as_array().unwrap().len(), 12);
    assert_eq!(result["residuals"]["edge_rms"], result["residuals"]["consistency"]);
    assert!(result["edge_rms"].is_number() && result["edge_rms"] == result["consistency"]);
    assert_eq!(result["solved"].as_bool(), Some(first.contains("solved: the path")), "{first}");
    assert!(result["peak_rss_mb"].as_f64().unwrap() > 1.0);
    assert_eq!(result, {
        let mut again = json(here, "solve maze --seed 3 --iterations 12");
        for timing in ["seconds", "samples_per_s", "peak_rss_mb"] {
            again[timing] = result[timing].clone();
        }
        again
    });
}

#[test]
fn fresh_mazes_name_a_seed_that_draws_them_again() {
    let result = json(Path::new("."), "solve maze --size 9 --iterations 3");
    let seed = result["seed"].as_u64().unwrap();
    let again = json(Path::new("."), &format!("solve maze --size 9 --iterations 3 --seed {seed}"));
    assert_eq!((&result["path"], &result["path_steps"]), (&again["path"], &again["path_steps"]));
}

#[test]
fn a_typed_maze_is_read_from_a_file_and_from_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    file(dir.path(), "maze.txt", SMALL);
    let result = json(dir.path(), "solve maze maze.txt");
    assert_eq!(result["path_steps"].as_u64(), Some(10));
    let output = sheaf(dir.path(), "solve maze - --json").write_stdin(SMALL).output().unwrap();
    let piped: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(piped["path"], result["path"]);
}

#[test]
fn unusual_mazes_are_tried_with_a_note() {
    let dir = tempfile::tempdir().unwrap();
    let text = "#######\n#S    #\n# # # #\n#    G#\n#######\n";
    file(dir.path(), "loops.txt", text);
    let result = ok(dir.path(), "solve maze loops.txt");
    assert!(result.contains("note") && result.contains("not a perfect maze: 2 loops"), "{result}");
    let notes = json(dir.path(), "solve maze loops.txt")["notes"].clone();
    assert_eq!(notes.as_array().unwrap().len(), 1, "{notes}");
}

#[test]
fn pictures_are_of_the_kind_their_name_says_and_a_painted_maze_can_be_solved_again() {
    let dir = tempfile::tempdir().unwrap();
    let made = json(dir.path(), "solve maze --seed 5 --iterations 6 --out a.png");
    for (out, start) in [("d.png", &b"\x89PNG"[..]), ("b.gif", b"GIF89a"), ("c.svg", b"<svg")] {
        let result = json(dir.path(), &format!("solve maze a.png --iterations 6 --out {out} --heat"));
        assert_eq!(result["path"], made["path"], "the same maze, read from its picture");
        assert_eq!(result["out"], out);
        assert!(std::fs::read(dir.path().join(out)).unwrap().starts_with(start));
    }
    let svg = |more: &str| {
        ok(dir.path(), &format!("solve maze --seed 5 --iterations 6 --out c.svg {more}"));
        std::fs::read_to_string(dir.path().join("c.svg")).unwrap().contains("<animate")
    };
    assert!(!svg("") && svg("--animate"));
}

#[cfg(target_os = "linux")]
#[test]
fn results_that_cannot_be_written_are_an_error_and_a_reader_that_left_is_none() {
    let full = std::fs::File::options().write(true).open("/dev/full").unwrap();
    let mut command = std::process::Command::new(env!("CARGO_BIN_EXE_sheaf"));
    command.args(["solve", "maze", "--seed", "1", "--iterations", "2"]);
    let output = command.stdout(full).output().unwrap();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    assert_eq!(output.status.code(), Some(1), "{error}");
    assert!(error.contains("standard output") && error.contains("hint: the disk is full"), "{error}");
    let mut shell = std::process::Command::new("sh");
    let line = format!("{} solve maze --seed 1 --iterations 2 | true", env!("CARGO_BIN_EXE_sheaf"));
    let output = shell.args(["-c", &line]).output().unwrap();
    assert!(output.stderr.is_empty(), "{}", String::from_utf8_lossy(&output.stderr));
}
