//! Weights against a set of pictures: how many they tell right, and one solve in every detail.

use std::time::Instant;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_tasks::baselines::cnn::experiment::CnnWeights;
use sheaf_tasks::mnist::data::{ImageSet, Split};
use sheaf_tasks::mnist::evaluate::{EvalOptions, EvalReport, evaluate};
use sheaf_tasks::mnist::shifts::Shift;
use sheaf_tasks::mnist::watch;
use sheaf_tasks::mnist::weights::MnistWeights;

use crate::progress::Bar;
use crate::report::{Report, percent, rounded};
use crate::tasks::{EvalRequest, TraceArrays, TraceRequest};

pub(super) fn agents(weights: &MnistWeights, request: &EvalRequest) -> Result<Report> {
    let k = request.iterations.unwrap_or(weights.experiment.iterations.eval);
    all("mnist", request, Some(k), &|set, options, progress| {
        evaluate(&weights.model, &weights.params, set, options, progress)
    })
}

pub(super) fn network(weights: &CnnWeights, request: &EvalRequest) -> Result<Report> {
    all("mnist-cnn", request, None, &|set, options, progress| weights.evaluate(set, options, progress))
}

/// Whatever tells pictures apart.
type Judge<'a> = &'a dyn Fn(&ImageSet, &EvalOptions, &(dyn Fn(usize) + Sync)) -> Result<EvalReport>;

fn all(
    task: &'static str,
    request: &EvalRequest,
    iterations: Option<usize>,
    judge: Judge<'_>,
) -> Result<Report> {
    let set = ImageSet::read(&request.data, Split::Test)?;
    let options =
        EvalOptions { iterations: iterations.unwrap_or(0), shift: Shift::None, draws: 1, seed: 0 };
    let bar = Bar::new("solving pictures", set.len() as u64);
    let start = Instant::now();
    let told = judge(&set, &options, &|n| bar.add(n))?;
    let seconds = start.elapsed().as_secs_f64();
    bar.clear();
    let mut report = Report::new();
    report.value("task", task).value("data", request.data.display().to_string());
    report.add("accuracy", "right", rounded(told.accuracy(), 6), percent(told.correct[0], set.len()));
    report.pace(set.len(), seconds);
    Ok(report)
}

pub(super) fn trace(weights: &MnistWeights, request: &TraceRequest) -> Result<TraceArrays> {
    let MnistWeights { experiment, model, params } = weights;
    let set = ImageSet::read(&request.data, Split::Test)?;
    let index = request.index;
    if index >= set.len() {
        let want = format!("0 to {}, for the {} pictures of the set", set.len() - 1, set.len());
        return Err(Error::new(ErrorKind::OutOfRange, "--index", want, index));
    }
    let k = request.iterations.unwrap_or(experiment.iterations.eval);
    let board = model.board(set.height, set.width)?;
    let mut image = vec![0.0; set.pixels()];
    set.write_image(index, &mut image);
    let (trace, logits) = watch::trace(model, params, &board, &image, k)?;
    let (n, d_v, classes) = (board.sheaf.agents(), experiment.model.d_v, model.classes());
    let report = Report::new();
    Ok(TraceArrays {
        floats: vec![
            ("x", vec![k, n, d_v], trace.x),
            ("z", vec![k, n, d_v], trace.z),
            ("u", vec![k, n, d_v], trace.u),
            ("primal", vec![k, n], trace.primal),
            ("dual", vec![k, n], trace.dual),
            ("consistency", vec![k], trace.consistency),
            ("logits", vec![k, n, classes], logits),
        ],
        bytes: vec![
            ("input", vec![set.height, set.width], set.image(index).to_vec()),
            ("label", vec![1], vec![set.labels[index]]),
        ],
        report,
    })
}
