//! `sheaf reproduce`: plans the runs of the paper's tables, makes what is missing, and reports.

use std::io::{IsTerminal, Write};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_reproduce::plan::{self, State};
use sheaf_reproduce::report::results::Results;
use sheaf_reproduce::report::{self, duration};
use sheaf_reproduce::run::{Ended, Now, run};
use sheaf_reproduce::task::DataPlaces;
use sheaf_reproduce::{Plan, Request, Scale, counted, tables};

use super::{COMMIT, Ending, Job, use_threads};
use crate::args::{OnNanArg, ReproduceArgs};
use crate::interrupt::stop_flag;
use crate::progress::say;
use crate::report::Report;
use crate::terminal;

/// Time between lines of progress where there is no terminal.
const PAUSE: Duration = Duration::from_secs(30);

/// Tables to reproduce.
#[derive(Debug)]
pub struct Reproduce {
    request: Request,
    args: ReproduceArgs,
}

impl Reproduce {
    /// Checks the arguments.
    pub fn check(args: ReproduceArgs) -> Result<Self> {
        let scale = args.scale;
        let mut seeds = args.seeds.clone();
        if seeds.is_empty() {
            seeds = if scale == Scale::Quick { vec![tables::SEEDS[0]] } else { tables::SEEDS.to_vec() };
        }
        if let Some(twice) = seeds.iter().enumerate().find(|(i, seed)| seeds[..*i].contains(seed)) {
            return Err(Error::new(ErrorKind::Unsupported, "--seeds", "each seed once", twice.1)
                .hint("runs with the same seed are the same run"));
        }
        if args.out.is_file() {
            let place = format!("--out {}", args.out.display());
            return Err(Error::new(ErrorKind::Unsupported, place, "a folder", "a file")
                .hint("runs, results and report go into one folder"));
        }
        let given: Vec<String> = std::env::args().skip(1).collect();
        let request = Request {
            tables: plan::choose(&args.tables, &args.only)?,
            scale,
            seeds,
            out: args.out.clone(),
            places: DataPlaces { mnist: args.mnist.clone(), sudoku: args.sudoku.clone() },
            rollback: args.on_nan == OnNanArg::Rollback,
            command: format!("sheaf {}", given.join(" ")),
            commit: if COMMIT.is_empty() { "unknown" } else { COMMIT }.into(),
        };
        Ok(Self { request, args })
    }
}

impl Job for Reproduce {
    fn run(&self) -> Result<Ending> {
        use_threads(self.args.threads)?;
        let (tables, out) = (&self.request.tables, &self.args.out);
        if let Some(from) = &self.args.from {
            let results = Results::read(from)?;
            if results.is_empty() {
                let want =
                    format!("records of runs in its folders {}", Scale::ALL.map(Scale::name).join(", "));
                return Err(Error::new(ErrorKind::Shape, from.display().to_string(), want, "none")
                    .hint("`sheaf reproduce TABLE --out DIR` makes them in DIR/results"));
            }
            report::write(tables, &results, &Scale::ALL, out)?;
            return Ok(self.written(Report::new()).into());
        }
        let mut plan = Plan::new(self.request.clone())?;
        if self.args.list {
            let mut report = Report::new();
            report.above(plan.lines().join("\n") + "\n").line("plan", plan.summary());
            plan.warnings().into_iter().for_each(|warning| _ = report.line("note", warning));
            for table in tables {
                report.line("rows", format!("{}: {}", table.name, table.row_names()));
            }
            report.value("runs", plan.runs.len());
            return Ok(report.into());
        }
        std::fs::create_dir_all(out)
            .map_err(|e| sheaf_learn::train::file::io_error(out, "a folder that can be made", &e))?;
        let finished =
            |plan: &Plan| plan.runs.iter().filter(|run| plan.state(run) == State::Finished).count();
        if finished(&plan) < plan.runs.len() {
            say("measuring how long the runs will take");
            plan.measure(&mut |_| {});
        }
        plan.lines().iter().for_each(|line| say(line));
        say(&plan.summary());
        plan.warnings().iter().for_each(|warning| say(&format!("note: {warning}")));
        let stop = stop_flag();
        let (mut failed, mut interrupted) = (0, false);
        for (i, planned) in plan.runs.iter().enumerate() {
            if plan.state(planned) == State::Finished {
                continue;
            }
            let mut line = Line::new(i + 1, plan.runs.len(), plan.seconds_after(i));
            match run(&plan, planned, stop, &mut |now| line.show(now)) {
                Ok(Ended::Finished) => line.end(&format!("{}: {}", planned.name, plan.outcome(planned))),
                Ok(Ended::Interrupted) => interrupted = true,
                // One run that fails must not cost the others.
                Err(error) => {
                    failed += 1;
                    line.end(&format!("{}: failed: {error}", planned.name));
                }
            }
            // The report is there at every moment; a disk that is full for a while costs no other run.
            if let Err(error) = self.report() {
                line.end(&format!("report not written: {error}"));
            }
            if interrupted || stop.load(Ordering::Relaxed) {
                interrupted = true;
                break;
            }
        }
        let reported = self.report()?;
        let mut report = Report::new();
        report.add("runs", "runs", plan.runs.len(), plan.summary()).value("finished", finished(&plan));
        report.value("failed", failed).value("interrupted", interrupted);
        let report = if reported { self.written(report) } else { report };
        Ok(match failed {
            _ if interrupted => Ending::Interrupted(report),
            0 => Ending::Done(report),
            _ => {
                let want = counted(plan.runs.len() as u64, "finished run");
                let got = format!("{failed} that failed");
                let error = Error::new(ErrorKind::SolverFailed, out.display().to_string(), want, got);
                let why = if reported { "report.md says why" } else { "the lines above say why" };
                Ending::Failed(report, error.hint(format!("{why}; the same command tries again")))
            }
        })
    }
}

