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
use sheaf_admm::{Error, ErrorKind, Result};

/// Paths in the directory of a run.
#[derive(Clone, Debug)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// Prepares a directory for a new run: an empty one, or one left by a start that failed before its first
    /// checkpoint, for example on a full disk.
    pub fn create(path: &Path, config: &str) -> Result<Self> {
        let dir = Self(path.to_path_buf());
        fs::create_dir_all(path).map_err(|e| io_error(path, "to create the directory", &e))?;
        let begun = dir.entries(path)?;
        if let Some(entry) = begun.first().filter(|_| !dir.never_started(&begun)) {
            let name = entry.file_name().unwrap_or_default().display();
            return Err(Error::new(
                ErrorKind::Unsupported,
                path.display().to_string(),
                "an empty directory for a new run",
                format!("one with `{name}` in it"),
            )
            .hint(if dir.has_checkpoint() {
                "continue the run in it with --resume, or choose another directory"
            } else {
                "choose another directory"
            }));
        }
        begun.iter().filter(|p| p.is_file()).try_for_each(|p| remove(p))?;
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

    /// The directory of an existing run, and its latest checkpoint.
    pub fn resume(path: &Path) -> Result<(Self, PathBuf)> {
        let dir = Self(path.to_path_buf());
        let latest = if dir.checkpoints_dir().is_dir() { dir.checkpoints()?.pop() } else { None };
        if let Some((_, checkpoint)) = latest {
            return Ok((dir, checkpoint));
        }
        let got = match dir.config().is_file() {
            true => "a run that ended before its first checkpoint was written",
            false => "a directory without one",
        };
        Err(Error::new(
            ErrorKind::Unsupported,
            path.display().to_string(),
            "a run with a checkpoint to resume from",
            got,
        )
        .hint("start the run without --resume"))
    }

    /// The entries of a directory, sorted by name.
    fn entries(&self, path: &Path) -> Result<Vec<PathBuf>> {
        let entries = fs::read_dir(path).map_err(|e| io_error(path, "a readable directory", &e))?;
        let mut found: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
        found.sort();
        Ok(found)
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
        checkpoints.iter().try_for_each(|(_, path)| remove(path))
    }
}

fn remove(path: &Path) -> Result<()> {
    fs::remove_file(path).map_err(|e| io_error(path, "to remove it", &e))
}

/// Checks that two configurations (TOML) agree except for the keys in `may_change`; the error names the first
/// difference.
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
        let again = RunDir::create(dir.path(), "a = 2\n").unwrap();
        assert_eq!(fs::read_to_string(again.config()).unwrap(), "a = 2\n");
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["checkpoints", "config.toml"]);
        assert_eq!(fs::read_dir(run.checkpoints_dir()).unwrap().count(), 0);
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
