//! Mutated input never makes a reader panic, and never takes much memory.
//!
//! `SHEAF_FUZZ_CASES` sets the number of cases per reader (20,000 if not given), `SHEAF_FUZZ_FIRST` the first one.

use sheaf_fuzz::{TARGETS, Target, hammer, target};

fn number(name: &str, usual: u64) -> u64 {
    std::env::var(name).ok().map_or(usual, |text| text.parse().unwrap_or_else(|_| panic!("{name}={text}")))
}

/// Runs all cases of a reader; a finding is written to a file and named.
fn survives(name: &str) {
    let target: &Target = target(name).unwrap();
    let (first, cases) = (number("SHEAF_FUZZ_FIRST", 0), number("SHEAF_FUZZ_CASES", 20_000));
    let start = std::time::Instant::now();
    if let Err((case, bytes)) = hammer(target, first, cases) {
        let path = std::env::temp_dir().join(format!("sheaf-fuzz-{name}-{case}"));
        std::fs::write(&path, &bytes).unwrap();
        panic!("{name}: case {case} panicked; its {} bytes are in {}", bytes.len(), path.display());
    }
    println!("{name}: {cases} cases in {:.1} s", start.elapsed().as_secs_f64());
}

macro_rules! readers {
    ($($name:ident)*) => {
        const TESTED: &[&str] = &[$(stringify!($name)),*];
        mod never_panics { $(#[test] fn $name() { super::survives(stringify!($name)); })* }
    };
}

readers! {
    maze_text png npz sudoku_text sudoku_csv idx weights experiment
    script problem_toml problem_json matrix_npy matrix_npz matrix_market
}

#[test]
fn every_reader_is_tested_and_has_seeds_that_differ_from_nothing() {
    let names: Vec<&str> = TARGETS.iter().map(|target| target.name).collect();
    assert_eq!(names, TESTED);
    for target in TARGETS {
        let seeds = (target.seeds)();
        assert!(!seeds.is_empty() && seeds.iter().all(|seed| !seed.is_empty()), "{}", target.name);
    }
}