impl Reproduce {
    /// Writes the report of the records so far; without any there is none.
    fn report(&self) -> Result<bool> {
        let folder = self.args.out.join("results");
        if !folder.is_dir() {
            return Ok(false);
        }
        let results = Results::read(&folder)?;
        report::write(&self.request.tables, &results, &[self.request.scale], &self.args.out)?;
        Ok(true)
    }

    fn written(&self, mut report: Report) -> Report {
        for name in ["report.md", "report.html"] {
            report.line("written", self.args.out.join(name).display().to_string());
        }
        report.value("out", self.args.out.display().to_string());
        report
    }
}

/// The line of the run that is being made.
struct Line {
    head: String,
    later: f64,
    last: Option<Instant>,
    in_place: bool,
}

impl Line {
    fn new(index: usize, of: usize, later: f64) -> Self {
        let in_place = terminal::moves(std::io::stderr().is_terminal());
        Self { head: format!("[{index}/{of}]"), later, last: None, in_place }
    }

    fn show(&mut self, now: &Now) {
        let pause = if self.in_place { Duration::from_millis(200) } else { PAUSE };
        if self.last.is_some_and(|last| last.elapsed() < pause) {
            return;
        }
        self.last = Some(Instant::now());
        let loss = now.loss.map_or(String::new(), |loss| format!("  loss {loss:.4}"));
        let metric =
            now.metrics.first().map_or(String::new(), |(name, v)| format!("  {name} {:.1} %", 100.0 * v));
        let left = now.seconds_left.map_or(String::new(), |own| {
            format!("  {} left, {} with all others", duration(own), duration(own + self.later))
        });
        let Now { run, doing, step, steps, .. } = now;
        let text = format!("{} {run}: {doing}  step {step}/{steps}{loss}{metric}{left}", self.head);
        if self.in_place {
            // A line that is too long would wrap and stay behind.
            let columns = terminal_size::terminal_size().map_or(80, |(columns, _)| usize::from(columns.0));
            let text: String = terminal::line(&text).chars().take(columns.saturating_sub(1)).collect();
            let _ = write!(std::io::stderr(), "\r\x1b[K{text}");
        } else {
            say(&text);
        }
    }

    fn end(&self, text: &str) {
        if self.in_place {
            let _ = write!(std::io::stderr(), "\r\x1b[K");
        }
        say(&format!("{} {text}", self.head));
    }
}
