//! Weights against a set of pictures: how many they tell right, as they are or shifted, and one solve in every detail.

use std::time::Instant;

use serde_json::{Value, json};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_tasks::baselines::cnn::experiment::CnnWeights;
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::evaluate::{EvalOptions, EvalReport, evaluate};
use sheaf_tasks::mnist::metrics::vote;
use sheaf_tasks::mnist::shifts::Shift;
use sheaf_tasks::mnist::watch;
use sheaf_tasks::mnist::weights::MnistWeights;

use crate::progress::Bar;
use crate::report::{Report, count, percent, rounded, significant};
use crate::tasks::{EvalRequest, TraceArrays, TraceRequest};

/// Draws of a random shift if nobody says how many.
const DRAWS: usize = 5;

pub(super) fn agents(weights: &MnistWeights, request: &EvalRequest) -> Result<Report> {
    let k = request.iterations.unwrap_or(weights.experiment.iterations.eval);
    all("mnist", request, Some(k), &|set, options, progress| {
        evaluate(&weights.model, &weights.params, set, options, progress)
    })
}

pub(super) fn network(weights: &CnnWeights, request: &EvalRequest) -> Result<Report> {
    if request.iterations.is_some() {
        return Err(Error::new(ErrorKind::Unsupported, "--iterations", "weights of agents", "a network")
            .hint("a convolutional network tells a picture in one go; leave the option out"));
    }
    all("mnist-cnn", request, None, &|set, options, progress| weights.evaluate(set, options, progress))
}

/// Whatever tells pictures apart.
type Judge<'a> = &'a dyn Fn(&ImageSet, &EvalOptions, &(dyn Fn(usize) + Sync)) -> Result<EvalReport>;

/// One shift and what it did.
struct Row {
    shift: Shift,
    told: EvalReport,
    seconds: f64,
}

fn all(
    task: &'static str,
    request: &EvalRequest,
    iterations: Option<usize>,
    judge: Judge<'_>,
) -> Result<Report> {
    request.no_settling(task)?;
    request.no_rounds(task)?;
    let pictures = &request.pictures;
    let split = pictures.split.unwrap_or(Split::Test);
    let whole = ImageSet::read(&request.data, split)?;
    let set = whole.first(pictures.count.unwrap_or(whole.len()));
    let shifts = if pictures.shifts.is_empty() { &[Shift::None][..] } else { &pictures.shifts };
    let draws = |shift: Shift| if shift.is_random() { pictures.draws.unwrap_or(DRAWS) } else { 1 };
    let total: usize = shifts.iter().map(|&s| draws(s) * set.len()).sum();
    let bar = Bar::new("solving pictures", total as u64);
    let mut rows = Vec::new();
    for &shift in shifts {
        let options =
            EvalOptions { iterations: iterations.unwrap_or(0), shift, draws: draws(shift), seed: 0 };
        let start = Instant::now();
        let told = judge(&set, &options, &|n| bar.add(n))?;
        rows.push(Row { shift, told, seconds: start.elapsed().as_secs_f64() });
    }
    bar.clear();
    let mut report = Report::new();
    report.value("task", task).value("data", request.data.display().to_string());
    report.value("split", split.name());
    let (n, h, w) = (set.len(), set.height, set.width);
    let of = if n < whole.len() { format!("the first {} of ", count(n)) } else { String::new() };
    report.line("pictures", format!("{of}{} of {h} × {w} pixels, {}", count(whole.len()), split.name()));
    report.value("samples", n).value("height", h).value("width", w).value("classes", set.classes);
    report.add("iterations", "iterations", iterations, iterations.map_or(String::new(), |k| k.to_string()));
    match &rows[..] {
        [row] => one(&mut report, row),
        rows => several(&mut report, rows),
    }
    report.pace(total, rows.iter().map(|row| row.seconds).sum());
    Ok(report)
}

