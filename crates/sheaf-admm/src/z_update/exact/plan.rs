//! The plan of an exact solve, made from the sheaf before any maps are known, and the assembly of its matrix.
//!
//! | system | blocks | entry of blocks (b, c) |
//! | --- | --- | --- |
//! | soft, γ L + ρ | agents | ± γ Σ_e F_{b,e}ᵀ F_{c,e} over the edges between them |
//! | hard, F S Fᵀ | edges | ± Σ_i F_{i,b} s_i F_{i,c}ᵀ over the agents they share |

use crate::Real;
use crate::linalg::envelope::Envelope;
use crate::linalg::scratch::Scratch;
use crate::sheaf::{ROW_PAD, Sheaf, SheafOp};
use crate::x_update::Penalty;
use crate::z_update::weights::Weights;

/// One end of an edge: `dim` rows from `row` of an agent's own rows enter the residual with this sign.
#[derive(Clone, Copy, Debug)]
struct End {
    agent: usize,
    edge: usize,
    row: usize,
    dim: usize,
    negative: bool,
}

impl End {
    fn sign<T: Real>(&self, other: &Self) -> T {
        if self.negative == other.negative { T::ONE } else { -T::ONE }
    }
}

/// The shape of the factor.
#[derive(Debug)]
pub(super) struct Plan {
    pub sheaf: Sheaf,
    pub soft: bool,
    pub envelope: Envelope,
    /// Soft: the two ends of each edge. Hard: all ends at each agent.
    groups: Vec<Vec<End>>,
}

impl Plan {
    pub(super) fn soft(sheaf: &Sheaf) -> Self {
        let groups: Vec<Vec<End>> = ends(sheaf).map(|pair| pair.to_vec()).collect();
        let mut neighbours = vec![Vec::new(); sheaf.agents()];
        for pair in &groups {
            neighbours[pair[0].agent].push(pair[1].agent);
            neighbours[pair[1].agent].push(pair[0].agent);
        }
        let sizes: Vec<usize> = sheaf.state_offsets().windows(2).map(|o| o[1] - o[0]).collect();
        Self { sheaf: sheaf.clone(), soft: true, envelope: envelope(&sizes, neighbours), groups }
    }

    pub(super) fn hard(sheaf: &Sheaf) -> Self {
        let mut groups = vec![Vec::new(); sheaf.agents()];
        ends(sheaf).flatten().for_each(|end| groups[end.agent].push(end));
        let mut neighbours = vec![Vec::new(); sheaf.edge_count()];
        for group in &groups {
            for end in group {
                neighbours[end.edge].extend(group.iter().map(|other| other.edge));
            }
        }
        let sizes: Vec<usize> = sheaf.edges().iter().map(|e| e.dim as usize).collect();
        Self { sheaf: sheaf.clone(), soft: false, envelope: envelope(&sizes, neighbours), groups }
    }

    /// Length of the factor at the front of the scratch; what follows is aligned to a cache line if the scratch is.
    pub(super) fn factor_room(&self) -> usize {
        self.envelope.len().div_ceil(ROW_PAD) * ROW_PAD
    }

    /// Length of the scratch for both ways to assemble.
    pub(super) fn assemble_scratch_len(sheaf: &Sheaf) -> usize {
        sheaf.row_len() + sheaf.stack_len() + sheaf.state_len()
    }

    /// matrix = γ L + ρ.
    pub(super) fn assemble_soft<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        gamma: T,
        rho: &Penalty<'_, T>,
        matrix: &mut [T],
        scratch: &mut [T],
    ) {
        let stacks = dense_stacks(op, scratch);
        let sheaf = op.sheaf();
        let lead = |agent: usize| sheaf.row_offsets()[agent + 1] - sheaf.row_offsets()[agent];
        let stalk = |agent: usize| sheaf.state_offsets()[agent + 1] - sheaf.state_offsets()[agent];
        let column = |end: &End, j: usize| {
            &stacks[sheaf.stack_offsets()[end.agent] + j * lead(end.agent) + end.row..][..end.dim]
        };
        matrix.fill(T::ZERO);
        for pair in &self.groups {
            for (p, q) in pairs(pair) {
                let scale = gamma * p.sign(q) * op.edge_weights().map_or(T::ONE, |weights| weights[p.edge]);
                for k in 0..stalk(p.agent) {
                    for l in 0..stalk(q.agent) {
                        let (row, col) = (self.envelope.row(p.agent, k), self.envelope.row(q.agent, l));
                        if col <= row {
                            let sum: T = column(p, k).iter().zip(column(q, l)).map(|(&a, &b)| a * b).sum();
                            self.envelope.add(matrix, row, col, scale * sum);
                        }
                    }
                }
            }
        }
        for agent in 0..sheaf.agents() {
            for k in 0..stalk(agent) {
                let row = self.envelope.row(agent, k);
                self.envelope.add(matrix, row, row, rho.of(agent));
            }
        }
    }

    /// matrix = F S Fᵀ.
    pub(super) fn assemble_hard<T: Real>(
        &self,
        op: &SheafOp<'_, T>,
        weights: &Weights<'_, T>,
        matrix: &mut [T],
        scratch: &mut [T],
    ) {
        let stacks = dense_stacks(op, scratch);
        let sheaf = op.sheaf();
        matrix.fill(T::ZERO);
        for (agent, group) in self.groups.iter().enumerate() {
            let stack = &stacks[sheaf.stack_offsets()[agent]..sheaf.stack_offsets()[agent + 1]];
            let ld = sheaf.row_offsets()[agent + 1] - sheaf.row_offsets()[agent];
            for (p, q) in pairs(group) {
                let scale = weights.of(agent) * p.sign(q);
                for k in 0..p.dim {
                    for l in 0..q.dim {
                        let (row, col) = (self.envelope.row(p.edge, k), self.envelope.row(q.edge, l));
                        if col <= row {
                            let columns = stack.chunks_exact(ld);
                            let sum: T = columns.map(|c| c[p.row + k] * c[q.row + l]).sum();
                            self.envelope.add(matrix, row, col, scale * sum);
                        }
                    }
                }
            }
        }
    }
}

fn pairs(ends: &[End]) -> impl Iterator<Item = (&End, &End)> {
    ends.iter().flat_map(move |p| ends.iter().map(move |q| (p, q)))
}

fn envelope(sizes: &[usize], mut neighbours: Vec<Vec<usize>>) -> Envelope {
    for list in &mut neighbours {
        list.sort_unstable();
        list.dedup();
    }
    Envelope::new(sizes, &neighbours)
}

/// The two ends of every edge.
fn ends(sheaf: &Sheaf) -> impl Iterator<Item = [End; 2]> + '_ {
    sheaf.edges().iter().enumerate().map(|(edge, e)| {
        [(e.row_u, false), (e.row_v, true)].map(|(row, negative)| {
            let row = row as usize;
            // The last agent that begins at or before the row: agents without rows share their offset with the next.
            let agent = sheaf.row_offsets().partition_point(|&start| start <= row) - 1;
            let row = row - sheaf.row_offsets()[agent];
            End { agent, edge, row, dim: e.dim as usize, negative }
        })
    })
}

/// Every agent's stack written out, `[stack_len]`, for any kind of maps: column j of all stacks at once is the
/// projection of the j-th unit vector of every agent.
fn dense_stacks<'s, T: Real>(op: &SheafOp<'_, T>, scratch: &'s mut [T]) -> &'s [T] {
    let sheaf = op.sheaf();
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
    stacks
}
