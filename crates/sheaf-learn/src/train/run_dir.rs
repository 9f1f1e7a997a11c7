//! The directory of a run.
//!
//! ```text
//! RUN_DIR/config.toml                            the configuration with every default filled in
//!         metrics.jsonl                          one JSON object a line
//!         events.out.tfevents.*                  the same for TensorBoard, one file a session
//!         checkpoints/step-00001000.safetensors  everything needed to continue; the latest is the highest number
//!         best.safetensors                       weights of the best evaluation (running average)
//!         final.safetensors                      weights after the last update (running average)
//!         lock                                   held by the process that works in the directory
//! ```

use std::fs;
use std::path::{Path, PathBuf};

use super::file::{io_error, write_whole};
use super::lock::{self, RunLock};
use sheaf_admm::{Error, ErrorKind, Result};

/// Paths in the directory of a run, which is locked as long as this value exists.
#[derive(Debug)]
pub struct RunDir {
    path: PathBuf,
    _lock: Option<RunLock>,
}

impl RunDir {
    pub(super) fn at(path: &Path) -> Self {
        Self { path: path.to_path_buf(), _lock: None }
    }

    /// Checks that a new run can start in the directory: generating samples may take minutes, and this comes before.
    /// A directory that does not exist is created for a moment, one that exists is locked for a moment.
    pub fn check_new_run(path: &Path) -> Result<()> {
        if path.is_dir() {
            Self::at(path).check_new()?;
            return RunLock::take(path).map(drop);
        }
        check_creatable(path)?;
        let new: Vec<&Path> =
            path.ancestors().take_while(|p| !p.as_os_str().is_empty() && !p.exists()).collect();
        let created = fs::create_dir_all(path).map_err(|e| io_error(path, "to create the directory", &e));
        for directory in new {
            // Another process may have begun to use it; then it stays.
            let _ = fs::remove_dir(directory);
        }
        created
    }

    /// Prepares a directory for a new run: an empty one, or one left by a start that failed before its first
    /// checkpoint, for example on a full disk.
    pub fn create(path: &Path, config: &str) -> Result<Self> {
        let mut dir = Self::at(path);
        fs::create_dir_all(path).map_err(|e| io_error(path, "to create the directory", &e))?;
        // Before the lock, so that nothing is written to a foreign directory; and again under it.
        dir.check_new()?;
        dir._lock = Some(RunLock::take(path)?);
        dir.check_new()?;
        dir.own_entries()?.iter().filter(|p| p.is_file()).try_for_each(|p| remove(p))?;
        let checkpoints = dir.checkpoints_dir();
        match fs::create_dir(&checkpoints) {
            Err(e) if e.kind() != std::io::ErrorKind::AlreadyExists => {
                return Err(io_error(&checkpoints, "to create the directory", &e));
            }
            _ => dir.entries(&checkpoints)?.iter().try_for_each(|p| remove(p))?,
        }
        write_whole(&dir.config(), config.as_bytes())?;
        Ok(dir)
    }

    fn check_new(&self) -> Result<()> {
        let begun = self.own_entries()?;
        let Some(entry) = begun.first().filter(|_| !self.never_started(&begun)) else { return Ok(()) };
        let name = entry.file_name().unwrap_or_default().display();
        Err(Error::new(
            ErrorKind::Unsupported,
            self.path.display().to_string(),
            "an empty directory for a new run",
            format!("one with `{name}` in it"),
        )
        .hint(if self.has_checkpoint() {
            "continue the run in it with --resume, or choose another directory"
        } else {
            "choose another directory"
        }))
    }

    /// The directory of an existing run, and its checkpoints, oldest first; there is at least one. Temporary files that
    /// a killed process has left are removed.
    pub fn resume(path: &Path) -> Result<(Self, Vec<(u64, PathBuf)>)> {
        let mut dir = Self::at(path);
        let found = dir.resumable()?;
        dir._lock = Some(RunLock::take(path)?);
        let all = [dir.own_entries()?, dir.entries(&dir.checkpoints_dir())?].concat();
        all.iter().filter(|p| p.extension().is_some_and(|e| e == "part")).try_for_each(|p| remove(p))?;
        Ok((dir, found))
    }

