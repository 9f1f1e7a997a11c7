//! `sheaf eval`: how well weights solve a data set.

use sheaf_admm::Result;

use super::{Job, use_threads};
use crate::args::EvalArgs;
use crate::report::Report;
use crate::tasks::{ALL, EvalRequest, Source};

/// Checks the arguments; the job evaluates.
pub fn eval(args: EvalArgs) -> Result<Box<dyn Job>> {
    ALL.iter().try_for_each(|task| task.check_options(&args.task))?;
    let weights = Source::parse(&args.weights)?;
    let settle_within = args.until_settled.then_some(args.max_iterations);
    let precision = args.precision.map(Into::into);
    let EvalArgs { data, iterations, asynchronous, task: own, threads, .. } = args;
    let request = EvalRequest { data, iterations, settle_within, precision, asynchronous, own };
    Ok(Box::new(move || {
        use_threads(threads)?;
        let (weights, task) = weights.open_with_task()?;
        request.own.check_task(task)?;
        let mut report = Report::new();
        report.value("task", task.name()).value("data", request.data.display().to_string());
        task.evaluate(&weights, &request, &mut report)?;
        Ok(report)
    }))
}
