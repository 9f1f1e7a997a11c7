//! `sheaf solve sudoku`: pictures and rejected input.

use std::path::Path;

use super::support::{fails, file, json, ok, sheaf};

const EASY: &str = "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79";

const FRAMED: &str = "\
5 3 . | . 7 . | . . .
6 . . | 1 9 5 | . . .
. 9 8 | . . . | . 6 .
------+-------+------
8 . . | . 6 . | . . 3
4 . . | 8 . 3 | . . 1
7 . . | . 2 . | . . 6
------+-------+------
. 6 . | . . . | 2 8 .
. . . | 4 1 9 | . . 5
. . . | . 8 . | . 7 9
";

#[test]
fn a_puzzle_is_read_as_typed_from_files_and_from_standard_input() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "board.txt", FRAMED);
    let result = json(here, &format!("solve sudoku {EASY} --iterations 6"));
    assert_eq!(result["puzzle"].as_str().unwrap(), EASY.replace('.', "0"));
    assert_eq!((result["unique"].as_bool(), result["blanks"].as_u64()), (Some(true), Some(51)));
    let (k, rounds) = (result["iterations"].as_u64().unwrap(), result["rounds"].as_u64().unwrap());
    assert_eq!((result["violated"].as_array().unwrap().len() as u64, k), (k, 6 * rounds));
    assert_eq!(result["board"].as_str().unwrap().len(), 81);
    let solved = result["board"] == result["solution"];
    assert_eq!(result["solved"].as_bool(), Some(solved));
    let framed = json(here, "solve sudoku board.txt --iterations 6");
    let output = sheaf(here, "solve sudoku - --iterations 6 --json").write_stdin(FRAMED).output().unwrap();
    let piped: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    for key in ["puzzle", "board", "solution", "primal"] {
        assert_eq!((&result[key], &result[key]), (&framed[key], &piped[key]), "{key}");
    }
    ok(here, "data sudoku --count 5 --seed 2 --out set.csv");
    let third = json(here, "solve sudoku set.csv --index 2 --iterations 3");
    let lines = std::fs::read_to_string(here.join("set.csv")).unwrap();
    let line = lines.lines().nth(2).unwrap();
    assert_eq!(
        line,
        format!("{},{}", third["puzzle"].as_str().unwrap(), third["solution"].as_str().unwrap())
    );
}

#[test]
fn the_board_fills_in_over_the_iterations() {
    let text = ok(Path::new("."), &format!("solve sudoku {EASY} --iterations 9"));
    let lines: Vec<&str> = text.lines().collect();
    assert!(lines[0].starts_with("puzzle                   iteration 1"), "{text}");
    assert!(lines[1].starts_with("5 3 . | . 7 . | . . ."), "{text}");
    assert!(lines.iter().any(|l| l.starts_with("answer  ")), "{text}");
    assert!(lines.iter().all(|l| l.chars().count() <= 100 && !l.contains('\x1b')), "{text}");
}

#[test]
fn agents_commit_in_rounds_until_the_board_is_complete() {
    let here = Path::new(".");
    let hard = "solve sudoku --kind minimal --seed 5 --iterations 50";
    let at_once = json(here, &format!("{hard} --rounds 1"));
    assert_eq!((at_once["rounds"].as_u64(), at_once["iterations"].as_u64()), (Some(1), Some(50)));
    assert_eq!(at_once["valid"].as_bool(), Some(false), "a board that one round does not complete");
    let result = json(here, &format!("{hard} --rounds 12"));
    let rounds = result["rounds"].as_u64().unwrap();
    assert!((2..=12).contains(&rounds) && result["iterations"].as_u64() == Some(50 * rounds));
    assert!(rounds == 12 || result["valid"].as_bool() == Some(true));
    // Ten rounds unless told otherwise, whatever the weights were trained with.
    let usual = json(here, hard);
    assert!((2..=10).contains(&usual["rounds"].as_u64().unwrap()), "{usual}");
    let text = ok(here, &format!("{hard} --rounds 12"));
    assert!(text.contains(&format!("{} in {rounds} rounds", 50 * rounds)), "{text}");
    let maze = fails(here, "eval --weights builtin:maze --data x.npz --rounds 2");
    assert!(maze.contains("--rounds: expected weights of sudoku, got weights of maze"), "{maze}");
    let sudoku = fails(here, "eval --weights builtin:sudoku --data x.csv --no-first-solve");
    assert!(sudoku.contains("--no-first-solve: expected weights of maze, got"), "{sudoku}");
}

