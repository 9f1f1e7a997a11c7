//! `sheaf eval`: how well weights solve a data set.

use sheaf_admm::Result;

use super::{Ending, Job, use_threads};
use crate::args::{EvalArgs, ShiftSet};
use crate::tasks::{EvalRequest, PictureRequest, Source};
use sheaf_tasks::mnist::shifts::Shift;

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
        let shifts = match args.shifts {
            Some(ShiftSet::Published) => Shift::published().to_vec(),
            None => args.shift.iter().map(|text| text.parse()).collect::<Result<_>>()?,
        };
        let split = args.split.map(Into::into);
        let request = EvalRequest {
            data: args.data,
            iterations: args.iterations,
            settle_within: args.until_settled.then_some(args.max_iterations),
            rounds: args.rounds,
            first_solve: !args.no_first_solve,
            pictures: PictureRequest { split, count: args.count, shifts, draws: args.draws },
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
