//! Results: lines for people, or one JSON object for programs, on standard output.
//!
//! A report is a list of entries. An entry has a key for JSON, a label for people, or both, so the two outputs never
//! disagree. Keys are documented in `docs/cli.md` and are stable.

use std::fmt::Write as _;
use std::io::{self, Write};
use std::path::Path;

use serde::Serialize;
use serde::ser::SerializeMap;
use serde_json::Value;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::evaluate::SolveOptions;
use sheaf_learn::train::file::io_error;

use crate::terminal;

/// The results of a command.
#[derive(Clone, Debug, Default)]
pub struct Report {
    above: String,
    entries: Vec<Entry>,
}

#[derive(Clone, Debug)]
struct Entry {
    key: &'static str,
    label: &'static str,
    value: Value,
    text: String,
}

impl Report {
    /// An empty report.
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds text for people only, such as a table; it is printed before the entries. What a terminal would obey is
    /// escaped: names in it may come from files.
    pub fn above(&mut self, text: impl AsRef<str>) -> &mut Self {
        self.drawing(terminal::lines(text.as_ref()))
    }

    /// Adds a drawing of the tool's own, with its colours.
    pub fn drawing(&mut self, text: impl AsRef<str>) -> &mut Self {
        self.above.push_str(text.as_ref());
        self
    }

    /// Adds a value that people see as `text` under `label`.
    pub fn add(
        &mut self,
        key: &'static str,
        label: &'static str,
        value: impl Into<Value>,
        text: impl Into<String>,
    ) -> &mut Self {
        self.entries.push(Entry { key, label, value: value.into(), text: text.into() });
        self
    }

    /// Adds a value for programs only.
    pub fn value(&mut self, key: &'static str, value: impl Into<Value>) -> &mut Self {
        self.add(key, "", value, "")
    }

    /// Adds a line for people only; an empty label continues the previous line.
    pub fn line(&mut self, label: &'static str, text: impl Into<String>) -> &mut Self {
        self.add("", label, Value::Null, text)
    }

    /// Adds the speed and the peak memory.
    pub fn pace(&mut self, samples: usize, seconds: f64) -> &mut Self {
        let rate = samples as f64 / seconds.max(1e-9);
        self.value("seconds", rounded(seconds, 6));
        self.add("samples_per_s", "speed", rounded(rate, 3), format!("{} samples/s", significant(rate)));
        self.memory()
    }

    /// Adds the peak memory.
    pub fn memory(&mut self) -> &mut Self {
        let peak = peak_rss_mb();
        let text = peak.map_or("unknown".into(), |mb| format!("{mb:.0} MB at most"));
        self.add("peak_rss_mb", "memory", peak.map(|mb| rounded(mb, 1)), text)
    }

    /// Adds the file that was written.
    pub fn written(&mut self, path: &Path) -> &mut Self {
        let path = path.display().to_string();
        self.add("out", "written", path.clone(), path)
    }

    /// Adds whether the answer is correct.
    pub fn solved(&mut self, solved: bool) -> &mut Self {
        self.add("solved", "solved", solved, if solved { "yes" } else { "no" })
    }

    /// Adds how many of `samples` answers are correct and how many are valid: counts and rates.
    pub fn rates(&mut self, solved: (usize, f64), valid: (usize, f64), samples: usize) -> &mut Self {
        for (key, (n, rate)) in [("solved", solved), ("valid", valid)] {
            self.add(key, key, rounded(rate, 6), percent(n, samples));
        }
        self.value("accuracy", rounded(solved.1, 6))
    }

    /// Adds the share of correct cells.
    pub fn cells(&mut self, key: &'static str, label: &'static str, rate: f64) -> &mut Self {
        self.add(key, label, rounded(rate, 6), format!("{:.3} % right", 100.0 * rate))
    }

    /// Adds the mean number of iterations, in at most `rounds` rounds.
    pub fn iterations(&mut self, mean: f64, options: &SolveOptions, rounds: usize) -> &mut Self {
        let most = options.iterations;
        let text = match (options.settling.is_some(), options.tolerance.is_some()) {
            (true, _) => format!("{mean:.1} on average until settled, at most {most}"),
            (_, true) => format!("{mean:.1} on average until within tolerance, at most {most}"),
            _ if rounds > 1 => format!("{mean:.1} on average, {most} a round"),
            _ if mean == 0.0 => "0: the agents do not coordinate".into(),
            _ => most.to_string(),
        };
        // A number that is equal for all samples is an integer.
        let value = if mean == most as f64 { most.into() } else { rounded(mean, 3) };
        self.add("iterations", "iterations", value, text)
    }

