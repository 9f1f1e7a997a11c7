//! How a picture was told: frames to look at and a report to read.

use std::io::IsTerminal;
use std::path::Path;
use std::time::Duration;

use sheaf_admm::Result;
use sheaf_tasks::mnist::metrics::argmax;
use sheaf_tasks::mnist::views::ViewGrid;
use sheaf_tasks::mnist::watch::Moment;

use super::solve::Picture;
use crate::draw::maze_terminal::{self, Style};
use crate::draw::votes::{self, Frame, Scene};
use crate::report::{self, Report, count, duration, rounded};

/// Classes whose votes are told, the strongest first.
const TOLD: usize = 3;
/// Characters of a curve.
const CURVE: usize = 60;

/// Frames and curves of a solve.
pub(super) struct Film<'a> {
    scene: Scene<'a>,
    frames: Vec<Frame>,
    votes: Vec<Vec<f32>>,     // [iterations][classes]
    distances: Vec<[f32; 3]>, // [iterations]: primal, dual, consistency
}

impl<'a> Film<'a> {
    pub(super) fn new(picture: &'a Picture, grid: &ViewGrid, classes: usize) -> Self {
        let scene = Scene::new(&picture.image, grid, classes);
        Self { scene, frames: Vec::new(), votes: Vec::new(), distances: Vec::new() }
    }

    /// Keeps what one iteration says, and what it looks like where that is wanted.
    pub(super) fn record(&mut self, moment: &Moment<'_>, keep: bool, frame: Frame) {
        self.votes.push(moment.votes.to_vec());
        let rms = |each: &[f32]| (each.iter().map(|r| r * r).sum::<f32>() / each.len().max(1) as f32).sqrt();
        self.distances.push([rms(moment.primal), rms(moment.dual), moment.consistency]);
        if keep {
            self.frames.push(frame);
        }
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        votes::write(path, &self.scene, &self.frames)
    }

    /// Shows the frames one over the other, in about six seconds; the last is left for the report.
    pub(super) fn play(&self) -> Result<()> {
        let style = Style::detect(self.scene.columns());
        let lines = style.lines(self.scene.height()) + 1;
        let fits = terminal_size::terminal_size().is_some_and(|(columns, rows)| {
            self.scene.columns() <= usize::from(columns.0) && lines <= usize::from(rows.0)
        });
        if !std::io::stdout().is_terminal() || !fits {
            eprintln!("note: no terminal large enough to animate here; --out FILE.gif writes an animation");
            return Ok(());
        }
        let step = Duration::from_millis((6000 / self.frames.len().max(1)).clamp(30, 200) as u64);
        for frame in &self.frames {
            let drawn = votes::text(&self.scene, frame, style);
            let leads = self.votes.get(frame.iteration - 1).map_or(0, |v| argmax(v));
            report::print(&format!("{drawn}iteration {}: {leads} leads   \n", frame.iteration))?;
            std::thread::sleep(step);
            report::print(&maze_terminal::rewind(lines))?;
        }
        // What is left of the last caption would stand below the final drawing.
        report::print("\x1b[J")
    }
}

/// What there is to tell.
pub(super) struct Story<'a> {
    pub picture: &'a Picture,
    pub grid: &'a ViewGrid,
    pub classes: usize,
}

