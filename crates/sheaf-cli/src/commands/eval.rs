//! `sheaf eval`: how well weights solve a data set.

use sheaf_admm::Result;

use super::{Ending, Job, use_threads};
use crate::args::EvalArgs;
use crate::report::Report;
use crate::tasks::verbs::TaskOptions;
use crate::tasks::{ALL, EvalRequest, Source};

/// An evaluation.
#[derive(Debug)]
pub struct Eval {
    weights: Source,
    request: EvalRequest,
    options: TaskOptions,
    threads: Option<usize>,
}

impl Eval {
    /// Checks what was typed.
    pub fn check(args: EvalArgs) -> Result<Self> {
        ALL.iter().try_for_each(|task| task.check_options(&args.task))?;
        let settle_within = args.until_settled.then_some(args.max_iterations);
        let request = EvalRequest { data: args.data, iterations: args.iterations, settle_within };
        let weights = Source::parse(&args.weights)?;
        Ok(Self { weights, request, options: args.task, threads: args.threads })
    }
}

impl Job for Eval {
    fn run(&self) -> Result<Ending> {
        use_threads(self.threads)?;
        let (weights, task) = self.weights.open_with_task()?;
        self.options.check_task(task)?;
        let mut report = Report::new();
        report.value("task", task.name()).value("data", self.request.data.display().to_string());
        task.evaluate(&weights, &self.request, &self.options, &mut report)?;
        Ok(report.into())
    }
}
