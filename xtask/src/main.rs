//! Repository chores. `cargo xtask ci` runs everything CI checks, cheapest first.

mod ci;
mod files;
mod fixtures;
mod machete;
mod readme;
mod run;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask ci [--only STAGE]      everything CI checks, cheapest first, or one stage of it
cargo xtask ci --list              the stages and what they check
cargo xtask goldens                the golden tests alone; fails when there are no goldens
cargo xtask unsafe                 where unsafe code may stand, alone
cargo xtask fixtures [--check]     makes the numpy fixtures again (or compares them), in tools/.venv";

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let arguments: Vec<&str> = arguments.iter().map(String::as_str).collect();
    match dispatch(&arguments) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("error: {error:#}");
            ExitCode::FAILURE
        }
    }
}

fn dispatch(arguments: &[&str]) -> Result<()> {
    match arguments {
        [] | ["help" | "--help" | "-h"] => {
            println!("{HELP}");
            Ok(())
        }
        ["ci"] => ci::all(),
        ["ci", "--list"] => {
            ci::list();
            Ok(())
        }
        ["ci", "--only", stage] => ci::only(stage),
        ["goldens"] => ci::goldens(),
        ["unsafe"] => files::check_unsafe_code(),
        ["fixtures"] => fixtures::make(&[]),
        ["fixtures", "--check"] => fixtures::make(&["--check"]),
        other => bail!("unknown arguments {other:?}\n{HELP}"),
    }
}