    fn resumable(&self) -> Result<Vec<(u64, PathBuf)>> {
        let found = if self.checkpoints_dir().is_dir() { self.checkpoints()? } else { Vec::new() };
        if !found.is_empty() {
            return Ok(found);
        }
        let got = match self.config().is_file() {
            true => "a run that ended before its first checkpoint was written",
            false => "a directory without one",
        };
        let (place, want) = (self.path.display().to_string(), "a run with a checkpoint to resume from");
        Err(Error::new(ErrorKind::Unsupported, place, want, got).hint("start the run without --resume"))
    }

    /// The entries of the directory but for the lock.
    fn own_entries(&self) -> Result<Vec<PathBuf>> {
        let mut found = self.entries(&self.path)?;
        found.retain(|p| p.file_name().is_none_or(|name| name != lock::NAME));
        Ok(found)
    }

    /// The entries of a directory, sorted by name.
    fn entries(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(path).map_err(|e| io_error(path, "a readable directory", &e))?;
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.sort();
        Ok(found)
    }

    /// Whether a run in this directory has written a checkpoint.
    pub(super) fn has_run(path: &Path) -> bool {
        Self::at(path).has_checkpoint()
    }

    fn has_checkpoint(&self) -> bool {
        self.checkpoints_dir().is_dir() && self.checkpoints().is_ok_and(|found| !found.is_empty())
    }

    /// Whether the directory holds only what a failed start leaves before its first checkpoint, so nothing worth
    /// keeping. A start creates the folder of checkpoints first; without it the files are not from a run.
    fn never_started(&self, entries: &[PathBuf]) -> bool {
        let unfinished = |path: &Path| path.extension().is_some_and(|e| e == "part");
        let folder = self.checkpoints_dir();
        folder.is_dir()
            && entries.iter().all(|path| {
                let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
                match name {
                    "config.toml" => path.is_file(),
                    "metrics.jsonl" => path.metadata().is_ok_and(|m| m.is_file() && m.len() == 0),
                    "checkpoints" => {
                        path.is_dir()
                            && self.entries(&folder).is_ok_and(|all| all.iter().all(|p| unfinished(p)))
                    }
                    _ => path.is_file() && (name.starts_with("events.out.tfevents.") || unfinished(path)),
                }
            })
    }

    /// `config.toml`.
    pub fn config(&self) -> PathBuf {
        self.path.join("config.toml")
    }

    /// `metrics.jsonl`.
    pub fn metrics(&self) -> PathBuf {
        self.path.join("metrics.jsonl")
    }

    /// `best.safetensors`.
    pub fn best(&self) -> PathBuf {
        self.path.join("best.safetensors")
    }

    /// `final.safetensors`.
    pub fn last(&self) -> PathBuf {
        self.path.join("final.safetensors")
    }

    /// The directory itself, where event files go.
    pub fn root(&self) -> &Path {
        &self.path
    }

    fn checkpoints_dir(&self) -> PathBuf {
        self.path.join("checkpoints")
    }

    /// The path of the checkpoint after `step` updates.
    pub fn checkpoint(&self, step: u64) -> PathBuf {
        self.checkpoints_dir().join(format!("step-{step:08}.safetensors"))
    }

    /// All checkpoints, oldest first.
    pub fn checkpoints(&self) -> Result<Vec<(u64, PathBuf)>> {
        let dir = self.checkpoints_dir();
        let entries = fs::read_dir(&dir).map_err(|e| io_error(&dir, "a readable directory", &e))?;
        let mut found: Vec<(u64, PathBuf)> = entries
            .flatten()
            .filter_map(|entry| {
                let name = entry.file_name();
                let digits = name.to_str()?.strip_prefix("step-")?.strip_suffix(".safetensors")?;
                let path = entry.path();
                path.is_file().then_some((digits.parse().ok()?, path))
            })
            .collect();
        found.sort();
        Ok(found)
    }

