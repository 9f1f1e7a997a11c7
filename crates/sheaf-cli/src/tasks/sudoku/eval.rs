//! Weights against a file of puzzles: how many they solve, and one solve in every detail.

use std::time::Instant;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_tasks::sudoku::csv;
use sheaf_tasks::sudoku::evaluate::{EvalOptions, Settling, evaluate};
use sheaf_tasks::sudoku::metrics::{Summary, score};
use sheaf_tasks::sudoku::views::SLOTS;
use sheaf_tasks::sudoku::weights::SudokuWeights;
use sheaf_tasks::sudoku::{CLASSES, UNITS};

use crate::progress::Bar;
use crate::report::{Report, count, percent, rounded};
use crate::tasks::{EvalRequest, TraceArrays, TraceRequest};

pub(super) fn evaluate_file(weights: &SudokuWeights, request: &EvalRequest) -> Result<Report> {
    let set = csv::read(&request.data, false)?.set;
    let usual = request.iterations.unwrap_or(weights.experiment.iterations.eval);
    let options = EvalOptions {
        iterations: request.settle_within.unwrap_or(usual),
        settling: request.settle_within.map(|_| Settling::default()),
        rounds: request.rounds.unwrap_or(weights.experiment.iterations.rounds),
    };
    let bar = Bar::new("solving puzzles", set.len() as u64);
    let start = Instant::now();
    let all = evaluate(&weights.model, &weights.params, &set, &options, &|boards| bar.add(boards));
    let seconds = start.elapsed().as_secs_f64();
    bar.clear();
    let (s, n) = (&all.summary, set.len());
    let ambiguous = set.ambiguous.iter().filter(|&&a| a).count();
    let mut report = Report::new();
    report.value("task", "sudoku").value("data", request.data.display().to_string());
    let mut text = count(n);
    if ambiguous > 0 {
        text += &format!(", {} of them with more than one solution", count(ambiguous));
    }
    report.add("samples", "puzzles", n, text).value("ambiguous", ambiguous);
    report.add("solved", "solved", rounded(s.solved_rate(), 6), percent(s.solved, n));
    report.add("valid", "valid", rounded(s.valid_rate(), 6), percent(s.valid, n));
    report.value("accuracy", rounded(s.solved_rate(), 6));
    for (key, label, value) in
        [("cell_accuracy", "cells", s.cell_accuracy()), ("blank_accuracy", "blanks", s.blank_accuracy())]
    {
        report.add(key, label, rounded(value, 6), format!("{:.3} % right", 100.0 * value));
    }
    if ambiguous > 0 {
        unique(&mut report, &all.unique);
    }
    let mean = all.mean_iterations();
    let text = match options.settling {
        Some(_) => format!("{mean:.1} on average until settled, at most {}", options.iterations),
        None if options.rounds > 1 => format!("{mean:.1} on average, {} a round", options.iterations),
        None => options.iterations.to_string(),
    };
    report.add("iterations", "iterations", rounded(mean, 3), text);
    if options.rounds > 1 {
        let text = format!("{:.2} on average, at most {}", all.mean_rounds(), options.rounds);
        report.line("rounds", text);
    }
    report.value("rounds", rounded(all.mean_rounds(), 3)).value("most_rounds", options.rounds);
    report.pace(n, seconds);
    Ok(report)
}

/// The puzzles with one solution, where there are others: only their stored solution is the only right answer.
fn unique(report: &mut Report, s: &Summary) {
    let text = format!("{} solved", percent(s.solved, s.boards));
    report.add("unique_solved", "unique ones", rounded(s.solved_rate(), 6), text);
    report.value("unique_samples", s.boards);
}

pub(super) fn trace(weights: &SudokuWeights, request: &TraceRequest) -> Result<TraceArrays> {
    let SudokuWeights { experiment, model, params } = weights;
    let set = csv::read(&request.data, false)?.set;
    let index = request.index;
    if index >= set.len() {
        let want = format!("0 to {}, for the {} puzzles of the file", set.len() - 1, set.len());
        return Err(Error::new(ErrorKind::OutOfRange, "--index", want, index));
    }
    let k = request.iterations.unwrap_or(experiment.iterations.eval);
    let (puzzle, solution) = (&set.puzzles[index], &set.solutions[index]);
    let trace = model.trace(params, puzzle, k);
    let boards: Vec<u8> = trace.boards.as_flattened().to_vec();
    let predicted = trace.boards[k - 1];
    let score = score(puzzle, solution, &predicted);
    let mut report = Report::new();
    let text = format!("{index} of {}", request.data.display());
    report.value("task", "sudoku").add("index", "puzzle", index, text);
    let answer = if score.solved { "yes" } else { "no" };
    report.add("solved", "solved", score.solved, answer).value("valid", score.valid);
    report.add("agents", "agents", UNITS, UNITS.to_string()).add(
        "iterations",
        "iterations",
        k,
        k.to_string(),
    );
    let d_v = experiment.model.d_v;
    report.value("d_v", d_v);
    Ok(TraceArrays {
        floats: vec![
            ("x", vec![k, UNITS, d_v], trace.x),
            ("z", vec![k, UNITS, d_v], trace.z),
            ("u", vec![k, UNITS, d_v], trace.u),
            ("primal", vec![k, UNITS], trace.primal),
            ("dual", vec![k, UNITS], trace.dual),
            ("consistency", vec![k], trace.consistency),
            ("logits", vec![k, UNITS, SLOTS, CLASSES], trace.logits),
        ],
        bytes: vec![
            ("puzzle", vec![9, 9], puzzle.to_vec()),
            ("solution", vec![9, 9], solution.to_vec()),
            ("predicted", vec![9, 9], predicted.to_vec()),
            ("boards", vec![k, 9, 9], boards),
        ],
        report,
    })
}
