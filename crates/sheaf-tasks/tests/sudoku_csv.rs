//! Files of puzzles: what is accepted, what is rejected, and the errors.

use proptest::prelude::*;
use sheaf_admm::ErrorKind;
use sheaf_tasks::sudoku::csv::{self, parse, parse_board};
use sheaf_tasks::sudoku::data::SudokuSet;
use sheaf_tasks::sudoku::generate::{Kind, generate};

const PUZZLE: &str = "514029680792038004683541792146952837837164025925873146250397408468215079079486201";
const SOLUTION: &str = "514729683792638514683541792146952837837164925925873146251397468468215379379486251";

fn text(set: &SudokuSet) -> String {
    let mut out = Vec::new();
    csv::write(set, &mut out).unwrap();
    String::from_utf8(out).unwrap()
}

#[test]
fn what_is_written_is_read_back() {
    let set = generate(Kind::Any, 1, 100);
    assert!(set.ambiguous.contains(&true));
    let written = text(&set);
    assert_eq!(parse("memory", &written, false).unwrap().set, set);
    let line = written.lines().next().unwrap();
    assert!(line.len() >= 163 && line.as_bytes()[81] == b',');
    let marked = written.lines().filter(|l| l.ends_with(",ambiguous")).count();
    assert_eq!(marked, set.ambiguous.iter().filter(|&&a| a).count());
}

#[test]
fn dialects_mean_the_same() {
    let dots = PUZZLE.replace('0', ".");
    let want = parse("x", &format!("{PUZZLE},{SOLUTION}\n"), false).unwrap().set;
    assert_eq!(want.len(), 1);
    for dialect in [
        PUZZLE.to_string(),
        dots.clone(),
        format!("{dots} {SOLUTION}"),
        format!("\"{dots}\";\"{SOLUTION}\"\r\n"),
        format!("\u{feff}quizzes,solutions\n{PUZZLE},{SOLUTION}\n"),
        format!("id,Puzzle,Solution,clues\n17,{dots},{SOLUTION},50\n"),
        format!("solution,puzzle\n{SOLUTION},{PUZZLE}\n"),
        format!("puzzle\n{dots}\n"),
        format!("17,{PUZZLE},{SOLUTION},0.5\n"),
        format!("# made by hand\n\n{PUZZLE}\t{SOLUTION}"),
        format!("{PUZZLE},\n"),
    ] {
        assert_eq!(parse("x", &dialect, false).unwrap().set, want, "{dialect}");
    }
}

#[test]
fn a_puzzle_that_lost_a_character_is_an_error_in_its_line_and_never_its_solution() {
    let good = format!("{PUZZLE},{SOLUTION}");
    for lost in 1..81 {
        let damaged = format!("{},{SOLUTION}", &PUZZLE[lost..]);
        for (file, line) in [
            (format!("{good}\n{damaged}\n"), 2),
            (format!("{damaged}\n{good}\n"), 1),
            (format!("puzzle,solution\n{damaged}\n"), 2),
            (format!("\u{feff}{good}\n{good}\n{damaged}\n"), 3),
            (damaged.clone(), 1),
        ] {
            let error = parse("some.csv", &file, false).unwrap_err();
            assert_eq!(error.place(), format!("some.csv, line {line}"), "{file}");
            let skipped = parse("some.csv", &file, true);
            assert_eq!(skipped.map_or(0, |read| read.set.len()), file.matches(&good).count(), "{file}");
        }
    }
    let longer = format!("{PUZZLE}0,{SOLUTION}");
    assert_eq!(reason(&longer), "puzzle: 82 cells instead of 81");
    assert_eq!(reason(&format!(",{SOLUTION}")), "puzzle: 0 cells instead of 81");
    assert_eq!(reason(&format!("{PUZZLE},{}", &SOLUTION[1..])), "solution: 80 cells instead of 81");
    assert!(reason(SOLUTION).contains("a solution without its puzzle"));
}

#[test]
fn the_solution_may_stand_before_the_puzzle() {
    let want = parse("x", &format!("{PUZZLE},{SOLUTION}\n"), false).unwrap();
    for text in [format!("{SOLUTION},{PUZZLE}\n"), format!("answer;quiz\n{SOLUTION};{PUZZLE}\n")] {
        let read = parse("x", &text, false).unwrap();
        assert_eq!((read.set, read.completed), (want.set.clone(), 0), "{text}");
    }
}

