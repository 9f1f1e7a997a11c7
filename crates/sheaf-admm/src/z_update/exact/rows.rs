//! F by rows, read from the stacks: the entries of the maps that are not 0.
//!
//! They are found again whenever they are needed. A list of them would be as long as all other vectors of a large network
//! together, and is read twice in a solve.

use super::stacks::{End, Stacks, ends};
use crate::Real;
use crate::sheaf::Sheaf;

/// The ends of every edge.
#[derive(Debug)]
pub(super) struct Rows {
    ends: Vec<[End; 2]>, // [edges]
}

impl Rows {
    /// `None` if there are more numbers than the pattern of L can count.
    pub(super) fn new(sheaf: &Sheaf) -> Option<Self> {
        u32::try_from(sheaf.state_len().max(sheaf.edge_len())).ok()?;
        Some(Self { ends: ends(sheaf) })
    }

    /// The entries of row `r` of edge `e`: (state, value of F).
    pub(super) fn row<'s, T: Real>(
        &self,
        e: usize,
        r: usize,
        stacks: &'s Stacks<'_, T>,
    ) -> impl Iterator<Item = (usize, T)> + Clone + 's {
        let [a, b] = self.ends[e];
        let end = move |end: End, sign: T| {
            let first = stacks.start(end);
            (0..stacks.stalk(end)).filter_map(move |j| {
                let value = stacks.number(stacks.place(end, j) + r);
                (value != T::ZERO).then_some((first + j, sign * value))
            })
        };
        end(a, T::ONE).chain(end(b, -T::ONE))
    }
}
