//! Single tests, each in a process of its own, with a mutant switched on.

use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

/// Address space of a test in KB: a mutant must not take the machine's memory.
const MEMORY: &str = "8000000";

/// A test of a binary.
pub struct Test {
    binary: PathBuf,
    folder: PathBuf,
    /// Its name.
    pub name: String,
    /// How long it takes without a mutant.
    pub time: Duration,
    /// The mutants whose places it runs.
    pub reached: BTreeSet<usize>,
}

/// How a test ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Outcome {
    Passed,
    Failed,
    TooLong,
}

/// The tests of a binary, each after a run that records the mutants it reaches.
pub fn tests(tree: &Path, binary: &Path, folder: &Path) -> Result<Vec<Test>> {
    let list = Command::new(binary).arg("--list").current_dir(folder).output()?;
    let list = String::from_utf8_lossy(&list.stdout).into_owned();
    let mut tests = Vec::new();
    for name in list.lines().filter_map(|line| line.strip_suffix(": test")) {
        let (binary, folder, name) = (binary.to_owned(), folder.to_owned(), name.to_string());
        let mut test =
            Test { binary, folder, name, time: Duration::from_secs(600), reached: BTreeSet::new() };
        let reached = tree.join("reached");
        std::fs::write(&reached, "")?;
        let start = Instant::now();
        if test.run(tree, 0)? != Outcome::Passed {
            bail!("{} of {} fails without a mutant", test.name, test.binary.display());
        }
        test.time = start.elapsed();
        let numbers = std::fs::read_to_string(&reached)?;
        test.reached = numbers.lines().filter_map(|line| line.parse().ok()).collect();
        tests.push(test);
    }
    Ok(tests)
}

impl Test {
    /// Runs the test with a mutant, at most four times as long as usual and ten seconds.
    pub fn run(&self, tree: &Path, number: usize) -> Result<Outcome> {
        std::fs::write(tree.join("mutant"), number.to_string())?;
        let mut command = Command::new("sh");
        let script = format!("ulimit -v {MEMORY}; exec \"$0\" --exact \"$1\" --test-threads=1");
        command.args(["-c", &script]).arg(&self.binary).arg(&self.name).current_dir(&self.folder);
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        let mut child = command.spawn().context("cannot start sh")?;
        let end = Instant::now() + self.time * 4 + Duration::from_secs(10);
        let mut pause = Duration::from_millis(1);
        loop {
            if let Some(status) = child.try_wait()? {
                return Ok(if status.success() { Outcome::Passed } else { Outcome::Failed });
            }
            if Instant::now() > end {
                child.kill()?;
                child.wait()?;
                return Ok(Outcome::TooLong);
            }
            std::thread::sleep(pause);
            pause = (pause * 2).min(Duration::from_millis(50));
        }
    }
}
