//! The stages of CI: a table, cheapest first, and the loop over it.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::install::Needs;
use crate::run::{cargo, check, root};
use crate::{browser, deny, files, machete, mpi, package, python, readme};

struct Stage {
    name: &'static str,
    what: &'static str,
    run: fn() -> Result<Outcome>,
}

enum Outcome {
    Done,
    NotRun(String),
}

const STAGES: &[Stage] = &[
    Stage { name: "files", what: "file lengths, places of unsafe code and goldens, host names", run: files },
    Stage { name: "fmt", what: "cargo fmt --check", run: fmt },
    Stage { name: "machete", what: "no dependency that nothing uses", run: unused_dependencies },
    Stage {
        name: "deny",
        what: "licences, sources and duplicate versions of dependencies",
        run: dependencies,
    },
    Stage { name: "clippy", what: "clippy on everything, warnings are errors", run: clippy },
    Stage { name: "test", what: "all tests, doc tests included", run: test },
    Stage { name: "simd-off", what: "all tests once more, as on a CPU without our kernels", run: simd_off },
    Stage { name: "goldens", what: "comparison with the authors' arrays, where they are", run: golden_tests },
    Stage {
        name: "python",
        what: "the Python package: a fresh installation, its tests, examples and notebooks",
        run: python,
    },
    Stage { name: "package", what: "what the published crates contain", run: packages },
    Stage { name: "docs", what: "documentation, warnings are errors", run: docs },
    Stage { name: "readme", what: "the README's commands marked `sh ci`", run: readme_commands },
    Stage { name: "browser", what: "the page of `sheaf explore` in chromium", run: page },
    Stage { name: "mpi", what: "several processes under mpirun: same bits, faults, training", run: ranks },
];

/// Prints the table.
pub fn list() {
    for stage in STAGES {
        println!("{:<10} {}", stage.name, stage.what);
    }
}

/// Runs every stage; stops at the first that fails.
pub fn all() -> Result<()> {
    let mut done: Vec<(&Stage, Outcome, Duration)> = Vec::new();
    for stage in STAGES {
        eprintln!("== {}: {}", stage.name, stage.what);
        let start = Instant::now();
        let outcome = (stage.run)();
        let took = start.elapsed();
        match outcome {
            Ok(outcome) => done.push((stage, outcome, took)),
            Err(error) => {
                summary(&done);
                eprintln!("{:<10} failed after {:.1} s", stage.name, took.as_secs_f64());
                let hint = format!("hint: `cargo xtask ci --only {}` runs this stage alone", stage.name);
                bail!("{error:#}\n{hint}");
            }
        }
        eprintln!("== {}: {:.1} s\n", stage.name, took.as_secs_f64());
    }
    summary(&done);
    Ok(())
}

/// Runs one stage.
pub fn only(name: &str) -> Result<()> {
    let names = || STAGES.iter().map(|stage| stage.name).collect::<Vec<_>>().join(", ");
    let stage = STAGES.iter().find(|stage| stage.name == name);
    let stage = stage.with_context(|| format!("no stage `{name}`; there are {}", names()))?;
    if let Outcome::NotRun(why) = (stage.run)()? {
        eprintln!("{name}: not run: {why}");
    }
    Ok(())
}

/// The golden tests; missing goldens are a failure where they are expected.
pub fn goldens() -> Result<()> {
    match golden_tests()? {
        Outcome::Done => Ok(()),
        Outcome::NotRun(why) => bail!("the goldens were not run: {why}"),
    }
}

fn summary(done: &[(&Stage, Outcome, Duration)]) {
    let total: f64 = done.iter().map(|(_, _, took)| took.as_secs_f64()).sum();
    for (stage, outcome, took) in done {
        match outcome {
            Outcome::Done => eprintln!("{:<10} ok       {:>7.1} s", stage.name, took.as_secs_f64()),
            Outcome::NotRun(why) => eprintln!("{:<10} NOT RUN  {why}", stage.name),
        }
    }
    eprintln!("{:<10}          {total:>7.1} s", "total");
}

fn files() -> Result<Outcome> {
    files::check_all()?;
    Ok(Outcome::Done)
}

fn fmt() -> Result<Outcome> {
    check(&mut cargo(&["fmt", "--all", "--check"]))?;
    Ok(Outcome::Done)
}

fn unused_dependencies() -> Result<Outcome> {
    Ok(if machete::run()? { Outcome::Done } else { Outcome::NotRun(machete::MISSING.into()) })
}