#[test]
fn one_puzzle_of_a_text_is_read_by_the_same_rules() {
    let text = format!("puzzle,solution\n{PUZZLE},{SOLUTION}\n{},{SOLUTION}\n", &PUZZLE[1..]);
    let (puzzle, line) = csv::nth("f.csv", &text, 0).unwrap().unwrap();
    assert_eq!((puzzle, line), (parse_board(PUZZLE).unwrap(), 2));
    let bad = csv::nth("f.csv", &text, 1).unwrap().unwrap_err();
    assert_eq!((bad.place(), bad.got()), ("f.csv, line 3", "puzzle: 80 cells instead of 81"));
    assert_eq!(csv::nth("f.csv", &text, 2).unwrap().unwrap_err().place(), "--index");
    assert!(csv::nth("letter.txt", "Dear reader,\n12 pages follow\n", 0).is_none());
}

#[test]
fn line_numbers_count_every_line() {
    let read = parse("x", &format!("puzzle,solution\n\n# note\n{PUZZLE}\n"), false).unwrap();
    assert_eq!(read.lines, [4]);
}

/// The error of the second line; the first line must survive with `skip_bad`.
fn reason(bad: &str) -> String {
    let file = format!("{PUZZLE},{SOLUTION}\n{bad}\n");
    let error = parse("some.csv", &file, false).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed);
    assert_eq!(error.place(), "some.csv, line 2");
    assert!(error.hint_text().is_some());
    let skipped = parse("some.csv", &file, true).unwrap();
    assert_eq!((skipped.set.len(), skipped.bad.len(), skipped.bad[0].line), (1, 1, 2));
    assert_eq!(skipped.bad[0].reason, error.got());
    error.got().to_string()
}

#[test]
fn every_mistake_has_its_reason() {
    let swap = |text: &str, at: usize, c: char| {
        text.chars().enumerate().map(|(i, d)| if i == at { c } else { d }).collect::<String>()
    };
    assert_eq!(reason(&PUZZLE[1..]), "puzzle: 80 cells instead of 81");
    assert_eq!(reason(&swap(PUZZLE, 3, 'x')), "puzzle: `x` at position 4 is no digit");
    assert_eq!(reason(&swap(PUZZLE, 3, '5')), "puzzle: the 5 at row 1, column 1 is given twice");
    assert_eq!(
        reason(&format!("{PUZZLE},{}", swap(SOLUTION, 0, '6'))),
        "solution: it has 6 where 5 is given, at row 1, column 1"
    );
    assert_eq!(reason(&format!("{PUZZLE},{}", swap(SOLUTION, 3, '9'))), "solution: it breaks the rules");
    let cornered = format!(".12345678{}9{}", ".".repeat(36), ".".repeat(35));
    assert_eq!(reason(&cornered), "puzzle: it has no solution");
    assert_eq!(reason("hello, you"), "puzzle: `h` at position 1 is no digit");
}

#[test]
fn all_bad_lines_are_counted() {
    let error = parse("x", &format!("1\n2\n{PUZZLE}\n3\n"), false).unwrap_err();
    assert_eq!(error.got(), "puzzle: 1 cells instead of 81 (2 more bad lines)");
}

#[test]
fn an_empty_file_is_refused_even_when_bad_lines_are_skipped() {
    for (text, skip) in [("", true), ("puzzle,solution\n", false), ("x\ny\n", true)] {
        assert_eq!(parse("x", text, skip).unwrap_err().expected(), "at least one puzzle");
    }
}

#[test]
fn a_missing_file_is_named() {
    let error = csv::read(std::path::Path::new("/nowhere/p.csv"), true).unwrap_err();
    assert_eq!((error.kind(), error.place()), (ErrorKind::Io, "/nowhere/p.csv"));
}

#[test]
fn a_stored_solution_of_an_ambiguous_puzzle_is_kept() {
    let blank = "0".repeat(81);
    let read = parse("x", &format!("{blank},{SOLUTION}\n"), false).unwrap();
    assert!(read.set.ambiguous[0]);
    assert_eq!(read.set.solutions[0], parse_board(SOLUTION).unwrap());
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_panic(text in "[0-9.,;\"\tpuzle \n\u{e9}]{0,300}", skip: bool) {
        let _ = parse("x", &text, skip);
    }
}
