//! `sheaf bench`: samples per second, nanoseconds per agent and iteration, and memory, on this machine.

use std::time::Instant;

use clap::ValueEnum;
use serde_json::{Value, json};
use sheaf_admm::share::Traffic;
use sheaf_admm::{Error, ErrorKind, Result};

use super::bench_problems::problems;
use super::{Ending, Job, use_threads};
use crate::args::{BenchArgs, BenchKind};
use crate::progress::{Bar, say};
use crate::ranks;
use crate::report::{self, Report, count, rounded, significant};
use crate::tasks::{self, BenchRequest, Task, Workload};

/// Checks the arguments.
pub fn bench(args: BenchArgs) -> Result<Box<dyn Job>> {
    match args.kind {
        Some(BenchKind::Problems) => problems(args),
        _ => Ok(Box::new(Bench::check(args)?)),
    }
}

/// The measurements to make.
#[derive(Debug)]
pub struct Bench {
    task: &'static dyn Task,
    kind: Option<BenchKind>,
    request: BenchRequest,
    threads: Option<usize>,
    seconds: f64,
}

/// One measurement.
struct Row {
    kind: BenchKind,
    work: Workload,
    threads: usize,
    samples: usize,
    seconds: f64,
    peak_rss_mb: Option<f64>,
    /// What rank 0 had sent before and after, where there are several.
    traffic: Option<(Traffic, Traffic)>,
}

/// Iterations of the rows that grow in size, and the smallest count of the rows that grow in iterations.
const SCALING_ITERATIONS: usize = 20;

impl Bench {
    fn check(args: BenchArgs) -> Result<Self> {
        if !(args.seconds > 0.0 && args.seconds <= 3600.0) {
            return Err(Error::new(ErrorKind::OutOfRange, "--seconds", "a time up to an hour", args.seconds));
        }
        let one_core = !matches!(args.kind, None | Some(BenchKind::Train | BenchKind::Eval));
        let without_effect = [
            ("--threads", one_core && args.threads.is_some(), "a kind that runs on several cores"),
            ("--agents", args.problems.agents.is_some(), "kind problems"),
            ("--batch", args.kind == Some(BenchKind::Scaling) && args.batch.is_some(), "another kind"),
        ];
        if let Some((option, _, want)) = without_effect.iter().find(|(_, given, _)| *given) {
            let got = args.kind.and_then(|kind| kind.to_possible_value());
            let got = got.map_or(String::new(), |value| value.get_name().to_string());
            return Err(Error::new(ErrorKind::Unsupported, *option, want, got).hint("leave the option out"));
        }
        let BenchArgs { experiment, iterations, batch, size, .. } = args;
        let precision = args.precision.map(Into::into);
        let request = BenchRequest { experiment, iterations, batch, size, precision };
        let task = tasks::find("--task", &args.task)?;
        Ok(Self { task, kind: args.kind, request, threads: args.threads, seconds: args.seconds })
    }

    /// What to measure: kinds and their sizes.
    fn plan(&self) -> Vec<(BenchKind, BenchRequest)> {
        let request = &self.request;
        match self.kind {
            None => {
                let usual = [BenchKind::Eval, BenchKind::Solve, BenchKind::Train];
                let all = usual.iter().chain(self.task.hot_paths());
                all.map(|&kind| (kind, request.clone())).collect()
            }
            Some(BenchKind::Scaling) => {
                let sizes = self.task.sizes();
                let largest = request.size.unwrap_or(usize::MAX);
                let k = request.iterations.unwrap_or(SCALING_ITERATIONS);
                let of = |size, k| {
                    let (iterations, batch, size) = (Some(k), None, Some(size));
                    BenchRequest { iterations, batch, size, ..request.clone() }
                };
                // The allocator rarely returns memory to the system, so small measurements run first.
                let by_iterations = [1, 2, 4, 8, 16].map(|factor| of(sizes[0], factor * k));
                let by_size = sizes[1..].iter().filter(|&&s| s <= largest).map(|&s| of(s, k));
                by_iterations.into_iter().chain(by_size).map(|r| (BenchKind::Scaling, r)).collect()
            }
            Some(kind) => vec![(kind, request.clone())],
        }
    }
}

impl Job for Bench {
    fn is_shared(&self) -> bool {
        self.kind == Some(BenchKind::Solve)
    }

    fn run(&self) -> Result<Ending> {
        use_threads(self.threads)?;
        let plan = self.plan();
        let bar = Bar::new("measuring", plan.len() as u64);
        let (mut rows, mut left_out) = (Vec::new(), None);
        for (kind, request) in plan {
            match self.measure(kind, &request) {
                Ok(row) => rows.push(row),
                // Asked for everything, a model without maps has everything else.
                Err(error) if self.kind.is_none() && error.place() == "model.coordination" => {
                    left_out = Some("laplacian is left out: the model has no restriction maps");
                }
                Err(error) => return Err(error),
            }
            bar.add(1);
        }
        bar.clear();
        left_out.into_iter().for_each(say);
        let mut report = Report::new();
        report.above(table(&rows)).value("task", self.task.name());
        match &rows[..] {
            [row] => row.values().into_iter().for_each(|(key, value)| {
                report.value(key, value);
            }),
            _ => {
                let list: Vec<Value> = rows.iter().map(|row| Value::Object(row.object())).collect();
                report.value("rows", list);
            }
        }
        Ok(report.into())
    }
}

