//! Every agent's stack as numbers, for any kind of maps.

use crate::Real;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{EdgeRows, Maps, ROW_PAD, Sheaf, SheafOp};

/// Stacks written out, `[stack_len]`.
pub(super) struct Stacks<'a, T> {
    sheaf: &'a Sheaf,
    numbers: &'a [T],
}

/// One end of an edge: an agent and the first of its own rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct End {
    pub agent: u32,
    pub row: u32,
}

/// The two ends of every edge.
pub(super) fn ends(sheaf: &Sheaf) -> Vec<[End; 2]> {
    // Agents begin at multiples of ROW_PAD: a table of such blocks finds the agent of a row at once.
    let offsets = sheaf.row_offsets();
    let mut owners = vec![0u32; offsets[sheaf.agents()] / ROW_PAD];
    for (agent, own) in offsets.windows(2).enumerate() {
        owners[own[0] / ROW_PAD..own[1] / ROW_PAD].fill(agent as u32);
    }
    let end = |row: u32| {
        let agent = owners[row as usize / ROW_PAD];
        End { agent, row: row - offsets[agent as usize] as u32 }
    };
    sheaf.edges().iter().map(|e: &EdgeRows| [end(e.row_u), end(e.row_v)]).collect()
}

impl<'a, T: Real> Stacks<'a, T> {
    /// Length of the scratch of [`new`](Self::new).
    pub(super) fn scratch_len(op: &SheafOp<'_, T>) -> usize {
        let sheaf = op.sheaf();
        match op.maps() {
            Maps::PerAgent(_) => 0,
            _ => sheaf.row_len() + sheaf.stack_len() + sheaf.state_len(),
        }
    }

    /// Column j of all stacks at once is the projection of the j-th unit vector of every agent.
    pub(super) fn new(op: &SheafOp<'a, T>, scratch: &'a mut [T]) -> Self {
        let sheaf = op.sheaf();
        if let Maps::PerAgent(numbers) = *op.maps() {
            return Self { sheaf, numbers };
        }
        let mut scratch = Scratch::new(scratch);
        let (rows, stacks) = (scratch.take(sheaf.row_len()), scratch.take(sheaf.stack_len()));
        let unit = scratch.take(sheaf.state_len());
        let stalks = || sheaf.state_offsets().windows(2).map(|o| o[1] - o[0]);
        for j in 0..stalks().max().unwrap_or(0) {
            unit.fill(T::ZERO);
            for (&start, d_v) in sheaf.state_offsets().iter().zip(stalks()) {
                if j < d_v {
                    unit[start + j] = T::ONE;
                }
            }
            op.raw().project(unit, rows);
            for (i, d_v) in stalks().enumerate() {
                let own = sheaf.row_offsets()[i]..sheaf.row_offsets()[i + 1];
                if j < d_v {
                    let place = sheaf.stack_offsets()[i] + j * own.len();
                    stacks[place..place + own.len()].copy_from_slice(&rows[own]);
                }
            }
        }
        Self { sheaf, numbers: stacks }
    }

    /// The stalk of an agent.
    pub(super) fn stalk(&self, end: End) -> usize {
        let i = end.agent as usize;
        self.sheaf.state_offsets()[i + 1] - self.sheaf.state_offsets()[i]
    }

    /// Where the states of an agent begin.
    pub(super) fn start(&self, end: End) -> usize {
        self.sheaf.state_offsets()[end.agent as usize]
    }

    /// Where the numbers of column `j` of the map of one end begin.
    pub(super) fn place(&self, end: End, j: usize) -> usize {
        let i = end.agent as usize;
        let lead = self.sheaf.row_offsets()[i + 1] - self.sheaf.row_offsets()[i];
        self.sheaf.stack_offsets()[i] + j * lead + end.row as usize
    }

    /// The stack of an agent, column by column, and the length of a column.
    pub(super) fn of_agent(&self, agent: usize) -> (&'a [T], usize) {
        let lead = self.sheaf.row_offsets()[agent + 1] - self.sheaf.row_offsets()[agent];
        let own = self.sheaf.stack_offsets()[agent]..self.sheaf.stack_offsets()[agent + 1];
        (&self.numbers[own], lead)
    }

    /// Column `j` of the map of one end, `dim` rows.
    pub(super) fn column(&self, end: End, j: usize, dim: usize) -> &'a [T] {
        &self.numbers[self.place(end, j)..][..dim]
    }
}
