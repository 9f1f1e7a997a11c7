//! How a picture was classified: frames and a report.

use std::path::Path;

use sheaf_admm::Result;
use sheaf_learn::model::ViewGrid;
use sheaf_learn::model::evaluate::Moment;
use sheaf_tasks::mnist::metrics::{agent_votes, argmax, vote};

use super::solve::Picture;
use crate::draw::maze_terminal::Style;
use crate::draw::votes::{self, Frame, Scene};
use crate::report::{Report, count, rounded};
use crate::tasks::watch::{Plan, Solve, draw, play};

/// Number of classes whose votes are reported, strongest first.
const NOTED: usize = 3;
/// Width of a curve in characters.
const CURVE: usize = 60;

/// Frames and curves of a solve.
pub(super) struct Film<'a> {
    scene: Scene<'a>,
    classes: usize,
    /// Whether all frames are stored, not only the last.
    all: bool,
    frames: Vec<Frame>,
    votes: Vec<Vec<f32>>, // [iterations][classes]
}

impl<'a> Film<'a> {
    pub(super) fn new(picture: &'a Picture, grid: &ViewGrid, classes: usize, all: bool) -> Self {
        let scene = Scene::new(&picture.image, grid, classes);
        Self { scene, classes, all, frames: Vec::new(), votes: Vec::new() }
    }

    /// Stores the votes and the frame of one iteration.
    pub(super) fn record(&mut self, moment: &Moment<'_>) {
        let Some(logits) = moment.outputs else { return };
        let mut votes = vec![0.0; self.classes];
        vote(logits, &mut votes);
        self.votes.push(votes);
        if !self.all {
            self.frames.clear();
        }
        let none = 1.0 / self.classes as f32;
        let (class, sure) = agent_votes(logits, self.classes)
            .map(|(class, sure)| (class as u8, ((sure - none) / (1.0 - none)).clamp(0.0, 1.0)))
            .unzip();
        self.frames.push(Frame { iteration: moment.iteration, class, sure });
    }

    pub(super) fn write(&self, path: &Path) -> Result<()> {
        votes::write(path, &self.scene, &self.frames)
    }

    /// Shows the frames in place, one after the other.
    pub(super) fn play(&self) -> Result<()> {
        let style = Style::detect(self.scene.columns());
        let lines = style.lines(self.scene.height()) + 1;
        play(self.frames.len(), self.scene.columns(), lines, |k| {
            let frame = &self.frames[k];
            let leads = self.votes.get(frame.iteration.saturating_sub(1)).map_or(0, |v| argmax(v));
            let drawn = votes::text(&self.scene, frame, style);
            Ok(format!("{drawn}iteration {}: {leads} leads   \n", frame.iteration))
        })
    }

    pub(super) fn report(
        &self,
        picture: &Picture,
        grid: &ViewGrid,
        plan: &Plan,
        solve: &Solve<u8>,
    ) -> Result<Report> {
        let mut report = Report::new();
        let style = Style::detect(self.scene.columns());
        if let Some(last) = self.frames.last() {
            draw(&mut report, self.scene.columns(), || Ok(votes::text(&self.scene, last, style)))?;
        }
        let none = vec![0.0; self.classes];
        let votes = self.votes.last().unwrap_or(&none);
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
        self.curves(&mut report, votes);
        report.value("votes", votes.iter().map(|&v| rounded(v.into(), 6)).collect::<Vec<_>>());
        report.value("votes_curve", curve_values(&self.votes));
        let (n, side) = (grid.agents(), grid.patch());
        let for_it = |f: &Frame| f.class.iter().filter(|&&c| usize::from(c) == class).count();
        let of = self.frames.last().map_or(0, for_it);
        let text = format!("{}, each sees {side} × {side} pixels; {} vote {class}", count(n), count(of));
        report.add("agents", "agents", n, text).value("agents_for_class", of);
        let (watched, decided) = (&solve.watched, decided(&self.votes));
        let ended = plan.ended(watched.iterations, watched.settled);
        let text = match watched.iterations {
            0 => ended,
            _ => format!("{ended}; {class} leads from iteration {decided} on"),
        };
        report.add("iterations", "iterations", watched.iterations, text).value("decided", decided);
        report.value("settled", watched.settled);
        report.value("height", picture.height).value("width", picture.width);
        plan.finish(&mut report, &solve.course, solve.seconds, Vec::new());
        Ok(report)
    }

    /// The votes of the strongest classes over the iterations.
    fn curves(&self, report: &mut Report, votes: &[f32]) {
        let mut order: Vec<usize> = (0..self.classes).collect();
        order.sort_by(|&a, &b| votes[b].total_cmp(&votes[a]));
        for (i, &class) in order.iter().take(NOTED).enumerate() {
            let curve: Vec<f32> = self.votes.iter().map(|v| v[class]).collect();
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

/// The first iteration from which the final winner leads without interruption.
fn decided(votes: &[Vec<f32>]) -> usize {
    let Some(last) = votes.last().map(|v| argmax(v)) else { return 0 };
    votes.len() - votes.iter().rev().take_while(|v| argmax(v) == last).count() + 1
}

/// A curve of shares as one line of at most `columns` characters.
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
