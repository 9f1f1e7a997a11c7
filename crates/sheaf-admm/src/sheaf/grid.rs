//! Agents on a rectangular grid: which ones are neighbours, and through which slots they are joined.
//!
//! The slot is the direction of the neighbour seen from the agent, clockwise from north:
//!
//! | | N | NE | E | SE | S | SW | W | NW |
//! | --- | --- | --- | --- | --- | --- | --- | --- | --- |
//! | 8-way | 0 | 1 | 2 | 3 | 4 | 5 | 6 | 7 |
//! | 4-way | 0 | – | 1 | – | 2 | – | 3 | – |
//!
//! An edge that leaves u eastwards arrives at v's west slot: opposite slots differ by half the number of slots.
//! Agents are numbered row by row. The list goes through the agents in that order; each contributes its edges to
//! neighbours with a larger number, E, S, SE, SW (4-way: E, S). Sums over edges follow this order.

use std::ops::Range;

use super::graph::check_count;
use crate::Result;

/// The neighbours of an agent of a grid.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Connectivity {
    /// North, east, south, west.
    Four,
    /// Those and the diagonals.
    Eight,
}

impl Connectivity {
    /// Slots per agent: one for each direction.
    pub fn slots(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// The directions of an agent's own edges: (slot, rows down, columns right).
    fn outgoing(self) -> &'static [(u8, usize, isize)] {
        match self {
            Self::Four => &[(1, 0, 1), (2, 1, 0)],
            Self::Eight => &[(2, 0, 1), (4, 1, 0), (3, 1, 1), (5, 1, -1)],
        }
    }
}

/// One edge of a grid: slot `slot_u` of agent `u` joined to slot `slot_v` of agent `v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct GridEdge {
    /// The agent the edge leaves; always smaller than `v`.
    pub u: u32,
    /// The agent the edge arrives at.
    pub v: u32,
    /// Direction of `v` seen from `u`.
    pub slot_u: u8,
    /// Direction of `u` seen from `v`.
    pub slot_v: u8,
}

/// All edges of a `height` × `width` grid of agents, in the order of the module's introduction.
///
/// A grid of more than [`MAX_SLOTS`](super::MAX_SLOTS) slots is an error.
pub fn grid_edges(height: usize, width: usize, connectivity: Connectivity) -> Result<Vec<GridEdge>> {
    check_count("slots", height.saturating_mul(width).saturating_mul(connectivity.slots()))?;
    let mut edges = Vec::with_capacity(height * width * connectivity.outgoing().len());
    // Without columns the number of rows may be arbitrarily large.
    edges.extend(grid_edges_of_rows(0..if width == 0 { 0 } else { height }, height, width, connectivity));
    Ok(edges)
}

/// The edges that the agents of some grid rows contribute, in the same order.
pub(crate) fn grid_edges_of_rows(
    rows: Range<usize>,
    height: usize,
    width: usize,
    connectivity: Connectivity,
) -> impl Iterator<Item = GridEdge> {
    let opposite = connectivity.slots() as u8 / 2;
    let of_agent = move |row: usize, column: usize| {
        connectivity.outgoing().iter().filter_map(move |&(slot, down, right)| {
            let to = column.checked_add_signed(right)?;
            let inside = row + down < height && to < width;
            inside.then(|| GridEdge {
                u: (row * width + column) as u32,
                v: ((row + down) * width + to) as u32,
                slot_u: slot,
                slot_v: (slot + opposite) % (2 * opposite),
            })
        })
    };
    rows.flat_map(move |row| (0..width).flat_map(move |column| of_agent(row, column)))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn a_nine_by_nine_grid_has_the_published_number_of_edges() {
        assert_eq!(grid_edges(9, 9, Connectivity::Eight).unwrap().len(), 272);
        assert_eq!(grid_edges(9, 9, Connectivity::Four).unwrap().len(), 144);
    }

    #[test]
    fn every_slot_points_at_the_neighbour_it_names() {
        let compass = [(-1, 0), (-1, 1), (0, 1), (1, 1), (1, 0), (1, -1), (0, -1), (-1, -1)];
        for (height, width) in [(1, 1), (1, 5), (5, 1), (3, 4), (6, 2)] {
            for connectivity in [Connectivity::Four, Connectivity::Eight] {
                let turn = 8 / connectivity.slots();
                let at = |a: u32| ((a as usize / width) as i32, (a as usize % width) as i32);
                for e in grid_edges(height, width, connectivity).unwrap() {
                    let (u, v) = (at(e.u), at(e.v));
                    let difference = (v.0 - u.0, v.1 - u.1);
                    assert_eq!(compass[e.slot_u as usize * turn], difference);
                    assert_eq!(compass[e.slot_v as usize * turn], (-difference.0, -difference.1));
                }
            }
        }
    }

    #[test]
    fn each_slot_of_an_agent_is_used_once_and_every_neighbour_is_reached() {
        let (height, width) = (4, 7);
        let edges = grid_edges(height, width, Connectivity::Eight).unwrap();
        let mut used = HashSet::new();
        for e in &edges {
            assert!(used.insert((e.u, e.slot_u)) && used.insert((e.v, e.slot_v)));
        }
        let neighbours = |n: usize| 3 * n - 2;
        assert_eq!(used.len(), neighbours(height) * neighbours(width) - height * width);
    }
}
