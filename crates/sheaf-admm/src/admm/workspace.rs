//! All memory of a solve, allocated once.

use super::anderson::Anderson;
use super::asleep::Held;
use super::verdict::Watch;
use super::{Problem, SampleReport, Tape};
use crate::linalg::units::Units;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::axpy;

/// The purpose of a workspace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Solving only.
    Solve,
    /// Solving and differentiating: keeps a tape of that many iterations.
    Differentiate {
        /// The most iterations a solve may record.
        iterations: usize,
    },
    /// The same with a tape that also keeps the inner steps of the consensus solver, if it supports this: the reverse
    /// sweep then replays nothing. Costs many times the memory and saves up to a third of the products.
    Keep {
        /// The most iterations a solve may record.
        iterations: usize,
    },
}

/// Buffers for the solves of one worker. Created once, grown for larger problems, never shrunk: after the first
/// batch of a kind nothing is allocated.
#[derive(Clone, Debug, Default)]
pub struct Workspace<T: Copy + Default> {
    pub(super) tape: Tape<T>,
    pub(super) work: Work<T>,
    pub(super) back: Back<T>,
    pub(super) samples: Vec<SampleReport<T>>, // [samples]
    pub(super) running: Vec<bool>,            // [samples]
    pub(super) watch: Vec<Watch<T>>,          // [samples] of a solve that checks the problem
    pub(super) check: AlignedVec<T>,          // scratch of its checks
    /// The units of residuals, if they are not those of the problem.
    pub(super) units: Option<Units<T>>,
    /// Steps that are combined, if the solve is accelerated.
    pub(super) anderson: Option<Anderson<T>>,
}

/// What a step needs besides the iterates.
#[derive(Clone, Debug, Default)]
pub(super) struct Work<T: Copy + Default> {
    pub w: AlignedVec<T>,         // [samples, states]
    pub rho: AlignedVec<T>,       // [1] or [samples, agents], the current penalty
    pub x_scratch: AlignedVec<T>, // the objective's
    pub z_scratch: AlignedVec<T>, // the consensus solver's
    /// The factor of the penalty, if both updates are prepared for it.
    pub factor: Option<T>,
    /// Whether the next solve finds the consensus step prepared.
    pub keep: bool,
    /// Whether its offsets are others.
    pub moved: bool,
    /// Whether the time was up before the consensus step was prepared.
    pub cut: bool,
    pub offsets: Vec<usize>, // [samples·agents + 1] of a batch, empty for one sample
    pub missed: Vec<bool>,   // [samples], whether the last inner solve missed its tolerance
}

/// What the reverse sweep needs.
#[derive(Clone, Debug, Default)]
pub(super) struct Back<T: Copy + Default> {
    pub d_z: AlignedVec<T>,       // [samples, states]
    pub d_z_in: AlignedVec<T>,    // [samples, states]
    pub d_u: AlignedVec<T>,       // [samples, states]
    pub d_u_in: AlignedVec<T>,    // [samples, states]
    pub d_w: AlignedVec<T>,       // [samples, states]
    pub d_x: AlignedVec<T>,       // [samples, states]
    pub d_carry: AlignedVec<T>,   // [samples, carry]
    pub d_rho: AlignedVec<T>,     // [1] or [samples, agents]
    pub first: Vec<T>,            // [samples], sizes of a series
    pub sums: [AlignedVec<T>; 4], // d_x, d_z, d_u and d_carry, summed over a series
    pub held: Held<T>,
}

impl<T: Real> Back<T> {
    /// Before the first term of a series.
    pub fn start_sums(&mut self) {
        let Self { d_x, d_z, d_u, d_carry, first, sums, .. } = self;
        first.clear();
        for (sum, of) in sums.iter_mut().zip([&*d_x, d_z, d_u, d_carry]) {
            sum.ensure(of.len());
            sum.fill(T::ZERO);
        }
    }

    /// Adds the gradients that a term starts from.
    pub fn add_to_sums(&mut self) {
        let Self { d_x, d_z, d_u, d_carry, sums, .. } = self;
        for (sum, of) in sums.iter_mut().zip([&*d_x, d_z, d_u, d_carry]) {
            axpy(&mut sum[..of.len()], T::ONE, of);
        }
    }

    /// Puts the sums in the place of the gradients.
    pub fn take_sums(&mut self) {
        let Self { d_x, d_z, d_u, d_carry, sums, .. } = self;
        for (sum, of) in sums.iter().zip([d_x, d_z, d_u, d_carry]) {
            let len = of.len();
            of.copy_from_slice(&sum[..len]);
        }
    }
}

