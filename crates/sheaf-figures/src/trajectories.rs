//! Where every agent's proposal x and agreement z move, in the plane in which all of them vary most: one small plot per
//! agent, in its place on the grid (the paper's appendix on coordination dynamics).

use sheaf_admm::{Error, ErrorKind, Result};

use crate::colour::{self, BLUE, FAINT, INK, PAPER, VERMILLION};
use crate::file::Figure;
use crate::legend;
use crate::mazes;
use crate::plane::Plane;
use crate::sheet::{Anchor, FULL, SMALL, Sheet, figure};
use crate::story::{Scene, Story};

/// How much of its box a trajectory may take.
const FILL: f64 = 0.86;

/// The figure of one story.
pub fn trajectories(story: &Story) -> Result<Figure> {
    story.need_residuals("figure trajectories")?;
    let (rows, columns) = match &story.scene {
        Scene::Maze { grid, .. } | Scene::Picture { grid, .. } => (grid.rows(), grid.columns()),
        Scene::Sudoku { .. } => (3, 9),
    };
    if rows.max(columns) > 40 {
        let want = "a grid of at most 40 × 40 agents";
        return Err(Error::new(
            ErrorKind::OutOfRange,
            "figure trajectories",
            want,
            format!("{rows} × {columns}"),
        )
        .hint("choose a smaller sample: --size 19"));
    }
    let paths = Paths::of(story);
    let side = (FULL / columns as f64 * 4.0).floor() / 4.0;
    let height = side * rows as f64 + 26.0;
    figure(FULL, height, |sheet| {
        for agent in 0..story.agents {
            let (x, y) = (side * (agent % columns) as f64, side * (agent / columns) as f64);
            backdrop(sheet, story, agent, (x, y, side))?;
            sheet.frame(x, y, side, side, FAINT, 0.4)?;
            paths.draw(sheet, agent, (x, y, side))?;
            if matches!(story.scene, Scene::Sudoku { .. }) {
                let name = format!("{} {}", ["row", "column", "box"][agent / 9], agent % 9 + 1);
                sheet.text(x + 4.0, y + 7.0, 7.0, Anchor::Left, &name)?;
            }
        }
        let names = [(BLUE, "proposal x".to_string()), (VERMILLION, "agreement z".to_string())];
        let y = height - 12.0;
        let x = legend::lines(sheet, (2.0, y), names)?;
        sheet.star(x + 4.0, y, 4.0, INK)?;
        let text = format!("end (k = {}); all plots have the same scale", story.iterations);
        sheet.text(x + 12.0, y, SMALL, Anchor::Left, &text)
    })
}

/// Trajectories in the plane, relative to the middle of each agent's box.
struct Paths {
    x: Vec<Vec<(f64, f64)>>, // [agents][iterations]
    z: Vec<Vec<(f64, f64)>>, // [agents][iterations]
    scale: f64,
}

impl Paths {
    fn of(story: &Story) -> Self {
        let (agents, d_v) = (story.agents, story.d_v);
        let all: Vec<f32> = story.x.iter().chain(&story.z).copied().collect();
        let plane = Plane::of(&all, d_v);
        let path = |states: &[f32], agent: usize| -> Vec<(f64, f64)> {
            let states = states.chunks_exact(agents * d_v);
            states.map(|state| plane.at(&state[agent * d_v..][..d_v])).collect()
        };
        let (mut x, mut z, mut widest): (Vec<_>, Vec<_>, f64) = (Vec::new(), Vec::new(), 1e-9);
        for agent in 0..agents {
            let (mut own_x, mut own_z) = (path(&story.x, agent), path(&story.z, agent));
            let both = || own_x.iter().chain(&own_z);
            let low = both().fold((f64::MAX, f64::MAX), |a, b| (a.0.min(b.0), a.1.min(b.1)));
            let high = both().fold((f64::MIN, f64::MIN), |a, b| (a.0.max(b.0), a.1.max(b.1)));
            let middle = (0.5 * (low.0 + high.0), 0.5 * (low.1 + high.1));
            widest = widest.max(high.0 - low.0).max(high.1 - low.1);
            for point in own_x.iter_mut().chain(&mut own_z) {
                *point = (point.0 - middle.0, point.1 - middle.1);
            }
            x.push(own_x);
            z.push(own_z);
        }
        Self { x, z, scale: 1.0 / widest }
    }

    fn draw(&self, sheet: &Sheet<'_>, agent: usize, (x, y, side): (f64, f64, f64)) -> Result<()> {
        let place = |p: &(f64, f64)| {
            let scale = FILL * side * self.scale;
            (x + 0.5 * side + scale * p.0, y + 0.5 * side - scale * p.1)
        };
        let line = (side / 60.0).clamp(0.35, 1.0);
        for (path, colour) in [(&self.z[agent], VERMILLION), (&self.x[agent], BLUE)] {
            let points: Vec<(f64, f64)> = path.iter().map(place).collect();
            sheet.line(&points, colour, line)?;
            if let Some(&(x, y)) = points.last() {
                sheet.star(x, y, (side / 14.0).clamp(1.2, 4.5), colour)?;
            }
        }
        Ok(())
    }
}

/// The agent's view, pale.
fn backdrop(sheet: &Sheet<'_>, story: &Story, agent: usize, (x, y, side): (f64, f64, f64)) -> Result<()> {
    let (grid, pixel): (_, Box<dyn Fn(usize) -> colour::Colour>) = match &story.scene {
        Scene::Maze { tokens, grid, .. } => {
            let pale = |token: u8| mazes::fixed(token).map_or(PAPER, |c| colour::mix(PAPER, c, 0.25));
            (grid, Box::new(move |p| pale(tokens[p])))
        }
        Scene::Picture { image, grid, .. } => {
            let pale = |value: u8| colour::mix(PAPER, colour::WALL, 0.3 * f64::from(value) / 255.0);
            (grid, Box::new(move |p| pale(image[p])))
        }
        Scene::Sudoku { .. } => return Ok(()),
    };
    let outside = if story.scene.task() == "maze" { colour::mix(PAPER, colour::WALL, 0.25) } else { PAPER };
    let colours: Vec<_> = grid.view(agent).map(|p| p.map_or(outside, &pixel)).collect();
    sheet.cells(x, y, side / grid.patch() as f64, grid.patch(), &colours)
}
