//! Every row in a process of its own, with limits of time and memory.

use std::io::Read as _;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use sheaf_admm::{Error, ErrorKind, Result};

use crate::measure::family_mb;
use crate::{PROBLEMS, Row, SOLVERS, size};

/// What to measure.
#[derive(Clone, Debug)]
pub struct Options {
    /// Only this problem, if given.
    pub problem: Option<String>,
    /// Only this solver, if given.
    pub solver: Option<String>,
    /// Agents of the large problems.
    pub agents: usize,
    /// The most time of a row, generator and oracle included.
    pub limit: Duration,
    /// The most memory of a row, in MB.
    pub memory_mb: f64,
}

/// Measures all rows. `child(problem, solver)` is the command that calls [`measure`](crate::measure()) in a process of its
/// own and prints the row as JSON; `show` sees every row as it is done.
pub fn run(
    options: &Options,
    child: impl Fn(&str, &str) -> Command,
    mut show: impl FnMut(&Row),
) -> Result<Vec<Row>> {
    let wanted = |only: &Option<String>, name: &str| only.as_deref().is_none_or(|only| only == name);
    let mut rows = Vec::new();
    for problem in PROBLEMS.into_iter().filter(|p| wanted(&options.problem, p)) {
        for solver in SOLVERS.into_iter().filter(|s| wanted(&options.solver, s)) {
            let row = one(options, problem, solver, child(problem, solver))?;
            show(&row);
            rows.push(row);
        }
    }
    Ok(rows)
}

fn one(options: &Options, problem: &str, solver: &str, mut command: Command) -> Result<Row> {
    let failed = |status: String, peak: Option<f64>| Row {
        problem: problem.into(),
        solver: solver.into(),
        status,
        agents: size(problem, options.agents),
        seconds: None,
        cpu_seconds: None,
        peak_rss_mb: peak,
        error: None,
    };
    let process =
        |e: std::io::Error| Error::new(ErrorKind::Io, "process of a measurement", "a process that runs", e);
    let mut child = command
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(process)?;
    let (began, mut peak) = (Instant::now(), 0.0f64);
    let ended = loop {
        if let Some(status) = child.try_wait().map_err(process)? {
            break status;
        }
        peak = peak.max(family_mb(child.id()));
        if peak > options.memory_mb {
            stop(&mut child).map_err(process)?;
            return Ok(failed(format!("above {:.0} MB", options.memory_mb), Some(peak)));
        }
        if began.elapsed() > options.limit {
            stop(&mut child).map_err(process)?;
            return Ok(failed(format!("above {:.0} s", options.limit.as_secs_f64()), Some(peak)));
        }
        std::thread::sleep(Duration::from_millis(20));
    };
    let (mut out, mut errors) = (String::new(), String::new());
    if let (Some(stdout), Some(stderr)) = (&mut child.stdout, &mut child.stderr) {
        stdout.read_to_string(&mut out).map_err(process)?;
        stderr.read_to_string(&mut errors).map_err(process)?;
    }
    match serde_json::from_str(&out) {
        Ok(row) if ended.success() => Ok(row),
        _ => {
            let last = errors.lines().find(|line| !line.is_empty()).unwrap_or("no message");
            Ok(failed(format!("failed: {last}"), Some(peak)))
        }
    }
}

fn stop(child: &mut Child) -> std::io::Result<()> {
    child.kill()?;
    child.wait().map(|_| ())
}
