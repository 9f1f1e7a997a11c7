//! SVG: the maze in units of cells, crisp at any size; animated where there are several frames.
//!
//! Walls are one shape, made of horizontal runs. The path is drawn in blue of varying opacity over the open pixels, so
//! an animation is one list of opacities per pixel. Marks for wrong pixels belong to the last frame.

use std::fmt::Write;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_tasks::maze::WALL;

use super::palette::{self, Colour};
use super::{Cell, Frame, Scene};

/// Frames as the text of an SVG file; `seconds` is how long an animation of several frames takes.
pub fn render(scene: &Scene, frames: &[Frame], seconds: f32) -> Result<String> {
    let Some(last) = frames.last() else {
        return Err(Error::new(ErrorKind::Shape, "picture", "one or more frames", "none"));
    };
    frames.iter().try_for_each(|frame| scene.check(frame))?;
    let (height, width) = (scene.height(), scene.width());
    let panels = if last.heat.is_some() { 2 * width + 2 } else { width };
    let mut svg = String::new();
    let size = format!("viewBox=\"0 0 {panels} {height}\" shape-rendering=\"crispEdges\"");
    put(&mut svg, format_args!("<svg xmlns=\"http://www.w3.org/2000/svg\" {size}>"));
    let fill = hex(palette::OPEN);
    put(&mut svg, format_args!("<rect width=\"{width}\" height=\"{height}\" fill=\"{fill}\"/>"));
    let walls = runs(scene);
    put(&mut svg, format_args!("<path id=\"walls\" fill=\"{}\" d=\"{walls}\"/>", hex(palette::WALL)));
    for pixel in 0..scene.tokens.len() {
        pixel_of(&mut svg, scene, frames, last, pixel, seconds);
    }
    if let Some(heat) = last.heat {
        heat_panel(&mut svg, scene, heat, width + 2);
    }
    svg.push_str("</svg>\n");
    Ok(svg)
}

pub(super) fn put(svg: &mut String, line: std::fmt::Arguments) {
    // Writing to a string cannot fail.
    let _ = writeln!(svg, "{line}");
}

pub(super) fn hex([r, g, b]: Colour) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}

/// Walls as runs of pixels: one closed shape each.
fn runs(scene: &Scene) -> String {
    let mut d = String::new();
    for (row, tokens) in scene.tokens.chunks_exact(scene.width()).enumerate() {
        let mut column = 0;
        for run in tokens.chunk_by(|a, b| (*a == WALL) == (*b == WALL)) {
            if run[0] == WALL {
                let _ = write!(d, "M{column} {row}h{0}v1h-{0}z", run.len());
            }
            column += run.len();
        }
    }
    d
}

/// The overlay of an open pixel, if any.
fn pixel_of(svg: &mut String, scene: &Scene, frames: &[Frame], last: &Frame, pixel: usize, seconds: f32) {
    let (x, y) = (pixel % scene.width(), pixel / scene.width());
    let square =
        |fill: Colour| format!("<rect x=\"{x}\" y=\"{y}\" width=\"1\" height=\"1\" fill=\"{}\"", hex(fill));
    let shown = scene.cell(last, pixel);
    let fill = match shown {
        Cell::Wall => return,
        Cell::Start => return put(svg, format_args!("{}/>", square(palette::START))),
        Cell::Goal => return put(svg, format_args!("{}/>", square(palette::GOAL))),
        Cell::Extra(_) => palette::EXTRA,
        Cell::Open(_) | Cell::Missed(_) => palette::PATH,
    };
    let opacities: Vec<u32> = frames.iter().map(|f| opacity(scene.cell(f, pixel))).collect();
    if let [still] = opacities[..] {
        if still > 0 {
            put(svg, format_args!("{} fill-opacity=\"{}\"/>", square(fill), decimal(still)));
        }
    } else if opacities.iter().any(|&o| o > 0) {
        let values: Vec<String> = opacities.iter().map(|&o| decimal(o)).collect();
        let when = format!("dur=\"{seconds}s\" calcMode=\"discrete\" repeatCount=\"indefinite\"");
        let (square, values) = (square(fill), values.join(";"));
        let animate = format!("<animate attributeName=\"fill-opacity\" values=\"{values}\" {when}/>");
        put(svg, format_args!("{square} fill-opacity=\"0\">{animate}</rect>"));
    }
    if matches!(shown, Cell::Missed(_)) {
        let (cx, cy) = (x as f32 + 0.5, y as f32 + 0.5);
        let fill = hex(palette::MISSED);
        put(svg, format_args!("<circle cx=\"{cx}\" cy=\"{cy}\" r=\"0.18\" fill=\"{fill}\"/>"));
    }
}

/// Opacity in hundredths.
fn opacity(cell: Cell) -> u32 {
    match cell {
        Cell::Open(p) | Cell::Missed(p) => (100.0 * p).round() as u32,
        Cell::Extra(p) => (100.0 * (0.35 + 0.65 * p)).round() as u32,
        Cell::Wall | Cell::Start | Cell::Goal => 0,
    }
}

/// Hundredths as the shortest decimal.
fn decimal(hundredths: u32) -> String {
    format!("{}", f64::from(hundredths) / 100.0)
}

fn heat_panel(svg: &mut String, scene: &Scene, heat: &[f32], left: usize) {
    put(svg, format_args!("<g id=\"heat\" transform=\"translate({left} 0)\">"));
    for (pixel, value) in scene.relative_heat(heat).enumerate() {
        let (x, y) = (pixel % scene.width(), pixel / scene.width());
        let fill = value.map_or(palette::WALL, palette::heat);
        put(svg, format_args!("<rect x=\"{x}\" y=\"{y}\" width=\"1\" height=\"1\" fill=\"{}\"/>", hex(fill)));
    }
    put(svg, format_args!("</g>"));
}
