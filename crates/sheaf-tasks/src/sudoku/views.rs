//! The agents' views of a board, and the reassembly of 27 agents' cells into one board.
//!
//! | name | shape |
//! | --- | --- |
//! | tokens, labels of the agents | `[27, 9]` |
//! | logits of the agents | `[27, 9, 10]` |
//! | logits of the board | `[81, 10]`, the mean of the three views of a cell |

use sheaf_admm::Real;

use super::{CELLS, CLASSES, Grid, UNIT_CELLS, UNITS, units};

/// Cells per agent.
pub const SLOTS: usize = 9;
/// Views of all agents together.
pub const VIEWS: usize = UNITS * SLOTS;

/// The nine cells of every agent, `[27, 9]`.
pub fn gather(board: &Grid, views: &mut [u8]) {
    for (view, &cell) in views.iter_mut().zip(UNIT_CELLS.as_flattened()) {
        *view = board[cell as usize];
    }
}

/// The mean of the three views of every cell.
pub fn reassemble<T: Real>(
    logits: &[T],    // [27, 9, CLASSES]
    board: &mut [T], // [81, CLASSES]
) {
    let third = T::ONE / T::from_f64(3.0);
    for (cell, out) in board.chunks_exact_mut(CLASSES).enumerate() {
        let [a, b, c] = units(cell).map(|(unit, slot)| &logits[(unit * SLOTS + slot) * CLASSES..][..CLASSES]);
        for (k, out) in out.iter_mut().enumerate() {
            *out = (a[k] + b[k] + c[k]) * third;
        }
    }
}

/// The most probable class of every cell; ties go to the first.
pub fn argmax<T: Real>(board: &[T]) -> Grid {
    let mut grid = [0; CELLS];
    for (out, logits) in grid.iter_mut().zip(board.chunks_exact(CLASSES)) {
        let mut best = 0;
        for k in 1..CLASSES {
            if logits[k] > logits[best] {
                best = k;
            }
        }
        *out = best as u8;
    }
    grid
}
