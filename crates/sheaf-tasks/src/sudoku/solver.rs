//! Exact search: a board has no completion, one, or more.
//!
//! Every unit keeps the set of its missing digits, so the candidates of a cell are the intersection of three sets.
//! Cells with one candidate are filled first, then digits with one place in a unit; when both are exhausted the search
//! branches on a cell with the fewest candidates. A typical puzzle takes one to three microseconds.

use super::{CELLS, Grid, UNIT_CELLS, units};

/// The number of completions of a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// No completion.
    Contradictory,
    /// One completion.
    Unique(Grid),
    /// Several completions, with two of them.
    Ambiguous(Grid, Grid),
}

/// Completes a board and determines whether the completion is unique.
///
/// ```
/// use sheaf_tasks::sudoku::solver::{Verdict, solve};
/// assert!(matches!(solve(&[0; 81]), Verdict::Ambiguous(..)));
/// ```
pub fn solve(puzzle: &Grid) -> Verdict {
    let mut found = Found::default();
    if let Some(state) = State::new(puzzle) {
        search(state, &mut found, 2, &mut first);
    }
    match found {
        Found { count: 0, .. } => Verdict::Contradictory,
        Found { count: 1, grids: [grid, _] } => Verdict::Unique(grid),
        Found { grids: [a, b], .. } => Verdict::Ambiguous(a, b),
    }
}

/// Whether there is exactly one completion.
pub fn is_unique(puzzle: &Grid) -> bool {
    matches!(solve(puzzle), Verdict::Unique(_))
}

/// Finds a completion. At every cell the search branches on, `choose` receives the number of candidates and returns
/// which to try first.
pub fn complete(puzzle: &Grid, mut choose: impl FnMut(u32) -> u32) -> Option<Grid> {
    let mut found = Found::default();
    search(State::new(puzzle)?, &mut found, 1, &mut choose);
    (found.count > 0).then_some(found.grids[0])
}

/// Whether a board with the unique completion `digit` at `cell` can be completed with another digit there.
///
/// If not, the digit can be removed and the board remains unique.
pub fn has_other(puzzle: &Grid, cell: usize, digit: u8) -> bool {
    let mut without = *puzzle;
    without[cell] = 0;
    let Some(mut state) = State::new(&without) else { return false };
    state.forbid(cell, digit);
    let mut found = Found::default();
    search(state, &mut found, 1, &mut first);
    found.count > 0
}

/// The technique that completes a board.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Ease {
    /// Cells with one candidate are sufficient.
    NakedSingles,
    /// Digits with one place in a unit are needed too.
    HiddenSingles,
    /// Neither is sufficient.
    Search,
}

/// The technique needed to complete the board; also [`Ease::Search`] if it has no completion.
pub fn ease(puzzle: &Grid) -> Ease {
    let Some(mut state) = State::new(puzzle) else { return Ease::Search };
    if state.naked_singles() && state.left == 0 {
        return Ease::NakedSingles;
    }
    loop {
        if !state.naked_singles() {
            return Ease::Search;
        }
        if state.left == 0 {
            return Ease::HiddenSingles;
        }
        if state.hidden_singles() != Some(true) {
            return Ease::Search;
        }
    }
}

/// Cells whose digit repeats in one of their units; blanks never conflict.
pub fn conflicts(grid: &Grid) -> [bool; CELLS] {
    let mut wrong = [false; CELLS];
    for unit in &UNIT_CELLS {
        for (i, &a) in unit.iter().enumerate() {
            for &b in &unit[..i] {
                let (a, b) = (a as usize, b as usize);
                if grid[a] != 0 && grid[a] == grid[b] {
                    (wrong[a], wrong[b]) = (true, true);
                }
            }
        }
    }
    wrong
}

/// Whether every unit holds every digit once.
pub fn is_complete(grid: &Grid) -> bool {
    UNIT_CELLS.iter().all(|unit| {
        unit.iter().fold(0u16, |seen, &c| seen | 1u16.checked_shl(grid[c as usize].into()).unwrap_or(0))
            == ALL
    })
}

/// Digits 1 to 9 as bits.
const ALL: u16 = 0b11_1111_1110;

/// The units of every cell, as small numbers.
const CELL_UNITS: [[u8; 3]; CELLS] = {
    let mut all = [[0; 3]; CELLS];
    let mut cell = 0;
    while cell < CELLS {
        let three = units(cell);
        all[cell] = [three[0].0 as u8, three[1].0 as u8, three[2].0 as u8];
        cell += 1;
    }
    all
};

#[derive(Debug)]
struct Found {
    count: usize,
    grids: [Grid; 2],
}

impl Default for Found {
    fn default() -> Self {
        Self { count: 0, grids: [[0; CELLS]; 2] }
    }
}

#[derive(Clone, Copy)]
struct State {
    grid: Grid,
    missing: [u16; 27], // missing digits of each unit
    blanks: [u8; CELLS],
    left: usize, // number of valid entries of `blanks`
    /// A cell and the digits that it must not hold.
    barred: (u8, u16),
}