    /// The lines for people.
    pub fn text(&self) -> String {
        let shown = || self.entries.iter().filter(|e| !e.text.is_empty());
        let width = shown().map(|e| e.label.chars().count()).max().unwrap_or(0);
        let mut out = self.above.clone();
        for entry in shown() {
            // Writing to a string cannot fail.
            let _ = writeln!(out, "{:<width$}  {}", entry.label, terminal::line(&entry.text));
        }
        out
    }

    /// The object for programs.
    pub fn json(&self) -> Result<String> {
        let text = serde_json::to_string_pretty(self);
        text.map(|t| t + "\n")
            .map_err(|e| Error::new(ErrorKind::Malformed, "results", "values that fit in JSON", e))
    }

    /// Prints the report in one form or the other.
    pub fn print(&self, json: bool) -> Result<()> {
        if json { print(&terminal::json(&self.json()?)) } else { print(&terminal::spelled(&self.text())) }
    }
}

impl Serialize for Report {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(None)?;
        for entry in self.entries.iter().filter(|e| !e.key.is_empty()) {
            map.serialize_entry(entry.key, &entry.value)?;
        }
        map.end()
    }
}

/// Writes to standard output. A closed pipe, as in `sheaf … | head`, is not an error.
pub fn print(text: &str) -> Result<()> {
    let mut out = io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(e) if e.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        Err(e) => Err(io_error(Path::new("standard output"), "to write the results", &e)),
        Ok(()) => Ok(()),
    }
}

/// Peak memory of this process in megabytes (10⁶ bytes); `None` where the system does not report it.
pub fn peak_rss_mb() -> Option<f64> {
    let status = std::fs::read_to_string("/proc/self/status").ok()?;
    let line = status.lines().find_map(|line| line.strip_prefix("VmHWM:"))?;
    let kibibytes: f64 = line.trim().strip_suffix("kB")?.trim().parse().ok()?;
    Some(kibibytes * 1024.0 / 1e6)
}

/// Resets the peak to the current usage; does nothing where the system does not allow it.
pub fn reset_peak_rss() {
    let _ = std::fs::write("/proc/self/clear_refs", "5");
}

/// A number with this many decimals; NaN and infinities become null.
pub fn rounded(value: f64, decimals: i32) -> Value {
    let scale = 10f64.powi(decimals);
    Value::from((value * scale).round() / scale)
}

/// A number with three significant digits, or with all digits before the decimal point.
pub fn significant(value: f64) -> String {
    let magnitude = value.abs().max(1e-12).log10().floor() as i32;
    grouped(&format!("{value:.*}", (2 - magnitude).clamp(0, 9) as usize))
}

/// A whole number with commas between thousands.
pub fn count(n: usize) -> String {
    grouped(&n.to_string())
}

fn grouped(digits: &str) -> String {
    let (whole, rest) = digits.split_at(digits.find('.').unwrap_or(digits.len()));
    let mut out = String::new();
    for (i, c) in whole.chars().enumerate() {
        if i > 0 && (whole.len() - i).is_multiple_of(3) && whole.len() > 4 && !out.ends_with('-') {
            out.push(',');
        }
        out.push(c);
    }
    out + rest
}

/// A fraction in percent.
pub fn percent(part: usize, whole: usize) -> String {
    format!("{:.2} % ({} of {})", 100.0 * part as f64 / whole as f64, count(part), count(whole))
}

/// A duration in its two largest units.
pub fn duration(seconds: f64) -> String {
    let s = seconds.round() as u64;
    match s {
        _ if seconds < 0.0995 => format!("{} ms", significant(1e3 * seconds)),
        _ if seconds < 9.95 => format!("{seconds:.1} s"),
        0..60 => format!("{s} s"),
        60..3600 => format!("{} min {:02} s", s / 60, s % 60),
        _ => format!("{} h {:02} min", s / 3600, s / 60 % 60),
    }
}

/// A curve as one line of at most `columns` characters, on a logarithmic scale of three decades below its maximum.
pub fn sparkline(values: &[f32], columns: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let largest = values.iter().copied().filter(|v| v.is_finite()).fold(f32::MIN_POSITIVE, f32::max);
    let columns = columns.min(values.len());
    (0..columns)
        .map(|c| {
            let value = values[c * values.len() / columns];
            let height = 1.0 + (value / largest).max(1e-3).log10() / 3.0;
            if value.is_finite() { BARS[((height * 7.99) as usize).min(7)] } else { '?' }
        })
        .collect()
}
