//! Where every agent's proposal x and agreement z move (with message passing, its state h), in the plane in which all of
//! them vary most: one small plot per agent, in its place on the grid (the paper's appendix on coordination dynamics).

use sheaf_admm::{Error, ErrorKind, Result};

use crate::colour::{self, BLUE, FAINT, GREEN, INK, PAPER, VERMILLION};
use crate::file::Figure;
use crate::legend;
use crate::mazes;
use crate::plane::Plane;
use crate::sheet::{Anchor, FULL, SMALL, Sheet, figure};
use crate::story::{Scene, Story};

/// How much of its box a trajectory may take.
const FILL: f64 = 0.86;
/// How strongly the agents' views show behind the trajectories of mazes.
const PALE: f64 = 0.25;
/// The first iterations are left out while states are this many times as far from the end as in the next one: a scale that
/// holds them would show nothing else.
const JUMP: f64 = 10.0;

/// The figure of one story.
pub fn trajectories(story: &Story) -> Result<Figure> {
    story.need_iterations("figure trajectories")?;
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
    let note = paths.note();
    let height = side * rows as f64 + if note.is_some() { 40.0 } else { 26.0 };
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
        let mut names = vec![(BLUE, "proposal x".to_string()), (VERMILLION, "agreement z".to_string())];
        if story.z.is_empty() {
            names = vec![(BLUE, "state h".to_string())];
        }
        let y = side * rows as f64 + 14.0;
        let x = legend::lines(sheet, (2.0, y), names)?;
        sheet.star(x + 4.0, y, 4.0, INK)?;
        let text = format!("end (k = {}); all plots have the same scale", story.iterations);
        sheet.text(x + 12.0, y, SMALL, Anchor::Left, &text)?;
        if matches!(story.scene, Scene::Maze { .. }) {
            let pale = [(GREEN, "start"), (VERMILLION, "goal"), (colour::WALL, "wall")];
            let pale = pale.map(|(of, name)| (colour::mix(PAPER, of, PALE), name));
            legend::keys(sheet, (x + 24.0 + legend::width(&text, SMALL), y), &pale)?;
        }
        note.map_or(Ok(()), |note| sheet.text(2.0, y + 14.0, SMALL, Anchor::Left, &note))
    })
}

/// Trajectories in the plane, relative to the middle of each agent's box.
struct Paths {
    x: Vec<Vec<(f64, f64)>>, // [agents][iterations]
    z: Vec<Vec<(f64, f64)>>, // [agents][iterations]
    scale: f64,
    /// Iterations that are left out at the start, and how many times as far from the end the first of them is.
    left_out: (usize, f64),
}

impl Paths {
    fn of(story: &Story) -> Self {
        let (agents, d_v) = (story.agents, story.d_v);
        let left_out = far_away(story);
        let from = |states: &'_ [f32]| states.get(left_out.0 * agents * d_v..).unwrap_or_default().to_vec();
        let (states_x, states_z) = (from(&story.x), from(&story.z));
        let all: Vec<f32> = states_x.iter().chain(&states_z).copied().collect();
        let plane = Plane::of(&all, d_v);
        let path = |states: &[f32], agent: usize| -> Vec<(f64, f64)> {
            let states = states.chunks_exact(agents * d_v);
            states.map(|state| plane.at(&state[agent * d_v..][..d_v])).collect()
        };
        let (mut x, mut z, mut widest): (Vec<_>, Vec<_>, f64) = (Vec::new(), Vec::new(), 1e-9);
        for agent in 0..agents {
            let (mut own_x, mut own_z) = (path(&states_x, agent), path(&states_z, agent));
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
        Self { x, z, scale: 1.0 / widest, left_out }
    }

    /// What a reader must know of iterations that are left out.
    fn note(&self) -> Option<String> {
        let (count, times) = self.left_out;
        let first = count + 1;
        (count > 0).then(|| {
            format!("from k = {first} on: at k = 1 states are {times:.0} times as far from the end as at k = {first}")
        })
    }

    fn draw(&self, sheet: &Sheet<'_>, agent: usize, (x, y, side): (f64, f64, f64)) -> Result<()> {
        let place = |p: &(f64, f64)| {
            let scale = FILL * side * self.scale;
            (x + 0.5 * side + scale * p.0, y + 0.5 * side - scale * p.1)
        };
        let line = (side / 60.0).clamp(0.35, 1.0);
        // z lies under x and is wider: where x follows it closely, both are seen.
        for (path, colour, wider) in [(&self.z[agent], VERMILLION, 2.2), (&self.x[agent], BLUE, 1.0)] {
            let points: Vec<(f64, f64)> = path.iter().map(place).collect();
            sheet.line(&points, colour, wider * line)?;
            if let Some(&(x, y)) = points.last() {
                sheet.star(x, y, (side / 14.0).clamp(1.2, 4.5) * wider.sqrt(), colour)?;
            }
        }
        Ok(())
    }
}

/// How many iterations at the start are out of scale, and how many times as far from the end the first of them is.
fn far_away(story: &Story) -> (usize, f64) {
    let (len, d_v) = (story.agents * story.d_v, story.d_v);
    let away = |k: usize| {
        let of = |states: &[f32]| {
            let (at, end) =
                (states[k * len..].chunks_exact(d_v), states[states.len() - len..].chunks_exact(d_v));
            let apart =
                |(a, b): (&[f32], &[f32])| a.iter().zip(b).map(|(a, b)| f64::from(a - b).powi(2)).sum();
            at.zip(end).map(apart).fold(0.0, f64::max).sqrt()
        };
        let z = if story.z.is_empty() { 0.0 } else { of(&story.z) };
        of(&story.x).max(z)
    };
    let count = (0..story.iterations.saturating_sub(2)).take_while(|&k| away(k) > JUMP * away(k + 1)).count();
    (count, away(0) / away(count).max(1e-30))
}

/// The agent's view, pale.
fn backdrop(sheet: &Sheet<'_>, story: &Story, agent: usize, (x, y, side): (f64, f64, f64)) -> Result<()> {
    let (grid, pixel): (_, Box<dyn Fn(usize) -> colour::Colour>) = match &story.scene {
        Scene::Maze { tokens, grid, .. } => {
            let pale = |token: u8| mazes::fixed(token).map_or(PAPER, |c| colour::mix(PAPER, c, PALE));
            (grid, Box::new(move |p| pale(tokens[p])))
        }
        Scene::Picture { image, grid, .. } => {
            let pale = |value: u8| colour::mix(PAPER, colour::WALL, 0.3 * f64::from(value) / 255.0);
            (grid, Box::new(move |p| pale(image[p])))
        }
        Scene::Sudoku { .. } => return Ok(()),
    };
    let outside = if story.scene.task() == "maze" { colour::mix(PAPER, colour::WALL, PALE) } else { PAPER };
    let colours: Vec<_> = grid.view(agent).map(|p| p.map_or(outside, &pixel)).collect();
    sheet.cells(x, y, side / grid.patch() as f64, grid.patch(), &colours)
}
