//! Evaluates weights on a set of pictures, unchanged or shifted.

use std::time::Instant;

use clap::{Args, ValueEnum};
use serde_json::{Value, json};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::evaluate::{Classifier, EvalReport, evaluate_with};
use sheaf_tasks::mnist::shifts::Shift;

use super::PLAIN;
use crate::args::positive;
use crate::progress::Bar;
use crate::report::{Report, count, percent, rounded, significant};
use crate::tasks::EvalRequest;
use crate::tasks::verbs::EvalOptions;

/// Default number of draws of a random shift.
const DRAWS: usize = 5;

/// Options of `sheaf eval` for pictures.
#[derive(Debug, Args)]
#[command(next_help_heading = "Pictures")]
pub struct Options {
    /// Part of a set of pictures; test if not given
    #[arg(long, value_enum)]
    pub split: Option<SplitArg>,
    /// Use only the first N pictures
    #[arg(long, value_name = "N", value_parser = positive)]
    pub count: Option<usize>,
    /// A shift of the pictures: none, pad:PIXELS, drop:PROBABILITY or noise:DEVIATION; may be repeated
    #[arg(long, value_name = "SPEC")]
    pub shift: Vec<String>,
    /// All shifts of a table
    #[arg(long, value_enum, conflicts_with = "shift")]
    pub shifts: Option<ShiftSet>,
    /// Draws of a random shift; 5 if not given
    #[arg(long, value_name = "N", value_parser = positive)]
    pub draws: Option<usize>,
}

/// The two parts of a set of pictures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum SplitArg {
    /// Held-out pictures
    Test,
    /// Training pictures
    Train,
}

impl From<SplitArg> for Split {
    fn from(split: SplitArg) -> Self {
        if split == SplitArg::Test { Self::Test } else { Self::Train }
    }
}

/// Tables of shifts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum ShiftSet {
    /// The robustness table of the paper: none, three paddings, three dropouts, two noises
    Published,
}

impl EvalOptions for Options {
    fn check(&self) -> Result<()> {
        let shifts = self.all_shifts()?;
        if self.draws.is_some() && !shifts.iter().any(|shift| shift.is_random()) {
            let (want, got) = ("a shift that is drawn", "none; the result is the same each time");
            return Err(Error::new(ErrorKind::Unsupported, "--draws", want, got)
                .hint("add --shift drop:0.3 or --shift noise:0.1, or leave --draws out"));
        }
        Ok(())
    }
}

impl Options {
    /// The shifts to evaluate under, one evaluation each.
    fn all_shifts(&self) -> Result<Vec<Shift>> {
        match self.shifts {
            Some(ShiftSet::Published) => Ok(Shift::published().to_vec()),
            None if self.shift.is_empty() => Ok(vec![Shift::None]),
            None => self.shift.iter().map(|text| text.parse()).collect(),
        }
    }
}

/// One shift and its result.
struct Row {
    shift: Shift,
    scores: EvalReport,
    seconds: f64,
}

/// The results of all shifts.
pub(super) struct Rows(Vec<Row>);

/// Evaluates under every shift and adds a description of the evaluation to the report.
pub(super) fn evaluate(
    classifier: &mut impl Classifier,
    request: &EvalRequest,
    report: &mut Report,
) -> Result<Rows> {
    let own: Options = request.own.of()?;
    let split = own.split.map_or(Split::Test, Into::into);
    let whole = ImageSet::read(&request.data, split)?;
    let set = whole.first(own.count.unwrap_or(whole.len()));
    let shifts = own.all_shifts()?;
    let draws = |shift: Shift| if shift.is_random() { own.draws.unwrap_or(DRAWS) } else { 1 };
    let total: usize = shifts.iter().map(|&s| draws(s) * set.len()).sum();
    let bar = Bar::new("solving pictures", total as u64);
    let mut rows = Vec::new();
    for shift in shifts {
        let options = sheaf_tasks::mnist::evaluate::EvalOptions { shift, draws: draws(shift), ..PLAIN };
        let start = Instant::now();
        let scores = evaluate_with(classifier, &set, &options, &|n| bar.add(n))?;
        rows.push(Row { shift, scores, seconds: start.elapsed().as_secs_f64() });
    }
    bar.clear();
    report.value("split", split.name());
    let (n, h, w) = (set.len(), set.height, set.width);
    let of = if n < whole.len() { format!("the first {} of ", count(n)) } else { String::new() };
    report.line("pictures", format!("{of}{} of {h} × {w} pixels, {}", count(whole.len()), split.name()));
    report.value("samples", n).value("height", h).value("width", w).value("classes", set.classes);
    Ok(Rows(rows))
}

impl Rows {
    /// Adds accuracies and speed to the report.
    pub(super) fn add_to(&self, report: &mut Report) {
        match &self.0[..] {
            [row] => one(report, row),
            rows => several(report, rows),
        }
        let samples = self.0.iter().map(|row| row.scores.images * row.scores.correct.len()).sum();
        report.pace(samples, self.0.iter().map(|row| row.seconds).sum());
    }
}

impl Row {
    /// Accuracy and its spread between draws.
    fn text(&self) -> String {
        let (scores, n) = (&self.scores, self.scores.images);
        match scores.correct[..] {
            [right] => percent(right, n),
            _ => {
                let (mean, spread) = (100.0 * scores.accuracy(), 100.0 * scores.spread());
                format!("{mean:.2} ± {spread:.2} % ({} draws of {})", scores.correct.len(), count(n))
            }
        }
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        let scores = &self.scores;
        let each: Vec<Value> = scores.accuracies().map(|a| rounded(a, 6)).collect();
        vec![
            ("shift", self.shift.to_string().into()),
            ("accuracy", rounded(scores.accuracy(), 6)),
            ("accuracy_spread", rounded(scores.spread(), 6)),
            ("draws", scores.correct.len().into()),
            ("accuracies", each.into()),
        ]
    }
}

fn one(report: &mut Report, row: &Row) {
    if row.shift != Shift::None {
        report.line("shift", row.shift.to_string());
    }
    for (key, value) in row.values() {
        let (label, text) = if key == "accuracy" { ("right", row.text()) } else { ("", String::new()) };
        report.add(key, label, value, text);
    }
}

/// A table, with the accuracy of the undisturbed row as the overall accuracy.
fn several(report: &mut Report, rows: &[Row]) {
    for (i, row) in rows.iter().enumerate() {
        let rate = (row.scores.images * row.scores.correct.len()) as f64 / row.seconds.max(1e-9);
        let text = format!("{:<10}  {}, {} samples/s", row.shift.to_string(), row.text(), significant(rate));
        report.line(if i == 0 { "right" } else { "" }, text);
    }
    if let Some(plain) = rows.iter().find(|row| row.shift == Shift::None) {
        report.value("accuracy", rounded(plain.scores.accuracy(), 6));
    }
    let list = rows.iter().map(|row| {
        let rate = (row.scores.images * row.scores.correct.len()) as f64 / row.seconds.max(1e-9);
        let timed = [("seconds", rounded(row.seconds, 6)), ("samples_per_s", rounded(rate, 3))];
        let values = row.values().into_iter().chain(timed);
        json!(values.map(|(key, value)| (key.to_string(), value)).collect::<serde_json::Map<_, _>>())
    });
    report.value("shifts", list.collect::<Vec<Value>>());
}
