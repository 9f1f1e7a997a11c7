//! A checkpoint: everything a run needs to continue bit for bit, in one tensor file.
//!
//! | tensors | shape | |
//! | --- | --- | --- |
//! | `params/NAME` | NAME's | the parameters |
//! | `ema/NAME` | NAME's | their running average |
//! | `adam_m/NAME`, `adam_v/NAME` | NAME's | the moments |
//! | `mean/NAME` | NAME's | the uniform mean of the last parameters, once it has members |
//!
//! Metadata: `format`, `version`, `task`, `config` (TOML), `counters` (JSON), `history` (JSON lines), `checksum`.
//! There is no generator state: batches and noise are functions of (seed, step).

use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::Dtype;
use serde::{Deserialize, Serialize};

use super::file::write_whole;
use super::tensors::{Precision, TensorFile, encode};
use crate::params::ParamLayout;
use sheaf_admm::{Error, ErrorKind, Result};

pub(crate) const FORMAT: &str = "sheaf-admm checkpoint";
pub(crate) const VERSION: &str = "2";
pub(crate) const PREFIXES: [&str; 5] = ["params/", "ema/", "adam_m/", "adam_v/", MEAN];
const MEAN: &str = "mean/";

/// The state of a run other than tensors.
///
/// Losses and metrics are stored as the bits of an `f64`: a decimal text may differ in the last digit when read back.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Counters {
    /// Updates made.
    pub step: u64,
    /// Samples seen by these updates.
    pub samples: u64,
    /// The seed of batches, noise and the initial parameters.
    pub seed: u64,
    /// Seconds spent, over all sessions.
    pub elapsed_seconds: f64,
    /// Batches skipped by rollbacks: update `step` uses batch `step + skipped`.
    pub skipped: u64,
    /// Rollbacks so far.
    pub rollbacks: u32,
    /// Sum of the losses since the last logged line (bits).
    pub window_loss: u64,
    /// Number of losses in `window_loss`.
    pub window_steps: u64,
    /// The best value of the selected metric (bits), if it has been measured.
    pub best: Option<u64>,
    /// Members of the uniform mean so far.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub mean_members: u64,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Counters {
    /// The training record (JSON) of the weights of a run. It holds no times, so that the same training gives the same
    /// file; times are in the metrics and in checkpoints.
    pub(crate) fn record(&self, history: &str) -> String {
        let events: Vec<&str> = history.lines().collect();
        let weights = match self.mean_members {
            0 => "running average".to_string(),
            count => format!("mean of {count} checkpoints"),
        };
        format!(
            "{{\"weights\":\"{weights}\",\"seed\":{},\"step\":{},\"samples\":{},\
             \"rollbacks\":{},\"skipped_batches\":{},\"history\":[{}]}}",
            self.seed,
            self.step,
            self.samples,
            self.rollbacks,
            self.skipped,
            events.join(",")
        )
    }
}

/// Parameters, average, moments and counters: what an update changes.
#[derive(Clone, Debug, PartialEq)]
pub struct TrainState {
    /// The parameters, `[n]`.
    pub params: Vec<f32>,
    /// Their running average, `[n]`.
    pub ema: Vec<f32>,
    /// First moments, `[n]`.
    pub adam_m: Vec<f32>,
    /// Second moments, `[n]`.
    pub adam_v: Vec<f32>,
    /// Uniform mean of the last parameters, `[n]`; empty before its first member.
    pub mean: Vec<f32>,
    /// The counters.
    pub counters: Counters,
}

impl TrainState {
    /// The state before the first update.
    pub fn new(params: Vec<f32>, seed: u64) -> Self {
        let zeros = vec![0.0; params.len()];
        let counters = Counters { seed, ..Counters::default() };
        Self { ema: params.clone(), adam_m: zeros.clone(), adam_v: zeros, mean: Vec::new(), params, counters }
    }

    /// What is evaluated and written as weights: the uniform mean once it has members, else the running average.
    pub fn weights(&self) -> &[f32] {
        if self.mean.is_empty() { &self.ema } else { &self.mean }
    }
}

/// A state with its task, configuration and history.
#[derive(Clone, Debug, PartialEq)]
pub struct Checkpoint {
    /// The state.
    pub state: TrainState,
    /// What is being trained.
    pub task: String,
    /// The run's configuration, TOML.
    pub config: String,
    /// Evaluations and rollbacks so far, one JSON object per line. Stored as text, so that no digit is lost.
    pub history: String,
}

