//! All memory of a solve, taken once.

use super::Problem;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::aligned::AlignedVec;

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
    /// The same with a tape that also keeps the inner steps of the consensus solver, where it can: the reverse sweep
    /// then replays nothing. Costs many times the memory and saves up to a third of the products.
    Keep {
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
    pub kept: AlignedVec<T>,   // [iterations, kept], or empty
    pub keeping: bool,
    pub len: usize,    // iterations that ran
    pub states: usize, // of the problem that ran
    pub recording: bool,
}

impl<T: Real> Tape<T> {
    /// Numbers kept of the inner steps of one iteration.
    pub fn kept_len(&self, problem: &Problem<'_, T>) -> usize {
        if self.keeping { problem.z_update.kept_len(&problem.op) } else { 0 }
    }
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
                self.tape.keeping = false;
            }
            Mode::Differentiate { iterations } | Mode::Keep { iterations } => {
                self.z_scratch.ensure(problem.z_update.scratch_len(&problem.op));
                let keeping = matches!(mode, Mode::Keep { .. });
                let same = self.tape.recording && self.tape.keeping == keeping;
                self.tape.recording = true;
                self.tape.keeping = keeping;
                // A tape of another kind, or one that must grow, has nothing to reverse.
                if !same || self.room(problem) < iterations {
                    self.tape.len = 0;
                }
                // Sizes beyond all memory are not taken, and the solve refuses.
                let states = iterations.saturating_add(1);
                self.tape.z.ensure(states.saturating_mul(n));
                self.tape.u.ensure(states.saturating_mul(n));
                self.tape.x.ensure(iterations.saturating_mul(n));
                self.tape.carry.ensure(states.saturating_mul(carry));
                self.tape.factor.ensure(states);
                let kept = self.tape.kept_len(problem);
                self.tape.kept.ensure(iterations.saturating_mul(kept));
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

    /// The most iterations of this problem that the tape can hold.
    fn room(&self, problem: &Problem<'_, T>) -> usize {
        let (n, tape) = (problem.op.sheaf().state_len(), &self.tape);
        let carry = problem.z_update.carry_len(&problem.op);
        let states = [(tape.z.len(), n, 1), (tape.u.len(), n, 1), (tape.x.len(), n, 0)];
        let kept = (tape.kept.len(), tape.kept_len(problem), 0);
        let others = [(tape.carry.len(), carry, 1), (tape.factor.len(), 1, 1), kept];
        let fit = |(len, one, more): (usize, usize, usize)| {
            len.checked_div(one).map_or(usize::MAX, |count| count.saturating_sub(more))
        };
        states.into_iter().chain(others).map(fit).min().unwrap_or(0)
    }

    /// Checks that a solve of so many iterations fits.
    pub(super) fn check_solve(&self, problem: &Problem<'_, T>, iterations: usize) -> Result<()> {
        let sheaf = problem.op.sheaf();
        let n = sheaf.state_len();
        for buffer in [&self.x, &self.z, &self.z_next, &self.u, &self.w] {
            check_room("states", n, buffer.len())?;
        }
        check_room("carried numbers", problem.z_update.carry_len(&problem.op), self.carry.len())?;
        check_room("penalties", problem.rho.grad_len(sheaf.agents()), self.rho.len())?;
        let scratch = problem.z_update.forward_scratch_len(&problem.op);
        check_room("scratch of the z-update", scratch, self.z_scratch.len())?;
        let room = if self.tape.recording { self.room(problem) } else { usize::MAX };
        check_room("iterations", iterations, room)
    }

    /// Checks that a reverse sweep of the recorded solve fits.
    pub(super) fn check_reverse(&self, problem: &Problem<'_, T>) -> Result<()> {
        let sheaf = problem.op.sheaf();
        let n = sheaf.state_len();
        if !self.tape.recording || self.tape.len == 0 || self.tape.states != n {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "reverse",
                "a recorded solve of this problem",
                "none",
            )
            .hint("solve first, with a workspace made for Mode::Differentiate"));
        }
        for buffer in [&self.d_z, &self.d_z_in, &self.d_u, &self.d_u_in, &self.d_w, &self.d_x] {
            check_room("gradients of states", n, buffer.len())?;
        }
        check_room("iterations", self.tape.len, self.room(problem))?;
        check_room("gradients of the carry", problem.z_update.carry_len(&problem.op), self.d_carry.len())?;
        check_room("gradients of penalties", problem.rho.grad_len(sheaf.agents()), self.d_rho.len())?;
        let scratch = problem.z_update.scratch_len(&problem.op);
        check_room("scratch of the z-update", scratch, self.z_scratch.len())
    }

    /// Proposals after iteration `k` (from 0) of a recorded solve, `[states]`.
    pub fn x_at(&self, k: usize, states: usize) -> Result<&[T]> {
        self.recorded(k, k.saturating_add(1), states)
    }

    /// Proposals of the last `count` iterations of a recorded solve, oldest first, `[count, states]`.
    pub fn last_x(&self, count: usize, states: usize) -> Result<&[T]> {
        let first = self.tape.len.checked_sub(count).unwrap_or(count);
        self.recorded(first, first.max(self.tape.len), states)
    }

    /// Proposals of iterations `first` to `end`.
    fn recorded(&self, first: usize, end: usize, states: usize) -> Result<&[T]> {
        let Tape { len, states: own, .. } = self.tape;
        if self.tape.recording && first <= end && end <= len && states == own {
            return Ok(&self.tape.x[first * states..end * states]);
        }
        let recorded = if self.tape.recording { len } else { 0 };
        let expected = format!("iterations of {own} states, {recorded} of them");
        Err(Error::new(
            ErrorKind::OutOfRange,
            "recorded proposals",
            expected,
            format!("{first} to {end} of {states}"),
        )
        .hint("solve with a workspace made for Mode::Differentiate; a solve that fails leaves no tape"))
    }

    /// The last proposals, at most so many numbers.
    pub fn x(&self, states: usize) -> &[T] {
        &self.x[..states.min(self.x.len())]
    }

    /// The last agreed state, at most so many numbers.
    pub fn z(&self, states: usize) -> &[T] {
        &self.z[..states.min(self.z.len())]
    }

    /// The last duals, at most so many numbers.
    pub fn u(&self, states: usize) -> &[T] {
        &self.u[..states.min(self.u.len())]
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
            &tape.kept,
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

fn check_room(what: &str, needed: usize, got: usize) -> Result<()> {
    if needed <= got {
        return Ok(());
    }
    let (place, expected) = (format!("workspace, {what}"), format!("room for {needed}"));
    Err(Error::new(ErrorKind::Shape, place, expected, got)
        .hint("make it with Workspace::new, or call Workspace::fit, for this problem"))
}
