//! `sheaf eval`: how well weights solve a data set.

use sheaf_admm::Result;

use super::{Ending, Job, use_threads};
use crate::args::EvalArgs;
use crate::report::Report;
use crate::tasks::{ALL, EvalRequest, Source};

/// An evaluation.
#[derive(Debug)]
pub struct Eval {
    weights: Source,
    request: EvalRequest,
    threads: Option<usize>,
}

impl Eval {
    /// Checks what was typed.
    pub fn check(args: EvalArgs) -> Result<Self> {
        ALL.iter().try_for_each(|task| task.check_options(&args.task))?;
        let weights = Source::parse(&args.weights)?;
        let settle_within = args.until_settled.then_some(args.max_iterations);
        let EvalArgs { data, iterations, task: own, threads, .. } = args;
        let request = EvalRequest { data, iterations, settle_within, own };
        Ok(Self { weights, request, threads })
    }
}

impl Job for Eval {
    fn run(&self) -> Result<Ending> {
        use_threads(self.threads)?;
        let (weights, task) = self.weights.open_with_task()?;
        self.request.own.check_task(task)?;
        let mut report = Report::new();
        report.value("task", task.name()).value("data", self.request.data.display().to_string());
        task.evaluate(&weights, &self.request, &mut report)?;
        Ok(report.into())
    }
}