    /// Removes all but the newest `keep` checkpoints.
    pub fn prune(&self, keep: usize) -> Result<()> {
        let found = self.checkpoints()?;
        self.remove(&found[..found.len().saturating_sub(keep)])
    }

    /// Removes the checkpoints after update `step`.
    pub fn remove_after(&self, step: u64) -> Result<()> {
        let found = self.checkpoints()?;
        let first = found.partition_point(|(s, _)| *s <= step);
        self.remove(&found[first..])
    }

    /// Renames the checkpoints after update `step`, so that they no longer count: `….safetensors.aside`.
    pub fn set_aside_after(&self, step: u64) -> Result<()> {
        for (_, path) in self.checkpoints()?.iter().filter(|(s, _)| *s > step) {
            let aside = path.with_extension("safetensors.aside");
            fs::rename(path, &aside).map_err(|e| io_error(path, "to set it aside", &e))?;
        }
        Ok(())
    }

    fn remove(&self, checkpoints: &[(u64, PathBuf)]) -> Result<()> {
        checkpoints.iter().try_for_each(|(_, path)| remove(path))
    }
}

/// Checks that a directory can be created: the nearest one above that exists is a directory.
pub(super) fn check_creatable(path: &Path) -> Result<()> {
    let above = path.ancestors().find(|p| fs::symlink_metadata(p).is_ok());
    match above {
        Some(found) if !found.is_dir() => {
            let (place, got) = (path.display().to_string(), format!("the file {}", found.display()));
            Err(Error::new(ErrorKind::Unsupported, place, "a directory for a run", got)
                .hint("choose another directory"))
        }
        _ => Ok(()),
    }
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|e| io_error(path, "to remove it", &e))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::test_dir::TestDir;

    #[test]
    fn a_directory_with_something_in_it_is_refused_with_a_hint() {
        let dir = TestDir::new("run-dir");
        let run = RunDir::create(dir.path(), "a = 1\n").unwrap();
        fs::write(run.checkpoint(0), "").unwrap();
        let error = RunDir::create(dir.path(), "a = 1\n").unwrap_err();
        assert!(error.to_string().contains("--resume"), "{error}");
    }

    #[test]
    fn a_start_that_saved_nothing_can_be_started_again() {
        let dir = TestDir::new("run-dir-again");
        let run = RunDir::create(dir.path(), "a = 1\n").unwrap();
        fs::write(run.metrics(), "").unwrap();
        fs::write(dir.path().join("events.out.tfevents.1"), "header").unwrap();
        fs::write(run.checkpoint(0).with_extension("safetensors.7.part"), "half").unwrap();
        let error = RunDir::resume(dir.path()).unwrap_err();
        assert!(error.to_string().contains("before its first checkpoint"), "{error}");
        assert!(error.hint_text().unwrap().contains("without --resume"));
        drop(run);
        let again = RunDir::create(dir.path(), "a = 2\n").unwrap();
        assert_eq!(fs::read_to_string(again.config()).unwrap(), "a = 2\n");
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["checkpoints", "config.toml", "lock"]);
        assert_eq!(fs::read_dir(again.checkpoints_dir()).unwrap().count(), 0);
    }

    #[test]
    fn what_may_be_worth_keeping_is_never_taken_for_a_failed_start() {
        for (name, content) in [("metrics.jsonl", "{}\n"), ("best.safetensors", ""), ("notes.txt", "")] {
            let dir = TestDir::new("run-dir-kept");
            RunDir::create(dir.path(), "a = 1\n").unwrap();
            fs::write(dir.path().join(name), content).unwrap();
            let error = RunDir::create(dir.path(), "a = 1\n").unwrap_err();
            assert_eq!(error.hint_text(), Some("choose another directory"), "{name}");
            assert!(dir.path().join(name).exists());
        }
        let dir = TestDir::new("run-dir-foreign");
        fs::write(dir.path().join("config.toml"), "mine").unwrap();
        assert!(RunDir::create(dir.path(), "a = 1\n").is_err());
        assert_eq!(fs::read_to_string(dir.path().join("config.toml")).unwrap(), "mine");
        let dir = TestDir::new("run-dir-finished");
        let run = RunDir::create(dir.path(), "a = 1\n").unwrap();
        fs::write(run.checkpoint(0), "").unwrap();
        assert!(RunDir::create(dir.path(), "a = 1\n").is_err());
    }

    #[test]
    fn nothing_to_resume_is_said() {
        let dir = TestDir::new("run-dir-empty");
        for path in [dir.path(), &dir.path().join("missing")] {
            let error = RunDir::resume(path).unwrap_err();
            assert!(error.hint_text().unwrap().contains("without --resume"));
        }
    }

    #[test]
    fn the_latest_checkpoint_is_the_highest_step_and_old_ones_are_pruned() {
        let dir = TestDir::new("run-dir-latest");
        let run = RunDir::create(dir.path(), "").unwrap();
        for step in [9, 100, 20, 123_456_789] {
            fs::write(run.checkpoint(step), "").unwrap();
        }
        fs::write(run.checkpoint(7).with_extension("part"), "").unwrap();
        let steps = |run: &RunDir| run.checkpoints().unwrap().iter().map(|c| c.0).collect::<Vec<_>>();
        assert_eq!(steps(&run), [9, 20, 100, 123_456_789]);
        run.prune(3).unwrap();
        assert_eq!(steps(&run), [20, 100, 123_456_789]);
        run.remove_after(100).unwrap();
        assert_eq!(steps(&run), [20, 100]);
        run.prune(5).unwrap();
        assert_eq!(steps(&run), [20, 100]);
    }

    #[test]
    fn a_resumed_run_removes_temporary_files_and_is_locked_against_a_second_process() {
        let dir = TestDir::new("run-dir-locked");
        let run = RunDir::create(dir.path(), "").unwrap();
        fs::write(run.checkpoint(3), "").unwrap();
        assert!(RunDir::resume(dir.path()).unwrap_err().got().contains("process"));
        drop(run);
        let left = [dir.path().join("metrics.jsonl.7-0.part"), dir.path().join("checkpoints/step.9-1.part")];
        left.iter().for_each(|path| fs::write(path, "half").unwrap());
        let (run, found) = RunDir::resume(dir.path()).unwrap();
        assert_eq!(found, [(3, run.checkpoint(3))]);
        assert!(left.iter().all(|path| !path.exists()));
    }

    #[test]
    fn a_place_for_a_run_is_checked_before_it_starts() {
        let dir = TestDir::new("run-dir-check");
        let file = dir.path().join("file");
        fs::write(&file, "mine").unwrap();
        assert!(RunDir::check_new_run(&file.join("run")).is_err());
        assert!(RunDir::check_new_run(dir.path()).is_err());
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "nothing was written");
        let new = dir.path().join("new/run");
        RunDir::check_new_run(&new).unwrap();
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "what was created for the check is gone");
        let run = RunDir::create(&new, "").unwrap();
        assert!(RunDir::check_new_run(&new).is_err());
        drop(run);
    }

    #[test]
    fn a_directory_with_the_name_of_a_checkpoint_is_none() {
        let dir = TestDir::new("run-dir-folder");
        let run = RunDir::create(dir.path(), "").unwrap();
        fs::write(run.checkpoint(3), "").unwrap();
        fs::create_dir(run.checkpoint(4)).unwrap();
        assert_eq!(run.checkpoints().unwrap(), [(3, run.checkpoint(3))]);
    }
}