impl Checkpoint {
    /// Writes the checkpoint to `path` atomically.
    pub fn save(&self, path: &Path, layout: &ParamLayout) -> Result<()> {
        let place = path.display().to_string();
        let counters = serde_json::to_string(&self.state.counters)
            .map_err(|e| Error::new(ErrorKind::Malformed, &place, "counters that fit in JSON", e))?;
        let metadata = BTreeMap::from([
            ("format", FORMAT.to_string()),
            ("version", VERSION.to_string()),
            ("task", self.task.clone()),
            ("config", self.config.clone()),
            ("counters", counters),
            ("history", self.history.clone()),
        ]);
        let TrainState { params, ema, adam_m, adam_v, mean, .. } = &self.state;
        let all: [&[f32]; 5] = [params, ema, adam_m, adam_v, mean];
        let groups: Vec<(&str, &[f32])> =
            PREFIXES.into_iter().zip(all).filter(|(prefix, v)| *prefix != MEAN || !v.is_empty()).collect();
        write_whole(path, &encode(&place, metadata, layout, &groups, Precision::F32)?)
    }

    /// Reads the checkpoint at `path` of a model with this layout.
    pub fn load(path: &Path, layout: &ParamLayout) -> Result<Self> {
        CheckpointFile::read(path)?.load(layout)
    }
}

/// A checkpoint file whose metadata can be read before its model is known.
#[derive(Debug)]
pub struct CheckpointFile(TensorFile);

impl CheckpointFile {
    /// Reads the file and checks that it is a checkpoint.
    pub fn read(path: &Path) -> Result<Self> {
        Self::check(TensorFile::read(path)?)
    }

    /// Parses bytes; `place` names them in errors.
    pub fn parse(place: &str, bytes: Vec<u8>) -> Result<Self> {
        Self::check(TensorFile::parse(place, bytes.into())?)
    }

    pub(crate) fn check(file: TensorFile) -> Result<Self> {
        check_format(&file, FORMAT, "checkpoints lie in RUN_DIR/checkpoints")?;
        Ok(Self(file))
    }

    /// The configuration of the run, TOML.
    pub fn config(&self) -> Result<&str> {
        meta(&self.0, "config")
    }

    /// The task.
    pub fn task(&self) -> Result<&str> {
        meta(&self.0, "task")
    }

    /// The counters.
    pub fn counters(&self) -> Result<Counters> {
        serde_json::from_str(meta(&self.0, "counters")?).map_err(|e| {
            let place = format!("{}: counters", self.0.place());
            Error::new(ErrorKind::Malformed, place, "the counters of a checkpoint", e)
        })
    }

    /// What a user should know about the file, if anything.
    pub fn note(&self) -> Option<String> {
        self.0.note()
    }

    /// The training record of the weights in this checkpoint, JSON.
    pub(crate) fn record(&self) -> Result<String> {
        Ok(self.counters()?.record(meta(&self.0, "history")?))
    }

    pub(crate) fn into_tensors(self) -> TensorFile {
        self.0
    }

    /// The whole checkpoint, with every tensor checked against the layout.
    pub fn load(&self, layout: &ParamLayout) -> Result<Checkpoint> {
        let mut groups = self.0.groups(layout, prefixes(&self.0), &[Dtype::F32])?;
        groups.resize(PREFIXES.len(), Vec::new());
        let Ok([params, ema, adam_m, adam_v, mean]) = <[Vec<f32>; 5]>::try_from(groups) else {
            unreachable!("one group per prefix");
        };
        Ok(Checkpoint {
            state: TrainState { params, ema, adam_m, adam_v, mean, counters: self.counters()? },
            task: self.task()?.to_string(),
            config: self.config()?.to_string(),
            history: meta(&self.0, "history")?.to_string(),
        })
    }
}

/// The prefixes of the tensors in a checkpoint: the last one only if there is a mean.
pub(crate) fn prefixes(file: &TensorFile) -> &'static [&'static str] {
    let has_mean = file.names().iter().any(|name| name.starts_with(MEAN));
    if has_mean { &PREFIXES } else { &PREFIXES[..PREFIXES.len() - 1] }
}

/// The metadata under `key`, which is required.
pub(crate) fn meta<'a>(file: &'a TensorFile, key: &str) -> Result<&'a str> {
    file.meta(key).ok_or_else(|| {
        Error::new(ErrorKind::Malformed, file.place(), format!("metadata `{key}`"), "a file without it")
    })
}

/// Checks the kind of the file, that this program supports its version, and that its checksum is that of its version.
pub(crate) fn check_format(file: &TensorFile, format: &str, hint: &str) -> Result<()> {
    let got = file.meta("format");
    if got != Some(format) {
        let got = got.map_or("a tensor file of another program".into(), |g| format!("`{g}`"));
        return Err(Error::new(ErrorKind::Malformed, file.place(), format!("`{format}`"), got).hint(hint));
    }
    match (meta(file, "version")?, file.is_sealed()) {
        (VERSION, true) | ("1", false) => Ok(()),
        (VERSION, false) => {
            let (want, got) = ("a checksum of the whole file", "a file without it");
            Err(Error::new(ErrorKind::Malformed, file.place(), want, got)
                .hint("the file was changed after it was written; copy it again or choose another"))
        }
        (got, _) => {
            let want = format!("version 1 or {VERSION} of the format");
            Err(Error::new(ErrorKind::Malformed, file.place(), want, format!("version {got}"))
                .hint("the file was written by another version of this program"))
        }
    }
}
