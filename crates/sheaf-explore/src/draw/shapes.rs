//! A board as a list of shapes, in units of a cell.

use crate::record::Record;
use crate::tasks::Field;

/// Red, green, blue.
pub type Colour = [u8; 3];

/// Walls, and ink.
pub const INK: Colour = [30, 34, 46];
/// Open cells, and paper.
pub const PAPER: Colour = [250, 248, 243];
/// Lines.
pub const LINE: Colour = [201, 199, 192];
/// The path, and digits that the agents filled in.
pub const BLUE: Colour = [0, 114, 178];
/// The start.
pub const GREEN: Colour = [0, 158, 115];
/// The goal, and wrong answers.
pub const VERMILLION: Colour = [213, 94, 0];
/// Cells whose answer differs from the other run.
pub const ORANGE: Colour = [230, 159, 0];

/// Eight colours of classes, repeated with less light from 8 on.
const CLASSES: [Colour; 8] = [
    [0, 114, 178],
    [230, 159, 0],
    [0, 158, 115],
    [204, 121, 167],
    [86, 180, 233],
    [213, 94, 0],
    [150, 140, 20],
    [90, 90, 110],
];

/// A shape.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Shape {
    /// A filled rectangle: left, top, width, height.
    Box([f32; 4], Colour),
    /// The outline of a rectangle.
    Frame([f32; 4], Colour),
    /// A digit in a square: left, top, side.
    Digit([f32; 3], u8, Colour),
}

/// A colour between two.
pub fn mix(from: Colour, to: Colour, part: f32) -> Colour {
    std::array::from_fn(|i| (f32::from(from[i]) * (1.0 - part) + f32::from(to[i]) * part).round() as u8)
}

/// The board of iteration `k`, and marks where its answer differs from that of `other`.
pub fn board(task: &str, field: &dyn Field, record: &Record, k: usize, other: Option<&Record>) -> Vec<Shape> {
    let input = usize::from(record.input[k]);
    let (cells, geometry) = (field.cells(input), field.geometry());
    let (classes, sure) = (record.classes_at(k), record.sure_at(k));
    let place = |cell: usize| [(cell % geometry.width) as f32, (cell / geometry.width) as f32];
    let mut shapes = vec![Shape::Box([0.0, 0.0, geometry.width as f32, geometry.height as f32], PAPER)];
    for (cell, &given) in cells.iter().enumerate() {
        let [x, y] = place(cell);
        match task {
            "maze" => {
                let certain = f32::from(sure[cell]) / 255.0;
                let colour = match (given, classes[cell]) {
                    (1, _) => INK,
                    (3, _) => GREEN,
                    (4, _) => VERMILLION,
                    (_, 5) => mix(PAPER, BLUE, 0.35 + 0.65 * certain),
                    _ => continue,
                };
                shapes.push(Shape::Box([x, y, 1.0, 1.0], colour));
            }
            "sudoku" => {
                let colour = if given > 0 { INK } else { mix(PAPER, BLUE, f32::from(sure[cell]) / 255.0) };
                let digit = if given > 0 { given } else { classes[cell] };
                shapes.push(Shape::Digit([x + 0.15, y + 0.15, 0.7], digit, colour));
            }
            _ => shapes.push(Shape::Box([x, y, 1.0, 1.0], mix(INK, PAPER, f32::from(given) / 255.0))),
        }
    }
    if task == "sudoku" {
        for i in 0..=9 {
            let (at, colour) = (i as f32, if i % 3 == 0 { INK } else { LINE });
            shapes.push(Shape::Box([at - 0.02, 0.0, 0.04, 9.0], colour));
            shapes.push(Shape::Box([0.0, at - 0.02, 9.0, 0.04], colour));
        }
    }
    if task == "mnist" {
        for (agent, [row, column]) in geometry.agents.iter().enumerate() {
            let colour = mix(INK, CLASSES[usize::from(classes[agent]) % 8], f32::from(sure[agent]) / 255.0);
            shapes.push(Shape::Digit([column - 0.7, row - 0.7, 2.4], classes[agent], colour));
        }
    } else if let Some(other) = other.filter(|other| k < other.iterations) {
        let differs = |cell: &usize| classes[*cell] != other.classes_at(k)[*cell];
        for [x, y] in (0..cells.len()).filter(differs).map(place) {
            shapes.push(Shape::Frame([x + 0.08, y + 0.08, 0.84, 0.84], ORANGE));
        }
    }
    shapes
}
