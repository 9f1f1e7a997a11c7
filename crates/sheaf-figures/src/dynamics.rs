//! Prediction, residuals of every agent and their ratio at some iterations, and the course of the residuals: the
//! paper's Figure 4.

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::model::ViewGrid;

use crate::chart::{Axes, Curve};
use crate::colour::{self, BLUE, Colour, VERMILLION};
use crate::file::Figure;
use crate::sheet::{Anchor, FULL, SMALL, Sheet, TEXT, figure};
use crate::story::{Scene, Story, maze_answer};
use crate::{class_emergence, evolution, legend, mazes};

/// Where the charts begin, and the space between panels.
const CHARTS: f64 = 470.0;
const GAP: f64 = 7.0;
/// Space for the names of the rows.
const LEFT: f64 = 18.0;
/// The log-ratios at which colours may saturate: the first that holds all of them, or the last.
const RATIOS: [f64; 3] = [0.5, 1.0, 2.0];
/// Height of the legends.
const KEYS: f64 = 40.0;

/// The figure of one story on a grid.
pub fn dynamics(story: &Story, shown: &[usize]) -> Result<Figure> {
    story.need_residuals("figure dynamics")?;
    let grid = match &story.scene {
        Scene::Maze { grid, .. } | Scene::Picture { grid, .. } => *grid,
        Scene::Sudoku { .. } => {
            let want = "agents on a grid: mazes or pictures";
            return Err(Error::new(ErrorKind::Unsupported, "figure dynamics", want, "Sudoku")
                .hint("`sheaf figure sudoku-evolution` shows boards"));
        }
    };
    let shown = story.among(shown);
    let side = ((CHARTS - LEFT) / shown.len() as f64 - GAP).min(110.0).floor();
    let shares = [shares(&story.primal, story.agents), shares(&story.dual, story.agents)];
    let most = |share: &[f64]| {
        let all = shown.iter().flat_map(|&k| &share[(k - 1) * story.agents..][..story.agents]);
        all.copied().fold(0.0, f64::max).max(1e-12)
    };
    let tops = [most(&shares[0]), most(&shares[1])];
    let ratio = |(p, d): (&f64, &f64)| ((p + 1e-12) / (d + 1e-12)).log10();
    let of = |i: usize, k: usize| &shares[i][(k - 1) * story.agents..][..story.agents];
    let ratios = |k: usize| of(0, k).iter().zip(of(1, k)).map(ratio);
    let largest = shown.iter().flat_map(|&k| ratios(k)).fold(0.0, |a: f64, r| a.max(r.abs()));
    let end = RATIOS.into_iter().find(|&end| largest <= end).unwrap_or(RATIOS[RATIOS.len() - 1]);
    let height = 20.0 + 4.0 * (side + GAP) + KEYS;
    figure(FULL, height, |sheet| {
        for (row, name) in ["prediction", "primal share", "dual share", "log ratio"].iter().enumerate() {
            sheet.upwards(8.0, 20.0 + (side + GAP) * row as f64 + 0.5 * side, SMALL, name)?;
        }
        for (column, &k) in shown.iter().enumerate() {
            let x = LEFT + (side + GAP) * column as f64;
            sheet.text(x + 0.5 * side, 10.0, TEXT, Anchor::Middle, &format!("k = {k}"))?;
            prediction(sheet, story, k, (x, 20.0, side))?;
            for i in 0..2 {
                let colours: Vec<Colour> = of(i, k).iter().map(|s| colour::viridis(s / tops[i])).collect();
                agents(sheet, (x, 20.0 + (side + GAP) * (i + 1) as f64, side), &grid, &colours)?;
            }
            let colours: Vec<Colour> = ratios(k).map(|r| colour::diverging(r / end)).collect();
            agents(sheet, (x, 20.0 + 3.0 * (side + GAP), side), &grid, &colours)?;
        }
        match &story.scene {
            Scene::Picture { classes, grid, .. } => {
                let x = class_emergence::key(sheet, (LEFT, height - 28.0), ("class", *classes, 1.0))?;
                class_emergence::unseen(sheet, (x, height - 28.0), grid)?;
            }
            _ => drop(evolution::key(sheet, story, (LEFT, height - 28.0))?),
        }
        keys(sheet, height - 12.0, &tops, end)?;
        charts(sheet, story, height - KEYS)
    })
}

