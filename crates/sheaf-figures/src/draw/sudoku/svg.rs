//! SVG: the board in units of cells. Several boards become an animation that shows one after the other.

use sheaf_tasks::sudoku::Grid;

use super::{Mark, marks};
use crate::draw::palette;
use crate::draw::svg::{hex, put};

/// Boards as the text of an SVG file; `seconds` is how long an animation of several boards takes.
pub fn render(givens: &Grid, boards: &[Grid], seconds: f32) -> String {
    let mut svg = String::from(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"-0.1 -0.1 9.2 9.2\" font-family=\"sans-serif\" \
         font-size=\"0.7\" text-anchor=\"middle\">\n",
    );
    put(&mut svg, format_args!("<rect width=\"9\" height=\"9\" fill=\"{}\"/>", hex(palette::PAPER)));
    for (width, colour, lines) in
        [(0.02, palette::TRACK, &[1, 2, 4, 5, 7, 8][..]), (0.08, palette::WALL, &[0, 3, 6, 9][..])]
    {
        let d: String = lines.iter().map(|i| format!("M{i} 0v9M0 {i}h9")).collect();
        put(&mut svg, format_args!("<path stroke=\"{}\" stroke-width=\"{width}\" d=\"{d}\"/>", hex(colour)));
    }
    let runs: Vec<&[Grid]> = boards.chunk_by(|a, b| a == b).collect();
    let mut before = 0;
    for run in &runs {
        put(&mut svg, format_args!("<g>"));
        if runs.len() > 1 {
            let at = |n: usize| n as f32 / boards.len() as f32;
            shown_between(&mut svg, at(before), at(before + run.len()), seconds);
        }
        digits(&mut svg, givens, &run[0]);
        put(&mut svg, format_args!("</g>"));
        before += run.len();
    }
    svg.push_str("</svg>\n");
    svg
}

/// Makes the enclosing element visible from one fraction of the animation to another.
fn shown_between(svg: &mut String, from: f32, to: f32, seconds: f32) {
    let (times, values) = match (from > 0.0, to < 1.0) {
        (false, _) => (format!("0;{to}"), "1;0"),
        (true, false) => (format!("0;{from}"), "0;1"),
        (true, true) => (format!("0;{from};{to}"), "0;1;0"),
    };
    put(
        svg,
        format_args!(
            "<animate attributeName=\"opacity\" values=\"{values}\" keyTimes=\"{times}\" dur=\"{seconds}s\" \
             calcMode=\"discrete\" repeatCount=\"indefinite\"/>"
        ),
    );
}

fn digits(svg: &mut String, givens: &Grid, board: &Grid) {
    for (cell, mark) in marks(givens, board).into_iter().enumerate() {
        let colour = match mark {
            Mark::Blank => continue,
            Mark::Given => palette::WALL,
            Mark::Found => palette::PATH,
            Mark::Violated => palette::GOAL,
        };
        let weight = if givens[cell] == board[cell] { " font-weight=\"bold\"" } else { "" };
        let (x, y) = (cell % 9, cell / 9);
        put(
            svg,
            format_args!(
                "<text x=\"{x}.5\" y=\"{y}.75\" fill=\"{}\"{weight}>{}</text>",
                hex(colour),
                board[cell]
            ),
        );
    }
}
