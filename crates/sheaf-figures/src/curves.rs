//! Learning curves of runs: the loss, and what was evaluated during training.

use std::path::Path;

use serde_json::Value;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::read_text_at_most;

use crate::chart::{Axes, Curve, Marks, coloured};
use crate::colour;
use crate::file::Figure;
use crate::legend;
use crate::sheet::{FULL, figure};

/// Largest file of metrics that is read.
const MAX_BYTES: u64 = 1 << 28;
/// Most points of a curve that are drawn; more than a page can show.
const MAX_POINTS: usize = 400;

/// What a run learned.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Learning {
    /// Its name.
    pub name: String,
    /// Loss over samples seen.
    pub loss: Vec<(f64, f64)>,
    /// The most important metric over samples seen: its name without `eval/`, and the points.
    pub metric: (String, Vec<(f64, f64)>),
}

impl Learning {
    /// Reads the metrics of a run folder, or a file of metrics.
    pub fn read(run: &Path) -> Result<Self> {
        let (path, name) = match run.is_file() {
            true => (run.to_path_buf(), run.file_stem()),
            false => (run.join("metrics.jsonl"), run.file_name()),
        };
        let text = read_text_at_most(&path, MAX_BYTES, "the metrics of a run").map_err(|e| {
            e.hint("name the folder of a run, or a file such as results/curves/maze-42.jsonl")
        })?;
        let name = name.unwrap_or_default().to_string_lossy();
        Self::parse(&name, &path.display().to_string(), &text)
    }

    /// Reads lines of metrics; `place` names them in errors.
    pub fn parse(name: &str, place: &str, text: &str) -> Result<Self> {
        let mut learning = Self { name: name.into(), ..Self::default() };
        for (i, line) in text.lines().enumerate() {
            let value: Value = match serde_json::from_str(line) {
                Ok(value) => value,
                // A kill may leave an unfinished line at the end.
                Err(_) if i + 1 == text.lines().count() => break,
                Err(e) => {
                    let place = format!("{place}, line {}", i + 1);
                    return Err(Error::new(ErrorKind::Malformed, place, "one JSON object a line", e));
                }
            };
            let Some(samples) = value["samples"].as_f64() else { continue };
            if let Some(loss) = value["loss"].as_f64() {
                learning.loss.push((samples, loss));
            }
            // Evaluations write their most important metric first.
            let first = value.as_object().and_then(|map| {
                let wanted = format!("eval/{}", learning.metric.0);
                let known = map.get_key_value(&wanted);
                known.or_else(|| map.iter().find(|(key, _)| main_metric(key)))
            });
            if let Some((key, value)) = first.and_then(|(k, v)| Some((k.strip_prefix("eval/")?, v.as_f64()?)))
            {
                learning.metric.0 = key.into();
                learning.metric.1.push((samples, value));
            }
        }
        learning.loss = thinned(&learning.loss);
        Ok(learning)
    }
}

/// The metrics that tell how well a task is solved.
fn main_metric(key: &str) -> bool {
    ["eval/solved", "eval/accuracy"].contains(&key)
}

/// At most [`MAX_POINTS`] of the points: means of neighbours.
fn thinned(points: &[(f64, f64)]) -> Vec<(f64, f64)> {
    let together = points.len().div_ceil(MAX_POINTS).max(1);
    points
        .chunks(together)
        .map(|part| {
            let mean = part.iter().map(|p| p.1).sum::<f64>() / part.len() as f64;
            (part[part.len() - 1].0, mean)
        })
        .collect()
}

/// The figure of some runs: loss on the left, the metric on the right, where one was evaluated.
pub fn learning_curves(runs: &[Learning]) -> Result<Figure> {
    if runs.is_empty() {
        return Err(Error::new(ErrorKind::Shape, "figure learning-curve", "one or more runs", "none")
            .hint("name the folders of runs: --runs RUN_A RUN_B"));
    }
    let curve = |name: &str, points: &[(f64, f64)]| Curve {
        name: name.into(),
        points: points.to_vec(),
        spread: Vec::new(),
    };
    let losses: Vec<Curve> = runs.iter().map(|r| curve(&r.name, &r.loss)).collect();
    let metrics: Vec<Curve> = runs.iter().map(|r| curve(&r.name, &r.metric.1)).collect();
    let has_metric = metrics.iter().any(|c| c.points.len() > 1);
    let lines = keys_in_lines(runs);
    let top = 14.0 * lines.len() as f64 + 4.0;
    let wide = if has_metric { 0.5 * FULL } else { FULL };
    // Both charts begin with the training, so that they can be read together.
    let last = losses.iter().chain(&metrics).flat_map(|c| &c.points).map(|p| p.0).fold(0.0, f64::max);
    let x_range = (last > 0.0).then_some((0.0, last));
    figure(FULL, top + 220.0, |sheet| {
        for (i, line) in lines.iter().enumerate() {
            let (mut x, y) = (44.0, 10.0 + 14.0 * i as f64);
            for &run in line {
                let key = (colour::curve(run), run / colour::CURVES.len());
                x = legend::line(sheet, (x, y), key, &runs[run].name)?;
            }
        }
        let log =
            Axes { x_range, log: true, marks: Marks::Thin, ..Axes::new("samples seen", "training loss") };
        log.draw(sheet, (0.0, top, wide, 216.0), &coloured(&losses))?;
        if has_metric {
            let label = format!("{} on held-out samples (%)", what(runs));
            let axes = Axes::new("samples seen", &label);
            let axes = Axes { x_range, percent: true, y_range: Some((0.0, 1.0)), marks: Marks::Dots, ..axes };
            axes.draw(sheet, (wide, top, wide, 216.0), &coloured(&metrics))?;
        }
        Ok(())
    })
}

/// The metrics of all runs, by name: tasks differ in theirs.
fn what(runs: &[Learning]) -> String {
    let mut names: Vec<&str> = Vec::new();
    for name in runs.iter().map(|run| run.metric.0.as_str()).filter(|name| !name.is_empty()) {
        if !names.contains(&name) {
            names.push(name);
        }
    }
    names.join(" or ")
}

/// The keys of the runs, by number, in lines that fit the page.
fn keys_in_lines(runs: &[Learning]) -> Vec<Vec<usize>> {
    let mut lines: Vec<Vec<usize>> = vec![Vec::new()];
    let mut wide = 0.0;
    for (i, run) in runs.iter().enumerate() {
        let own = legend::line_width(&run.name);
        if wide + own > FULL - 50.0 && wide > 0.0 {
            lines.push(Vec::new());
            wide = 0.0;
        }
        wide += own;
        if let Some(line) = lines.last_mut() {
            line.push(i);
        }
    }
    lines
}
