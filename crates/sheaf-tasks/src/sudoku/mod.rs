//! Sudoku: 27 agents, one for every row, column and box; three agents agree on each of the 81 cells.
//!
//! A board is 81 bytes in reading order: 0 for a blank, else the digit. Cell `9·row + column` belongs to three units:
//!
//! | unit | number | position of the cell in it |
//! | --- | --- | --- |
//! | row | `row` | `column` |
//! | column | `9 + column` | `row` |
//! | box | `18 + 3·(row / 3) + column / 3` | `3·(row % 3) + column % 3` |
//!
//! | part | purpose |
//! | --- | --- |
//! | [`solver`] | exact search: no solution, one, or more |
//! | [`generate`] | puzzles of six kinds, deterministic in the seed |
//! | [`data`], [`csv`], [`text`] | sets of puzzles; files of puzzles, one per line; typed boards |
//! | [`views`] | what each agent sees, and the reassembly of 27 agents' cells into one board |
//! | [`task`] | the model: views, networks, targets, answers |
//! | [`rounds`] | committing to the most certain cells and starting over |
//! | [`metrics`] | solved, valid, accuracies |
//! | [`source`] | where the puzzles of an experiment come from |
//! | [`augment`] | symmetries, digit relabelling, permutations of bands and stacks |

pub mod augment;
pub mod csv;
pub mod data;
mod decoder;
mod encoder;
pub mod generate;
pub mod metrics;
pub mod rounds;
pub mod solver;
pub mod source;
pub mod task;
pub mod text;
pub mod views;

/// Cells of a board.
pub const CELLS: usize = 81;
/// A cell without a digit.
pub const BLANK: u8 = 0;
/// Number of tokens a cell can be predicted as; 0 is never correct.
pub const CLASSES: usize = 10;
/// Rows, columns and boxes; one agent each.
pub const UNITS: usize = 27;

/// A board: 0 for a blank, else the digit.
pub type Grid = [u8; CELLS];

/// The three units of a cell and the cell's position in each.
#[inline]
pub const fn units(cell: usize) -> [(usize, usize); 3] {
    let (row, column) = (cell / 9, cell % 9);
    [(row, column), (9 + column, row), (18 + row / 3 * 3 + column / 3, row % 3 * 3 + column % 3)]
}

/// The nine cells of each unit, in order of their positions.
pub const UNIT_CELLS: [[u8; 9]; UNITS] = unit_cells();

const fn unit_cells() -> [[u8; 9]; UNITS] {
    let mut all = [[0; 9]; UNITS];
    let mut cell = 0;
    while cell < CELLS {
        let three = units(cell);
        let mut k = 0;
        while k < 3 {
            all[three[k].0][three[k].1] = cell as u8;
            k += 1;
        }
        cell += 1;
    }
    all
}
