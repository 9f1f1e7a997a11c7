//! Every reader of untrusted input as a function on bytes: it may refuse them, it must not panic.
//!
//! | module | holds |
//! | --- | --- |
//! | `readers` | the functions, called by cargo-fuzz (`fuzz/`) and by the stable test harness (`tests/readers.rs`) |
//! | `seeds` | valid and nearly valid inputs of each reader, to start from |
//! | `problems` | readers and seeds of problem files and their matrices |
//! | `mutate` | a deterministic mutator |
//!
//! A new reader is one function, one list of seeds and one row of [`TARGETS`]; for cargo-fuzz one file of two lines.

pub mod mutate;
mod problems;
mod readers;
mod seeds;

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A reader with inputs to start from.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    /// Its name, also that of the binary of cargo-fuzz.
    pub name: &'static str,
    /// Reads bytes and ignores the outcome.
    pub read: fn(&[u8]),
    /// Valid and nearly valid inputs.
    pub seeds: fn() -> Vec<Vec<u8>>,
}

/// All readers.
pub const TARGETS: &[Target] = &[
    Target { name: "maze_text", read: readers::maze_text, seeds: seeds::maze_text },
    Target { name: "png", read: readers::png, seeds: seeds::png },
    Target { name: "npz", read: readers::npz, seeds: seeds::npz },
    Target { name: "sudoku_text", read: readers::sudoku_text, seeds: seeds::sudoku_text },
    Target { name: "sudoku_csv", read: readers::sudoku_csv, seeds: seeds::sudoku_csv },
    Target { name: "idx", read: readers::idx, seeds: seeds::idx },
    Target { name: "weights", read: readers::weights, seeds: seeds::weights },
    Target { name: "experiment", read: readers::experiment, seeds: seeds::experiment },
    Target { name: "script", read: readers::script, seeds: seeds::script },
    Target { name: "problem_toml", read: problems::toml, seeds: problems::toml_seeds },
    Target { name: "problem_json", read: problems::json, seeds: problems::json_seeds },
    Target { name: "matrix_npy", read: problems::npy, seeds: problems::npy_seeds },
    Target { name: "matrix_npz", read: problems::npz, seeds: problems::npz_seeds },
    Target { name: "matrix_market", read: problems::market, seeds: problems::market_seeds },
];

/// The target of that name.
pub fn target(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}

/// Reads bytes with the target of that name, for cargo-fuzz.
pub fn read(name: &str, bytes: &[u8]) {
    match target(name) {
        Some(target) => (target.read)(bytes),
        None => panic!("no reader `{name}`"),
    }
}

/// Writes the seeds of every reader to `folder/NAME/`, the corpus that cargo-fuzz starts from.
pub fn write_corpus(folder: &std::path::Path) -> std::io::Result<()> {
    for target in TARGETS {
        let folder = folder.join(target.name);
        std::fs::create_dir_all(&folder)?;
        for (i, seed) in (target.seeds)().iter().enumerate() {
            std::fs::write(folder.join(format!("seed-{i}")), seed)?;
        }
    }
    Ok(())
}

/// Reads mutated seeds, cases `first` to `first + cases` − 1. Returns the first case whose reader panicked, with its
/// bytes.
pub fn hammer(target: &Target, first: u64, cases: u64) -> Result<(), (u64, Vec<u8>)> {
    let seeds = (target.seeds)();
    for case in first..first + cases {
        let bytes = mutate::case(&seeds, case);
        if catch_unwind(AssertUnwindSafe(|| (target.read)(&bytes))).is_err() {
            return Err((case, bytes));
        }
    }
    Ok(())
}
