//! Where weights come from.

use std::path::{Path, PathBuf};

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::WeightsFile;
use sheaf_learn::train::stages::hours;

use super::{ALL, Task, find};
use crate::progress::say;

/// Where weights come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Built into the program.
    Builtin(&'static dyn Task, &'static [u8]),
    /// A file, or the directory of a run, whose final weights are meant.
    File(PathBuf),
}

impl Source {
    /// `builtin:TASK` or a path.
    pub fn parse(text: &str) -> Result<Self> {
        let Some(name) = text.strip_prefix("builtin:") else { return Ok(Self::File(text.into())) };
        let shipped = || ALL.into_iter().filter_map(|task| Some((task, task.builtin()?)));
        let found = shipped().find(|(task, _)| task.name() == name);
        found.map(|(task, bytes)| Self::Builtin(task, bytes)).ok_or_else(|| {
            let known: Vec<String> = shipped().map(|(task, _)| format!("builtin:{}", task.name())).collect();
            Error::new(ErrorKind::Unsupported, "built-in weights", known.join(" or "), text)
                .hint("weights in a file are named by its path")
        })
    }

    /// The name used in records: the file name without its folders, which mean nothing on another machine.
    pub fn name(&self) -> String {
        match self {
            Self::Builtin(task, _) => format!("builtin:{}", task.name()),
            Self::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into(),
        }
    }

    /// Hours of training, if this is the directory of a run.
    pub fn hours(&self) -> Option<f64> {
        match self {
            Self::File(path) if path.is_dir() => hours(path),
            _ => None,
        }
    }

    /// The file they are in, if any.
    pub fn path(&self) -> Option<&Path> {
        match self {
            Self::Builtin(..) => None,
            Self::File(path) => Some(path),
        }
    }

    /// Reads the weights.
    pub fn open(&self) -> Result<WeightsFile> {
        let weights = match self {
            Self::Builtin(_, bytes) => WeightsFile::parse(&self.name(), *bytes),
            Self::File(path) if path.is_dir() => WeightsFile::read(&path.join("final.safetensors")),
            Self::File(path) => WeightsFile::read(path),
        }?;
        if let Some(note) = weights.tensors().note() {
            say(&format!("note: {note}"));
        }
        Ok(weights)
    }

    /// Reads the weights and determines their task.
    pub fn open_with_task(&self) -> Result<(WeightsFile, &'static dyn Task)> {
        let weights = self.open()?;
        let task = find(&format!("task of {}", weights.tensors().place()), &weights.about().task)?;
        Ok((weights, task))
    }
}
