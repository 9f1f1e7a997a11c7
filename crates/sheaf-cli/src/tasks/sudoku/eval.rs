//! Evaluates weights on a file of puzzles.

use clap::Args;
use sheaf_admm::Result;
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::metrics::Summary;
use sheaf_tasks::sudoku::task::{SudokuWeights, evaluate};

use crate::args::rounds;
use crate::progress::timed;
use crate::report::{Report, count, percent, rounded};
use crate::tasks::EvalRequest;
use crate::tasks::verbs::EvalOptions;

/// Options of `sheaf eval` for puzzles.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sudoku")]
pub struct Options {
    /// Rounds of solving a puzzle, at most; the experiment's number if not given. After each the agents commit to the
    /// cells they are surest of
    #[arg(long, value_name = "R", value_parser = rounds)]
    pub rounds: Option<usize>,
}

impl EvalOptions for Options {}

pub(super) fn evaluate_file(
    weights: &SudokuWeights,
    request: &EvalRequest,
    report: &mut Report,
) -> Result<()> {
    let (SudokuWeights { experiment, model, params }, own) = (weights, request.own.of::<Options>()?);
    let set = csv::read(&request.data, false)?.set;
    let options = request.options(&experiment.iterations);
    let rounds = own.rounds.unwrap_or(experiment.iterations.rounds);
    let (all, seconds) = timed("solving puzzles", set.len(), |progress| {
        evaluate(&experiment.model, model, params, &set, &options, rounds, progress)
    })?;
    let (s, n) = (&all.summary, set.len());
    let ambiguous = set.ambiguous.iter().filter(|&&a| a).count();
    let mut text = count(n);
    if ambiguous > 0 {
        text += &format!(", {} of them with more than one solution", count(ambiguous));
    }
    report.add("samples", "puzzles", n, text).value("ambiguous", ambiguous);
    report.rates((s.solved, s.solved_rate()), (s.valid, s.valid_rate()), n);
    report.cells("cell_accuracy", "cells", s.cell_accuracy());
    report.cells("blank_accuracy", "blanks", s.blank_accuracy());
    if ambiguous > 0 {
        unique(report, &all.unique);
    }
    report.iterations(all.mean_iterations(), &options, rounds);
    if rounds > 1 {
        report.line("rounds", format!("{:.2} on average, at most {rounds}", all.mean_rounds()));
    }
    report.value("rounds", rounded(all.mean_rounds(), 3)).value("most_rounds", rounds);
    report.pace(n, seconds);
    Ok(())
}

/// The subset of puzzles with a unique solution, if there are others: only for these is the stored solution the only
/// correct answer.
fn unique(report: &mut Report, s: &Summary) {
    let text = format!("{} solved", percent(s.solved, s.boards));
    report.add("unique_solved", "unique ones", rounded(s.solved_rate(), 6), text);
    report.value("unique_samples", s.boards);
}
