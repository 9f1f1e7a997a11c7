//! What `sheaf solve` does for every task: its common options, the iterations one by one, the residuals, an animation.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use clap::Args;
use serde_json::json;
use sheaf_admm::z_update::OutOfStep;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::Samples;
use sheaf_learn::model::evaluate::{Distances, Moment, Reader, Single, SolveOptions, WatchOptions, Watched};
use sheaf_learn::model::settle::Settling;
use sheaf_learn::task::{BoardOf, Weights};
use sheaf_learn::train::file::{read_all, read_at_most};

use super::learned::report_lag;
use super::{Learned, Source};
use crate::args::{iterations, out_of_step};
use crate::commands::check_out;
use crate::draw::maze_terminal::rewind;
use crate::draw::png::MAX_FILE_BYTES;
use crate::progress::{Bar, say};
use crate::report::{self, Report, duration, rounded, sparkline};
use crate::{ranks, terminal};

/// Options of every `sheaf solve`.
#[derive(Debug, Args)]
pub struct WatchArgs {
    /// Run exactly K iterations (in each round) instead of stopping when the agents have settled
    #[arg(long, value_name = "K", value_parser = iterations)]
    pub iterations: Option<usize>,
    /// Show the answer forming, iteration by iteration
    #[arg(long)]
    pub animate: bool,
    /// Also write a picture (.png), an animation (.gif) or, of mazes and boards, vectors (.svg, moving with --animate)
    #[arg(long, value_name = "FILE.png|.gif|.svg")]
    pub out: Option<PathBuf>,
    /// Agents that are not in step: delay=D,loss=P,activity=A,seed=S. Messages come up to D descent steps late, a share P of them
    /// never, and an agent is awake in a share A of the iterations. For weights with model.consensus = "descent"
    #[arg(long, value_name = "LAG", value_parser = out_of_step)]
    pub asynchronous: Option<OutOfStep>,
    /// Weights to use; the built-in ones if not given
    #[arg(long, value_name = "FILE|builtin:TASK")]
    pub weights: Option<String>,
}

/// The common options, checked.
#[derive(Debug)]
pub struct Plan {
    /// Run exactly this many iterations.
    pub iterations: Option<usize>,
    /// Show an animation.
    pub animate: bool,
    /// The picture to write.
    pub out: Option<PathBuf>,
    weights: Source,
    asynchronous: Option<OutOfStep>,
}

impl WatchArgs {
    /// Checks the options; `check_name` rejects picture formats that the task cannot write, and `json` animations.
    pub fn check<K: Learned>(
        self,
        json: bool,
        input: Option<&Path>,
        check_name: fn(&Path) -> Result<()>,
    ) -> Result<Plan> {
        if self.animate && json {
            return Err(Error::new(ErrorKind::Unsupported, "--animate", "results for people", "--json")
                .hint("--out FILE.gif writes an animation, with --json too"));
        }
        if let Some(out) = &self.out {
            check_name(out)?;
            check_out(out, input)?;
        }
        let weights = self.weights.clone().unwrap_or_else(|| format!("builtin:{}", K::NAME));
        let weights = Source::parse(&weights)?;
        let Self { iterations, animate, out, asynchronous, .. } = self;
        Ok(Plan { iterations, animate, out, weights, asynchronous })
    }
}

/// A watched solve.
#[derive(Debug)]
pub struct Solve<A> {
    /// How the solve ended.
    pub watched: Watched<A>,
    /// Residuals and movement after every iteration.
    pub course: Course,
    /// Duration.
    pub seconds: f64,
}

/// Residuals and movement of the agents, iteration by iteration.
#[derive(Debug, Default)]
pub struct Course {
    distances: Vec<Distances>, // empty without ADMM
    moved: Vec<f32>,
}

impl Course {
    fn push(&mut self, moment: &Moment<'_>) {
        if moment.iteration > 0 {
            self.distances.extend(moment.distances);
            self.moved.push(moment.moved);
        }
    }