fn dependencies() -> Result<Outcome> {
    deny::run()?;
    Ok(Outcome::Done)
}

fn packages() -> Result<Outcome> {
    package::list()?;
    Ok(Outcome::Done)
}

fn clippy() -> Result<Outcome> {
    let features = golden_features();
    check(&mut cargo(&[
        "clippy",
        "--workspace",
        "--all-targets",
        "--features",
        &features,
        "--",
        "-D",
        "warnings",
    ]))?;
    Ok(Outcome::Done)
}

fn test() -> Result<Outcome> {
    check(&mut tests(&[])?)?;
    Ok(Outcome::Done)
}

fn simd_off() -> Result<Outcome> {
    check(tests(&["--tests"])?.env("SHEAF_SIMD", "off"))?;
    Ok(Outcome::Done)
}

/// `cargo test` of the whole workspace: for one package cargo would build the dependencies again with fewer features.
/// Where the goldens are, with their features from the first build on, for the same reason.
fn tests(more: &[&str]) -> Result<Command> {
    let features = golden_features();
    let mut arguments = vec!["test", "--workspace"];
    let directory = goldens_directory()?;
    if directory.is_some() {
        arguments.extend(["--features", &features]);
    }
    let mut command = cargo(&[&arguments, more].concat());
    command.envs(directory.map(|directory| ("SHEAF_GOLDENS", directory)));
    Ok(command)
}

fn golden_tests() -> Result<Outcome> {
    let Some(directory) = goldens_directory()? else {
        return Ok(Outcome::NotRun("there is no shared/goldens beside this repository".into()));
    };
    files::check_golden_targets()?;
    let features = golden_features();
    let arguments = ["test", "--workspace", "--features", &features, "--test", "golden*"];
    check(cargo(&arguments).env("SHEAF_GOLDENS", directory))?;
    Ok(Outcome::Done)
}

/// The directory of the goldens, or `None` in a clone that cannot have them. If the directory should exist and does
/// not, that is an error: otherwise a wrong path would look like success.
fn goldens_directory() -> Result<Option<PathBuf>> {
    if let Some(directory) = std::env::var_os("SHEAF_GOLDENS") {
        let directory = PathBuf::from(directory);
        if !directory.is_dir() {
            bail!("SHEAF_GOLDENS names {}, which is no directory", directory.display());
        }
        // Tests run in their own package's directory, where a relative path would resolve differently.
        return Ok(Some(directory.canonicalize()?));
    }
    let shared = root().join("../shared");
    if !shared.is_dir() {
        return Ok(None);
    }
    let directory = shared.join("goldens");
    if !directory.is_dir() {
        bail!("{} exists, but {} does not", shared.display(), directory.display());
    }
    Ok(Some(directory.canonicalize()?))
}

/// The features of the packages with golden tests, as cargo expects them.
fn golden_features() -> String {
    files::GOLDEN_PACKAGES.map(|package| format!("{package}/goldens")).join(",")
}

fn python() -> Result<Outcome> {
    Ok(match python::tests(goldens_directory()?)? {
        None => Outcome::Done,
        Some(why) => Outcome::NotRun(why),
    })
}

/// The tests of the Python package with current packages.
pub fn python_full() -> Result<()> {
    python::full(goldens_directory()?)
}

fn docs() -> Result<Outcome> {
    check(cargo(&["doc", "--workspace", "--no-deps"]).env("RUSTDOCFLAGS", "-D warnings"))?;
    Ok(Outcome::Done)
}

fn page() -> Result<Outcome> {
    // The tests of the tool bring its binary; `cargo build` would compile it again with fewer features.
    Ok(match browser::run(&mut tests(&["--test", "cli", "--no-run"])?)? {
        Needs::Met => Outcome::Done,
        Needs::Missing(what) => Outcome::NotRun(what),
    })
}

/// Last, because it builds the tool once more, with MPI.
fn ranks() -> Result<Outcome> {
    let mut all = "sheaf-cli/mpi,sheaf-mpi/mpi".to_string();
    if goldens_directory()?.is_some() {
        // The features of the other tests, so that only what links MPI is built again.
        all = format!("{all},{}", golden_features());
    }
    Ok(match mpi::tests(&mut cargo(&["test", "--workspace", "--features", &all, "--test", "mpi"]))? {
        Needs::Met => Outcome::Done,
        Needs::Missing(what) => Outcome::NotRun(what),
    })
}

fn readme_commands() -> Result<Outcome> {
    readme::run_commands()?;
    Ok(Outcome::Done)
}
