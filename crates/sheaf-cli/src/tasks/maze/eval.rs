//! Evaluates weights on a file of mazes.

use clap::Args;
use sheaf_admm::Result;
use sheaf_learn::model::evaluate::SolveOptions;
use sheaf_tasks::maze::data::MazeSet;
use sheaf_tasks::maze::task::{MazeWeights, solve, summarise};

use crate::progress::timed;
use crate::report::{Report, percent, rounded};
use crate::tasks::EvalRequest;
use crate::tasks::verbs::EvalOptions;

/// Options of `sheaf eval` for mazes.
#[derive(Debug, Args)]
#[command(next_help_heading = "Mazes")]
pub struct Options {
    /// Do not look for the first solving iteration: faster
    #[arg(long)]
    pub no_first_solve: bool,
}

impl EvalOptions for Options {}

pub(super) fn evaluate(weights: &MazeWeights, request: &EvalRequest, report: &mut Report) -> Result<()> {
    let (MazeWeights { experiment, model, params }, own) = (weights, request.own.of::<Options>()?);
    let set = MazeSet::read(&request.data)?;
    let options =
        SolveOptions { first_right: !own.no_first_solve, ..request.options(&experiment.iterations) };
    let (solved, seconds) = timed("solving mazes", set.len(), |progress| {
        solve(&experiment.model, model, params, &set, &options, progress)
    })?;
    let (s, n) = (summarise(&set, &solved), set.len());
    report.line("mazes", format!("{n} of {} × {} pixels", set.height, set.width));
    report.value("samples", n).value("height", set.height).value("width", set.width);
    report.rates((s.solved, s.solved_rate()), (s.valid, s.valid_rate()), n);
    report.value("connected", rounded(s.connected_rate(), 6));
    report.cells("cell_accuracy", "cells", s.cell_accuracy());
    let mean = solved.iter().map(|s| s.iterations).sum::<usize>() as f64 / n.max(1) as f64;
    report.iterations(mean, &options, 1);
    if options.first_right {
        first_solves(report, n, solved.iter().filter_map(|s| s.first_right).collect());
    }
    report.pace(n, seconds);
    Ok(())
}

/// The first iteration at which mazes were solved, over those that were solved at all.
fn first_solves(report: &mut Report, mazes: usize, mut firsts: Vec<usize>) {
    firsts.sort_unstable();
    let ever = firsts.len();
    let at = |part: f64| firsts.get(((ever as f64 * part) as usize).min(ever.saturating_sub(1)));
    let (median, late, last) = (at(0.5), at(0.95), firsts.last());
    let mean = (ever > 0).then(|| firsts.iter().sum::<usize>() as f64 / ever as f64);
    let text = match (mean, median, late, last) {
        (Some(mean), Some(median), Some(late), Some(last)) => {
            format!(
                "after {mean:.1} iterations on average; half by {median}, 95 % by {late}, the last by {last}"
            )
        }
        _ => "never".into(),
    };
    report.add("first_solve_mean", "first solved", mean.map(|m| rounded(m, 3)), text);
    report.value("first_solve_median", median.copied()).value("first_solve_p95", late.copied());
    report.value("first_solve_max", last.copied());
    let rate = ever as f64 / mazes.max(1) as f64;
    report.add("ever_solved", "ever solved", rounded(rate, 6), percent(ever, mazes));
}
