//! The multipliers of the edges after a solve.

use super::{Problem, Workspace};
use crate::error::check_len;
use crate::z_update::Agreement;
use crate::{Error, ErrorKind, Real, Result};

impl<T: Real> Problem<'_, T> {
    /// The multiplier (price) of every edge after the last solve in `ws`: the λ of the Lagrangian f(x) + λ·(F x − b), so
    /// that −λ_e is the slope of the optimal value in b_e.
    ///
    /// | edge | λ_e |
    /// | --- | --- |
    /// | soft | γω_e (F z − b)_e, or γω_e U'((F z − b)_e) with a potential |
    /// | hard | from ρu = Fᵀλ; the λ of smallest norm where rows of F depend on each other |
    ///
    /// Returns the norm of ρu − Fᵀλ: 0 up to the tolerance of the solve if it has converged.
    pub fn prices(&self, ws: &mut Workspace<T>, lambda: &mut [T]) -> Result<T> {
        self.prices_and(true, ws, lambda)
    }

    /// The same, without the norm where it would cost another product: where all edges are soft.
    pub(crate) fn prices_alone(&self, ws: &mut Workspace<T>, lambda: &mut [T]) -> Result<()> {
        self.prices_and(false, ws, lambda).map(|_| ())
    }

    fn prices_and(&self, rest: bool, ws: &mut Workspace<T>, lambda: &mut [T]) -> Result<T> {
        let (sheaf, samples) = (self.op.sheaf(), self.op.samples());
        check_len("prices", samples * sheaf.edge_len(), lambda.len())?;
        let solved = ws.tape.ran.is_some_and(|ran| ran > 0) && ws.tape.states == self.op.state_len();
        if !solved || ws.tape.x_only {
            return Err(Error::new(ErrorKind::Unsupported, "prices", "a solve of this problem", "none")
                .hint("solve first, without Options::x_only"));
        }
        let (n, e, ran) = (sheaf.state_len(), sheaf.edge_len(), ws.tape.ran.unwrap_or(0));
        ws.check.ensure(self.z_update.residual_scratch_len(&self.op.sample(0)));
        let Workspace { tape, work, check, .. } = ws;
        let rho = self.penalty_of(&work.rho);
        let soft = self.z_update.agreement().0 != Agreement::Hard && !self.op.has_hard_edges();
        let mut left = T::ZERO;
        for b in 0..samples {
            let own = b * n..(b + 1) * n;
            let (z, u) = (&tape.z(ran)[own.clone()], &tape.u(ran)[own]);
            let (op, lambda) = (self.op.sample(b), &mut lambda[b * e..(b + 1) * e]);
            if soft && !rest {
                self.z_update.soft_multipliers(&op, z, lambda, &mut check[..sheaf.row_len()]);
            } else {
                left = left.max(self.z_update.multipliers(&op, &rho, z, u, lambda, check));
            }
        }
        Ok(left)
    }
}
