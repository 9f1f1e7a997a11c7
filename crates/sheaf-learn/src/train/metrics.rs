//! Metrics as JSON lines: one object per line, `step` first among its keys, flushed after every line.
//!
//! ```text
//! {"step":50,"samples":6400,"seconds":6.1,"loss":0.71,"grad_norm":0.93,"lr":0.000075}
//! {"step":1000,"samples":128000,"seconds":130.2,"eval/solved":0.41,"eval/cell_accuracy":0.97}
//! ```
//!
//! A resumed run first drops the lines after the step it resumes from, so that the file ends up equal to that of an
//! uninterrupted run (except for `seconds`).

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::file::{io_error, write_beside};
use sheaf_admm::{Error, ErrorKind, Result};

/// Appends lines to a metrics file.
#[derive(Debug)]
pub struct MetricsWriter {
    path: PathBuf,
    file: File,
}

impl MetricsWriter {
    /// Opens `path` for appending, after dropping every line of a later step than `step`. The lines that stay are
    /// written to a new file that replaces the old one, so that a link in its place is never written through.
    pub fn open(path: &Path, step: u64) -> Result<Self> {
        let kept = keep_until(path, step)?;
        let file = write_beside(path, |file| file.write_all(kept.as_bytes()))?;
        Ok(Self { path: path.to_path_buf(), file })
    }

    /// Writes one line: the step, then the values in their order. Non-finite values become `null`.
    pub fn write(&mut self, step: u64, samples: u64, seconds: f64, values: &[(&str, f64)]) -> Result<()> {
        let line = line(step, samples, Some(seconds), values);
        // A single write, so that a kill leaves at most one unfinished line.
        self.file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.flush())
            .map_err(|e| io_error(&self.path, "to append a line", &e))
    }
}

/// A line with its newline. Written by hand to keep the order of the keys.
pub(crate) fn line(step: u64, samples: u64, seconds: Option<f64>, values: &[(&str, f64)]) -> String {
    let mut out = format!("{{\"step\":{step},\"samples\":{samples}");
    let seconds = seconds.map(|s| ("seconds", (s * 1e3).round() / 1e3));
    for (key, value) in seconds.iter().chain(values) {
        // `Value` prints the shortest text that reads back as the same number, and `null` for NaN.
        let (key, value) = (serde_json::Value::from(*key), serde_json::Value::from(*value));
        out.push_str(&format!(",{key}:{value}"));
    }
    out.push_str("}\n");
    out
}

/// The lines of steps up to `step`, without an unfinished last one.
fn keep_until(path: &Path, step: u64) -> Result<String> {
    if std::fs::symlink_metadata(path).is_ok_and(|data| !data.is_file()) {
        let (place, got) = (path.display().to_string(), "a link or a folder");
        return Err(Error::new(ErrorKind::Unsupported, place, "a file of the run", got));
    }
    let text = match std::fs::read_to_string(path) {
        Err(e) if e.kind() == io::ErrorKind::NotFound => return Ok(String::new()),
        other => other.map_err(|e| io_error(path, "a readable metrics file", &e))?,
    };
    let mut kept = String::with_capacity(text.len());
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if !line.ends_with('\n') {
            break;
        }
        if step_of(line).ok_or_else(|| malformed(path, number + 1, line))? <= step {
            kept.push_str(line);
        }
    }
    Ok(kept)
}

fn step_of(line: &str) -> Option<u64> {
    serde_json::from_str::<serde_json::Value>(line).ok()?.get("step")?.as_u64()
}

fn malformed(path: &Path, number: usize, line: &str) -> Error {
    let place = format!("{}, line {number}", path.display());
    Error::new(ErrorKind::Malformed, place, "a JSON object with `step`", format!("`{}`", line.trim_end()))
        .hint("remove or repair this line, then resume")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::test_dir::TestDir;

    fn write(path: &Path, from: u64, steps: std::ops::RangeInclusive<u64>) {
        let mut out = MetricsWriter::open(path, from).unwrap();
        for step in steps {
            out.write(step, step * 8, 1.5, &[("loss", 1.0 / step as f64)]).unwrap();
        }
    }

    #[test]
    fn a_line_is_json_with_its_keys_in_order() {
        let text = line(3, 24, Some(0.12349), &[("loss", 0.1 + 0.2), ("eval/solved", f64::NAN)]);
        assert_eq!(
            text,
            "{\"step\":3,\"samples\":24,\"seconds\":0.123,\"loss\":0.30000000000000004,\"eval/solved\":null}\n"
        );
        assert!(serde_json::from_str::<serde_json::Value>(&text).unwrap().is_object());
    }

    #[test]
    fn resuming_drops_later_lines_and_ends_in_the_same_file() {
        let dir = TestDir::new("metrics");
        let (straight, resumed) = (dir.path().join("a"), dir.path().join("b"));
        write(&straight, 0, 1..=9);
        write(&resumed, 0, 1..=7);
        write(&resumed, 4, 5..=9);
        assert_eq!(std::fs::read(straight).unwrap(), std::fs::read(resumed).unwrap());
    }

    #[cfg(unix)]
    #[test]
    fn metrics_are_not_appended_through_a_link() {
        let dir = TestDir::new("metrics-link");
        let (path, other) = (dir.path().join("metrics.jsonl"), dir.path().join("other"));
        std::fs::write(&other, "mine\n").unwrap();
        std::os::unix::fs::symlink(&other, &path).unwrap();
        assert_eq!(MetricsWriter::open(&path, 2).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(std::fs::read_to_string(&other).unwrap(), "mine\n");
    }

    #[test]
    fn a_line_cut_by_a_kill_is_dropped_and_a_broken_one_is_named() {
        let dir = TestDir::new("metrics-cut");
        let path = dir.path().join("metrics.jsonl");
        std::fs::write(&path, "{\"step\":1}\n{\"step\":2}\n{\"ste").unwrap();
        MetricsWriter::open(&path, 2).unwrap();
        assert_eq!(std::fs::read_to_string(&path).unwrap(), "{\"step\":1}\n{\"step\":2}\n");
        std::fs::write(&path, "{\"step\":1}\nnonsense\n").unwrap();
        let error = MetricsWriter::open(&path, 2).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Malformed);
        assert!(error.to_string().contains("line 2") && error.to_string().contains("nonsense"));
    }
}
