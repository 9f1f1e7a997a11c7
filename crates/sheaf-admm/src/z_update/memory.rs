//! Memory of the consensus solvers: scratch, carry, and what a forward step keeps.

use super::ZUpdate;
use super::gram::room;
use crate::Real;
use crate::sheaf::SheafOp;

impl<T: Real> ZUpdate<T> {
    /// Length of the scratch that `prepare`, `forward` and `vjp` share.
    pub fn scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        match self {
            Self::Cg(s) => s.scratch_len(&op.sample(0)),
            Self::Descent(s) => s.steps().scratch_len(&op.sample(0)),
            Self::Asynchronous(s) => s.scratch_len(&op.sample(0)),
            Self::EdgeSpace(s) => s.scratch_len(&op.sample(0)),
            Self::Exact(s) if op.samples() == 1 => s.scratch_len(op),
            Self::Exact(_) => self.scratch_each(op) * op.samples(),
            Self::Potential(s) => s.steps().scratch_len(&op.sample(0)),
            Self::Gram(s) => s.scratch_len(op),
            Self::Orthonormal(s) => s.scratch_len(op),
        }
    }

    /// Length of the scratch that `prepare` and `forward` need if no adjoint runs.
    pub fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        match self {
            Self::Cg(s) => s.forward_scratch_len(&op.sample(0)),
            Self::Descent(s) => s.steps().forward_scratch_len(&op.sample(0)),
            Self::Asynchronous(s) => s.forward_scratch_len(&op.sample(0)),
            Self::EdgeSpace(s) => s.forward_scratch_len(&op.sample(0)),
            Self::Exact(s) if op.samples() == 1 => s.forward_scratch_len(op),
            Self::Exact(_) => self.scratch_each(op) * op.samples(),
            Self::Potential(s) => s.steps().forward_scratch_len(&op.sample(0)),
            Self::Gram(s) => s.forward_scratch_len(op),
            Self::Orthonormal(s) => s.scratch_len(op),
        }
    }

    /// Length of the carry from one ADMM iteration to the next.
    pub fn carry_len(&self, op: &SheafOp<'_, T>) -> usize {
        match self {
            Self::Cg(s) => s.carry_len(op) * op.samples(),
            Self::Asynchronous(s) => s.carry_len(op).saturating_mul(op.samples()),
            Self::EdgeSpace(s) => s.carry_len(op) * op.samples(),
            Self::Exact(s) => s.carry_len() * op.samples(),
            _ => 0,
        }
    }

    /// Drops what the carry says of z: the next solve starts from a z that no solve has computed. What agents out of step have
    /// received stays theirs.
    pub(crate) fn forget_z(&self, carry: &mut [T], samples: usize) {
        if let Self::Cg(s) = self {
            let one = carry.len() / samples.max(1);
            carry.chunks_exact_mut(one.max(1)).for_each(|carry| s.forget_z(carry));
        }
    }

    /// Length of what a forward step can keep so that its adjoint need not replay it; 0 if the adjoint always replays.
    pub fn kept_len(&self, op: &SheafOp<'_, T>) -> usize {
        match self {
            Self::Cg(s) => s.kept_len(&op.sample(0)) * op.samples(),
            Self::Gram(s) => s.kept_len(op),
            Self::Orthonormal(s) => s.kept_len(op),
            _ => 0,
        }
    }

    /// Scratch of each sample of a batch, if it is not shared: a factorisation is stored there.
    pub(super) fn scratch_each(&self, op: &SheafOp<'_, T>) -> usize {
        match self {
            Self::Exact(s) => room(s.scratch_len(&op.sample(0))),
            _ => 0,
        }
    }
}