    /// Appends a later solve.
    pub fn append(&mut self, later: &mut Self) {
        self.distances.append(&mut later.distances);
        self.moved.append(&mut later.moved);
    }

    /// Adds the residuals, where the agents run ADMM; otherwise how far their states moved.
    fn report(&self, report: &mut Report) {
        let Some(last) = self.distances.last() else {
            let moved = self.moved.last().copied();
            if let Some(moved) = moved {
                report.line("movement", format!("{moved:.4} in the last iteration"));
                report.line("", sparkline(&self.moved, curve_columns()));
            }
            report.value("moved", moved.map(|moved| rounded(moved.into(), 7)));
            report.value("movement", &self.moved[..]);
            return;
        };
        let curve = |of: fn(&Distances) -> f32| self.distances.iter().map(of).collect::<Vec<f32>>();
        let [primal, dual, edges] = [curve(|d| d.primal), curve(|d| d.dual), curve(|d| d.edge_rms)];
        let text = format!("primal {:.4}, dual {:.4}, edge rms {:.4}", last.primal, last.dual, last.edge_rms);
        report.add("primal", "residuals", rounded(last.primal.into(), 7), text);
        let columns = curve_columns();
        report.line("", format!("primal {}", sparkline(&primal, columns)));
        report.line("", format!("dual   {}", sparkline(&dual, columns)));
        let edge_rms = rounded(last.edge_rms.into(), 7);
        // `consistency` is the older name of `edge_rms`, kept for one version.
        report.value("dual", rounded(last.dual.into(), 7)).value("edge_rms", edge_rms.clone());
        report.value("consistency", edge_rms);
        let all = json!({ "primal": primal, "dual": dual, "edge_rms": edges, "consistency": edges });
        report.value("residuals", all);
    }
}

impl Plan {
    /// The weights.
    pub fn load<K: Learned>(&self) -> Result<Weights<K>> {
        let weights = Weights::load(&self.weights.open()?)?;
        match self.asynchronous {
            Some(lag) => weights.out_of_step(lag),
            None => Ok(weights),
        }
    }

    /// Whether every iteration is drawn.
    pub fn moves(&self) -> bool {
        self.animate || self.ends_in("gif")
    }

    /// The first of `frames` frames that is written: SVG files hold one frame unless an animation is requested.
    pub fn first_frame(&self, frames: usize) -> usize {
        if self.ends_in("svg") && !self.animate { frames.saturating_sub(1) } else { 0 }
    }

    fn ends_in(&self, ending: &str) -> bool {
        let of = |path: &PathBuf| path.extension().is_some_and(|e| e.eq_ignore_ascii_case(ending));
        self.out.as_ref().is_some_and(of)
    }

