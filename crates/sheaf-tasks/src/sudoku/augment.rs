//! Equivalent variants of a puzzle.
//!
//! A [`Transform`] moves cells and relabels digits: `output[cell] = digits[input[source[cell]]]`.
//!
//! | part | variants |
//! | --- | --- |
//! | symmetries of the square | 8 |
//! | digits relabelled | 9! |
//! | bands, stacks, rows within a band, columns within a stack permuted | 6⁸ |
//!
//! A symmetry exchanges rows with columns or reverses them; the other permutations map rows to rows.

use sheaf_learn::rng::Stream;

use super::{CELLS, Grid};
use crate::maze::symmetry::{self, Symmetry};

/// Which variants are drawn at random.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Shuffles {
    /// Relabel the digits.
    pub digits: bool,
    /// Permute bands, stacks, rows within bands and columns within stacks.
    pub bands: bool,
    /// Exchange rows with columns at random. With the permutations this covers every symmetry of the square.
    pub transpose: bool,
}

/// The source of every cell and the new label of every digit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Transform {
    source: [u8; CELLS],
    digits: [u8; 10],
}

impl Transform {
    /// A symmetry of the square alone.
    pub fn symmetry(symmetry: Symmetry) -> Self {
        let mut source = [0; CELLS];
        for (cell, from) in source.iter_mut().enumerate() {
            let (row, column) = symmetry.source(cell / 9, cell % 9, 9, 9);
            *from = (9 * row + column) as u8;
        }
        Self { source, digits: [0, 1, 2, 3, 4, 5, 6, 7, 8, 9] }
    }

    /// The symmetry, then the shuffles selected by `shuffles`, drawn from `stream`.
    pub fn draw(symmetry: Symmetry, shuffles: Shuffles, stream: &mut Stream) -> Self {
        let mut this = Self::symmetry(symmetry);
        if shuffles.bands {
            let (rows, columns) = (lines(stream), lines(stream));
            let before = this.source;
            for (cell, from) in this.source.iter_mut().enumerate() {
                *from = before[9 * rows[cell / 9] + columns[cell % 9]];
            }
        }
        if shuffles.transpose && stream.below(2) == 1 {
            let before = this.source;
            for (cell, from) in this.source.iter_mut().enumerate() {
                *from = before[9 * (cell % 9) + cell / 9];
            }
        }
        if shuffles.digits {
            stream.shuffle(&mut this.digits[1..]);
        }
        this
    }

    /// Writes the variant of `input`. The variant of a puzzle's solution solves the puzzle's variant.
    pub fn apply(&self, input: &Grid, output: &mut Grid) {
        for (out, &from) in output.iter_mut().zip(&self.source) {
            *out = self.digits[input[from as usize] as usize];
        }
    }
}

/// A permutation of nine lines that keeps bands together.
fn lines(stream: &mut Stream) -> [usize; 9] {
    let mut bands = [0, 1, 2];
    stream.shuffle(&mut bands);
    let mut lines = [0; 9];
    for (to, band) in lines.chunks_exact_mut(3).zip(bands) {
        to.copy_from_slice(&[3 * band, 3 * band + 1, 3 * band + 2]);
        stream.shuffle(to);
    }
    lines
}

/// A 128-bit key shared by all eight symmetric variants of a board; different boards are not expected to share one.
pub fn canonical_key(board: &Grid) -> u128 {
    symmetry::canonical_key(board, 9, 9)
}
