//! Numbers in arguments: at least one, and at most what can be meant. Sizes are refused here, before anything of that
//! size is allocated.

use sheaf_admm::Error;
use sheaf_admm::z_update::OutOfStep;
use sheaf_learn::limits::{MAX_BATCH, MAX_ITERATIONS};
use sheaf_tasks::sudoku::CELLS;

/// Most threads: more than any machine has cores.
const MAX_THREADS: usize = 1024;

/// Most agents of a benchmark.
const MAX_AGENTS: usize = 10_000_000;

/// A count from 1 to `most`.
fn up_to(text: &str, most: usize) -> Result<usize, String> {
    match text.parse::<usize>() {
        Ok(0) => Err("expected 1 or more".into()),
        Ok(count) if count > most => Err(format!("expected at most {most}")),
        Ok(count) => Ok(count),
        Err(e) if *e.kind() == std::num::IntErrorKind::PosOverflow => Err(format!("expected at most {most}")),
        Err(_) => Err("expected a whole number, 1 or more".into()),
    }
}

/// A count of at least one.
pub(crate) fn positive(text: &str) -> Result<usize, String> {
    up_to(text, usize::MAX)
}

/// Iterations of a solve.
pub(crate) fn iterations(text: &str) -> Result<usize, String> {
    up_to(text, MAX_ITERATIONS)
}

/// Samples in a batch.
pub(crate) fn batch(text: &str) -> Result<usize, String> {
    up_to(text, MAX_BATCH)
}

/// Agents of a benchmark.
pub(crate) fn agents(text: &str) -> Result<usize, String> {
    up_to(text, MAX_AGENTS)
}

/// Threads.
pub(crate) fn threads(text: &str) -> Result<usize, String> {
    up_to(text, MAX_THREADS)
}

/// A seed of a run.
pub(crate) fn seed(text: &str) -> Result<u64, String> {
    text.parse().map_err(|_| "expected whole numbers with commas between them, such as 42,123,456".into())
}

/// How far agents are out of step.
pub(crate) fn out_of_step(text: &str) -> Result<OutOfStep, String> {
    text.parse().map_err(|error: Error| format!("expected {}, got {}", error.expected(), error.got()))
}

/// Rounds of a Sudoku: each commits to one cell at least.
pub(crate) fn rounds(text: &str) -> Result<usize, String> {
    up_to(text, CELLS)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_without_meaning_are_refused_by_size() {
        assert_eq!(threads("8"), Ok(8));
        for (parsed, want) in [
            (threads("100000"), "expected at most 1024"),
            (iterations("1000000000000000000"), "expected at most 1000000"),
            (batch("99999999999999999999999"), "expected at most 65536"),
            (rounds("82"), "expected at most 81"),
            (positive("0"), "expected 1 or more"),
            (positive("-1"), "expected a whole number, 1 or more"),
        ] {
            assert_eq!(parsed, Err(want.to_string()));
        }
    }
}
