//! Time and memory of this process.

use std::fs;
use std::time::Instant;

/// A running measurement.
pub struct Clock {
    began: Instant,
    cpu: f64,
}

/// What a piece of work took.
#[derive(Clone, Copy, Debug, Default)]
pub struct Cost {
    /// Seconds.
    pub seconds: f64,
    /// Seconds of all threads together.
    pub cpu_seconds: f64,
}

impl Clock {
    /// Starts.
    pub fn start() -> Self {
        Self { began: Instant::now(), cpu: cpu_seconds() }
    }

    /// Since the start.
    pub fn cost(&self) -> Cost {
        Cost { seconds: self.began.elapsed().as_secs_f64(), cpu_seconds: cpu_seconds() - self.cpu }
    }
}

/// Seconds that the threads of this process have run; 0 where the system does not tell. Threads that have ended are not
/// counted: ours live as long as the process.
fn cpu_seconds() -> f64 {
    let Ok(tasks) = fs::read_dir("/proc/self/task") else { return 0.0 };
    let of = |path: std::path::PathBuf| -> Option<f64> {
        let text = fs::read_to_string(path.join("schedstat")).ok()?;
        Some(text.split_whitespace().next()?.parse::<f64>().ok()? * 1e-9)
    };
    tasks.flatten().filter_map(|task| of(task.path())).sum()
}

/// A line of a process's status in MB, if the system tells.
pub fn status_mb(process: &str, key: &str) -> Option<f64> {
    let text = fs::read_to_string(format!("/proc/{process}/status")).ok()?;
    let line = text.lines().find(|line| line.starts_with(key))?;
    Some(line.split_whitespace().nth(1)?.parse::<f64>().ok()? / 1024.0)
}

/// The memory of a process and of those it has started, in MB; 0 if the system does not tell.
pub fn family_mb(process: u32) -> f64 {
    let own = process.to_string();
    let children = fs::read_to_string(format!("/proc/{own}/task/{own}/children")).unwrap_or_default();
    let each = std::iter::once(own.as_str()).chain(children.split_whitespace());
    each.filter_map(|process| status_mb(process, "VmHWM")).sum()
}
