//! Grid graphs: the slot of an edge is the direction of the neighbour seen from the agent.

/// How many neighbours an inner agent has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Connectivity {
    /// N 0, E 1, S 2, W 3.
    Four,
    /// N 0, NE 1, E 2, SE 3, S 4, SW 5, W 6, NW 7.
    Eight,
}

impl Connectivity {
    /// Number of slots of each agent.
    pub fn slots(self) -> usize {
        match self {
            Self::Four => 4,
            Self::Eight => 8,
        }
    }

    /// The directions an edge list visits from each agent: (row step, column step, slot). The opposite slot is half
    /// a turn away.
    fn forward_steps(self) -> &'static [(isize, isize, u8)] {
        match self {
            Self::Four => &[(0, 1, 1), (1, 0, 2)],
            Self::Eight => &[(0, 1, 2), (1, 0, 4), (1, 1, 3), (1, -1, 5)],
        }
    }
}

/// An edge of a grid: slot `slot_u` of agent `u` meets slot `slot_v` of agent `v`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GridEdge {
    /// The agent that comes first in reading order.
    pub u: u32,
    /// Its neighbour.
    pub v: u32,
    /// Direction of `v` seen from `u`.
    pub slot_u: u8,
    /// Direction of `u` seen from `v`.
    pub slot_v: u8,
}

/// All edges of a `height × width` grid, agents in reading order, each edge once.
pub fn grid_edges(height: usize, width: usize, connectivity: Connectivity) -> Vec<GridEdge> {
    let half_turn = connectivity.slots() as u8 / 2;
    let mut edges = Vec::with_capacity(height * width * connectivity.slots() / 2);
    for row in 0..height {
        for col in 0..width {
            for &(d_row, d_col, slot_u) in connectivity.forward_steps() {
                let (Some(r), Some(c)) = (row.checked_add_signed(d_row), col.checked_add_signed(d_col))
                else {
                    continue;
                };
                if r < height && c < width {
                    let slot_v = (slot_u + half_turn) % connectivity.slots() as u8;
                    edges.push(GridEdge {
                        u: (row * width + col) as u32,
                        v: (r * width + c) as u32,
                        slot_u,
                        slot_v,
                    });
                }
            }
        }
    }
    edges
}