#[test]
fn a_solve_stops_when_the_agents_have_settled() {
    let result = json(Path::new("."), &format!("solve sudoku {EASY} --rounds 1"));
    assert_eq!(
        (result["settled"].as_bool(), result["solved"].as_bool()),
        (Some(true), Some(true)),
        "{result}"
    );
    let k = result["iterations"].as_u64().unwrap();
    assert!(k < 50 && result["residuals"]["edge_rms"].as_array().unwrap().len() as u64 == k, "{result}");
}

#[test]
fn fresh_puzzles_name_a_seed_that_draws_them_again() {
    let here = Path::new(".");
    let result = json(here, "solve sudoku --kind singles --iterations 2");
    let seed = result["seed"].as_u64().unwrap();
    let again = json(here, &format!("solve sudoku --kind singles --iterations 2 --seed {seed}"));
    assert_eq!((&result["puzzle"], &result["board"]), (&again["puzzle"], &again["board"]));
}

#[test]
fn a_puzzle_with_several_solutions_is_tried_with_a_note() {
    let open = format!("{}{}", "1", ".".repeat(80));
    let result = json(Path::new("."), &format!("solve sudoku {open} --iterations 2"));
    assert_eq!((result["unique"].as_bool(), result["solved"].as_bool()), (Some(false), Some(false)));
    let note = result["notes"][0].as_str().unwrap();
    assert!(note.starts_with("the puzzle is not unique: row "), "{note}");
}

#[test]
fn pictures_are_of_the_kind_their_name_says() {
    let dir = tempfile::tempdir().unwrap();
    for (out, start) in [("a.png", &b"\x89PNG"[..]), ("b.gif", b"GIF89a"), ("c.svg", b"<svg")] {
        let result = json(dir.path(), &format!("solve sudoku {EASY} --iterations 4 --out {out}"));
        assert_eq!(result["out"], out);
        assert!(std::fs::read(dir.path().join(out)).unwrap().starts_with(start));
    }
    let svg = std::fs::read_to_string(dir.path().join("c.svg")).unwrap();
    assert!(svg.contains("<text x=\"0.5\" y=\"0.75\"") && !svg.contains("<animate"), "{svg}");
    ok(dir.path(), &format!("solve sudoku {EASY} --iterations 4 --out c.svg --animate"));
    let moving = std::fs::read_to_string(dir.path().join("c.svg")).unwrap();
    // The untrained first iterations differ, so there is something to show.
    assert!(moving.matches("<g>").count() > 1 && moving.contains("<animate"), "{moving}");
}

#[test]
fn what_is_no_puzzle_is_refused() {
    let dir = tempfile::tempdir().unwrap();
    let here = dir.path();
    file(here, "prose.txt", "Dear reader,\n");
    file(here, "short.txt", &FRAMED[..100]);
    file(here, "bytes.bin", [0xff, 0xfe, 0x00, 0x80]);
    file(here, "empty.csv", "puzzle,solution\n");
    ok(here, "data sudoku --count 3 --out three.csv");
    let short = &EASY[1..];
    let twice = EASY.replacen("53", "55", 1);
    // The last cell of the first row has no digit left: 1 to 8 beside it, 9 below.
    let stuck = format!("12345678.........9{}", ".".repeat(63));
    let commands = [
        format!("solve sudoku {short}"),
        format!("solve sudoku {twice}"),
        format!("solve sudoku {stuck}"),
        "solve sudoku prose.txt".into(),
        "solve sudoku short.txt".into(),
        "solve sudoku bytes.bin".into(),
        "solve sudoku empty.csv".into(),
        "solve sudoku missing.txt".into(),
        "solve sudoku three.csv --index 3".into(),
        "solve sudoku --index 3".into(),
        format!("solve sudoku {EASY} --kind full"),
        "solve sudoku --kind evil".into(),
        "solve sudoku --out board.bmp".into(),
        format!("solve sudoku {EASY} --weights builtin:maze"),
        "data sudoku --out x.csv".into(),
        "data sudoku --count 0 --out x.csv".into(),
        "data sudoku --count 3 --from three.csv --out x.csv".into(),
        "data sudoku --from prose.txt --skip-bad --out x.csv".into(),
        "data sudoku --from missing.csv --out x.csv".into(),
        "eval --weights builtin:sudoku --data prose.txt".into(),
        "trace --weights builtin:sudoku --data three.csv --index 3 --out t.safetensors".into(),
        "bench eval --task sudoku --size 16".into(),
    ];
    let result: String = commands.iter().map(|c| format!("$ sheaf {c}\n{}\n", fails(here, c))).collect();
    insta::assert_snapshot!(result);
}
