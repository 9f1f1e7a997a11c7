//! `sheaf export`: the weights of a checkpoint or a weights file as a file of their own, in 32 or 16 bits.

use std::path::PathBuf;

use sheaf_admm::Result;
use sheaf_admm::train::{Precision, save_weights};

use super::{Ending, Job, check_out};
use crate::args::ExportArgs;
use crate::report::{Report, count};
use crate::tasks::Source;

/// Weights to write.
#[derive(Debug)]
pub struct Export {
    weights: Source,
    half: bool,
    out: PathBuf,
}

impl Export {
    /// Checks what was typed.
    pub fn check(args: ExportArgs) -> Result<Self> {
        check_out(&args.out)?;
        Ok(Self { weights: Source::parse(&args.weights)?, half: args.half, out: args.out })
    }
}

impl Job for Export {
    fn run(&self) -> Result<Ending> {
        let (weights, task) = self.weights.open_with_task()?;
        let layout = weights.layout();
        let params = weights.params(&layout)?;
        let precision = if self.half { Precision::F16 } else { Precision::F32 };
        save_weights(&self.out, &layout, &params, weights.about(), precision)?;
        let mut report = Report::new();
        report.value("task", task.name());
        let bits = if self.half { 16 } else { 32 };
        let text = format!("{} numbers of {bits} bits", count(params.len()));
        report.add("parameters", "weights", params.len(), text).value("bits", bits).written(&self.out);
        Ok(report.into())
    }
}
