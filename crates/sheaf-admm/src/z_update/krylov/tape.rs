//! What a solve keeps of every step.

use crate::Real;
use crate::z_update::InnerReport;

/// Length of one report.
pub(crate) const REPORT: usize = 2;

/// How the solve of every sample ended, as numbers, so that it can be stored beside the tape.
#[derive(Debug)]
pub(crate) struct Reports<'s, T>(&'s mut [T]); // [samples, REPORT]

impl<'s, T: Real> Reports<'s, T> {
    /// Reports on `numbers`, [`REPORT`] for each sample.
    pub(crate) fn new(numbers: &'s mut [T]) -> Self {
        Self(numbers)
    }

    pub(crate) fn samples(&self) -> usize {
        self.0.len() / REPORT
    }

    pub(crate) fn get(&self, sample: usize) -> InnerReport {
        let numbers = &self.0[sample * REPORT..][..REPORT];
        InnerReport { steps: numbers[0].to_f64() as usize, converged: numbers[1] != T::ZERO }
    }

    pub(super) fn set(&mut self, sample: usize, report: InnerReport) {
        let converged = if report.converged { T::ONE } else { T::ZERO };
        self.0[sample * REPORT..][..REPORT].copy_from_slice(&[T::from_f64(report.steps as f64), converged]);
    }

    /// The most steps of any sample.
    pub(crate) fn most_steps(&self) -> usize {
        (0..self.samples()).map(|sample| self.get(sample).steps).max().unwrap_or(0)
    }
}

/// The report of one sample that ran this many steps.
pub(crate) fn steps_of<T: Real>(steps: usize) -> [T; REPORT] {
    [T::from_f64(steps as f64), T::ONE]
}

/// Length of one step of one sample on the tape.
pub(crate) const SCALARS: usize = 4;

/// The scalars of one step of one sample.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Scalars<T> {
    pub a: T,
    /// 0 in the first step.
    pub b: T,
    pub c: T,
    pub delta: T,
}

/// The scalars of every step, or, if no adjoint follows, of the previous step.
#[derive(Debug)]
pub(crate) struct Tape<'s, T> {
    samples: usize,
    numbers: PerStep<'s, T>, // [steps or 1, samples, SCALARS]
}

impl<'s, T: Real> Tape<'s, T> {
    /// Length for the adjoint of this many steps. A solve without adjoint needs the length of one step.
    pub(crate) fn len(steps: usize, samples: usize) -> usize {
        steps.saturating_mul(samples * SCALARS)
    }

    /// A tape on `numbers`, of [`len`](Self::len).
    pub(crate) fn new(numbers: &'s mut [T], samples: usize) -> Self {
        Self { samples, numbers: PerStep::new(numbers, samples * SCALARS) }
    }

    pub(super) fn samples(&self) -> usize {
        self.samples
    }

    pub(crate) fn get(&self, t: usize, sample: usize) -> Scalars<T> {
        let k = &self.numbers.at(t)[sample * SCALARS..][..SCALARS];
        Scalars { a: k[0], b: k[1], c: k[2], delta: k[3] }
    }

    pub(super) fn set(&mut self, t: usize, sample: usize, of: Scalars<T>) {
        let Scalars { a, b, c, delta } = of;
        self.numbers.at_mut(t)[sample * SCALARS..][..SCALARS].copy_from_slice(&[a, b, c, delta]);
    }

    /// c of the step before `t`, read before step `t` is written.
    pub(super) fn c_before(&self, t: usize, sample: usize) -> Option<T> {
        t.checked_sub(1).map(|before| self.get(before, sample).c)
    }
}

/// Vectors of equal length: one for every step, or one that all steps share.
#[derive(Debug)]
pub(crate) struct PerStep<'s, T> {
    numbers: &'s mut [T], // [steps or 1, len]
    len: usize,
}

impl<'s, T> PerStep<'s, T> {
    pub(crate) fn new(numbers: &'s mut [T], len: usize) -> Self {
        Self { numbers, len }
    }

    /// Whether every step has its own vector.
    pub(crate) fn every(&self) -> bool {
        self.numbers.len() > self.len
    }

    fn start(&self, t: usize) -> usize {
        if self.every() { t * self.len } else { 0 }
    }

    pub(crate) fn at(&self, t: usize) -> &[T] {
        &self.numbers[self.start(t)..][..self.len]
    }

    pub(crate) fn at_mut(&mut self, t: usize) -> &mut [T] {
        let start = self.start(t);
        &mut self.numbers[start..][..self.len]
    }

    /// The vector of step `t` to write and the previous one to read. If all steps share one vector, there is no
    /// previous one: the vector to write still holds it.
    pub(crate) fn next(&mut self, t: usize) -> (Option<&[T]>, &mut [T]) {
        if t == 0 || !self.every() {
            return (None, self.at_mut(t));
        }
        let (before, from) = self.numbers.split_at_mut(t * self.len);
        (Some(&before[(t - 1) * self.len..]), &mut from[..self.len])
    }
}