impl Row {
    /// Accuracy, and how much it differs from draw to draw.
    fn text(&self) -> String {
        let (told, n) = (&self.told, self.told.images);
        match told.correct[..] {
            [right] => percent(right, n),
            _ => {
                let (mean, spread) = (100.0 * told.accuracy(), 100.0 * told.spread());
                format!("{mean:.2} ± {spread:.2} % ({} draws of {})", told.correct.len(), count(n))
            }
        }
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        let told = &self.told;
        let each: Vec<Value> = told.accuracies().map(|a| rounded(a, 6)).collect();
        vec![
            ("shift", self.shift.to_string().into()),
            ("accuracy", rounded(told.accuracy(), 6)),
            ("accuracy_spread", rounded(told.spread(), 6)),
            ("draws", told.correct.len().into()),
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

/// A table, and the undisturbed row's accuracy for all.
fn several(report: &mut Report, rows: &[Row]) {
    for (i, row) in rows.iter().enumerate() {
        let rate = (row.told.images * row.told.correct.len()) as f64 / row.seconds.max(1e-9);
        let text = format!("{:<10}  {}, {} samples/s", row.shift.to_string(), row.text(), significant(rate));
        report.line(if i == 0 { "right" } else { "" }, text);
    }
    if let Some(plain) = rows.iter().find(|row| row.shift == Shift::None) {
        report.value("accuracy", rounded(plain.told.accuracy(), 6));
    }
    let list = rows.iter().map(|row| {
        let rate = (row.told.images * row.told.correct.len()) as f64 / row.seconds.max(1e-9);
        let timed = [("seconds", rounded(row.seconds, 6)), ("samples_per_s", rounded(rate, 3))];
        let values = row.values().into_iter().chain(timed);
        json!(values.map(|(key, value)| (key.to_string(), value)).collect::<serde_json::Map<_, _>>())
    });
    report.value("shifts", list.collect::<Vec<Value>>());
}

pub(super) fn trace(weights: &MnistWeights, request: &TraceRequest) -> Result<TraceArrays> {
    let MnistWeights { experiment, model, params } = weights;
    let set = ImageSet::read(&request.data, Split::Test)?;
    let index = request.index;
    if index >= set.len() {
        let want = format!("0 to {}, for the {} test pictures of the set", set.len() - 1, set.len());
        return Err(Error::new(ErrorKind::OutOfRange, "--index", want, index));
    }
    let k = request.iterations.unwrap_or(experiment.iterations.eval);
    let board = model.board(set.height, set.width)?;
    let mut image = vec![0.0; set.pixels()];
    set.write_image(index, &mut image);
    let (trace, logits) = watch::trace(model, params, &board, &image, k)?;
    let (n, d_v, classes) = (board.sheaf.agents(), experiment.model.d_v, model.classes());
    let mut votes = vec![0.0; classes];
    let (class, label) = (vote(&logits[(k - 1) * n * classes..], &mut votes), set.labels[index]);
    let mut report = Report::new();
    let place = format!("{index} of {}, test", request.data.display());
    report.value("task", "mnist").add("index", "picture", index, place);
    let right =
        if class == usize::from(label) { "which is right".into() } else { format!("but it is {label}") };
    report.add("class", "class", class, format!("{class}, {right}")).value("label", label);
    report.add("agents", "agents", n, n.to_string()).add("iterations", "iterations", k, k.to_string());
    report.value("d_v", d_v);
    Ok(TraceArrays {
        floats: vec![
            ("x", vec![k, n, d_v], trace.x),
            ("z", vec![k, n, d_v], trace.z),
            ("u", vec![k, n, d_v], trace.u),
            ("primal", vec![k, n], trace.primal),
            ("dual", vec![k, n], trace.dual),
            ("consistency", vec![k], trace.edge_rms),
            ("logits", vec![k, n, classes], logits),
            ("votes", vec![classes], votes),
        ],
        bytes: vec![
            ("input", vec![set.height, set.width], set.image(index).to_vec()),
            ("label", vec![], vec![label]),
            ("predicted", vec![], vec![class as u8]),
        ],
        report,
    })
}
