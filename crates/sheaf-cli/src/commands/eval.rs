//! `sheaf eval`: how well weights solve a data set.

use sheaf_admm::Result;

use super::{Ending, Job, use_threads};
use crate::args::EvalArgs;
use crate::tasks::{EvalRequest, Source};

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
        let request = EvalRequest {
            data: args.data,
            iterations: args.iterations,
            settle_within: args.until_settled.then_some(args.max_iterations),
            first_solve: !args.no_first_solve,
        };
        Ok(Self { weights: Source::parse(&args.weights)?, request, threads: args.threads })
    }
}

impl Job for Eval {
    fn run(&self) -> Result<Ending> {
        use_threads(self.threads)?;
        let (weights, task) = self.weights.open_with_task()?;
        task.evaluate(&weights, &self.request).map(Ending::Done)
    }
}
