//! Agents that sleep in an iteration keep x, z and u. Adjoint: their gradients pass the iteration as they are.
//!
//! | state | forward | adjoint |
//! | --- | --- | --- |
//! | x | x(k − 1), at first z(0) | x̄ is held until the iteration that computed x |
//! | z | the consensus step keeps it | of the consensus step |
//! | u | u(k) | ū passes |

use std::ops::Range;

use super::{Problem, Tape};
use crate::Real;
use crate::z_update::{Draw, Streams, ZUpdate};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::{add, sub};

/// The agents that sleep in an iteration.
pub(super) struct Sleepers<'p, T> {
    problem: &'p Problem<'p, T>,
    k: usize,
    draw: Draw,
    lag: crate::z_update::OutOfStep,
}

impl<T: Real> Problem<'_, T> {
    /// Who sleeps in iteration `k`; `None` if agents never do.
    pub(super) fn sleepers(&self, k: usize, draw: Draw) -> Option<Sleepers<'_, T>> {
        match self.z_update {
            ZUpdate::Asynchronous(s) if s.lag.activity < 1.0 => {
                Some(Sleepers { problem: self, k, draw, lag: s.lag })
            }
            _ => None,
        }
    }
}

impl<T: Real> Sleepers<'_, T> {
    /// The states of every agent of sample `b`, and whether it sleeps.
    fn of_sample(&self, b: usize) -> impl Iterator<Item = (Range<usize>, bool)> + '_ {
        let sheaf = self.problem.op.sheaf();
        let draw = Draw { sample: self.draw.sample.wrapping_add(b as u64), ..self.draw };
        let (streams, first) = (Streams::new(self.lag, draw), b * sheaf.state_len());
        sheaf
            .state_offsets()
            .windows(2)
            .enumerate()
            .map(move |(i, own)| (first + own[0]..first + own[1], !streams.awake(self.k, i)))
    }

    /// The same of all samples.
    fn all(&self) -> impl Iterator<Item = (Range<usize>, bool)> + '_ {
        (0..self.problem.op.samples()).flat_map(|b| self.of_sample(b))
    }

    /// The states of those that sleep.
    fn asleep(&self) -> impl Iterator<Item = Range<usize>> + '_ {
        self.all().filter(|&(_, asleep)| asleep).map(|(own, _)| own)
    }

    /// x of those that sleep.
    pub(super) fn hold_x(&self, tape: &mut Tape<T>) {
        let (k, n) = (self.k, tape.states);
        let to = tape.x_row(k) * n;
        for own in self.asleep() {
            if k == 0 {
                let from = tape.z_row(0) * n;
                let z = &tape.z[from + own.start..from + own.end];
                tape.x[to + own.start..to + own.end].copy_from_slice(z);
            } else {
                let from = tape.x_row(k - 1) * n;
                tape.x.copy_within(from + own.start..from + own.end, to + own.start);
            }
        }
    }

    /// u of all agents of the samples that run.
    pub(super) fn update_u(&self, running: &[bool], w: &[T], tape: &mut Tape<T>) {
        let (n, from, to) = (tape.states, tape.row(self.k), tape.row(self.k + 1));
        let z = tape.z_row(self.k + 1) * n;
        for b in (0..self.problem.op.samples()).filter(|&b| running[b]) {
            for (own, asleep) in self.of_sample(b) {
                if !asleep {
                    let z = &tape.z[z + own.start..z + own.end];
                    sub(&mut tape.u[to * n + own.start..to * n + own.end], &w[own], z);
                } else if from != to {
                    tape.u.copy_within(from * n + own.start..from * n + own.end, to * n + own.start);
                }
            }
        }
    }

    /// Takes the gradients that pass the iteration out of `d_u` and out of those of x, of which it returns the rest.
    pub(super) fn part<'h>(&self, d_x: &[T], d_u: &mut [T], held: &'h mut Held<T>) -> &'h [T] {
        let n = d_x.len();
        let Held { x, u, own } = held;
        let (x, u, awake) = (&mut x[..n], &mut u[..n], &mut own[..n]);
        add(x, d_x);
        u.fill(T::ZERO);
        awake.fill(T::ZERO);
        for (own, asleep) in self.all() {
            if asleep {
                u[own.clone()].copy_from_slice(&d_u[own.clone()]);
                d_u[own].fill(T::ZERO);
            } else {
                awake[own.clone()].copy_from_slice(&x[own.clone()]);
                x[own].fill(T::ZERO);
            }
        }
        awake
    }

    /// Adds what has passed the iteration; before the first one, x was z.
    pub(super) fn join(&self, held: &mut Held<T>, d_z: &mut [T], d_u: &mut [T]) {
        add(d_u, &held.u[..d_u.len()]);
        if self.k == 0 {
            add(d_z, &held.x[..d_z.len()]);
            held.x.fill(T::ZERO);
        }
    }
}

/// Gradients of agents that sleep.
#[derive(Clone, Debug, Default)]
pub(super) struct Held<T: Copy + Default> {
    /// Of x, until the iteration that computed it.
    pub x: AlignedVec<T>, // [samples, states] or []
    u: AlignedVec<T>,   // [samples, states] or []
    own: AlignedVec<T>, // [samples, states] or [], of x of those awake
}

impl<T: Real> Held<T> {
    /// Makes room, if agents can sleep.
    pub(super) fn fit(&mut self, problem: &Problem<'_, T>) {
        if problem.sleepers(0, Draw::FIRST).is_some() {
            let n = problem.op.state_len();
            [&mut self.x, &mut self.u, &mut self.own].into_iter().for_each(|v| v.ensure(n));
        }
    }

    /// Total length.
    pub(super) fn len(&self) -> usize {
        self.x.len() + self.u.len() + self.own.len()
    }

    /// Drops the gradients of some states.
    pub(super) fn forget(&mut self, own: Range<usize>) {
        if let Some(x) = self.x.get_mut(own) {
            x.fill(T::ZERO);
        }
    }
}
