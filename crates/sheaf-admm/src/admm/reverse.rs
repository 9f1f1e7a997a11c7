//! The reverse sweep: gradients of everything a solve was given, through the iterations as they ran.

use std::ops::Range;

use super::step::Before;
use super::{Problem, Workspace};
use crate::error::{check_len, check_positive};
use crate::sheaf::MapsGrad;
use crate::x_update::ObjectiveGrad;
use crate::z_update::ZUpdate;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::vector::{axpy, norm};

/// How far back gradients flow. A choice apart from the solver.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Adjoint<T> {
    /// Through every iteration.
    Unrolled,
    /// Through the last n iterations; the state before them, and what the z-update carries, is a constant.
    LastSteps(usize),
    /// At the fixed point: (I − Jᵀ)λ = seed is solved by the Neumann series λ = Σ (Jᵀ)^j seed, J the Jacobian of one
    /// step at the last state (z, u and what the z-update carries). It converges as fast as the solve did, needs no
    /// tape beyond the last iteration, and is the derivative of the solution when the solve has converged, with a
    /// z-update whose own fixed point is the exact one: [`Exact`](crate::z_update::Exact), a solve to a tight
    /// tolerance, or descent in edge space with warm starts. Seeds of all proposals of the window fall on the last.
    Implicit {
        /// Stop when a term of the series is this small relative to the first.
        tolerance: T,
        /// The most terms.
        max_terms: usize,
    },
}

/// What the loss asks of the solve: the gradients of the last iterates.
#[derive(Clone, Copy, Debug)]
pub struct Seeds<'a, T> {
    /// Of the last W proposals x, oldest first.
    pub d_x: &'a [T], // [W, states]
    /// Of the last z, where the loss reads it.
    pub d_z: Option<&'a [T]>, // [states]
    /// Of the last u, where the loss reads it.
    pub d_u: Option<&'a [T]>, // [states]
}

/// Where the reverse sweep adds.
#[derive(Debug)]
pub struct Gradients<'g, 'm, T> {
    /// Of the objective's parameters.
    pub objective: &'g mut ObjectiveGrad<'m, T>,
    /// Of the restriction maps.
    pub maps: &'g mut MapsGrad<'m, T>,
    /// Of the penalty.
    pub rho: &'g mut [T], // [1] or [agents]
    /// Of γ.
    pub gamma: &'g mut T,
    /// Of the step size of descent.
    pub eta: &'g mut T,
    /// Of the start h; empty when it is not wanted.
    pub start: &'g mut [T], // [states] or []
}

