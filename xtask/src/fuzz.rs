//! Longer runs of what CI does briefly: mutated input, and kills.

use anyhow::{Context, Result};

use crate::run::{cargo, check};

/// Runs so many mutated inputs through every reader, or through one.
pub fn readers(cases: &str, reader: Option<&str>) -> Result<()> {
    cases.parse::<u64>().context("the number of cases")?;
    let mut arguments = vec!["test", "--release", "-p", "sheaf-fuzz", "--test", "readers", "--"];
    arguments.extend(["--nocapture", reader.unwrap_or("never_panics")]);
    check(cargo(&arguments).env("SHEAF_FUZZ_CASES", cases))
}

/// Kills a training of each task so many times.
pub fn kills(count: &str) -> Result<()> {
    count.parse::<u64>().context("the number of kills")?;
    let arguments =
        ["test", "--release", "-p", "sheaf-cli", "--test", "cli", "--", "--nocapture", "a_killed_training"];
    check(cargo(&arguments).env("SHEAF_KILLS", count))
}
