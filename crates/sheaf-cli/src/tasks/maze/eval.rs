//! Weights against a file of mazes: how many they solve, and one solve in every detail.

use std::time::Instant;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_tasks::maze::CLASSES;
use sheaf_tasks::maze::data::MazeSet;
use sheaf_tasks::maze::evaluate::{EvalOptions, EvalReport, Settling, evaluate_each};
use sheaf_tasks::maze::metrics::{Judge, argmax, reassemble};
use sheaf_tasks::maze::watch;
use sheaf_tasks::maze::weights::MazeWeights;

use crate::progress::Bar;
use crate::report::{Report, percent, rounded};
use crate::tasks::{EvalRequest, TraceArrays, TraceRequest};

pub(super) fn evaluate(weights: &MazeWeights, request: &EvalRequest) -> Result<Report> {
    let set = MazeSet::read(&request.data)?;
    let usual = request.iterations.unwrap_or(weights.experiment.iterations.eval);
    let options = EvalOptions {
        iterations: request.settle_within.unwrap_or(usual),
        settling: request.settle_within.map(|_| Settling::default()),
        first_solve: request.first_solve,
    };
    let bar = Bar::new("solving mazes", set.len() as u64);
    let start = Instant::now();
    let each = evaluate_each(&weights.model, &weights.params, &set, &options, &|n| bar.add(n))?;
    let seconds = start.elapsed().as_secs_f64();
    bar.clear();
    let all = each.iter().copied().fold(EvalReport::default(), EvalReport::merge);
    let mut report = Report::new();
    let (s, n) = (&all.summary, set.len());
    report.value("task", "maze").value("data", request.data.display().to_string());
    report.line("mazes", format!("{n} of {} × {} pixels", set.height, set.width));
    report.value("samples", n).value("height", set.height).value("width", set.width);
    report.add("solved", "solved", rounded(s.solved_rate(), 6), percent(s.solved, n));
    report.add("valid", "valid", rounded(s.valid_rate(), 6), percent(s.valid, n));
    report.value("connected", rounded(s.connected_rate(), 6)).value("accuracy", rounded(s.solved_rate(), 6));
    let cells = s.cell_accuracy();
    report.add("cell_accuracy", "cells", rounded(cells, 6), format!("{:.3} % right", 100.0 * cells));
    let mean = all.mean_iterations();
    let text = match options.settling {
        Some(_) => format!("{mean:.1} on average until settled, at most {}", options.iterations),
        None => options.iterations.to_string(),
    };
    report.add("iterations", "iterations", rounded(mean, 3), text);
    if request.first_solve {
        first_solves(&mut report, &all, &each);
    }
    report.pace(n, seconds);
    Ok(report)
}

/// When mazes were solved for the first time, of those that ever were.
fn first_solves(report: &mut Report, all: &EvalReport, each: &[EvalReport]) {
    let mut firsts: Vec<usize> = each.iter().filter(|e| e.ever_solved > 0).map(|e| e.first_solve).collect();
    firsts.sort_unstable();
    let at =
        |part: f64| firsts.get(((firsts.len() as f64 * part) as usize).min(firsts.len().saturating_sub(1)));
    let (median, late, last) = (at(0.5), at(0.95), firsts.last());
    let text = match (all.mean_first_solve(), median, late, last) {
        (Some(mean), Some(median), Some(late), Some(last)) => {
            format!(
                "after {mean:.1} iterations on average; half by {median}, 95 % by {late}, the last by {last}"
            )
        }
        _ => "never".into(),
    };
    report.add("first_solve_mean", "first solved", all.mean_first_solve().map(|m| rounded(m, 3)), text);
    report.value("first_solve_median", median.copied()).value("first_solve_p95", late.copied());
    report.value("first_solve_max", last.copied());
    let rate = all.ever_solved as f64 / each.len() as f64;
    report.add("ever_solved", "ever solved", rounded(rate, 6), percent(all.ever_solved, each.len()));
}

pub(super) fn trace(weights: &MazeWeights, request: &TraceRequest) -> Result<TraceArrays> {
    let MazeWeights { experiment, model, params } = weights;
    let set = MazeSet::read(&request.data)?;
    let index = request.index;
    if index >= set.len() {
        let want = format!("0 to {}, for the {} mazes of the file", set.len() - 1, set.len());
        return Err(Error::new(ErrorKind::OutOfRange, "--index", want, index));
    }
    let k = request.iterations.unwrap_or(experiment.iterations.eval);
    let board = model.board(set.height, set.width)?;
    let (trace, logits) = watch::trace(model, params, &board, set.input(index), k)?;
    let (n, d_v) = (board.sheaf.agents(), experiment.model.d_v);
    let mut picture = vec![0.0; set.pixels() * CLASSES];
    let mut predicted = vec![0; set.pixels()];
    reassemble(&board.grid, &logits[(k - 1) * logits.len() / k..], &mut picture);
    argmax(&picture, &mut predicted);
    let score = Judge::default().score(set.input(index), set.label(index), &predicted, set.width);
    let mut report = Report::new();
    report.value("task", "maze").add(
        "index",
        "maze",
        index,
        format!("{index} of {}", request.data.display()),
    );
    let answer = if score.solved { "yes" } else { "no" };
    report.add("solved", "solved", score.solved, answer).value("valid", score.valid);
    report.add("agents", "agents", n, n.to_string()).add("iterations", "iterations", k, k.to_string());
    report.value("d_v", d_v);
    let tokens = |tokens: &[u8]| (vec![set.height, set.width], tokens.to_vec());
    let byte = |name, (shape, values)| (name, shape, values);
    Ok(TraceArrays {
        floats: vec![
            ("x", vec![k, n, d_v], trace.x),
            ("z", vec![k, n, d_v], trace.z),
            ("u", vec![k, n, d_v], trace.u),
            ("primal", vec![k, n], trace.primal),
            ("dual", vec![k, n], trace.dual),
            ("consistency", vec![k], trace.edge_rms),
            ("logits", vec![k, n, 3, 3, CLASSES], logits),
        ],
        bytes: vec![
            byte("input", tokens(set.input(index))),
            byte("label", tokens(set.label(index))),
            byte("predicted", tokens(&predicted)),
        ],
        report,
    })
}