impl<T: Real> Workspace<T> {
    /// Memory for problems like this one.
    pub fn new(problem: &Problem<'_, T>, mode: Mode) -> Self {
        let mut ws = Self::default();
        ws.fit(problem, mode);
        ws
    }

    /// Grows to fit; does nothing if it already fits.
    pub fn fit(&mut self, problem: &Problem<'_, T>, mode: Mode) {
        let (op, n) = (&problem.op, problem.op.state_len());
        let (carry, rho) = (problem.z_update.carry_len(op), problem.rho.grad_len(op.agents()));
        // A tape of another kind, or one that must grow, has nothing to reverse.
        if !self.tape.fit(problem, mode) {
            self.tape.ran = None;
        }
        let work = &mut self.work;
        work.factor = None;
        work.w.ensure(n);
        work.rho.ensure(rho);
        problem.fill_offsets(&mut work.offsets);
        work.x_scratch.ensure(problem.objective.scratch_len(problem.offsets(&work.offsets)));
        let grow = op.samples().saturating_sub(self.samples.len());
        self.samples.reserve(grow);
        self.running.reserve(grow);
        work.missed.reserve(grow);
        if mode == Mode::Solve {
            work.z_scratch.ensure(problem.z_update.forward_scratch_len(op));
            return;
        }
        work.z_scratch.ensure(problem.z_update.scratch_len(op));
        let back = &mut self.back;
        for buffer in [&mut back.d_z, &mut back.d_z_in, &mut back.d_u, &mut back.d_u_in] {
            buffer.ensure(n);
        }
        back.d_w.ensure(n);
        back.d_x.ensure(n);
        back.d_carry.ensure(carry);
        back.held.fit(problem);
        back.d_rho.ensure(rho);
        back.first.reserve(op.samples().saturating_sub(back.first.len()));
    }

    /// Residuals of single samples are measured in these units from now on, by the largest number.
    pub(crate) fn measure_in(&mut self, units: Units<T>) {
        self.units = Some(units);
    }

    /// Solves of single samples of `n` numbers combine their last iterations from now on, after the first `from` of them. For
    /// consensus steps that are affine in their target.
    pub(crate) fn accelerate(&mut self, n: usize, from: usize) {
        self.anderson = Anderson::new(n, from);
    }

    /// The next solve has the maps, weights and ratios of penalties of the last one: what the consensus step has prepared for
    /// them is kept. Other offsets are taken over if they have `moved`.
    pub(crate) fn keep_consensus(&mut self, moved: bool) {
        (self.work.keep, self.work.moved) = (true, moved);
    }

    /// Whether the consensus step is prepared, and whether its offsets have changed since: a solve may end before it looks at them.
    pub(crate) fn is_prepared(&self) -> (bool, bool) {
        (self.work.factor.is_some(), self.work.moved)
    }

    /// Checks that a solve that records this many iterations fits.
    pub(super) fn check_solve(&self, problem: &Problem<'_, T>, recorded: usize) -> Result<()> {
        let (op, work) = (&problem.op, &self.work);
        check_room("states", op.state_len(), work.w.len())?;
        check_room("penalties", problem.rho.grad_len(op.agents()), work.rho.len())?;
        let scratch = problem.z_update.forward_scratch_len(op);
        check_room("scratch of the z-update", scratch, work.z_scratch.len())?;
        let room = self.tape.room(problem);
        check_room("iterations", if self.tape.recording { recorded } else { 1 }, room)
    }

    /// Checks that a reverse sweep of the recorded solve fits.
    pub(super) fn check_reverse(&self, problem: &Problem<'_, T>) -> Result<()> {
        let (op, n, tape, back) = (&problem.op, problem.op.state_len(), &self.tape, &self.back);
        if tape.recorded() == 0 || tape.states != n || tape.samples != op.samples() {
            return Err(Error::new(
                ErrorKind::Unsupported,
                "reverse",
                "a recorded solve of this problem",
                "none",
            )
            .hint("solve first, with a workspace made for Mode::Differentiate"));
        }
        for buffer in [&back.d_z, &back.d_z_in, &back.d_u, &back.d_u_in, &back.d_w, &back.d_x] {
            check_room("gradients of states", n, buffer.len())?;
        }
        check_room("iterations", tape.recorded(), tape.room(problem))?;
        check_room("gradients of the carry", problem.z_update.carry_len(op), back.d_carry.len())?;
        check_room("gradients of penalties", problem.rho.grad_len(op.agents()), back.d_rho.len())?;
        let scratch = problem.z_update.scratch_len(op);
        check_room("scratch of the z-update", scratch, self.work.z_scratch.len())
    }

