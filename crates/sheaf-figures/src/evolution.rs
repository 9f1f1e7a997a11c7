//! What the agents predict, iteration by iteration: mazes, pictures and boards (the paper's Figure 3).

use sheaf_admm::Result;
use sheaf_learn::model::ViewGrid;
use sheaf_tasks::mnist::metrics::agent_votes;
use sheaf_tasks::sudoku::Grid;
use sheaf_tasks::sudoku::rounds::Reading;

use crate::colour::{self, BLUE, Colour, GREEN, PAPER, UNSEEN, VERMILLION, WALL};
use crate::file::Figure;
use crate::sheet::{Anchor, FULL, Sheet, TEXT, figure};
use crate::story::{Scene, Story, maze_answer};
use crate::{boards, class_emergence, legend, mazes};

/// The iterations of the paper's figures.
pub const SHOWN: [usize; 5] = [1, 3, 5, 10, 30];

/// Space between panels.
const GAP: f64 = 10.0;

/// The figure of one story.
pub fn evolution(story: &Story, shown: &[usize]) -> Result<Figure> {
    let shown = story.among(shown);
    let side = side(shown.len() + extra(story));
    figure(FULL, side + 44.0, |sheet| {
        row(sheet, story, &shown, (1.0, 20.0, side), true)?;
        key(sheet, story, (2.0, side + 34.0)).map(drop)
    })
}

/// Panels beside those of iterations: pictures stand before their votes.
fn extra(story: &Story) -> usize {
    usize::from(matches!(story.scene, Scene::Picture { .. }))
}

/// The side of one of `panels` panels that fill the page.
pub(crate) fn side(panels: usize) -> f64 {
    ((FULL - 2.0 + GAP) / panels as f64 - GAP).clamp(40.0, 200.0).floor()
}

/// Draws the panels of a story side by side, with their iterations above.
pub(crate) fn row(
    sheet: &Sheet<'_>,
    story: &Story,
    shown: &[usize],
    (x, y, side): (f64, f64, f64),
    titled: bool,
) -> Result<()> {
    let title = |column: usize, text: &str| {
        let middle = x + (side + GAP) * column as f64 + 0.5 * side;
        if titled { sheet.text(middle, y - 10.0, TEXT, Anchor::Middle, text) } else { Ok(()) }
    };
    let mut column = 0;
    if let Scene::Picture { image, grid, .. } = &story.scene {
        title(0, "picture")?;
        picture(sheet, (x, y, side), grid, |p| colour::mix(PAPER, WALL, f64::from(image[p]) / 255.0))?;
        column = 1;
    }
    let mut before: Option<Grid> = None;
    for &k in shown {
        title(column, &story.title(k))?;
        let place = (x + (side + GAP) * column as f64, y, side);
        let outputs = story.outputs(k);
        match &story.scene {
            Scene::Maze { tokens, grid, .. } => {
                let (probability, _) = maze_answer(grid, outputs);
                let open = |p: usize| colour::probability(probability[p].into());
                mazes::panel(sheet, place, (tokens, grid.width()), open)?;
            }
            Scene::Picture { label, classes, grid, .. } => {
                let votes: Vec<(usize, f32)> = agent_votes(outputs, *classes).collect();
                let owner = owners(grid);
                picture(sheet, place, grid, |p| match owner[p] {
                    Some(agent) => {
                        let (class, sure) = votes[agent];
                        let right = class == usize::from(*label);
                        colour::mix(PAPER, if right { BLUE } else { VERMILLION }, sure.into())
                    }
                    None => UNSEEN,
                })?;
            }
            Scene::Sudoku { givens, .. } => {
                let board = Reading::of(outputs).predicted;
                boards::panel(sheet, place, givens, &board, before.as_ref())?;
                before = Some(board);
            }
        }
        column += 1;
    }
    Ok(())
}

/// A picture of coloured pixels.
pub(crate) fn picture(
    sheet: &Sheet<'_>,
    (x, y, side): (f64, f64, f64),
    grid: &ViewGrid,
    colour: impl Fn(usize) -> Colour,
) -> Result<()> {
    let cell = mazes::cell(side, grid.height().max(grid.width()));
    let colours: Vec<Colour> = (0..grid.pixels()).map(colour).collect();
    sheet.cells(x, y, cell, grid.width(), &colours)?;
    let (wide, high) = (cell * grid.width() as f64, cell * grid.height() as f64);
    sheet.frame(x, y, wide, high, colour::FAINT, 0.4)
}

/// The agent whose centre is nearest to each pixel that some agent sees.
pub(crate) fn owners(grid: &ViewGrid) -> Vec<Option<usize>> {
    let mut owner: Vec<Option<(usize, usize)>> = vec![None; grid.pixels()];
    for agent in 0..grid.agents() {
        let (row, column) = grid.centre(agent);
        for pixel in grid.view(agent).flatten() {
            let (r, c) = (pixel / grid.width(), pixel % grid.width());
            let away = r.abs_diff(row).pow(2) + c.abs_diff(column).pow(2);
            if owner[pixel].is_none_or(|(nearest, _)| away < nearest) {
                owner[pixel] = Some((away, agent));
            }
        }
    }
    owner.into_iter().map(|o| o.map(|(_, agent)| agent)).collect()
}

/// What the colours mean; returns the right end.
pub(crate) fn key(sheet: &Sheet<'_>, story: &Story, (x, y): (f64, f64)) -> Result<f64> {
    match &story.scene {
        Scene::Maze { .. } => {
            let x = legend::bar(sheet, (x, y), "path probability", ["0", "1"], colour::probability)?;
            legend::keys(sheet, (x, y), &[(GREEN, "start"), (VERMILLION, "goal"), (WALL, "wall")])
        }
        Scene::Picture { grid, .. } => {
            let keys =
                [(BLUE, "agent votes for the right class"), (VERMILLION, "for another; paler: less certain")];
            let x = legend::keys(sheet, (x, y), &keys)?;
            class_emergence::unseen(sheet, (x, y), grid)
        }
        Scene::Sudoku { .. } => {
            let keys =
                [(boards::violated(), "breaks a rule"), (boards::changed(), "changed since the last panel")];
            let x = legend::keys(sheet, (x, y), &keys)?;
            let (bold, plain) =
                (crate::sheet::style(9.0, colour::INK, true), crate::sheet::style(9.0, BLUE, false));
            sheet.styled(x, y, &bold, Anchor::Left, "5")?;
            sheet.text(x + 10.0, y, 8.5, Anchor::Left, "given")?;
            sheet.styled(x + 46.0, y, &plain, Anchor::Left, "5")?;
            sheet.text(x + 56.0, y, 8.5, Anchor::Left, "predicted")?;
            Ok(x + 66.0 + legend::width("predicted", 8.5))
        }
    }
}
