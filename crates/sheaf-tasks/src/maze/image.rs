//! Painted mazes: dark pixels are walls, light ones open, green is the start, red the goal.
//!
//! Cells may be squares of several pixels: if all colour changes fall on multiples of one number, that number is the
//! size of a cell. A pixel is dark if no channel exceeds half; any other colour is open, so a path drawn in blue,
//! yellow or orange is read as open.

use sheaf_admm::{Error, ErrorKind, Result};

use super::text::{MazeInput, check};
use super::{EMPTY, GOAL, START, WALL};

/// Reads a maze from a picture; `place` names it in errors.
pub fn from_pixels(
    rgb: &[u8], // [height, width, 3]
    height: usize,
    width: usize,
    place: &str,
) -> Result<MazeInput> {
    let pixels = height.checked_mul(width).filter(|&n| n > 0 && n.checked_mul(3) == Some(rgb.len()));
    if pixels.is_none() {
        let got = format!("{} bytes for {height} × {width} pixels", rgb.len());
        return Err(Error::new(ErrorKind::Shape, place, "three bytes for each of one or more pixels", got));
    }
    let tokens: Vec<u8> = rgb.as_chunks().0.iter().map(classify).collect();
    let size = cell_size(&tokens, height, width);
    let (rows, columns) = (height / size, width / size);
    let cells: Vec<u8> =
        (0..rows * columns).map(|i| tokens[(i / columns * width + i % columns) * size]).collect();
    check(cells, rows, columns, place).map_err(|e| {
        let understood = format!("{place} ({height} × {width} pixels, cells of {size})");
        let hint = "dark walls, light ways, one green and one red cell, all cells squares of one size";
        Error::new(e.kind(), understood, e.expected(), e.got()).hint(hint)
    })
}

/// The token of a colour.
fn classify(&[red, green, blue]: &[u8; 3]) -> u8 {
    let [r, g, b] = [red, green, blue].map(i32::from);
    if g - r.max(b) >= 40 && g >= 80 {
        START
    } else if r - g.max(b) >= 80 && g.max(b) < 130 {
        GOAL
    } else if r.max(g).max(b) < 128 {
        WALL
    } else {
        EMPTY
    }
}

/// The largest cell size that fits: it divides height, width and every position where the picture changes.
fn cell_size(tokens: &[u8], height: usize, width: usize) -> usize {
    let mut size = gcd(height, width);
    for row in 0..height {
        let line = &tokens[row * width..][..width];
        if row > 0 && line != &tokens[(row - 1) * width..][..width] {
            size = gcd(size, row);
        }
        for column in 1..width {
            if line[column] != line[column - 1] {
                size = gcd(size, column);
            }
        }
    }
    size
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
