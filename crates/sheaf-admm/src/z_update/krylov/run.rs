//! The iteration and its adjoint: everything but the vectors.

use super::tape::Scalars;
use super::{Reports, Steps, StepsVjp, Tape};
use crate::Real;
use crate::z_update::InnerReport;

/// The options of the iteration.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Rule<T> {
    /// Added to both denominators.
    pub guard: T,
    /// The most steps.
    pub max_steps: usize,
}

/// Runs until every sample has reached its goal, a bound on c, or has made all steps; without goals all steps run.
/// Fills one report for each sample.
pub(crate) fn run<T: Real>(
    rule: Rule<T>,
    steps: &mut impl Steps<T>,
    goals: Option<&[T]>, // [samples]
    tape: &mut Tape<'_, T>,
    reports: &mut Reports<'_, T>,
) {
    let Rule { guard, max_steps } = rule;
    for sample in 0..reports.samples() {
        reports.set(sample, InnerReport { steps: 0, converged: goals.is_none() });
    }
    for t in 0..max_steps {
        let last = goals.is_none() && t + 1 == max_steps;
        steps.precondition(t);
        let mut running = false;
        for sample in 0..reports.samples() {
            let mut report = reports.get(sample);
            if report.steps < t {
                continue;
            }
            let c = steps.measure(sample);
            report.converged = goals.is_none_or(|goals| c <= goals[sample]);
            reports.set(sample, report);
            // A NaN residual ends the solve too, without convergence.
            if !goals.is_none_or(|goals| c > goals[sample]) {
                continue;
            }
            let b = tape.c_before(t, sample).map(|before| c / (before + guard));
            let delta = steps.turn(t, sample, b) + guard;
            // Without a guard, an exactly solved system has a zero denominator.
            if delta <= T::ZERO || c + guard <= T::ZERO {
                continue;
            }
            let a = c / delta;
            steps.advance(t, sample, a, last);
            tape.set(t, sample, Scalars { a, b: b.unwrap_or(T::ZERO), c, delta });
            reports.set(sample, InnerReport { steps: t + 1, ..report });
            running = true;
        }
        if !running {
            return;
        }
    }
    let Some(goals) = goals else { return };
    steps.precondition(max_steps);
    for sample in 0..reports.samples() {
        if reports.get(sample).steps == max_steps {
            let converged = steps.measure(sample) <= goals[sample];
            reports.set(sample, InnerReport { steps: max_steps, converged });
        }
    }
}

/// Adjoint of [`run`] through the steps that ran; their number is held constant. `end_read` means that something read
/// the last residual, so that its gradient may differ from 0.
pub(crate) fn run_vjp<T: Real>(
    rule: Rule<T>,
    steps: &mut impl StepsVjp<T>,
    tape: &Tape<'_, T>,
    reports: &Reports<'_, T>,
    end_read: bool,
    d_c: &mut [T], // [samples], scratch
) {
    d_c.fill(T::ZERO);
    debug_assert_eq!((reports.samples(), d_c.len()), (tape.samples(), tape.samples()));
    for t in (0..reports.most_steps()).rev() {
        for sample in 0..reports.samples() {
            let ran = reports.get(sample).steps;
            if t >= ran {
                steps.idle_vjp(t, sample);
                continue;
            }
            let alone = t + 1 == ran && !end_read;
            let Scalars { a, b, c, delta } = tape.get(t, sample);
            let d_a = steps.advance_vjp(t, sample, alone);
            let mut d_c_here = d_c[sample] + d_a / delta;
            let d_delta = -d_a * c / (delta * delta);
            let d_b = steps.turn_vjp(t, sample, a, d_delta, alone);
            if let Some(before) = tape.c_before(t, sample) {
                let before = before + rule.guard;
                d_c_here += d_b / before;
                d_c[sample] = -d_b * c / (before * before);
            }
            steps.residual_vjp(t, sample, b, d_c_here);
        }
        steps.precondition_vjp(t);
    }
}
