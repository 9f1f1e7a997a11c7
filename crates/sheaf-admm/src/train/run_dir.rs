//! The directory of a run.
//!
//! ```text
//! RUN_DIR/config.toml                            the configuration with every default filled in
//!         metrics.jsonl                          one JSON object a line
//!         events.out.tfevents.*                  the same for TensorBoard, one file a session
//!         checkpoints/step-00001000.safetensors  everything needed to continue; the latest is the highest number
//!         best.safetensors                       weights of the best evaluation (running average)
//!         final.safetensors                      weights after the last update (running average)
//! ```

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use super::file::{io_error, write_whole};
use crate::{Error, ErrorKind, Result};

/// Paths in the directory of a run.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// Prepares an empty directory for a new run.
    pub fn create(path: &Path, config: &str) -> Result<Self> {
        let dir = Self(path.to_path_buf());
        fs::create_dir_all(path).map_err(|e| io_error(path, "to create the directory", &e))?;
        let mut entries = fs::read_dir(path).map_err(|e| io_error(path, "a readable directory", &e))?;
        if let Some(entry) = entries.next() {
            let name = entry.map_or("an entry".into(), |e| format!("`{}`", e.file_name().display()));
            return Err(Error::new(
                ErrorKind::Unsupported,
                path.display().to_string(),
                "an empty directory for a new run",
                format!("one with {name} in it"),
            )
            .hint("continue the run in it with --resume, or choose another directory"));
        }
        let checkpoints = dir.checkpoints_dir();
        fs::create_dir(&checkpoints).map_err(|e| io_error(&checkpoints, "to create the directory", &e))?;
        write_whole(&dir.config(), config.as_bytes())?;
        Ok(dir)
    }

    /// The directory of a run that was started before, and its latest checkpoint.
    pub fn resume(path: &Path) -> Result<(Self, PathBuf)> {
        let dir = Self(path.to_path_buf());
        let latest = if dir.checkpoints_dir().is_dir() { dir.checkpoints()?.pop() } else { None };
        match latest {
            Some((_, checkpoint)) => Ok((dir, checkpoint)),
            None => Err(Error::new(
                ErrorKind::Unsupported,
                path.display().to_string(),
                "a run with a checkpoint to resume from",
                "a directory without one",
            )
            .hint("start the run without --resume")),
        }
    }

    /// `config.toml`.
    pub fn config(&self) -> PathBuf {
        self.0.join("config.toml")
    }

    /// `metrics.jsonl`.
    pub fn metrics(&self) -> PathBuf {
        self.0.join("metrics.jsonl")
    }

    /// `best.safetensors`.
    pub fn best(&self) -> PathBuf {
        self.0.join("best.safetensors")
    }

    /// `final.safetensors`.
    pub fn last(&self) -> PathBuf {
        self.0.join("final.safetensors")
    }

    /// The directory itself, where event files go.
    pub fn root(&self) -> &Path {
        &self.0
    }

    fn checkpoints_dir(&self) -> PathBuf {
        self.0.join("checkpoints")
    }

    /// Where the checkpoint after `step` updates lies.
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
                Some((digits.parse().ok()?, entry.path()))
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

    fn remove(&self, checkpoints: &[(u64, PathBuf)]) -> Result<()> {
        checkpoints
            .iter()
            .try_for_each(|(_, path)| fs::remove_file(path).map_err(|e| io_error(path, "to remove it", &e)))
    }
}

/// Checks that two configurations (TOML) agree but for the keys in `may_change`; names the first that differs.
pub fn check_same_config(place: &str, old: &str, new: &str, may_change: &[&str]) -> Result<()> {
    let flat = |text: &str| -> Result<BTreeMap<String, String>> {
        let table: toml::Table = text
            .parse()
            .map_err(|e: toml::de::Error| Error::new(ErrorKind::Malformed, place, "TOML", e.message()))?;
        let mut out = BTreeMap::new();
        flatten("", &table, &mut out);
        Ok(out)
    };
    let (old, new) = (flat(old)?, flat(new)?);
    for key in old.keys().chain(new.keys()) {
        let [was, is] = [old.get(key), new.get(key)].map(|v| v.map_or("nothing", String::as_str));
        if was != is && !may_change.contains(&key.as_str()) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("configuration key `{key}`"),
                format!("{was}, as in {place}"),
                is,
            )
            .hint("resume with the configuration the run was started with, or start a new run"));
        }
    }
    Ok(())
}

fn flatten(prefix: &str, table: &toml::Table, out: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, out),
            other => {
                out.insert(key, other.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::test_dir::TestDir;

    #[test]
    fn a_directory_with_something_in_it_is_refused_with_a_hint() {
        let dir = TestDir::new("run-dir");
        RunDir::create(dir.path(), "a = 1\n").unwrap();
        let error = RunDir::create(dir.path(), "a = 1\n").unwrap_err();
        assert!(error.to_string().contains("--resume"), "{error}");
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
        assert_eq!(RunDir::resume(dir.path()).unwrap().1, run.checkpoint(123_456_789));
        run.prune(3).unwrap();
        assert_eq!(steps(&run), [20, 100, 123_456_789]);
        run.remove_after(100).unwrap();
        assert_eq!(steps(&run), [20, 100]);
        run.prune(5).unwrap();
        assert_eq!(steps(&run), [20, 100]);
    }

    #[test]
    fn the_first_key_that_differs_is_named_and_layout_of_the_text_is_not_a_difference() {
        let old = "name = 'x'\n[train]\nsteps = 10\non_nan = 'stop'\n";
        check_same_config("c", old, "# text\nname='x'\ntrain = { on_nan = \"stop\", steps = 10 }", &[])
            .unwrap();
        let differs =
            |new: &str, free: &[&str]| check_same_config("c", old, new, free).unwrap_err().to_string();
        let more_steps = old.replace("10", "20");
        assert!(differs(&more_steps, &[]).contains("`train.steps`: expected 10, as in c, got 20"));
        assert!(differs(&format!("{old}extra = 1"), &[]).contains("`train.extra`: expected nothing"));
        let rollback = old.replace("stop", "rollback");
        assert!(differs(&rollback, &["train.steps"]).contains("`train.on_nan`"));
        check_same_config("c", old, &rollback, &["train.on_nan"]).unwrap();
    }
}
