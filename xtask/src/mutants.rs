//! Mutation testing: cargo-mutants on a seeded sample of the solver and the trainer.
//!
//! A mutant is the code with one expression changed; it survives if all tests pass. Every mutant costs an incremental
//! build and the tests of its package, so that a sample of 300 takes hours. The work happens in a clone of the last
//! commit, `target/mutants`, whose build directory stays warm from one run to the next.

use std::path::PathBuf;
use std::process::Stdio;

use anyhow::{Context, Result, bail};

use crate::run::{cargo, check, command, root};

/// What is mutated.
const FILES: [&str; 5] = [
    "crates/sheaf-admm/src/sheaf/**/*.rs",
    "crates/sheaf-admm/src/x_update/**/*.rs",
    "crates/sheaf-admm/src/z_update/**/*.rs",
    "crates/sheaf-admm/src/admm/**/*.rs",
    "crates/sheaf-learn/src/train/**/*.rs",
];

/// The message if the tool is missing.
const MISSING: &str = "cargo-mutants is missing: `cargo install cargo-mutants --locked`";

/// Tests a sample of `count` mutants, drawn with `seed`: the same seed gives the same mutants of the same code.
pub fn run(count: &str, seed: &str) -> Result<()> {
    let count: usize = count.parse().context("the number of mutants")?;
    let seed: u64 = seed.parse().context("the seed of the sample")?;
    let tree = clone()?;
    let mut list = cargo(&["mutants", "--list"]);
    files(list.current_dir(&tree));
    let output = list.stderr(Stdio::null()).output()?;
    if !output.status.success() {
        bail!("{MISSING}");
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let all: Vec<&str> = text.lines().collect();
    let chosen = sample(&all, count, seed);
    eprintln!("{} of {} mutants, seed {seed}", chosen.len(), all.len());
    let mut command = cargo(&["mutants", "--in-place", "--baseline", "run", "--timeout-multiplier", "3"]);
    files(command.current_dir(&tree).env_remove("CARGO_TARGET_DIR"));
    for mutant in chosen {
        command.args(["--re", &format!("^{}$", escaped(mutant))]);
    }
    check(command.args(["--", "--tests"]))
}

/// A clone of the last commit, brought up to date.
fn clone() -> Result<PathBuf> {
    let tree = root().join("target/mutants");
    if !tree.join(".git").is_dir() {
        std::fs::create_dir_all(&tree)?;
        check(command("git").args(["clone", "--quiet", "--local", "."]).arg(&tree))?;
    }
    let head = command("git").args(["rev-parse", "HEAD"]).output()?;
    let head = String::from_utf8_lossy(&head.stdout).trim().to_string();
    for arguments in [["fetch", "--quiet", "origin"], ["reset", "--hard", &head]] {
        check(command("git").current_dir(&tree).args(arguments))?;
    }
    Ok(tree)
}

fn files(command: &mut std::process::Command) {
    FILES.iter().for_each(|file| {
        command.args(["--file", file]);
    });
}

/// `count` of the lines, by the order of a hash of seed and line.
fn sample<'a>(all: &[&'a str], count: usize, seed: u64) -> Vec<&'a str> {
    let hash = |line: &str| {
        line.bytes().fold(seed ^ 0xCBF2_9CE4_8422_2325, |hash, byte| {
            (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(17)
        })
    };
    let mut chosen = all.to_vec();
    chosen.sort_by_key(|line| (hash(line), *line));
    chosen.truncate(count);
    chosen
}

/// A text as a regular expression that matches nothing else.
fn escaped(text: &str) -> String {
    text.chars().flat_map(|c| if r"\.+*?()|[]{}^$".contains(c) { vec!['\\', c] } else { vec![c] }).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sample_is_the_same_for_the_same_seed_and_differs_for_another() {
        let lines: Vec<String> = (0..100).map(|i| format!("src/a.rs:{i}: replace + with -")).collect();
        let all: Vec<&str> = lines.iter().map(String::as_str).collect();
        assert_eq!(sample(&all, 10, 1), sample(&all, 10, 1));
        assert_ne!(sample(&all, 10, 1), sample(&all, 10, 2));
        assert_eq!(sample(&all, 1000, 1).len(), 100);
        assert_eq!(escaped("a.rs:1: replace + with *"), "a\\.rs:1: replace \\+ with \\*");
    }
}
