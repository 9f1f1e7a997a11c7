//! Weights without the training state: `NAME` tensors in 32 or 16 bits, and metadata `format`, `version`, `task`,
//! `config` (TOML: enough to build the model), `record` (JSON: how they were trained), `checksum`.
//!
//! A checkpoint can also be read as weights: its uniform mean if it has one, else its running average.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use safetensors::tensor::Dtype;

use super::checkpoint::{self, CheckpointFile, check_format, meta};
use super::file::write_whole;
use super::tensors::{Precision, TensorFile, encode};
use crate::params::ParamLayout;
use sheaf_admm::error::check_finite;
use sheaf_admm::{Error, ErrorKind, Result};

const FORMAT: &str = "sheaf-admm weights";

/// Metadata of weights.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WeightsMeta {
    /// The task: `maze`, `mnist`, `sudoku`.
    pub task: String,
    /// The configuration of the model, TOML.
    pub config: String,
    /// How they were trained, JSON.
    pub record: String,
}

/// The bytes of a weights file.
pub fn encode_weights(
    layout: &ParamLayout,
    params: &[f32], // [layout.len()]
    about: &WeightsMeta,
    precision: Precision,
) -> Result<Vec<u8>> {
    check_finite("weights", params)?;
    let metadata = BTreeMap::from([
        ("format", FORMAT.to_string()),
        ("version", checkpoint::VERSION.to_string()),
        ("task", about.task.clone()),
        ("config", without_folders(&about.config)),
        ("record", without_folders(&about.record)),
    ]);
    encode("weights", metadata, layout, &[("", params)], precision)
}

/// The text of a configuration (TOML) or record (JSON) with absolute paths reduced to file names: folders of the
/// machine that made the weights mean nothing elsewhere. Works on the text, so that no number loses a digit, and also
/// covers configurations within records.
fn without_folders(text: &str) -> String {
    const STARTS: [&str; 3] = ["\"/", "\"../", "\"~/"];
    let (mut out, mut rest) = (String::with_capacity(text.len()), text);
    while let Some(quote) = STARTS.iter().filter_map(|start| rest.find(start)).min() {
        let (before, path) = rest.split_at(quote + 1);
        let end = path.find(['"', '\\', '\n']).unwrap_or(path.len());
        let name = path[..end].trim_end_matches('/').rsplit('/').next().unwrap_or_default();
        out.push_str(before);
        out.push_str(name);
        rest = &path[end..];
    }
    out + rest
}

/// Writes weights to `path` atomically.
pub fn save_weights(
    path: &Path,
    layout: &ParamLayout,
    params: &[f32], // [layout.len()]
    about: &WeightsMeta,
    precision: Precision,
) -> Result<()> {
    write_whole(path, &encode_weights(layout, params, about, precision)?)
}

/// A weights file: first its metadata, from which the model is built, then its parameters.
#[derive(Debug)]
pub struct WeightsFile {
    file: TensorFile,
    about: WeightsMeta,
    kind: Kind,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Weights,
    Checkpoint,
}

impl WeightsFile {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        Self::check(TensorFile::read(path)?)
    }

    /// Weights that are built into the program; `place` names them in errors.
    pub fn parse(place: &str, bytes: impl Into<Cow<'static, [u8]>>) -> Result<Self> {
        Self::check(TensorFile::parse(place, bytes.into())?)
    }

    fn check(file: TensorFile) -> Result<Self> {
        if file.meta("format") == Some(checkpoint::FORMAT) {
            let from = CheckpointFile::check(file)?;
            let (task, config) = (from.task()?.to_string(), from.config()?.to_string());
            let about = WeightsMeta { task, config, record: from.record()? };
            return Ok(Self { file: from.into_tensors(), about, kind: Kind::Checkpoint });
        }
        let hint = match file.meta("format") {
            Some(_) => "name weights or a checkpoint of a run",
            None => "`sheaf import` reads parameters of other programs",
        };
        check_format(&file, FORMAT, hint)?;
        let text = |key| meta(&file, key).map(str::to_string);
        let about = WeightsMeta { task: text("task")?, config: text("config")?, record: text("record")? };
        Ok(Self { file, about, kind: Kind::Weights })
    }

    /// The metadata.
    pub fn about(&self) -> &WeightsMeta {
        &self.about
    }

    /// Checks that the weights belong to this task; `hint` gives the reason in the error.
    pub fn need_task(&self, task: &str, hint: &str) -> Result<()> {
        if self.about.task == task {
            return Ok(());
        }
        let place = format!("task of {}", self.file.place());
        Err(Error::new(ErrorKind::Unsupported, place, format!("`{task}`"), &self.about.task).hint(hint))
    }

    /// The tensors, for tables of names, types and shapes.
    pub fn tensors(&self) -> &TensorFile {
        &self.file
    }

    /// Names and shapes of the weights, in the order of the file.
    pub fn layout(&self) -> ParamLayout {
        let prefix = if self.kind == Kind::Checkpoint { checkpoint::PREFIXES[1] } else { "" };
        let mut layout = ParamLayout::new();
        for name in self.file.names() {
            if let (Some(short), Some((_, shape))) = (name.strip_prefix(prefix), self.file.info(&name)) {
                layout.add(short, shape);
            }
        }
        layout
    }

    /// The flat vector of a model with this layout; every tensor is checked, none may be missing or left over.
    pub fn params(&self, layout: &ParamLayout) -> Result<Vec<f32>> {
        let (prefixes, nth): (&[&str], _) = match self.kind {
            Kind::Weights => (&[""], 0),
            // The mean, which comes last, or the running average.
            Kind::Checkpoint => match checkpoint::prefixes(&self.file) {
                all if all.len() == checkpoint::PREFIXES.len() => (all, all.len() - 1),
                all => (all, 1),
            },
        };
        let params = self.file.groups(layout, prefixes, &[Dtype::F32, Dtype::F16])?.swap_remove(nth);
        for entry in layout.entries() {
            check_finite(
                &format!("{}: tensor `{}`", self.file.place(), entry.name),
                &params[entry.range.clone()],
            )?;
        }
        Ok(params)
    }
}

#[cfg(test)]
mod tests {
    use super::without_folders;

    #[test]
    fn absolute_paths_keep_their_file_names_and_all_else_stays() {
        let toml = "task = \"mnist\"\n[data]\ndir = \"/home/me/data/mnist/\"\nother = \"data/mnist\"\nup = \"../a.csv\"\n";
        let expected = "task = \"mnist\"\n[data]\ndir = \"mnist\"\nother = \"data/mnist\"\nup = \"a.csv\"\n";
        assert_eq!(without_folders(toml), expected);
        let json = r#"{"init":"/r/a.safetensors","parts":[{"config":"dir = \"/x/y\"\nn = 1"}],"loss":0.12345678901234567}"#;
        let expected = r#"{"init":"a.safetensors","parts":[{"config":"dir = \"y\"\nn = 1"}],"loss":0.12345678901234567}"#;
        assert_eq!(without_folders(json), expected);
    }
}
