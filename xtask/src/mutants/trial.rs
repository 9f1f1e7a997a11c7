//! Running test binaries with a mutant switched on.

use std::collections::BTreeSet;
use std::io::{BufRead, BufReader};
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Address space of a test binary in KB: a mutant must not take the machine's memory.
const MEMORY: &str = "8000000";

/// A test binary, its folder, its time without mutants, and the mutants that it reaches.
pub struct Binary {
    pub path: PathBuf,
    pub folder: PathBuf,
    pub time: Duration,
    pub reached: BTreeSet<usize>,
}

/// How the tests of a binary ended.
pub enum Outcome {
    Passed,
    /// The first test that failed, or how the process ended.
    Failed(String),
    TooLong,
}

impl Binary {
    /// Runs the binary as it is, then once more to record the mutants that it reaches.
    pub fn new(path: PathBuf, folder: PathBuf) -> Result<Binary> {
        let mut binary = Binary { path, folder, time: Duration::from_secs(3600), reached: BTreeSet::new() };
        let start = Instant::now();
        if let Outcome::Failed(test) = binary.run("MUTANT", "0")? {
            bail!("{} fails without a mutant: {test}", binary.path.display());
        }
        let time = start.elapsed();
        let list = binary.path.with_extension("reached");
        let _ = std::fs::remove_file(&list);
        binary.run("MUTANT_REACHED", &list.to_string_lossy())?;
        let numbers = std::fs::read_to_string(&list).unwrap_or_default();
        binary.reached = numbers.lines().filter_map(|line| line.parse().ok()).collect();
        binary.time = time;
        Ok(binary)
    }

    /// Runs until the first test fails or four times the usual time has passed.
    pub fn run(&self, variable: &str, value: &str) -> Result<Outcome> {
        let mut command = Command::new("sh");
        command.args(["-c", &format!("ulimit -v {MEMORY}; exec \"$0\" --test-threads=1")]).arg(&self.path);
        command.current_dir(&self.folder).env(variable, value).env("PROPTEST_FAILURE_PERSISTENCE", "off");
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start sh")?;
        let (sender, lines) = channel();
        let output = child.stdout.take().context("no output of a test binary")?;
        std::thread::spawn(move || {
            BufReader::new(output)
                .lines()
                .map_while(Result::ok)
                .take_while(|line| sender.send(line.clone()).is_ok())
                .count()
        });
        let end = Instant::now() + self.time * 4 + Duration::from_secs(10);
        let mut last = String::from("before the first test");
        let outcome = loop {
            match lines.recv_timeout(end.saturating_duration_since(Instant::now())) {
                Ok(line) if line.starts_with("test ") && line.ends_with("FAILED") => {
                    break Outcome::Failed(line);
                }
                Ok(line) => last = line,
                Err(RecvTimeoutError::Timeout) => break Outcome::TooLong,
                Err(RecvTimeoutError::Disconnected) => match child.wait()? {
                    status if status.success() => break Outcome::Passed,
                    status => break Outcome::Failed(format!("{status} after: {last}")),
                },
            }
        };
        // It may have ended by itself.
        let _ = child.kill();
        child.wait()?;
        Ok(outcome)
    }
}
