//! Repository chores. `cargo xtask ci` runs everything CI checks, cheapest first.

mod browser;
mod card;
mod ci;
mod deny;
mod files;
mod fixtures;
mod fuzz;
mod install;
mod machete;
mod mpi;
mod mutants;
mod package;
mod python;
mod readme;
mod run;

use std::process::ExitCode;

use anyhow::{Result, bail};

const HELP: &str = "\
cargo xtask ci [--only STAGE]      everything CI checks, cheapest first, or one stage of it
cargo xtask ci --list              the stages and what they check
cargo xtask goldens                the golden tests alone; fails when there are no goldens
cargo xtask unsafe                 where unsafe code may stand, alone
cargo xtask package                builds every published crate from its package (slow)
cargo xtask fuzz CASES [READER]    mutated input for every reader, or one, in a release build
cargo xtask load [SECONDS]         page requests and solves against a release build of `sheaf explore`
cargo xtask gif                    the GIF of the page in the README, from a real browser
cargo xtask kills COUNT            kills a training of each task COUNT times and compares the weights
cargo xtask mutants COUNT [SEED]   a seeded sample of mutants of solver and trainer, in one build
cargo xtask card [--check]         writes the model card of the weights that ship (or compares it)
cargo xtask wheel                  a wheel of the Python package, in target/wheels
cargo xtask python full            its tests with current packages: torch, jax, numpy (fetches 3 GB)
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
        ["package"] => package::verify(),
        ["fuzz", cases] => fuzz::readers(cases, None),
        ["fuzz", cases, reader] => fuzz::readers(cases, Some(reader)),
        ["load"] => browser::load("60"),
        ["load", seconds] => browser::load(seconds),
        ["gif"] => browser::gif(),
        ["kills", count] => fuzz::kills(count),
        ["mutants", count] => mutants::run(count, "1"),
        ["mutants", count, seed] => mutants::run(count, seed),
        ["card"] => card::make(false),
        ["card", "--check"] => card::make(true),
        ["wheel"] => python::wheel(),
        ["python", "full"] => ci::python_full(),
        ["fixtures"] => fixtures::make(&[]),
        ["fixtures", "--check"] => fixtures::make(&["--check"]),
        other => bail!("unknown arguments {other:?}\n{HELP}"),
    }
}
