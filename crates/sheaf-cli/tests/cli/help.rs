//! Snapshots of the help texts.

use std::path::Path;

use super::support::{ok, sheaf};

#[test]
fn plain_sheaf_shows_help_that_leads_to_the_first_maze() {
    let text = ok(Path::new("."), "");
    assert!(text.contains("sheaf solve maze"));
    insta::assert_snapshot!("sheaf", text);
}

#[test]
fn every_command_has_help_with_an_example() {
    for command in [
        "solve",
        "solve maze",
        "solve sudoku",
        "solve mnist",
        "run",
        "explore",
        "intervene",
        "data",
        "data maze",
        "data sudoku",
        "data mnist",
        "train",
        "eval",
        "trace",
        "import",
        "export",
        "inspect",
        "bench",
        "doctor",
        "completions",
        "man",
    ] {
        let text = ok(Path::new("."), &format!("{command} --help"));
        assert!(text.contains(&format!("  sheaf {}", command.split(' ').next().unwrap())), "{text}");
        assert!(text.contains("Example"), "{text}");
        insta::assert_snapshot!(command.replace(' ', "_"), text);
    }
}

#[test]
fn an_unknown_command_is_a_usage_error() {
    sheaf(Path::new("."), "slove").assert().code(2);
    sheaf(Path::new("."), "solve mase").assert().code(2);
}
