//! What a run leaves in the results folder: enough for every report, without weights.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::{io_error, read_text_at_most, write_whole};

/// Largest record that is read.
const MAX_BYTES: u64 = 1 << 24;
/// Most lines of losses that are kept in the results folder.
const MAX_LINES: usize = 100;
/// Name of the record in its folder.
const FILE: &str = "result.json";
/// Name of the learning curve beside it; it is written last of what [`keep`] copies.
pub const CURVE: &str = "metrics.jsonl";

/// How far a run is.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Status {
    /// Trained and evaluated, or on the way there.
    #[default]
    Unfinished,
    /// Everything that was asked for is there.
    Finished,
    /// It ended with an error, which a later call may not repeat.
    Failed,
}

/// Results of an evaluation: names and values.
pub type Values = BTreeMap<String, f64>;

/// The record of a run.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
pub struct Record {
    /// Version of this format.
    pub version: u32,
    /// Name of the run.
    pub run: String,
    /// Its experiment file, without the ending.
    pub experiment: String,
    /// Keys that differ from the file.
    pub set: Vec<String>,
    /// Its seed.
    pub seed: u64,
    /// Its scale.
    pub scale: String,
    /// Steps made.
    pub steps: u64,
    /// Steps of the published schedule.
    pub published_steps: u64,
    /// Samples in a batch.
    pub batch: usize,
    /// Parameters of the model.
    pub parameters: usize,
    /// How far it is.
    pub status: Status,
    /// The error, if it failed.
    pub error: String,
    /// Batches skipped by rollbacks: those with a loss or gradient that was not finite, and those between them and the
    /// checkpoints that the run returned to.
    #[serde(skip_serializing_if = "is_zero")]
    pub left_out: u64,
    /// Seconds of training, over all sessions.
    pub train_seconds: f64,
    /// Seconds of evaluation.
    pub eval_seconds: f64,
    /// Commit of the program that finished the training.
    pub commit: String,
    /// Processor and threads.
    pub machine: String,
    /// The command that asked for it.
    pub command: String,
    /// Results by evaluation.
    pub evals: BTreeMap<String, Values>,
}

fn is_zero(count: &u64) -> bool {
    *count == 0
}

impl Record {
    /// The folder of a run in a results folder.
    pub fn folder(results: &Path, scale: &str, run: &str) -> PathBuf {
        results.join(scale).join(run)
    }

    /// Reads a record; `None` if there is none.
    pub fn read(folder: &Path) -> Result<Option<Self>> {
        let path = folder.join(FILE);
        if !path.is_file() {
            return Ok(None);
        }
        let text = read_text_at_most(&path, MAX_BYTES, "the record of a run")?;
        serde_json::from_str(&text).map(Some).map_err(|e| {
            Error::new(ErrorKind::Malformed, path.display().to_string(), "the record of a run", e)
                .hint("remove the file: the run is evaluated again, its training is kept")
        })
    }

    /// Writes the record, whole or not at all.
    pub fn write(&self, folder: &Path) -> Result<()> {
        std::fs::create_dir_all(folder).map_err(|e| io_error(folder, "a folder that can be made", &e))?;
        let text = serde_json::to_string_pretty(self)
            .map_err(|e| Error::new(ErrorKind::Io, "record", "values that can be written", e))?;
        write_whole(&folder.join(FILE), (text + "\n").as_bytes())
    }
}

/// Copies configuration and metrics of a run folder, at most `MAX_LINES` lines of losses.
pub fn keep(run: &Path, folder: &Path) -> Result<()> {
    let config = read_text_at_most(&run.join("config.toml"), MAX_BYTES, "the configuration of a run")?;
    write_whole(&folder.join("config.toml"), without_folders(&config).as_bytes())?;
    let metrics = read_text_at_most(&run.join(CURVE), 1 << 28, "the metrics of a run")?;
    write_whole(&folder.join(CURVE), thinned(&metrics).as_bytes())
}

/// Folders of this machine mean nothing elsewhere: `dir` and `source` keep their last part.
fn without_folders(config: &str) -> String {
    let line = |line: &str| match line.split_once(" = \"/") {
        Some((key, path)) => {
            let name = path.trim_end_matches('"').trim_end_matches('/').rsplit('/').next().unwrap_or("");
            format!("{key} = \"{name}\"\n")
        }
        None => format!("{line}\n"),
    };
    config.lines().map(line).collect()
}

/// Lines of metrics: all evaluations, and every n-th line of losses. Times are left out: they differ from run to run.
fn thinned(metrics: &str) -> String {
    let losses = metrics.lines().filter(|line| line.contains("\"loss\"")).count();
    let every = losses.div_ceil(MAX_LINES).max(1);
    let (mut seen, mut kept) = (0, String::new());
    for line in metrics.lines().filter(|line| line.ends_with('}')) {
        if line.contains("\"loss\"") {
            seen += 1;
            if seen % every != 0 && seen != losses {
                continue;
            }
        }
        kept += &without_seconds(line);
        kept.push('\n');
    }
    kept
}

fn without_seconds(line: &str) -> String {
    let Some(start) = line.find("\"seconds\":") else { return line.to_string() };
    let end = line[start..].find(',').map_or(start, |len| start + len + 1);
    format!("{}{}", &line[..start], &line[end..])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn metrics_are_thinned_but_evaluations_and_the_last_loss_stay() {
        let mut text = String::new();
        for step in 1..=1001 {
            text += &format!("{{\"step\":{step},\"samples\":{step},\"seconds\":{step}.5,\"loss\":0.5}}\n");
        }
        text += "{\"step\":1001,\"samples\":1001,\"eval/solved\":0.25}\n{\"step\":10";
        let kept = thinned(&text);
        assert!(kept.lines().count() <= MAX_LINES + 2, "{}", kept.lines().count());
        assert!(!kept.contains("seconds") && kept.contains("{\"step\":1001,\"samples\":1001,\"loss\":0.5}"));
        assert!(kept.ends_with("\"eval/solved\":0.25}\n"));
    }

    #[test]
    fn folders_of_the_machine_do_not_stay_in_the_configuration() {
        let text = "[data]\ndir = \"/home/me/mnist\"\nsource = \"generate\"\n";
        assert_eq!(without_folders(text), "[data]\ndir = \"mnist\"\nsource = \"generate\"\n");
    }
}
