//! All memory of a solve, taken once.

use super::Problem;
use crate::Real;
use crate::linalg::aligned::AlignedVec;

/// What a workspace is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Solving only.
    Solve,
    /// Solving and differentiating: keeps a tape of that many iterations.
    Differentiate {
        /// The most iterations a solve may run.
        iterations: usize,
    },
}

/// Buffers for the solves of one worker. Made once, grown when a larger problem comes, never shrunk: after the first
/// sample of a kind nothing is allocated.
#[derive(Clone, Debug, Default)]
pub struct Workspace<T: Copy + Default> {
    pub(super) x: AlignedVec<T>,         // [states]
    pub(super) z: AlignedVec<T>,         // [states]
    pub(super) z_next: AlignedVec<T>,    // [states]
    pub(super) u: AlignedVec<T>,         // [states]
    pub(super) w: AlignedVec<T>,         // [states]
    pub(super) carry: AlignedVec<T>,     // [carry]
    pub(super) rho: AlignedVec<T>,       // [1] or [agents], the penalty in force
    pub(super) x_scratch: AlignedVec<T>, // the objective's
    pub(super) z_scratch: AlignedVec<T>, // the consensus solver's
    pub(super) tape: Tape<T>,
    pub(super) d_z: AlignedVec<T>,     // [states]
    pub(super) d_z_in: AlignedVec<T>,  // [states]
    pub(super) d_u: AlignedVec<T>,     // [states]
    pub(super) d_u_in: AlignedVec<T>,  // [states]
    pub(super) d_w: AlignedVec<T>,     // [states]
    pub(super) d_x: AlignedVec<T>,     // [states]
    pub(super) d_carry: AlignedVec<T>, // [carry]
    pub(super) d_rho: AlignedVec<T>,   // [1] or [agents]
}

/// What the reverse sweep needs of a solve: the state before every iteration, x after it, and the penalty's factor.
#[derive(Clone, Debug, Default)]
pub(super) struct Tape<T: Copy + Default> {
    pub z: AlignedVec<T>,      // [iterations + 1, states]
    pub u: AlignedVec<T>,      // [iterations + 1, states]
    pub x: AlignedVec<T>,      // [iterations, states]
    pub carry: AlignedVec<T>,  // [iterations + 1, carry]
    pub factor: AlignedVec<T>, // [iterations + 1]
    pub len: usize,            // iterations that ran
    pub recording: bool,
}

impl<T: Real> Workspace<T> {
    /// Memory for problems like this one.
    pub fn new(problem: &Problem<'_, T>, mode: Mode) -> Self {
        let mut ws = Self::default();
        ws.fit(problem, mode);
        ws
    }

    /// Grows to fit; does nothing when it already does.
    pub fn fit(&mut self, problem: &Problem<'_, T>, mode: Mode) {
        let sheaf = problem.op.sheaf();
        let (n, offsets) = (sheaf.state_len(), sheaf.state_offsets());
        let carry = problem.z_update.carry_len(&problem.op);
        let rho = problem.rho.grad_len(sheaf.agents());
        for buffer in [&mut self.x, &mut self.z, &mut self.z_next, &mut self.u, &mut self.w] {
            buffer.ensure(n);
        }
        self.carry.ensure(carry);
        self.rho.ensure(rho);
        self.x_scratch.ensure(problem.objective.scratch_len(offsets));
        match mode {
            Mode::Solve => {
                self.z_scratch.ensure(problem.z_update.forward_scratch_len(&problem.op));
                self.tape.recording = false;
            }
            Mode::Differentiate { iterations } => {
                self.z_scratch.ensure(problem.z_update.scratch_len(&problem.op));
                self.tape.recording = true;
                self.tape.z.ensure((iterations + 1) * n);
                self.tape.u.ensure((iterations + 1) * n);
                self.tape.x.ensure(iterations * n);
                self.tape.carry.ensure((iterations + 1) * carry);
                self.tape.factor.ensure(iterations + 1);
                for buffer in [&mut self.d_z, &mut self.d_z_in, &mut self.d_u, &mut self.d_u_in] {
                    buffer.ensure(n);
                }
                self.d_w.ensure(n);
                self.d_x.ensure(n);
                self.d_carry.ensure(carry);
                self.d_rho.ensure(rho);
            }
        }
    }

    /// Proposals after iteration `k` (from 0) of a recorded solve, `[states]`.
    pub fn x_at(&self, k: usize, states: usize) -> &[T] {
        &self.tape.x[k * states..][..states]
    }

    /// Proposals of the last `count` iterations of a recorded solve, oldest first, `[count, states]`.
    pub fn last_x(&self, count: usize, states: usize) -> &[T] {
        &self.tape.x[(self.tape.len - count) * states..self.tape.len * states]
    }

    /// The last proposals.
    pub fn x(&self, states: usize) -> &[T] {
        &self.x[..states]
    }

    /// The last agreed state.
    pub fn z(&self, states: usize) -> &[T] {
        &self.z[..states]
    }

    /// The last duals.
    pub fn u(&self, states: usize) -> &[T] {
        &self.u[..states]
    }

    /// How many numbers it holds.
    pub fn len(&self) -> usize {
        let tape = &self.tape;
        [
            &self.x,
            &self.z,
            &self.z_next,
            &self.u,
            &self.w,
            &self.carry,
            &self.rho,
            &self.x_scratch,
            &self.z_scratch,
            &tape.z,
            &tape.u,
            &tape.x,
            &tape.carry,
            &tape.factor,
            &self.d_z,
            &self.d_z_in,
            &self.d_u,
            &self.d_u_in,
            &self.d_w,
            &self.d_x,
            &self.d_carry,
            &self.d_rho,
        ]
        .iter()
        .map(|b| b.len())
        .sum()
    }

    /// True before the first problem.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}