impl<T: Real> Problem<'_, T> {
    /// Differentiates the solve last recorded in `ws`. Adds to every gradient.
    pub fn reverse(
        &self,
        adjoint: Adjoint<T>,
        seeds: &Seeds<'_, T>,
        grads: &mut Gradients<'_, '_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<()> {
        let (n, ran) = (self.op.sheaf().state_len(), ws.tape.len);
        let window = self.check_seeds(seeds, grads, ws)?;
        ws.d_z[..n].fill(T::ZERO);
        ws.d_u[..n].fill(T::ZERO);
        ws.d_carry.fill(T::ZERO);
        if let Some(d_z) = seeds.d_z {
            ws.d_z[..n].copy_from_slice(d_z);
        }
        if let Some(d_u) = seeds.d_u {
            ws.d_u[..n].copy_from_slice(d_u);
        }
        let first = match adjoint {
            Adjoint::Implicit { .. } => ran.saturating_sub(1),
            Adjoint::Unrolled => 0,
            Adjoint::LastSteps(count) => ran.saturating_sub(count),
        };
        let reversed = match adjoint {
            Adjoint::Implicit { tolerance, max_terms } => {
                self.check_implicit()?;
                self.reverse_implicit(tolerance, max_terms, seeds, window, grads, ws)
            }
            _ => self.reverse_steps(first, seeds, window, grads, ws),
        };
        // After a failure too: nothing may wait for another reverse sweep of the same tape.
        let added = self.add_deferred(first..ran, grads, ws);
        reversed.and(added)
    }

    /// A product that is carried on, not computed, keeps every perturbation: the series would never fade.
    fn check_implicit(&self) -> Result<()> {
        match self.z_update {
            ZUpdate::Cg(cg) if cg.carry_len(&self.op) > 0 => Err(Error::new(
                ErrorKind::Unsupported,
                "implicit adjoint",
                "a consensus solver that carries nothing on",
                "conjugate gradients with CgStart::Carried",
            )
            .hint("solve with CgStart::Published or CgStart::Zero")),
            _ => Ok(()),
        }
    }

    fn check_seeds(
        &self,
        seeds: &Seeds<'_, T>,
        grads: &Gradients<'_, '_, T>,
        ws: &Workspace<T>,
    ) -> Result<usize> {
        let n = self.op.sheaf().state_len();
        ws.check_reverse(self)?;
        grads.maps.validate(self.op.sheaf(), self.op.maps())?;
        for (place, seed) in [("seed of z", seeds.d_z), ("seed of u", seeds.d_u)] {
            check_len(place, n, seed.map_or(n, <[T]>::len))?;
        }
        let window = seeds.d_x.len() / n.max(1);
        check_len("seed of x", window * n, seeds.d_x.len())?;
        check_len("gradient of rho", self.rho.grad_len(self.op.sheaf().agents()), grads.rho.len())?;
        if !grads.start.is_empty() {
            check_len("gradient of the start", n, grads.start.len())?;
        }
        if window > ws.tape.len {
            return Err(Error::new(
                ErrorKind::Shape,
                "seed of x",
                format_args!("at most {} iterates, as many as ran", ws.tape.len),
                window,
            ));
        }
        Ok(window)
    }

    /// Back from the last iteration to iteration `first`.
    fn reverse_steps(
        &self,
        first: usize,
        seeds: &Seeds<'_, T>,
        window: usize,
        grads: &mut Gradients<'_, '_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<()> {
        let (n, ran) = (self.op.sheaf().state_len(), ws.tape.len);
        let mut in_force = T::ZERO;
        for k in (first..ran).rev() {
            // After iteration k the duals were rescaled when the penalty moved.
            let (factor, next) = (ws.tape.factor[k], ws.tape.factor[k + 1]);
            if next != factor {
                ws.d_u[..n].iter_mut().for_each(|d| *d *= factor / next);
            }
            if factor != in_force {
                self.set_factor(factor, ws)?;
                in_force = factor;
            }
            match (k + window).checked_sub(ran) {
                Some(slot) => ws.d_x[..n].copy_from_slice(&seeds.d_x[slot * n..][..n]),
                None => ws.d_x[..n].fill(T::ZERO),
            }
            self.reverse_one(k, factor, grads, ws)?;
        }
        if first == 0 && !grads.start.is_empty() {
            axpy(grads.start, T::ONE, &ws.d_z[..n]);
        }
        Ok(())
    }

    /// Adds what the steps of these iterations left for later of the maps' gradient.
    fn add_deferred(
        &self,
        iterations: Range<usize>,
        grads: &mut Gradients<'_, '_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<()> {
        let one = ws.tape.kept_len(self);
        let kept = &mut ws.tape.kept[iterations.start * one..iterations.end * one];
        self.z_update.add_deferred(&self.op, kept, grads.maps)
    }

    /// One iteration back, its penalty's gradient passed on with the factor in force.
    fn reverse_one(
        &self,
        k: usize,
        factor: T,
        grads: &mut Gradients<'_, '_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<()> {
        let n = self.op.sheaf().state_len();
        let c = self.z_update.carry_len(&self.op);
        ws.d_rho.fill(T::ZERO);
        let (mut tape, rho_buffer) = (std::mem::take(&mut ws.tape), std::mem::take(&mut ws.rho));
        let one = tape.kept_len(self);
        let kept = &mut tape.kept[k * one..][..one];
        let at = Before {
            z: &tape.z[k * n..][..n],
            u: &tape.u[k * n..][..n],
            carry: &tape.carry[k * c..][..c],
            x: &tape.x[k * n..][..n],
        };
        let stepped = self.step_vjp(&self.penalty_of(&rho_buffer), at, kept, grads, ws);
        ws.tape = tape;
        ws.rho = rho_buffer;
        axpy(grads.rho, factor, &ws.d_rho);
        stepped
    }

    fn reverse_implicit(
        &self,
        tolerance: T,
        max_terms: usize,
        seeds: &Seeds<'_, T>,
        window: usize,
        grads: &mut Gradients<'_, '_, T>,
        ws: &mut Workspace<T>,
    ) -> Result<()> {
        let (n, last) = (self.op.sheaf().state_len(), ws.tape.len - 1);
        let carry = self.z_update.carry_len(&self.op);
        check_positive("tolerance of the implicit adjoint", tolerance.to_f64())?;
        let factor = ws.tape.factor[last];
        self.set_factor(factor, ws)?;
        // At a fixed point all iterates are one: their seeds add up.
        ws.d_x[..n].fill(T::ZERO);
        for slot in 0..window {
            axpy(&mut ws.d_x[..n], T::ONE, &seeds.d_x[slot * n..][..n]);
        }
        let mut first = T::ZERO;
        for term in 0..max_terms {
            self.reverse_one(last, factor, grads, ws)?;
            ws.d_x[..n].fill(T::ZERO);
            let size = norm(&ws.d_z[..n]) + norm(&ws.d_u[..n]) + norm(&ws.d_carry[..carry]);
            if !size.is_finite() {
                break;
            }
            if term == 0 {
                first = size;
            }
            if size <= tolerance * first {
                return Ok(());
            }
        }
        Err(Error::new(
            ErrorKind::SolverFailed,
            "implicit adjoint",
            format_args!(
                "a series that falls below {tolerance:e} of its first term within {max_terms} terms"
            ),
            "one that does not",
        )
        .hint("solve to a tighter tolerance, allow more terms, or use Adjoint::Unrolled"))
    }
}
