//! Agents that are not in step: solve rates of tasks and errors of a convex problem against delay, loss and activity.
//!
//! | file of the folder | columns |
//! | --- | --- |
//! | `rates.csv` | task, kind (`delay`, `loss` or `activity`), weights, value, share that is solved |
//! | `convex.csv` | kind, curve, iteration, relative error |

use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::read_text_at_most;

use crate::chart::{Axes, Curve, Marks, coloured};
use crate::colour;
use crate::file::Figure;
use crate::legend;
use crate::sheet::{FULL, figure};

/// Largest file that is read.
const MAX_BYTES: u64 = 1 << 24;
/// The kinds of lag, each a column, with the label of its axis.
const KINDS: [(&str, &str); 3] = [
    ("delay", "longest delay (rounds)"),
    ("loss", "share of messages lost"),
    ("activity", "share of iterations awake"),
];
/// Height of a row, room for its legend, and the space before the next row.
const ROW: f64 = 200.0;
const LEGEND: f64 = 18.0;
const BETWEEN: f64 = 10.0;
/// Room for the second line of the legends of the convex problem, and how many keys the first one holds.
const SECOND: f64 = 14.0;
const FIRST: usize = 4;

/// Curves in one chart, by the task (or the problem) and the kind of lag.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Panel {
    /// The task; empty for the convex problem.
    pub task: String,
    /// The kind of lag.
    pub kind: String,
    /// Its curves.
    pub curves: Vec<Curve>,
}

/// Reads the panels of a folder.
pub fn read(folder: &Path) -> Result<Vec<Panel>> {
    let mut panels = Vec::new();
    for (name, columns) in [("rates.csv", 5), ("convex.csv", 4)] {
        let path = folder.join(name);
        let text = read_text_at_most(&path, MAX_BYTES, "results of agents out of step").map_err(|e| {
            e.hint("name a folder with rates.csv and convex.csv, such as results/asynchronous")
        })?;
        parse(&path.display().to_string(), &text, columns, &mut panels)?;
    }
    Ok(panels)
}

/// Adds the lines of one file, without its first, to the panels.
pub fn parse(place: &str, text: &str, columns: usize, panels: &mut Vec<Panel>) -> Result<()> {
    for (i, line) in text.lines().enumerate().skip(1) {
        let wrong = || {
            let want = format!("{columns} columns, the last two of them numbers");
            Error::new(ErrorKind::Malformed, format!("{place}, line {}", i + 1), want, line)
        };
        let cells: Vec<&str> = line.split(',').collect();
        let [names @ .., x, y] = &cells[..] else { return Err(wrong()) };
        let (Ok(x), Ok(y), true) = (x.parse::<f64>(), y.parse::<f64>(), cells.len() == columns) else {
            return Err(wrong());
        };
        let (task, kind, curve) =
            if let [task, kind, curve] = names { (*task, *kind, *curve) } else { ("", names[0], names[1]) };
        let at = panels.iter().position(|p| p.task == task && p.kind == kind).unwrap_or_else(|| {
            panels.push(Panel { task: task.into(), kind: kind.into(), curves: Vec::new() });
            panels.len() - 1
        });
        let curves = &mut panels[at].curves;
        let at = curves.iter().position(|c| c.name == curve).unwrap_or_else(|| {
            curves.push(Curve { name: curve.into(), ..Curve::default() });
            curves.len() - 1
        });
        curves[at].points.push((x, y));
    }
    Ok(())
}

/// A task as a title, and what its share is of: puzzles are solved, pictures recognised.
fn named(task: &str) -> (&str, &'static str) {
    match task {
        "maze" => ("Maze", "solved (%)"),
        "sudoku" => ("Sudoku", "solved (%)"),
        "mnist" => ("MNIST", "accuracy (%)"),
        other => (other, "solved (%)"),
    }
}

/// The figure: a row for every task, and one for the convex problem.
pub fn asynchronous(panels: &[Panel]) -> Result<Figure> {
    let mut tasks: Vec<&str> = panels.iter().map(|panel| panel.task.as_str()).collect();
    tasks.dedup();
    if tasks.is_empty() {
        let want = "results of agents out of step";
        return Err(Error::new(ErrorKind::Shape, "figure asynchronous", want, "none"));
    }
    let in_step = panels.iter().find(|panel| panel.kind == "in step").and_then(|panel| panel.curves.first());
    let second = if tasks.contains(&"") { SECOND } else { 0.0 };
    figure(FULL, tasks.len() as f64 * ROW + second, |sheet| {
        for (row, task) in tasks.iter().enumerate() {
            let top = row as f64 * ROW;
            for (column, (kind, label)) in KINDS.iter().enumerate() {
                let Some(panel) = panels.iter().find(|p| p.task == *task && p.kind == *kind) else {
                    continue;
                };
                let mut curves = panel.curves.clone();
                let axes = if task.is_empty() {
                    curves.splice(0..0, in_step.cloned());
                    let last = curves.iter().flat_map(|c| &c.points).map(|p| p.0).fold(1.0, f64::max);
                    let axes = Axes::new("iteration", "relative error (convex problem)");
                    Axes { log: true, x_range: Some((0.0, last)), ..axes }
                } else {
                    let y_range = Some((0.0, 1.02));
                    Axes { percent: true, y_range, marks: Marks::Dots, ..Axes::new(label, named(task).1) }
                };
                let left = column as f64 * FULL / 3.0;
                // The curves of a task have one legend; those of the convex problem differ from panel to panel.
                let names: Vec<_> =
                    curves.iter().enumerate().map(|(i, c)| (colour::curve(i), c.name.clone())).collect();
                // The values of a convex panel are those of the lag, which the other rows have as their axis.
                let (title, legend_height) =
                    if task.is_empty() { (*label, LEGEND + SECOND) } else { (named(task).0, LEGEND) };
                if !task.is_empty() && column == 0 {
                    legend::lines(sheet, (44.0, top + 10.0), names)?;
                } else if task.is_empty() {
                    let short = |(colour, name): &(colour::Colour, String)| {
                        (*colour, name.rsplit('=').next().unwrap_or("").to_string())
                    };
                    for (i, keys) in names.chunks(FIRST).enumerate() {
                        let at = (left + 40.0, top + 10.0 + SECOND * i as f64);
                        legend::lines(sheet, at, keys.iter().map(short))?;
                    }
                }
                let axes = Axes { title, ..axes };
                let height = ROW - LEGEND - BETWEEN;
                axes.draw(sheet, (left, top + legend_height, FULL / 3.0, height), &coloured(&curves))?;
            }
        }
        Ok(())
    })
}
