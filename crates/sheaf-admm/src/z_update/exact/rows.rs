//! F by rows: the entries of the maps that are not 0, and where their numbers lie in the stacks.

use super::stacks::{End, Stacks, ends};
use crate::sheaf::SheafOp;
use crate::{Error, ErrorKind, Real, Result};

/// One entry of F.
#[derive(Clone, Copy, Debug)]
pub(super) struct Entry {
    /// The number of the whole state that it multiplies.
    pub state: u32,
    /// Where its value lies in the stacks.
    place: u32,
}

/// The pattern of F.
#[derive(Debug)]
pub(super) struct Rows {
    ends: Vec<[End; 2]>, // [edges]
    starts: Vec<u32>,    // [edge_len + 1]
    middles: Vec<u32>,   // [edge_len], where the entries of the second end begin
    entries: Vec<Entry>,
}

impl Rows {
    /// The pattern of these maps; `None` if there are more numbers than it can count.
    pub(super) fn new<T: Real>(op: &SheafOp<'_, T>, stacks: &Stacks<'_, T>) -> Option<Self> {
        let sheaf = op.sheaf();
        u32::try_from(sheaf.stack_len().max(2 * sheaf.edge_len() + 1)).ok()?;
        let (mut starts, mut middles, mut entries) = (vec![0], Vec::new(), Vec::new());
        let ends = ends(sheaf);
        for (pair, edge) in ends.iter().copied().zip(sheaf.edges()) {
            for r in 0..edge.dim as usize {
                for (side, end) in pair.into_iter().enumerate() {
                    if side == 1 {
                        middles.push(entries.len() as u32);
                    }
                    for j in 0..stacks.stalk(end) {
                        let place = stacks.place(end, j) + r;
                        if stacks.number(place) != T::ZERO {
                            entries
                                .push(Entry { state: (stacks.start(end) + j) as u32, place: place as u32 });
                        }
                    }
                }
                starts.push(u32::try_from(entries.len()).ok()?);
            }
        }
        Some(Self { ends, starts, middles, entries })
    }

    /// The entries of a row.
    pub(super) fn row(&self, row: usize) -> &[Entry] {
        &self.entries[self.starts[row] as usize..self.starts[row + 1] as usize]
    }

    /// The entries of a row with their values: (state, value of F).
    pub(super) fn values<'s, T: Real>(
        &'s self,
        row: usize,
        stacks: &'s Stacks<'_, T>,
    ) -> impl Iterator<Item = (usize, T)> + Clone + 's {
        let first = self.middles[row] as usize - self.starts[row] as usize;
        self.row(row).iter().enumerate().map(move |(k, entry)| {
            let value = stacks.number(entry.place as usize);
            (entry.state as usize, if k < first { value } else { -value })
        })
    }

    /// All entries.
    pub(super) fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// Checks that other maps of the same sheaf have zeros where these had them.
    pub(super) fn check<T: Real>(&self, op: &SheafOp<'_, T>, stacks: &Stacks<'_, T>) -> Result<()> {
        let known = self.entries.iter().filter(|e| stacks.number(e.place as usize) != T::ZERO).count();
        let mut found = 0;
        for (pair, edge) in self.ends.iter().copied().zip(op.sheaf().edges()) {
            for end in pair {
                for j in 0..stacks.stalk(end) {
                    let column = stacks.column(end, j, edge.dim as usize);
                    found += column.iter().filter(|&&v| v != T::ZERO).count();
                }
            }
        }
        if found == known {
            return Ok(());
        }
        let expected = "zeros where the maps it was made for have them";
        Err(Error::new(ErrorKind::Unsupported, "exact solver, maps", expected, "another number")
            .hint("make it anew with Exact::automatic, or with Exact::new for maps of any pattern"))
    }
}
