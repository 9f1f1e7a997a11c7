//! Observers see every iteration as a borrowed view.

use super::residuals::agent_distances;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Real, Result};

/// One iteration, as an observer sees it.
#[derive(Clone, Copy, Debug)]
pub struct Iteration<'v, 'a, T> {
    /// Its number, from 0.
    pub k: usize,
    /// Proposals.
    pub x: &'v [T], // [states]
    /// The agreed state.
    pub z: &'v [T], // [states]
    /// The duals.
    pub u: &'v [T], // [states]
    /// The agreed state before.
    pub z_prev: &'v [T], // [states]
    /// The penalty in force.
    pub rho: Penalty<'v, T>,
    /// Over-relaxation.
    pub relax: T,
    /// The sheaf.
    pub op: &'v SheafOp<'a, T>,
}

impl<T: Real> Iteration<'_, '_, T> {
    /// Per-agent primal residuals ‖x̃ − z‖.
    pub fn primal(&self, out: &mut [T]) {
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

    /// Per-agent dual residuals ρ‖z − z_prev‖.
    pub fn dual(&self, out: &mut [T]) {
        let agents = self.op.sheaf().agents();
        agent_distances(self.op.sheaf().state_offsets(), self.z, self.z_prev, out);
        out.iter_mut().take(agents).enumerate().for_each(|(i, d)| *d *= self.rho.of(i));
    }

    /// √(mean squared edge residual + 1e-6) of z; `r` `[edge_len]` and `rows` `[row_len]` are scratch.
    pub fn consistency(&self, r: &mut [T], rows: &mut [T]) -> Result<T> {
        self.op.consistency(self.z, r, rows)
    }
}

/// Sees each iteration after it ran. `()` sees nothing and costs nothing.
pub trait Observer<T> {
    /// Called after every iteration; return `false` to end the solve there.
    fn iteration(&mut self, view: &Iteration<'_, '_, T>) -> bool;
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

/// Keeps everything: states, residuals per agent, consistency.
#[derive(Clone, Debug, Default)]
pub struct Trace<T> {
    /// Proposals, `[iterations, states]`.
    pub x: Vec<T>,
    /// Agreed states, `[iterations, states]`.
    pub z: Vec<T>,
    /// Duals, `[iterations, states]`.
    pub u: Vec<T>,
    /// Primal residuals, `[iterations, agents]`.
    pub primal: Vec<T>,
    /// Dual residuals, `[iterations, agents]`.
    pub dual: Vec<T>,
    /// Consistency of z, `[iterations]`.
    pub consistency: Vec<T>,
}

impl<T: Real> Observer<T> for Trace<T> {
    fn iteration(&mut self, view: &Iteration<'_, '_, T>) -> bool {
        self.x.extend_from_slice(view.x);
        self.z.extend_from_slice(view.z);
        self.u.extend_from_slice(view.u);
        let sheaf = view.op.sheaf();
        let mut norms = vec![T::ZERO; sheaf.agents()];
        view.primal(&mut norms);
        self.primal.extend_from_slice(&norms);
        view.dual(&mut norms);
        self.dual.extend_from_slice(&norms);
        let (mut r, mut rows) = (vec![T::ZERO; sheaf.edge_len()], vec![T::ZERO; sheaf.row_len()]);
        self.consistency.push(view.op.raw().consistency(view.z, &mut r, &mut rows));
        true
    }
}