impl Bench {
    /// Runs rounds until the time is up. The first round warms caches and allocates, and does not count.
    fn measure(&self, kind: BenchKind, request: &BenchRequest) -> Result<Row> {
        report::reset_peak_rss();
        let mut work = self.task.workload(kind, request)?;
        let warm = Instant::now();
        (work.round)()?;
        let mut round_seconds = warm.elapsed().as_secs_f64();
        let (mut rounds, start) = (0, Instant::now());
        // A single round of a large sample may already take long enough.
        let before = ranks::traffic();
        let more = |rounds, seconds: f64| {
            rounds == 0 || start.elapsed().as_secs_f64() + 0.5 * seconds < self.seconds
        };
        while ranks::told(more(rounds, round_seconds)) {
            let begin = Instant::now();
            (work.round)()?;
            round_seconds = begin.elapsed().as_secs_f64();
            rounds += 1;
        }
        let seconds = start.elapsed().as_secs_f64();
        let threads = work.threads.unwrap_or_else(rayon::current_num_threads);
        let (samples, peak_rss_mb) = (rounds * work.batch, report::peak_rss_mb());
        let traffic = before.zip(ranks::traffic());
        Ok(Row { kind, work, threads, samples, seconds, peak_rss_mb, traffic })
    }
}

impl Row {
    fn name(&self) -> String {
        self.kind.to_possible_value().map_or(String::new(), |value| value.get_name().to_string())
    }

    fn samples_per_s(&self) -> f64 {
        self.samples as f64 / self.seconds
    }

    fn ms_per_sample(&self) -> f64 {
        1e3 * self.seconds / self.samples as f64
    }

    /// Nanoseconds of one core per agent and iteration.
    fn ns_per_agent_iteration(&self) -> f64 {
        let pieces = self.samples as f64 * self.work.agents as f64 * self.work.iterations as f64;
        1e9 * self.seconds * self.threads as f64 / pieces
    }

    fn values(&self) -> Vec<(&'static str, Value)> {
        vec![
            ("kind", self.name().into()),
            ("size", self.work.size.into()),
            ("agents", self.work.agents.into()),
            ("iterations", self.work.iterations.into()),
            ("batch", self.work.batch.into()),
            ("precision", self.work.precision.name().into()),
            ("threads", self.threads.into()),
            ("samples", self.samples.into()),
            ("seconds", rounded(self.seconds, 6)),
            ("samples_per_s", rounded(self.samples_per_s(), 3)),
            ("ms_per_sample", rounded(self.ms_per_sample(), 4)),
            ("ns_per_agent_iteration", rounded(self.ns_per_agent_iteration(), 2)),
            ("peak_rss_mb", json!(self.peak_rss_mb.map(|mb| rounded(mb, 1)))),
        ]
        .into_iter()
        .chain(self.of_ranks())
        .collect()
    }

    /// What rank 0 sent and waited per iteration.
    fn of_ranks(&self) -> Vec<(&'static str, Value)> {
        let Some((before, after)) = self.traffic else { return Vec::new() };
        let iterations = (self.samples * self.work.iterations.max(1)) as f64;
        let each = |of: fn(&Traffic) -> u64| rounded((of(&after) - of(&before)) as f64 / iterations, 3);
        vec![
            ("ranks", ranks::count().into()),
            ("exchanges_per_iteration", each(|t| t.swaps)),
            ("messages_per_iteration", each(|t| t.messages)),
            ("halo_bytes_per_iteration", each(|t| t.bytes)),
            ("sums_per_iteration", each(|t| t.sums)),
            ("sum_bytes_per_iteration", each(|t| t.sum_bytes)),
            ("waited_us_per_iteration", each(|t| t.waited / 1000)),
        ]
    }

    fn object(&self) -> serde_json::Map<String, Value> {
        self.values().into_iter().map(|(key, value)| (key.to_string(), value)).collect()
    }
}

/// The measurements as a table.
fn table(rows: &[Row]) -> String {
    const HEAD: &str =
        "  size  agents  iterations  batch  threads  samples/s  ms/sample  ns/agent·iter  peak MB";
    let mut lines: Vec<Vec<String>> = vec![HEAD.split("  ").map(str::to_string).collect()];
    lines.extend(rows.iter().map(|row| {
        let work = &row.work;
        let per_agent = || significant(row.ns_per_agent_iteration());
        vec![
            row.name(),
            work.size.to_string(),
            count(work.agents),
            work.iterations.to_string(),
            work.batch.to_string(),
            row.threads.to_string(),
            significant(row.samples_per_s()),
            significant(row.ms_per_sample()),
            if work.agents > 0 { per_agent() } else { "none".into() },
            row.peak_rss_mb.map_or("unknown".into(), |mb| format!("{mb:.0}")),
        ]
    }));
    aligned(&lines)
}

/// Lines of cells as columns, the first to the left and the others to the right.
fn aligned(lines: &[Vec<String>]) -> String {
    let width = |column: usize| lines.iter().map(|l| l[column].chars().count()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..lines[0].len()).map(width).collect();
    let mut out = String::new();
    for line in lines {
        out += &format!("{:<w$}", line[0], w = widths[0]);
        for (text, w) in line[1..].iter().zip(&widths[1..]) {
            out += &format!("  {text:>w$}");
        }
        out.push('\n');
    }
    out
}