impl Story<'_> {
    pub(super) fn report(&self, film: &Film<'_>, seconds: f64) -> Report {
        let (mut report, picture) = (Report::new(), self.picture);
        let style = Style::detect(film.scene.columns());
        if let Some(last) = film.frames.last() {
            report.above(votes::text(&film.scene, last, style)).above("\n");
        }
        let none = vec![0.0; self.classes];
        let votes = film.votes.last().unwrap_or(&none);
        let class = argmax(votes);
        report.line("picture", picture.title.clone());
        let verdict = match picture.label {
            Some(label) if usize::from(label) == class => format!("{class}, which is right"),
            Some(label) => format!("{class}, but it is {label}"),
            None => class.to_string(),
        };
        report.value("task", "mnist").add("class", "class", class, verdict);
        report.value("label", picture.label);
        if let Some(label) = picture.label {
            report.value("accuracy", f64::from(u8::from(usize::from(label) == class)));
        }
        self.curves(&mut report, film, votes);
        report.value("votes", votes.iter().map(|&v| rounded(v.into(), 6)).collect::<Vec<_>>());
        report.value("votes_curve", curve_values(&film.votes));
        let (n, side) = (self.grid.agents(), self.grid.patch());
        let of =
            film.frames.last().map_or(0, |f| f.class.iter().filter(|&&c| usize::from(c) == class).count());
        let text = format!("{}, each sees {side} × {side} pixels; {} vote {class}", count(n), count(of));
        report.add("agents", "agents", n, text).value("agents_for_class", of);
        let decided = decided(&film.votes);
        let text = format!("{}; {class} leads from iteration {decided} on", film.votes.len());
        report.add("iterations", "iterations", film.votes.len(), text).value("decided", decided);
        let [primal, dual, consistency] = film.distances.last().copied().unwrap_or_default();
        let text = format!("primal {primal:.4}, dual {dual:.4}, consistency {consistency:.4}");
        report.add("primal", "residuals", rounded(primal.into(), 7), text);
        report.value("dual", rounded(dual.into(), 7)).value("consistency", rounded(consistency.into(), 7));
        report.value("height", picture.height).value("width", picture.width);
        report.add("seconds", "time", rounded(seconds, 6), duration(seconds));
        report.value("samples_per_s", rounded(1.0 / seconds.max(1e-9), 3)).memory();
        report
    }

    /// The votes of the strongest classes over the iterations.
    fn curves(&self, report: &mut Report, film: &Film<'_>, votes: &[f32]) {
        let mut order: Vec<usize> = (0..self.classes).collect();
        order.sort_by(|&a, &b| votes[b].total_cmp(&votes[a]));
        for (i, &class) in order.iter().take(TOLD).enumerate() {
            let curve: Vec<f32> = film.votes.iter().map(|v| v[class]).collect();
            let text = format!("{class}  {}  {:.1} %", bars(&curve, CURVE), 100.0 * votes[class]);
            report.line(if i == 0 { "votes" } else { "" }, text);
        }
    }
}

/// All votes, rounded.
fn curve_values(votes: &[Vec<f32>]) -> Vec<Vec<f64>> {
    let short = |v: &f32| (f64::from(*v) * 1e4).round() / 1e4;
    votes.iter().map(|row| row.iter().map(short).collect()).collect()
}

/// The first iteration from which on the winner of the last one always leads.
fn decided(votes: &[Vec<f32>]) -> usize {
    let Some(last) = votes.last().map(|v| argmax(v)) else { return 0 };
    votes.len() - votes.iter().rev().take_while(|v| argmax(v) == last).count() + 1
}

/// A curve of shares in one line of at most `columns` characters.
fn bars(values: &[f32], columns: usize) -> String {
    const BARS: [char; 8] = ['▁', '▂', '▃', '▄', '▅', '▆', '▇', '█'];
    let columns = columns.min(values.len());
    let bar = |c: usize| {
        let value = values[c * values.len() / columns];
        if value.is_finite() { BARS[((value * 8.0) as usize).min(7)] } else { '?' }
    };
    (0..columns).map(bar).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_become_bars() {
        assert_eq!(bars(&[0.0, 0.13, 0.5, 1.0], 8), "▁▂▅█");
        assert_eq!(bars(&[f32::NAN], 8), "?");
        assert_eq!(bars(&[1.0; 100], 8).chars().count(), 8);
    }

    #[test]
    fn a_vote_is_decided_where_the_winner_leads_for_good() {
        let votes = |winners: &[usize]| -> Vec<Vec<f32>> {
            winners.iter().map(|&w| (0..3).map(|c| if c == w { 0.8 } else { 0.1 }).collect()).collect()
        };
        assert_eq!(decided(&votes(&[1, 2, 1, 1])), 3);
        assert_eq!(decided(&votes(&[2, 2])), 1);
        assert_eq!(decided(&[]), 0);
    }
}
