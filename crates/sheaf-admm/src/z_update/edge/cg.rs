//! Conjugate gradients on the edge-space system A λ = b: the start and its adjoint around [`krylov`].
//!
//! At the start r = b − A λ; its adjoint, with the gradients that the steps leave: d_b += d_r, d_λ −= A d_r.

use super::system::EdgeSystem;
use crate::Real;
use crate::linalg::scratch::Scratch;
use crate::z_update::krylov::{self, PerStep, Plain, PlainVjp, Tape};
use crate::z_update::{InnerReport, Stop};
use sheaf_kernels::vector::{add, axpy, norm};

pub(super) struct EdgeCg<T> {
    pub guard: T,
    pub stop: Stop<T>,
    /// Whether λ starts at a value other than 0; at 0 the residual needs no product.
    pub warm: bool,
}

/// What a run keeps of every step for its adjoint.
pub(super) struct EdgeCgHistory<'s, T> {
    p: &'s mut [T],       // [steps, edges]
    k: &'s mut [T],       // [steps, edges]
    scalars: &'s mut [T], // the tape
}

impl<'s, T: Real> EdgeCgHistory<'s, T> {
    pub(super) fn len(steps: usize, edges: usize) -> usize {
        steps.saturating_mul(2 * edges).saturating_add(Tape::<T>::len(steps, 1))
    }

    pub(super) fn carve(steps: usize, edges: usize, scratch: &mut Scratch<'s, T>) -> Self {
        let (p, k) = (scratch.take(steps * edges), scratch.take(steps * edges));
        Self { p, k, scalars: scratch.take(Tape::<T>::len(steps, 1)) }
    }
}

/// Vectors of a run or of its adjoint.
struct Work<'s, T>([&'s mut [T]; 4]); // [edges] each

impl<'s, T> Work<'s, T> {
    fn carve(len: usize, work: &'s mut [T]) -> Self {
        let mut work = Scratch::new(work);
        Self([(); 4].map(|()| work.take(len)))
    }
}

impl<T: Real> EdgeCg<T> {
    /// Number of the first step's product; the start has number 0 if it needs one.
    fn first(&self) -> usize {
        usize::from(self.warm)
    }

    /// The most products that a run may need.
    pub(super) fn products(&self) -> usize {
        self.stop.max_steps().saturating_add(1)
    }

    fn rule(&self) -> krylov::Rule<T> {
        krylov::Rule { guard: self.guard, max_steps: self.stop.max_steps() }
    }

    /// Moves `lambda` from the start to the end. The tolerance is on ‖r‖, relative to ‖b‖. `work` is `[4, edges]`.
    pub(super) fn run(
        &self,
        system: &mut EdgeSystem<'_, T>,
        lambda: &mut [T],
        work: &mut [T],
        history: Option<&mut EdgeCgHistory<'_, T>>,
    ) -> InnerReport {
        let len = lambda.len();
        let Work([r, p, k, _]) = Work::carve(len, work);
        let goal = self.stop.goal(norm(system.b)).map(|goal| goal * goal);
        r.copy_from_slice(system.b);
        if self.warm {
            system.product(0, lambda, k);
            axpy(r, -T::ONE, k);
        }
        let mut scalars = [T::ZERO; krylov::SCALARS];
        let (p, k, scalars) = match history {
            Some(EdgeCgHistory { p, k, scalars }) => (&mut **p, &mut **k, &mut **scalars),
            None => (p, k, &mut scalars[..]),
        };
        system.first = self.first();
        let (p, k) = (PerStep::new(p, len), PerStep::new(k, len));
        let mut solve = Plain::new(system, lambda, r, p, k, false);
        let mut report = [T::ZERO; krylov::REPORT];
        let (mut tape, mut reports) = (Tape::new(scalars, 1), krylov::Reports::new(&mut report));
        krylov::run(
            self.rule(),
            &mut solve,
            goal.as_ref().map(std::slice::from_ref),
            &mut tape,
            &mut reports,
        );
        reports.get(0)
    }

    /// Adjoint of [`run`](Self::run) through the `steps` that ran: `d_lambda` goes from the gradient of the end to that
    /// of the start, `start`, and the system collects the rest. `work` is `[4, edges]`.
    pub(super) fn run_vjp(
        &self,
        system: &mut EdgeSystem<'_, T>,
        steps: usize,
        start: &[T],
        history: &mut EdgeCgHistory<'_, T>,
        d_lambda: &mut [T],
        work: &mut [T],
    ) {
        let len = d_lambda.len();
        let Work([d_r, d_p, d_k, a_dk]) = Work::carve(len, work);
        d_r.fill(T::ZERO);
        d_p.fill(T::ZERO);
        (system.first, system.products.count) = (self.first(), steps + self.first());
        let EdgeCgHistory { p, k, scalars } = history;
        let (d_k, tape) = (PerStep::new(d_k, len), Tape::new(scalars, 1));
        let (d_x, d_r_steps) = (&*d_lambda, &mut *d_r);
        let mut back =
            PlainVjp { map: &mut *system, p, k, d_x, d_r: d_r_steps, d_p, a_dk, d_k, pending: None };
        let mut report = krylov::steps_of(steps);
        let reports = krylov::Reports::new(&mut report);
        krylov::run_vjp(self.rule(), &mut back, &tape, &reports, false, &mut [T::ZERO]);
        add(system.grad.d_b, d_r);
        if self.warm {
            d_r.iter_mut().for_each(|d| *d = -*d);
            system.add_product_vjp(0, start, d_r, d_lambda);
        }
    }
}