/// Shares of the agents in the sum of every iteration.
fn shares(residual: &[f32], agents: usize) -> Vec<f64> {
    residual
        .chunks_exact(agents)
        .flat_map(|row| {
            let sum: f64 = row.iter().map(|&r| f64::from(r)).sum();
            row.iter().map(move |&r| f64::from(r) / sum.max(1e-30))
        })
        .collect()
}

fn prediction(sheet: &Sheet<'_>, story: &Story, k: usize, place: (f64, f64, f64)) -> Result<()> {
    match &story.scene {
        Scene::Maze { tokens, grid, .. } => {
            let (probability, _) = maze_answer(grid, story.outputs(k));
            let open = |p: usize| colour::probability(probability[p].into());
            mazes::panel(sheet, place, (tokens, grid.width()), open)
        }
        Scene::Picture { classes, grid, .. } => {
            let votes = class_emergence::votes(story.outputs(k), *classes);
            let owner = evolution::owners(grid);
            evolution::picture(sheet, place, grid, |p| match owner[p] {
                Some(agent) => class_emergence::colour_of(votes[agent], *classes),
                None => colour::UNSEEN,
            })
        }
        Scene::Sudoku { .. } => Ok(()),
    }
}

/// One cell for every agent.
fn agents(
    sheet: &Sheet<'_>,
    (x, y, side): (f64, f64, f64),
    grid: &ViewGrid,
    colours: &[Colour],
) -> Result<()> {
    let cell = mazes::cell(side, grid.rows().max(grid.columns()));
    sheet.cells(x, y, cell, grid.columns(), colours)?;
    let (wide, high) = (cell * grid.columns() as f64, cell * grid.rows() as f64);
    sheet.frame(x, y, wide, high, colour::FAINT, 0.4)
}

fn keys(sheet: &Sheet<'_>, y: f64, tops: &[f64; 2], end: f64) -> Result<()> {
    let percent = |top: f64| format!("{:.1} %", 100.0 * top);
    let ends = |i: usize| percent(tops[i]);
    let x = legend::bar(sheet, (LEFT, y), "primal share", ["0", &ends(0)], colour::viridis)?;
    let x = legend::bar(sheet, (x, y), "dual share", ["0", &ends(1)], colour::viridis)?;
    let signed = |v: f64| colour::diverging(2.0 * v - 1.0);
    let label = "log₁₀(primal/dual share)";
    legend::bar(sheet, (x, y), label, [&format!("−{end}"), &format!("{end}")], signed).map(drop)
}

/// Mean and largest residual of all agents over the iterations.
fn charts(sheet: &Sheet<'_>, story: &Story, height: f64) -> Result<()> {
    let course = |name: &str, residual: &[f32], of: &dyn Fn(&[f32]) -> f64| Curve {
        name: name.into(),
        points: residual
            .chunks_exact(story.agents)
            .enumerate()
            .map(|(k, row)| ((k + 1) as f64, of(row)))
            .collect(),
        spread: Vec::new(),
    };
    let mean = |row: &[f32]| row.iter().map(|&r| f64::from(r)).sum::<f64>() / row.len() as f64;
    let max = |row: &[f32]| row.iter().copied().fold(0.0f32, f32::max).into();
    let (wide, high) = (FULL - CHARTS - 6.0, 0.5 * (height - 20.0));
    type Summary<'a> = &'a dyn Fn(&[f32]) -> f64;
    let panels: [(&str, Summary<'_>); 2] = [("mean over agents", &mean), ("largest over agents", &max)];
    for (i, (title, of)) in panels.into_iter().enumerate() {
        let (primal, dual) = (course("‖x − z‖", &story.primal, of), course("ρ‖Δz‖", &story.dual, of));
        // From 0, so that the axis begins with a tick.
        let x_range = Some((0.0, story.iterations as f64));
        let axes = Axes { title, x_range, log: true, ..Axes::new("iteration k", "residual") };
        // Room between the label of one chart and the title of the next.
        let place = (CHARTS + 6.0, 18.0 + high * i as f64, wide, high - 8.0);
        axes.draw(sheet, place, &[(&primal, BLUE), (&dual, VERMILLION)])?;
    }
    let names = [(BLUE, "‖x − z‖".to_string()), (VERMILLION, "ρ‖Δz‖".to_string())];
    legend::lines(sheet, (CHARTS + 50.0, 8.0), names).map(drop)
}
