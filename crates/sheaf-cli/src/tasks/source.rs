//! Where weights come from.

use std::path::{Path, PathBuf};

use sheaf_admm::Result;
use sheaf_learn::train::WeightsFile;
use sheaf_learn::train::stages::hours;

use sheaf_tasks::builtin::Builtin;

use super::{Task, find};
use crate::progress::say;

/// Where weights come from.
#[derive(Clone, Debug)]
pub enum Source {
    /// Built into the program.
    Builtin(&'static Builtin),
    /// A file, or the directory of a run, whose final weights are meant.
    File(PathBuf),
}

impl Source {
    /// `builtin:NAME` or a path.
    pub fn parse(text: &str) -> Result<Self> {
        Ok(Builtin::parse(text)?.map_or_else(|| Self::File(text.into()), Self::Builtin))
    }

    /// The name used in records: the file name without its folders, which mean nothing on another machine.
    pub fn name(&self) -> String {
        match self {
            Self::Builtin(shipped) => shipped.name.into(),
            Self::File(path) => path.file_name().unwrap_or_default().to_string_lossy().into(),
        }
    }

    /// The name in figures. Every run calls its weights alike, so that the name of its folder says more.
    pub fn label(&self) -> String {
        let Self::File(path) = self else { return self.name() };
        let stem = path.file_stem().unwrap_or_default().to_string_lossy();
        match path.parent().and_then(Path::file_name).map(|run| run.to_string_lossy()) {
            Some(run) if stem == "final" => run.into_owned(),
            Some(run) if stem == "best" => format!("{run} (best)"),
            _ if path.is_dir() => self.name(),
            _ => stem.into_owned(),
        }
    }

    /// Hours of training, if this is the directory of a run.
    pub fn hours(&self) -> Option<f64> {
        match self {
            Self::File(path) if path.is_dir() => hours(path),
            _ => None,
        }
    }

    /// Hours of the run that the weights come from, if this is its directory or its `best` or `final` weights. A stage does
    /// not know how long those before it took.
    pub fn hours_of_run(&self) -> Option<f64> {
        self.hours().or_else(|| {
            let (run, name) = (self.path()?.parent()?, self.path()?.file_name()?);
            let stage = run.file_name().is_some_and(|name| name.to_string_lossy().starts_with("stage-"));
            let of_run = !stage && (name == "best.safetensors" || name == "final.safetensors");
            if of_run { hours(run) } else { None }
        })
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
            Self::Builtin(shipped) => shipped.open(),
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn weights_of_two_runs_have_different_labels() {
        let label = |path: &str| Source::parse(path).unwrap().label();
        assert_eq!(label("runs/maze-a/final.safetensors"), "maze-a");
        assert_eq!(label("runs/maze-a/best.safetensors"), "maze-a (best)");
        assert_eq!(label("weights/maze.safetensors"), "maze");
        assert_eq!(label("final.safetensors"), "final");
        assert_eq!(label("builtin:maze"), "builtin:maze");
    }
}
