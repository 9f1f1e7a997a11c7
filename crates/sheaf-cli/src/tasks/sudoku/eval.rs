//! Evaluates weights on a file of puzzles.

use clap::Args;
use sheaf_admm::Result;
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::metrics::Summary;
use sheaf_tasks::sudoku::task::{EvalReport, SudokuWeights, evaluate};

use crate::args::rounds;
use crate::progress::timed;
use crate::report::{Report, count, percent, rounded};
use crate::tasks::EvalRequest;
use crate::tasks::verbs::EvalOptions;

/// Options of `sheaf eval` for puzzles.
#[derive(Debug, Args)]
#[command(next_help_heading = "Sudoku")]
pub struct Options {
    /// Also solve in rounds, at most so many: after each the agents commit to the cells they are surest of and start
    /// over. Reported beside the answers at once, which are those of one negotiation
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
    let solve = |rounds: usize| {
        timed("solving puzzles", set.len(), |progress| {
            evaluate(&experiment.model, model, params, &set, &options, rounds, progress)
        })
    };
    let (all, seconds) = solve(1)?;
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
    report.iterations(all.mean_iterations(), &options, 1);
    report.pace(n, seconds);
    if let Some(most) = own.rounds {
        in_rounds(report, &solve(most)?.0, most);
    }
    Ok(())
}

/// The answers in several rounds, beside those at once.
fn in_rounds(report: &mut Report, all: &EvalReport, most: usize) {
    let (s, rounds) = (&all.summary, all.mean_rounds());
    let mut text = format!("{} solved, {} valid", percent(s.solved, s.boards), percent(s.valid, s.boards));
    if all.unique.boards < s.boards {
        text += &format!("; {} of the unique ones solved", percent(all.unique.solved, all.unique.boards));
    }
    report.add("rounds_solved", "in rounds", rounded(s.solved_rate(), 6), text);
    report.value("rounds_valid", rounded(s.valid_rate(), 6));
    report.value("rounds_unique_solved", rounded(all.unique.solved_rate(), 6));
    report.value("rounds_blank_accuracy", rounded(s.blank_accuracy(), 6));
    report.value("rounds_iterations", rounded(all.mean_iterations(), 3));
    report.add("rounds", "rounds", rounded(rounds, 3), format!("{rounds:.2} on average, at most {most}"));
    report.value("most_rounds", most);
}

/// The subset of puzzles with a unique solution, if there are others: only for these is the stored solution the only
/// correct answer.
fn unique(report: &mut Report, s: &Summary) {
    let text = format!("{} solved", percent(s.solved, s.boards));
    report.add("unique_solved", "unique ones", rounded(s.solved_rate(), 6), text);
    report.value("unique_samples", s.boards);
}
