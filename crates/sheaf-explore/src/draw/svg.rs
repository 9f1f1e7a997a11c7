//! The last iteration of both runs, and their distance over time, as vectors.

use std::fmt::Write as _;

use super::shapes::{BLUE, Colour, INK, LINE, ORANGE, PAPER, Shape, board};
use crate::subject::Outcome;

/// Width of one board.
const SIDE: f32 = 300.0;
const GAP: f32 = 24.0;
const CHART: f32 = 120.0;

/// The picture of an experiment.
pub fn to_svg(task: &str, outcome: &Outcome) -> String {
    let geometry = outcome.field.geometry();
    let scale = SIDE / geometry.width.max(1) as f32;
    let tall = geometry.height as f32 * scale;
    let (width, height) = (2.0 * SIDE + 3.0 * GAP, tall + CHART + 4.5 * GAP);
    let mut svg = format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" font-family=\"sans-serif\">\n\
         <rect width=\"{width}\" height=\"{height}\" fill=\"{}\"/>\n",
        hex(PAPER)
    );
    let last = outcome.run.iterations.saturating_sub(1);
    let runs = [
        ("without interventions", outcome.base.as_ref(), None),
        ("with", Some(&outcome.run), outcome.base.as_ref()),
    ];
    for (i, (title, record, other)) in runs.into_iter().enumerate() {
        let left = GAP + i as f32 * (SIDE + GAP);
        text(&mut svg, left, GAP, &format!("{title}, k = {}", last + 1));
        let Some(record) = record.filter(|record| record.iterations > last) else { continue };
        let _ = writeln!(svg, "<g transform=\"translate({left} {}) scale({scale})\">", GAP * 1.5);
        for shape in board(task, &*outcome.field, record, last, other) {
            draw(&mut svg, &shape);
        }
        svg.push_str("</g>\n");
    }
    if let Some(comparison) = &outcome.comparison {
        chart(
            &mut svg,
            &comparison.distance,
            comparison.first,
            [GAP, tall + 3.0 * GAP, width - 2.0 * GAP, CHART],
        );
    }
    svg.push_str("</svg>\n");
    svg
}

/// Writing to a string cannot fail.
fn draw(svg: &mut String, shape: &Shape) {
    let _ = match shape {
        Shape::Box([x, y, w, h], colour) => {
            writeln!(
                svg,
                "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"{}\"/>",
                hex(*colour)
            )
        }
        Shape::Frame([x, y, w, h], colour) => writeln!(
            svg,
            "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"none\" stroke=\"{}\" stroke-width=\"0.16\"/>",
            hex(*colour)
        ),
        Shape::Digit([x, y, side], digit, colour) => writeln!(
            svg,
            "<text x=\"{}\" y=\"{}\" font-size=\"{side}\" text-anchor=\"middle\" fill=\"{}\">{digit}</text>",
            x + side / 2.0,
            y + 0.86 * side,
            hex(*colour)
        ),
    };
}

fn text(svg: &mut String, x: f32, y: f32, words: &str) {
    let _ = writeln!(svg, "<text x=\"{x}\" y=\"{y}\" font-size=\"13\" fill=\"{}\">{words}</text>", hex(INK));
}

/// The distance over time, from 0 to its largest, and where the interventions begin.
fn chart(svg: &mut String, values: &[f32], first: Option<usize>, [x, y, w, h]: [f32; 4]) {
    let top = values.iter().copied().fold(0.0, f32::max);
    text(svg, x, y - 8.0, &format!("distance of states, root mean square over agents; largest {top:.3}"));
    let at = |k: usize| x + w * k as f32 / (values.len().max(2) - 1) as f32;
    let _ = writeln!(
        svg,
        "<rect x=\"{x}\" y=\"{y}\" width=\"{w}\" height=\"{h}\" fill=\"none\" stroke=\"{}\"/>",
        hex(LINE)
    );
    if let Some(first) = first {
        let x = at(first - 1);
        let _ =
            writeln!(svg, "<path d=\"M{x} {y}v{h}\" stroke=\"{}\" stroke-dasharray=\"4 3\"/>", hex(ORANGE));
    }
    let points = values
        .iter()
        .enumerate()
        .map(|(k, v)| format!("{:.1},{:.1}", at(k), y + h * (1.0 - v / top.max(f32::MIN_POSITIVE))));
    let points = points.collect::<Vec<_>>().join(" ");
    let _ = writeln!(
        svg,
        "<polyline points=\"{points}\" fill=\"none\" stroke=\"{}\" stroke-width=\"1.5\"/>",
        hex(BLUE)
    );
}

fn hex([r, g, b]: Colour) -> String {
    format!("#{r:02x}{g:02x}{b:02x}")
}
