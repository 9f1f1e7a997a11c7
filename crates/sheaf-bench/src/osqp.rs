//! OSQP, an operator-splitting method, through its Python package in a process of its own.
//!
//! The crates `osqp` and `osqp-sys` fetch a part of their sources while they build; the package brings everything built.
//! The program is sent as numbers, and the clock runs in that process, from numbers to a solution: starting Python does
//! not count, what the interpreter and numpy hold in memory (about 60 MB) does.

use std::io::{BufRead as _, BufReader, Read as _, Write};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::measure::Cost;
use crate::program::Program;
use crate::solvers::Answer;

const SCRIPT: &str = include_str!("osqp.py");

/// The first line of the script's input.
#[derive(Serialize)]
struct Header {
    n: usize,
    rows: usize,
    p: usize,
    a: usize,
    tol: f64,
    limit: f64,
}

/// The first line of its output.
#[derive(Deserialize)]
struct Report {
    status: String,
    #[serde(default)]
    len: usize,
    seconds: Option<f64>,
    cpu_seconds: Option<f64>,
    peak_rss_mb: Option<f64>,
}

/// Solves by OSQP; where Python or the package is missing, the status says so.
pub fn osqp(program: Program, tol: f64, limit: Duration) -> Answer {
    let python = std::env::var_os("SHEAF_PYTHON").unwrap_or_else(|| "python3".into());
    talk(&python, program, tol, limit).unwrap_or_else(|e| Answer::without(format!("not available: {e}")))
}

fn talk(
    python: &std::ffi::OsStr,
    program: Program,
    tol: f64,
    limit: Duration,
) -> Result<Answer, Box<dyn std::error::Error>> {
    let mut child = Command::new(python)
        .args(["-c", SCRIPT])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .map_err(|e| format!("{}: {e}", python.display()))?;
    let states = program.states;
    if let Some(stdin) = child.stdin.take() {
        // A script that ends early closes the pipe; what it said is read below.
        let _ = send(stdin, program, tol, limit);
    }
    let (mut line, mut bytes) = (String::new(), Vec::new());
    if let Some(stdout) = child.stdout.take() {
        let mut stdout = BufReader::new(stdout);
        stdout.read_line(&mut line)?;
        stdout.read_to_end(&mut bytes)?;
    }
    let ended = child.wait_with_output()?;
    let Ok(report) = serde_json::from_str::<Report>(&line) else {
        let errors = String::from_utf8_lossy(&ended.stderr).into_owned();
        let last = errors.lines().rev().find(|line| !line.is_empty()).unwrap_or("no message").to_owned();
        return Ok(Answer::without(format!("failed: {}, {last}", ended.status)));
    };
    let mut x: Vec<f64> = bytes
        .chunks_exact(8)
        .map(|b| f64::from_le_bytes([b[0], b[1], b[2], b[3], b[4], b[5], b[6], b[7]]))
        .collect();
    if x.len() != report.len || x.len() < states {
        return Ok(Answer::without(report.status));
    }
    x.truncate(states);
    let cost = report.seconds.zip(report.cpu_seconds);
    let cost = cost.map(|(seconds, cpu_seconds)| Cost { seconds, cpu_seconds });
    Ok(Answer { status: report.status, x, cost, peak_rss_mb: report.peak_rss_mb })
}

/// Writes the header and all arrays; the program is used up.
fn send(to: impl Write, program: Program, tol: f64, limit: Duration) -> std::io::Result<()> {
    let mut to = std::io::BufWriter::with_capacity(1 << 16, to);
    let header = Header {
        n: program.q.len(),
        rows: program.lower.len(),
        p: program.p.len(),
        a: program.a.len(),
        tol,
        limit: limit.as_secs_f64(),
    };
    serde_json::to_writer(&mut to, &header)?;
    to.write_all(b"\n")?;
    entries(&mut to, &program.p)?;
    numbers(&mut to, &program.q)?;
    entries(&mut to, &program.a)?;
    numbers(&mut to, &program.lower)?;
    numbers(&mut to, &program.upper)?;
    to.flush()
}

/// All rows, all columns, all values.
fn entries(to: &mut impl Write, entries: &[(u32, u32, f64)]) -> std::io::Result<()> {
    entries.iter().try_for_each(|e| to.write_all(&e.0.to_le_bytes()))?;
    entries.iter().try_for_each(|e| to.write_all(&e.1.to_le_bytes()))?;
    entries.iter().try_for_each(|e| to.write_all(&e.2.to_le_bytes()))
}

fn numbers(to: &mut impl Write, numbers: &[f64]) -> std::io::Result<()> {
    numbers.iter().try_for_each(|v| to.write_all(&v.to_le_bytes()))
}
