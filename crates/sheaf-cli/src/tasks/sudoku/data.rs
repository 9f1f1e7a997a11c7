//! `sheaf data sudoku`: puzzles with their solutions, generated or read from a file.

use std::path::{Path, PathBuf};

use clap::Args;
use clap::builder::PossibleValuesParser;
use serde_json::{Value, json};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::at_most;
use sheaf_learn::train::file::write_whole;
use sheaf_tasks::sudoku::csv::{self, BadLine, MAX_PUZZLES};
use sheaf_tasks::sudoku::data::{SudokuSet, blanks};
use sheaf_tasks::sudoku::generate::{Kind, generate_with};

use crate::commands::{Job, check_out, without_effect};
use crate::progress::{Waiting, timed};
use crate::report::{Report, count, rounded};
use crate::tasks::verbs::Arguments;

const EXAMPLES: &str = "\
Examples:
  sheaf data sudoku --count 2000 --seed 0 --out test.csv
  sheaf data sudoku --count 1000 --kind minimal --out hard.csv
  sheaf data sudoku --from elsewhere.csv --skip-bad --out clean.csv

Lines are `puzzle,solution`, 81 digits each, 0 for a blank; `,ambiguous` follows where there are more solutions.
Kinds:
  mixed    as the published data, without its ambiguous tenth
  full     unique, from hard to nearly complete
  minimal  unique, and no given can be spared
  graded   minimal ones with 0 to 14 more givens: to learn from
  hard     minimal ones with 0 to 4 more givens: to learn from
  singles  unique, and cells with one candidate are enough
  any      as the published data, ambiguous ones included";

/// Draw puzzles with their solutions, or read them from elsewhere
#[derive(Debug, Args)]
#[command(after_help = EXAMPLES)]
pub struct DataArgs {
    /// How many puzzles
    #[arg(long, value_name = "N", required_unless_present = "from", conflicts_with = "from")]
    pub count: Option<usize>,
    /// What they are like
    #[arg(
        long,
        default_value = "mixed",
        value_parser = PossibleValuesParser::new(Kind::ALL.map(Kind::name)),
        conflicts_with = "from"
    )]
    pub kind: String,
    /// Seed of the puzzles
    #[arg(long, default_value_t = 0, conflicts_with = "from")]
    pub seed: u64,
    /// Read puzzles instead: one a line, `.` or 0 for a blank, with or without header and solutions
    #[arg(long, value_name = "FILE")]
    pub from: Option<PathBuf>,
    /// Leave out lines that hold no puzzle with a solution, and list them
    #[arg(long, requires = "from")]
    pub skip_bad: bool,
    /// The file to write
    #[arg(long, value_name = "FILE.csv")]
    pub out: PathBuf,
}

impl Arguments for DataArgs {
    fn check(self, _json: bool) -> Result<Box<dyn Job>> {
        let Self { from, skip_bad, seed, out, .. } = self;
        check_out(&out, from.as_deref())?;
        if let Some(from) = from {
            return Ok(Box::new(move || read(&from, skip_bad, &out)));
        }
        // clap drops `requires` where the required option conflicts with one that is given.
        if skip_bad {
            return Err(without_effect("--skip-bad", "a file to read, --from", "puzzles to draw"));
        }
        let (kind, count) = (self.kind.parse()?, self.count.unwrap_or(0));
        if count == 0 {
            return Err(Error::new(ErrorKind::NotPositive, "--count", "1 or more puzzles", count));
        }
        at_most("--count", "puzzles", MAX_PUZZLES, count)?;
        Ok(Box::new(move || draw(kind, count, seed, &out)))
    }
}

fn draw(kind: Kind, wanted: usize, seed: u64, out: &Path) -> Result<Report> {
    let (set, seconds) =
        timed("drawing puzzles", wanted, |progress| Ok(generate_with(kind, seed, wanted, progress)))?;
    save(&set, out)?;
    let mut report = Report::new();
    let text = format!("{} of the kind `{}`, seed {seed}", count(set.len()), kind.name());
    report.add("samples", "puzzles", set.len(), text).value("kind", kind.name()).value("seed", seed);
    describe(&mut report, &set);
    report.value("seconds", rounded(seconds, 6));
    report.value("samples_per_s", rounded(set.len() as f64 / seconds.max(1e-9), 3)).written(out);
    Ok(report)
}

/// Number of bad lines that are listed individually.
const NOTED: usize = 10;

fn read(from: &Path, skip_bad: bool, out: &Path) -> Result<Report> {
    let waiting = Waiting::new("reading puzzles");
    let contents = csv::read(from, true)?;
    drop(waiting);
    let bad = &contents.bad;
    if !skip_bad && !bad.is_empty() {
        let want = "a puzzle with a solution in every line";
        return Err(Error::new(ErrorKind::Malformed, from.display().to_string(), want, listed(bad, "; "))
            .hint("--skip-bad leaves such lines out and writes the others"));
    }
    save(&contents.set, out)?;
    let n = contents.set.len();
    let mut report = Report::new();
    report.value("from", from.display().to_string());
    report.add("samples", "puzzles", n, format!("{} from {}", count(n), from.display()));
    if contents.completed > 0 {
        report.line("solutions", format!("{} were missing and have been found", count(contents.completed)));
    }
    report.value("completed", contents.completed);
    describe(&mut report, &contents.set);
    if !bad.is_empty() {
        report.line("left out", format!("{} bad lines: {}", count(bad.len()), listed(bad, "; ")));
    }
    let lines = bad.iter().map(|b| json!({ "line": b.line, "reason": b.reason }));
    report.value("bad", lines.collect::<Vec<Value>>()).written(out);
    Ok(report)
}

/// The first bad lines, and how many more there are.
fn listed(bad: &[BadLine], between: &str) -> String {
    let first: Vec<String> = bad.iter().take(NOTED).map(ToString::to_string).collect();
    let more = match bad.len().saturating_sub(NOTED) {
        0 => String::new(),
        n => format!("{between}and {} more", count(n)),
    };
    first.join(between) + &more
}

fn save(set: &SudokuSet, out: &Path) -> Result<()> {
    let mut bytes = Vec::new();
    csv::write(set, &mut bytes)
        .map_err(|e| Error::new(ErrorKind::Io, out.display().to_string(), "to write the puzzles", e))?;
    write_whole(out, &bytes)
}

fn describe(report: &mut Report, set: &SudokuSet) {
    let counts: Vec<usize> = set.puzzles.iter().map(blanks).collect();
    let mean = counts.iter().sum::<usize>() as f64 / counts.len().max(1) as f64;
    let (fewest, most) = (counts.iter().min().copied(), counts.iter().max().copied());
    let text = format!("{mean:.1} on average, {} to {}", fewest.unwrap_or(0), most.unwrap_or(0));
    report.add("blanks_mean", "blanks", rounded(mean, 3), text);
    let ambiguous = set.ambiguous.iter().filter(|&&a| a).count();
    report.value("ambiguous", ambiguous);
    if ambiguous > 0 {
        report.line("ambiguous", format!("{} with more than one solution, marked", count(ambiguous)));
    }
}
