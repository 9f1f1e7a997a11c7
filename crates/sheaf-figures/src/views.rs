//! What every agent sees, with what it believes before anything is communicated.

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_tasks::maze::{CLASSES, PATH};

use crate::class_emergence;
use crate::colour::{self, Colour, FAINT, GREEN, PAPER, VERMILLION, WALL};
use crate::file::Figure;
use crate::sheet::{FULL, figure};
use crate::story::{Scene, Story};
use crate::{legend, mazes};

/// Width of the legends.
const LEGEND: f64 = 436.0;
/// How strongly beliefs tint what an agent sees.
const TINT: f64 = 0.5;

/// The figure of one story.
pub fn views(story: &Story) -> Result<Figure> {
    let grid = match &story.scene {
        Scene::Maze { grid, .. } | Scene::Picture { grid, .. } => *grid,
        Scene::Sudoku { .. } => {
            let want = "agents on a grid: mazes or pictures";
            return Err(Error::new(ErrorKind::Unsupported, "figure views", want, "Sudoku")
                .hint("`sheaf figure sudoku-evolution` shows boards"));
        }
    };
    let (rows, columns, patch) = (grid.rows(), grid.columns(), grid.patch());
    let width = FULL.min(46.0 * columns as f64);
    let gap = (0.12 * width / columns as f64).max(1.0);
    let cell = mazes::cell(width / columns as f64 - gap, patch);
    let (side, step) = (cell * patch as f64, cell * patch as f64 + gap);
    let height = step * rows as f64 + 24.0;
    let width = width.max(LEGEND);
    figure(width, height, |sheet| {
        for agent in 0..grid.agents() {
            let (x, y) = (step * (agent % columns) as f64 + 1.0, step * (agent / columns) as f64 + 1.0);
            let colours = beliefs(story, agent);
            sheet.rect(x, y, side, side, PAPER)?;
            sheet.cells(x, y, cell, patch, &colours)?;
            sheet.frame(x, y, side, side, FAINT, 0.4)?;
        }
        let y = height - 10.0;
        match &story.scene {
            Scene::Maze { .. } => {
                let x = legend::bar(
                    sheet,
                    (2.0, y),
                    "initial path probability",
                    ["0", "1"],
                    colour::probability,
                )?;
                legend::keys(sheet, (x, y), &[(GREEN, "start"), (VERMILLION, "goal"), (WALL, "wall")])?;
            }
            Scene::Picture { classes, .. } => {
                class_emergence::key(sheet, (2.0, y), ("initial class", *classes, TINT))?;
            }
            Scene::Sudoku { .. } => {}
        }
        Ok(())
    })
}

/// The colours of an agent's view: what it sees, and over it what it believes.
fn beliefs(story: &Story, agent: usize) -> Vec<Colour> {
    match &story.scene {
        Scene::Maze { tokens, grid, .. } => {
            let outputs =
                &story.first[agent * grid.view_pixels() * CLASSES..][..grid.view_pixels() * CLASSES];
            let believed = outputs.chunks_exact(CLASSES).map(|logits| {
                let top = logits.iter().copied().fold(f32::MIN, f32::max);
                let sum: f32 = logits.iter().map(|l| (l - top).exp()).sum();
                f64::from((logits[PATH as usize] - top).exp() / sum)
            });
            let colour = |(pixel, belief): (Option<usize>, f64)| match pixel {
                Some(p) => mazes::fixed(tokens[p]).unwrap_or_else(|| colour::probability(belief)),
                None => WALL,
            };
            grid.view(agent).zip(believed).map(colour).collect()
        }
        Scene::Picture { image, classes, grid, .. } => {
            let vote = class_emergence::votes(&story.first, *classes)[agent];
            let tint = colour::mix(PAPER, class_emergence::colour_of(vote, *classes), TINT);
            let colour = |pixel: Option<usize>| match pixel {
                Some(p) => colour::mix(tint, WALL, f64::from(image[p]) / 255.0),
                None => PAPER,
            };
            grid.view(agent).map(colour).collect()
        }
        Scene::Sudoku { .. } => Vec::new(),
    }
}
