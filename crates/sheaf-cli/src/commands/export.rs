//! `sheaf export`: writes the weights of a checkpoint or a weights file to a file of their own, in 32 or 16 bits.
//! Optionally averages them with other weights, or changes keys of their experiment.

use std::path::PathBuf;

use serde_json::{Value, json};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::{Precision, WeightsFile, WeightsMeta, save_weights};

use super::{Ending, Job, check_out, check_set};
use crate::args::ExportArgs;
use crate::report::{Report, count, rounded};
use crate::tasks::Source;

/// Weights to write.
#[derive(Debug)]
pub struct Export {
    weights: Source,
    mix: Option<Mix>,
    overrides: Vec<String>,
    half: bool,
    out: PathBuf,
}

/// Other weights that enter the mean.
#[derive(Debug)]
struct Mix {
    weights: Source,
    share: f64,
}

impl Export {
    /// Checks the arguments.
    pub fn check(args: ExportArgs) -> Result<Self> {
        if !(0.0..=1.0).contains(&args.share) {
            return Err(Error::new(ErrorKind::OutOfRange, "--share", "a number from 0 to 1", args.share));
        }
        check_set(&args.set, "model.cg_steps=8")?;
        let share = args.share;
        let mix =
            args.mix.map(|text| Source::parse(&text).map(|weights| Mix { weights, share })).transpose()?;
        let weights = Source::parse(&args.weights)?;
        let inputs = [Some(&weights), mix.as_ref().map(|mix| &mix.weights)];
        check_out(&args.out, inputs.into_iter().flatten().filter_map(Source::path))?;
        Ok(Self { weights, mix, overrides: args.set, half: args.half, out: args.out })
    }
}

impl Job for Export {
    fn run(&self) -> Result<Ending> {
        let (weights, task) = self.weights.open_with_task()?;
        let layout = weights.layout();
        let mut params = weights.params(&layout)?;
        let mut about = weights.about().clone();
        if let Some(hours) = self.weights.hours_of_run() {
            about.record = with_hours(&about.record, hours);
        }
        let mut report = Report::new();
        report.value("task", task.name());
        if let Some(mix) = &self.mix {
            let other = mix.weights.open()?;
            about.record = mix.move_towards(&mut params, &layout, &weights, &other)?;
            report.value("share", mix.share);
        }
        if !self.overrides.is_empty() {
            let place = format!("configuration in {}", weights.tensors().place());
            let (config, changed) = task.change(&place, &about.config, &self.overrides)?;
            weights.params(&changed)?; // rejects keys that change the parameters
            about.config = config;
            about.record = noted(&about.record, &self.overrides);
        }
        let precision = if self.half { Precision::F16 } else { Precision::F32 };
        save_weights(&self.out, &layout, &params, &about, precision)?;
        let bits = if self.half { 16 } else { 32 };
        let text = format!("{} numbers of {bits} bits", count(params.len()));
        report.add("parameters", "weights", params.len(), text).value("bits", bits).written(&self.out);
        Ok(report.into())
    }
}

/// The record, with a note of the keys that were changed after training.
fn noted(record: &str, overrides: &[String]) -> String {
    let record: Value = serde_json::from_str(record).unwrap_or(Value::Null);
    json!({ "weights": "keys changed after training", "set": overrides, "of": record }).to_string()
}

/// The record with the hours that the run took.
fn with_hours(record: &str, hours: f64) -> String {
    let mut record: Value = serde_json::from_str(record).unwrap_or(Value::Null);
    record["hours"] = rounded(hours, 3);
    record.to_string()
}

impl Mix {
    /// Moves `params` by the given share towards those of `other`; returns the record of the mean.
    fn move_towards(
        &self,
        params: &mut [f32],
        layout: &ParamLayout,
        weights: &WeightsFile,
        other: &WeightsFile,
    ) -> Result<String> {
        let (ours, theirs) = (weights.about(), other.about());
        other.need_task(&ours.task, "only weights of the same model have a mean")?;
        for (a, b) in params.iter_mut().zip(other.params(layout)?) {
            *a = ((1.0 - self.share) * f64::from(*a) + self.share * f64::from(b)) as f32;
        }
        let part = |share: f64, about: &WeightsMeta| -> Value {
            let record: Value = serde_json::from_str(&about.record).unwrap_or(Value::Null);
            json!({ "share": share, "config": about.config, "record": record })
        };
        let parts = [part(1.0 - self.share, ours), part(self.share, theirs)];
        Ok(json!({ "weights": "mean of two", "parts": parts }).to_string())
    }
}