impl State {
    /// `None` if two givens conflict or a byte is not a digit.
    fn new(puzzle: &Grid) -> Option<Self> {
        let mut state =
            Self { grid: *puzzle, missing: [ALL; 27], blanks: [0; CELLS], left: 0, barred: (0, 0) };
        for (cell, &digit) in puzzle.iter().enumerate() {
            if digit == 0 {
                state.blanks[state.left] = cell as u8;
                state.left += 1;
                continue;
            }
            if digit > 9 || state.candidates(cell) & 1 << digit == 0 {
                return None;
            }
            state.mark(cell, 1 << digit);
        }
        Some(state)
    }

    fn forbid(&mut self, cell: usize, digit: u8) {
        self.barred = (cell as u8, 1 << digit);
    }

    #[inline]
    fn candidates(&self, cell: usize) -> u16 {
        let [r, c, b] = CELL_UNITS[cell];
        let free = self.missing[r as usize] & self.missing[c as usize] & self.missing[b as usize];
        if self.barred.0 as usize == cell { free & !self.barred.1 } else { free }
    }

    #[inline]
    fn mark(&mut self, cell: usize, bit: u16) {
        for unit in CELL_UNITS[cell] {
            self.missing[unit as usize] &= !bit;
        }
    }

    #[inline]
    fn place(&mut self, cell: usize, bit: u16) {
        self.grid[cell] = bit.trailing_zeros() as u8;
        self.mark(cell, bit);
    }

    /// Fills cells with one candidate until there is none; returns false at a contradiction.
    fn naked_singles(&mut self) -> bool {
        loop {
            let before = self.left;
            let mut kept = 0;
            for i in 0..self.left {
                let cell = self.blanks[i];
                let free = self.candidates(cell as usize);
                if free == 0 {
                    return false;
                }
                if free & (free - 1) == 0 {
                    self.place(cell as usize, free);
                } else {
                    self.blanks[kept] = cell;
                    kept += 1;
                }
            }
            self.left = kept;
            if kept == before {
                return true;
            }
        }
    }

    /// Fills digits with one place in a unit, each unit once; returns whether any was found, `None` at a contradiction.
    fn hidden_singles(&mut self) -> Option<bool> {
        let mut any = false;
        for (unit, cells) in UNIT_CELLS.iter().enumerate() {
            if self.missing[unit] == 0 {
                continue;
            }
            let (mut once, mut twice) = (0u16, 0u16);
            for &cell in cells {
                if self.grid[cell as usize] == 0 {
                    let free = self.candidates(cell as usize);
                    twice |= once & free;
                    once |= free;
                }
            }
            if once != self.missing[unit] {
                return None;
            }
            let mut single = once & !twice;
            while single != 0 {
                let bit = single & single.wrapping_neg();
                single &= single - 1;
                let mut homes = cells.iter().map(|&c| c as usize).filter(|&c| self.grid[c] == 0);
                let cell = homes.find(|&c| self.candidates(c) & bit != 0)?;
                self.place(cell, bit);
                any = true;
            }
        }
        if any {
            let mut kept = 0;
            for i in 0..self.left {
                self.blanks[kept] = self.blanks[i];
                kept += usize::from(self.grid[self.blanks[i] as usize] == 0);
            }
            self.left = kept;
        }
        Some(any)
    }

    /// Removes the blank with the fewest candidates from the list and returns it.
    fn take_tightest(&mut self) -> (usize, u16) {
        let mut best = (0, u32::MAX, 0);
        for i in 0..self.left {
            let free = self.candidates(self.blanks[i] as usize);
            let count = free.count_ones();
            if count < best.1 {
                best = (i, count, free);
                if count == 2 {
                    break;
                }
            }
        }
        let cell = self.blanks[best.0] as usize;
        self.left -= 1;
        self.blanks[best.0] = self.blanks[self.left];
        (cell, best.2)
    }
}

fn first(_: u32) -> u32 {
    0
}

/// Adds completions of `state` to `found` until there are `limit`.
fn search(mut state: State, found: &mut Found, limit: usize, choose: &mut impl FnMut(u32) -> u32) {
    loop {
        if !state.naked_singles() {
            return;
        }
        if state.left == 0 {
            found.grids[found.count] = state.grid;
            found.count += 1;
            return;
        }
        match state.hidden_singles() {
            None => return,
            Some(true) => {}
            Some(false) => break,
        }
    }
    let (cell, mut free) = state.take_tightest();
    while free != 0 && found.count < limit {
        let mut bits = free;
        for _ in 0..choose(free.count_ones()) {
            bits &= bits - 1;
        }
        let bit = bits & bits.wrapping_neg();
        free &= !bit;
        let mut next = state;
        next.place(cell, bit);
        search(next, found, limit, choose);
    }
}