    /// Proposals of all samples after iteration `k` (from 0) of a recorded solve, `[samples, states]`. A sample that
    /// ended earlier keeps its last.
    pub fn x_at(&self, k: usize) -> Result<&[T]> {
        let known = self.tape.skip..self.tape.ran.unwrap_or(0);
        if self.tape.recording && known.contains(&k) {
            return Ok(self.tape.x(k));
        }
        Err(not_recorded(known, format_args!("iteration {k}")))
    }

    /// Proposals of the last `count` iterations of a recorded solve, oldest first, `[count, samples, states]`.
    pub fn last_x(&self, count: usize) -> Result<&[T]> {
        let (tape, ran) = (&self.tape, self.tape.ran.unwrap_or(0));
        if let Some(sample) = self.samples.iter().position(|s| s.iterations != ran && count > 1) {
            let got = format!("sample {sample} after {} of {ran}", self.samples[sample].iterations);
            let expected = "samples that all ended together";
            return Err(Error::new(ErrorKind::Unsupported, "recorded proposals", expected, got)
                .hint("read them sample by sample with Workspace::last_x_of"));
        }
        if count > tape.recorded() {
            return Err(not_recorded(tape.skip..ran, format_args!("the last {count}")));
        }
        Ok(&tape.x[(ran - tape.skip - count) * tape.states..][..count * tape.states])
    }

    /// Proposals of sample `b`, `back` iterations before its own last one, `[states]`.
    pub fn last_x_of(&self, b: usize, back: usize) -> Result<&[T]> {
        let ran = self.samples.get(b).filter(|_| self.tape.recorded() > 0).map_or(0, |s| s.iterations);
        match ran.checked_sub(back.saturating_add(1)).filter(|&k| k >= self.tape.skip) {
            Some(k) => {
                let len = self.tape.states / self.tape.samples;
                Ok(&self.tape.x(k)[b * len..][..len])
            }
            None => {
                let got = format_args!("{back} before the last of sample {b}");
                Err(not_recorded(self.tape.skip.min(ran)..ran, got))
            }
        }
    }

    /// The last proposals, `[samples, states]`; empty before the first iteration and after a solve that failed.
    pub fn x(&self) -> &[T] {
        match self.tape.ran {
            Some(ran) if ran > 0 => self.tape.x(ran - 1),
            _ => &[],
        }
    }

    /// The last agreed state, `[samples, states]`; empty after a solve that failed. After a solve that is
    /// [x-only](super::Options::x_only), it is the one that the last proposals were computed from.
    pub fn z(&self) -> &[T] {
        self.tape.ran.map_or(&[], |ran| self.tape.z(ran - usize::from(self.tape.x_only)))
    }

    /// The last duals, as [`z`](Self::z).
    pub fn u(&self) -> &[T] {
        self.tape.ran.map_or(&[], |ran| self.tape.u(ran - usize::from(self.tape.x_only)))
    }

    /// How each sample of the last solve ended.
    pub fn samples(&self) -> &[SampleReport<T>] {
        &self.samples
    }

    /// Total length of its buffers.
    pub fn len(&self) -> usize {
        let Self { work, back, .. } = self;
        let work = [&work.w, &work.rho, &work.x_scratch, &work.z_scratch];
        let states = [&back.d_z, &back.d_z_in, &back.d_u, &back.d_u_in, &back.d_w, &back.d_x];
        let others = [&back.d_carry, &back.d_rho];
        let all = work.iter().chain(&states).chain(&others);
        self.tape.len() + all.map(|b| b.len()).sum::<usize>() + self.back.held.len()
    }

    /// Whether nothing is allocated, as before the first problem.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

fn not_recorded(known: std::ops::Range<usize>, got: std::fmt::Arguments<'_>) -> Error {
    let expected = format!("one of iterations {} to {}, which are recorded", known.start, known.end);
    Error::new(ErrorKind::OutOfRange, "recorded proposals", expected, got)
        .hint("solve with a workspace made for Mode::Differentiate; a solve that fails leaves no tape")
}

fn check_room(what: &str, needed: usize, got: usize) -> Result<()> {
    if needed <= got {
        return Ok(());
    }
    let (place, expected) = (format!("workspace, {what}"), format!("room for {needed}"));
    Err(Error::new(ErrorKind::Shape, place, expected, got)
        .hint("make it with Workspace::new, or call Workspace::fit, for this problem"))
}
