//! Observers receive every iteration as a borrowed view.

use super::residuals::{Residuals, agent_distances};
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Real, Result};

/// One iteration, as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Iteration<'v, 'a, T> {
    /// Its number, from 0.
    pub k: usize,
    /// Proposals.
    pub x: &'v [T], // [samples, states]
    /// The agreed state; the previous one if the last iteration computed only x
    /// ([`Options::x_only`](super::Options::x_only)).
    pub z: &'v [T], // [samples, states]
    /// The duals; the previous ones in the same case.
    pub u: &'v [T], // [samples, states]
    /// The agreed state before this iteration.
    pub z_prev: &'v [T], // [samples, states]
    /// The current penalty.
    pub rho: Penalty<'v, T>,
    /// Over-relaxation.
    pub relax: T,
    /// The sheaf and its maps.
    pub op: SheafOp<'a, T>,
    /// Which samples ran this iteration; the others keep their values.
    pub running: &'v [bool], // [samples]
    /// The residuals of a single sample, if they were measured.
    pub residuals: Option<Residuals<T>>,
}

impl<'v, 'a, T: Real> Iteration<'v, 'a, T> {
    /// The view of one sample of the batch.
    ///
    /// # Panics
    /// If there is no sample `b`.
    pub fn sample(&self, b: usize) -> Self {
        let n = self.op.sheaf().state_len();
        let own = |all: &'v [T]| &all[b * n..][..n];
        let (x, z, u, z_prev) = (own(self.x), own(self.z), own(self.u), own(self.z_prev));
        let (running, residuals) = (&self.running[b..=b], self.residuals.filter(|_| self.op.samples() == 1));
        Self { x, z, u, z_prev, op: self.op.sample(b), running, residuals, ..*self }
    }

    /// Per-agent ‖x̃ − z‖, the step of the duals, `[samples, agents]`. Reports compare x instead of x̃; both are equal for
    /// α = 1.
    pub fn primal(&self, out: &mut [T]) {
        let agents = self.op.sheaf().agents();
        for (b, out) in out.chunks_mut(agents.max(1)).take(self.op.samples()).enumerate() {
            self.sample(b).primal_of_one(out);
        }
    }

    fn primal_of_one(&self, out: &mut [T]) {
        let offsets = self.op.sheaf().state_offsets();
        if self.relax == T::ONE {
            agent_distances(offsets, self.x, self.z, out);
            return;
        }
        let off = T::ONE - self.relax;
        for (range, out) in offsets.windows(2).zip(out) {
            let square = |k: usize| {
                let p = self.relax * self.x[k] + off * self.z_prev[k] - self.z[k];
                p * p
            };
            *out = (range[0]..range[1]).map(square).sum::<T>().sqrt();
        }
    }

    /// Per-agent dual residuals ρ‖z − z_prev‖, `[samples, agents]`.
    pub fn dual(&self, out: &mut [T]) {
        let (agents, n) = (self.op.sheaf().agents(), self.op.sheaf().state_len());
        for (b, out) in out.chunks_mut(agents.max(1)).take(self.op.samples()).enumerate() {
            let (z, z_prev) = (&self.z[b * n..][..n], &self.z_prev[b * n..][..n]);
            agent_distances(self.op.sheaf().state_offsets(), z, z_prev, out);
            out.iter_mut().take(agents).enumerate().for_each(|(i, d)| *d *= self.rho.of(i));
        }
    }

    /// √(mean squared edge residual + 1e-6) of z, over all samples; `r` `[samples, edge_len]` and `rows`
    /// `[samples, row_len]` are scratch.
    pub fn edge_rms(&self, r: &mut [T], rows: &mut [T]) -> Result<T> {
        self.op.edge_rms(self.z, r, rows)
    }
}

/// Receives each iteration after it ran. `()` does nothing and costs nothing.
pub trait Observer<T> {
    /// Called after every iteration; return `false` to end the solve of all samples there.
    fn iteration(&mut self, view: &Iteration<'_, '_, T>) -> bool;

    /// Whether sample `b` continues. Called after every [`iteration`](Self::iteration) that did not end the solve, for
    /// every sample that ran it; return `false` to end this sample there while others continue.
    fn goes_on(&mut self, b: usize) -> bool {
        let _ = b;
        true
    }

    /// The residual of hard edges with its goal, where the observer measures it in its own way. Asked for a single sample when
    /// its iterates have settled, and at the end.
    fn edges(&mut self, view: &Iteration<'_, '_, T>) -> Option<(T, T)> {
        let _ = view;
        None
    }
}

impl<T> Observer<T> for () {
    #[inline(always)]
    fn iteration(&mut self, _view: &Iteration<'_, '_, T>) -> bool {
        true
    }
}

impl<T, F: FnMut(&Iteration<'_, '_, T>) -> bool> Observer<T> for F {
    fn iteration(&mut self, view: &Iteration<'_, '_, T>) -> bool {
        self(view)
    }
}

/// Records everything: states, residuals per agent, the edge residual.
#[derive(Clone, Debug, Default)]
pub struct Trace<T> {
    /// Proposals, `[iterations, samples, states]`.
    pub x: Vec<T>,
    /// Agreed states, `[iterations, samples, states]`.
    pub z: Vec<T>,
    /// Duals, `[iterations, samples, states]`.
    pub u: Vec<T>,
    /// ‖x̃ − z‖ of every agent, `[iterations, samples, agents]`.
    pub primal: Vec<T>,
    /// ρ‖z − z_prev‖ of every agent, `[iterations, samples, agents]`.
    pub dual: Vec<T>,
    /// √(mean squared edge residual + 1e-6) of z, `[iterations, samples]`.
    pub edge_rms: Vec<T>,
}

impl<T: Real> Observer<T> for Trace<T> {
    fn iteration(&mut self, view: &Iteration<'_, '_, T>) -> bool {
        self.x.extend_from_slice(view.x);
        self.z.extend_from_slice(view.z);
        self.u.extend_from_slice(view.u);
        let sheaf = view.op.sheaf();
        let mut norms = vec![T::ZERO; view.op.agents()];
        view.primal(&mut norms);
        self.primal.extend_from_slice(&norms);
        view.dual(&mut norms);
        self.dual.extend_from_slice(&norms);
        let (mut r, mut rows) = (vec![T::ZERO; sheaf.edge_len()], vec![T::ZERO; sheaf.row_len()]);
        for b in 0..view.op.samples() {
            // The lengths match, so there is no error.
            self.edge_rms.extend(view.sample(b).edge_rms(&mut r, &mut rows));
        }
        true
    }
}