    /// Solves sample 0 of `samples`, by default until it settles, for at most `limit` iterations. `every` decodes after
    /// each iteration.
    pub fn watch<K: Learned, R: Reader>(
        &self,
        weights: &Weights<K>,
        board: &BoardOf<K>,
        samples: &dyn Samples,
        reader: &R,
        limit: usize,
        every: bool,
        see: &mut dyn FnMut(&Moment<'_>),
    ) -> Result<Solve<R::Answer>> {
        let solve = self.watch_first(weights, board, samples, reader, limit, every, see)?;
        let expected = "rank 0";
        solve
            .ok_or_else(|| Error::new(ErrorKind::Unsupported, "answer of a sample", expected, "another rank"))
    }

    /// The same where ranks may share the agents; rank 0 has the answer.
    pub fn watch_first<K: Learned, R: Reader>(
        &self,
        weights: &Weights<K>,
        board: &BoardOf<K>,
        samples: &dyn Samples,
        reader: &R,
        limit: usize,
        every: bool,
        see: &mut dyn FnMut(&Moment<'_>),
    ) -> Result<Option<Solve<R::Answer>>> {
        let solve = SolveOptions {
            settling: self.iterations.is_none().then(Settling::default),
            ..SolveOptions::fixed(self.iterations.unwrap_or(limit))
        };
        let bar = Bar::new("solving", solve.iterations as u64);
        let (start, mut course) = (Instant::now(), Course::default());
        let single = Single::new(&weights.model, &weights.params, &board.sheaf, samples, 0)?;
        let watched = single.watch_first(reader, 0, &WatchOptions { solve, every }, &mut |moment| {
            course.push(moment);
            bar.add(usize::from(moment.iteration > 0));
            see(moment);
        })?;
        let seconds = start.elapsed().as_secs_f64();
        Ok(watched.map(|watched| Solve { watched, course, seconds }))
    }

    /// How the iterations ended.
    pub fn ended(&self, iterations: usize, settled: bool) -> String {
        match (self.iterations.is_some(), settled) {
            _ if iterations == 0 => "0: the agents do not coordinate".into(),
            (true, _) => format!("{iterations}, as asked"),
            (false, true) => format!("{iterations}, then settled"),
            (false, false) => format!("{iterations}, the limit; not settled"),
        }
    }

    /// Adds residuals, time, memory, notes and the file that was written.
    pub fn finish(&self, report: &mut Report, course: &Course, seconds: f64, notes: Vec<String>) {
        course.report(report);
        if let Some(lag) = &self.asynchronous {
            report_lag(lag, report);
        }
        report.add("seconds", "time", rounded(seconds, 6), duration(seconds));
        report.value("samples_per_s", rounded(1.0 / seconds.max(1e-9), 3)).memory();
        for note in &notes {
            report.line("note", note);
        }
        report.value("notes", notes);
        if let Some(out) = &self.out {
            report.written(out);
        }
    }
}

/// Shows drawings of `lines` lines in place, in about six seconds; the report then overwrites the space.
pub fn play(
    frames: usize,
    columns: usize,
    lines: usize,
    draw: impl Fn(usize) -> Result<String>,
) -> Result<()> {
    let fits = size().is_some_and(|(width, height)| columns <= width && lines < height);
    if !terminal::moves(std::io::stdout().is_terminal()) || !fits {
        say("note: no terminal large enough to animate here; --out FILE.gif writes an animation");
        return Ok(());
    }
    let step = Duration::from_millis((6000 / frames.max(1)).clamp(30, 400) as u64);
    for frame in 0..frames {
        report::print(&draw(frame)?)?;
        std::thread::sleep(step);
        report::print(&rewind(lines))?;
    }
    // Remnants of the last caption would otherwise stay below the final drawing.
    report::print("\x1b[J")
}

/// Columns of a curve: one that a narrow terminal would wrap shows nothing.
fn curve_columns() -> usize {
    size().map_or(48, |(width, _)| width.saturating_sub(24).clamp(8, 48))
}

/// Adds a drawing of so many columns. A terminal that would wrap it gets a note instead; files take any width.
pub fn draw(report: &mut Report, columns: usize, drawing: impl FnOnce() -> Result<String>) -> Result<()> {
    if std::io::stdout().is_terminal() && size().is_some_and(|(width, _)| columns > width) {
        report.line("drawing", "too wide for this terminal; --out FILE.png writes a picture");
        return Ok(());
    }
    report.drawing(drawing()?).above("\n");
    Ok(())
}

/// Columns and rows of the terminal, if there is one.
pub fn size() -> Option<(usize, usize)> {
    terminal_size::terminal_size().map(|(columns, rows)| (columns.0.into(), rows.0.into()))
}

/// The bytes of a file, or of standard input for `-`, and their name. `want` describes the expected content.
pub fn read_input(path: &Path, want: &str) -> Result<(String, Vec<u8>)> {
    if path == Path::new("-") {
        let title = "standard input";
        // Only rank 0 has a standard input.
        let bytes = match ranks::is_first() {
            true => read_all(std::io::stdin().lock(), Path::new(title), MAX_FILE_BYTES, want)?,
            false => Vec::new(),
        };
        return Ok((title.into(), ranks::told_bytes(bytes)));
    }
    Ok((path.display().to_string(), read_at_most(path, MAX_FILE_BYTES, want)?))
}
