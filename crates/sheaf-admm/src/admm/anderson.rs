//! Anderson acceleration (type II; Zhang, O'Donoghue and Boyd 2020 for the safeguard).
//!
//! An iteration is a map w ↦ T(w) of w = z + u that brings points closer to each other. From the last m steps
//!
//! ```text
//! γ = argmin ‖f − ΔF γ‖² + small·‖γ‖²      f = T(w) − w
//! z ← z − ΔZ γ,   u ← u − ΔU γ
//! ```
//!
//! ΔF, ΔZ, ΔU hold differences of consecutive f, z and u. The consensus step is affine, so that the same combination of z and of u
//! belongs to the combination of w. If the next ‖f‖ is above its goal, the step is taken back and the memory starts anew: the
//! iteration is then the plain one, which converges. With D the length of the combination's step,
//!
//! ```text
//! goal = ‖f‖·min(1, √(REACH·‖f‖/D))
//! ```
//!
//! so that the further a step goes the more it must gain. A plain iteration moves w by ‖f‖ at most: it would take D/‖f‖ of them
//! to come back from a step in a wrong direction, and where an objective is linear far away ‖f‖ is small there, too.
//!
//! Where the iterations have come to walk in a straight line (a vertex of a ball holds x while its multiplier grows), ΔF is rounding
//! error and no combination helps. After one that was taken back, a long step straight ahead, z + t Δz and u + t Δu, is tried: first
//! 100 iterations at once, twice as many after every success. It must leave ‖f‖ as it is.

use super::Tape;
use crate::Real;
use crate::linalg::norms;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::{axpy, dot, norm};

/// Steps that are remembered, and iterations from one combination to the next.
const MEMORY: usize = 10;
const EVERY: usize = 20;
/// How many times ‖f‖ a combination may go for any gain, and how many iterations the first step straight ahead stands for.
const REACH: f64 = 100.0;
/// By how much rounding may raise ‖f‖ on a straight line.
const STRAIGHT: f64 = 1.0 + 1e-6;

/// The memory of a solve.
#[derive(Clone, Debug, Default)]
pub(super) struct Anderson<T: Copy + Default> {
    start: AlignedVec<T>,     // [states], w before the next iteration
    f: [AlignedVec<T>; 2],    // [states], of this iteration and of the last
    d_f: AlignedVec<T>,       // [MEMORY, states]
    d_z: AlignedVec<T>,       // [MEMORY, states]
    d_u: AlignedVec<T>,       // [MEMORY, states]
    last: [AlignedVec<T>; 2], // [states], z and u after the last iteration
    gram: [[T; MEMORY]; MEMORY],
    /// Differences that are known, and where the next one goes.
    count: usize,
    next: usize,
    /// Iterations since the memory began, and since the last combination.
    steps: usize,
    since: usize,
    /// The largest ‖f‖ after a combination that has not been judged.
    goal: Option<T>,
    /// How far the next step goes straight ahead; 0 for a combination.
    ahead: T,
    /// Iterations of a solve before it begins to remember.
    from: usize,
}

impl<T: Real> Anderson<T> {
    /// For `n` numbers; `None` if memory does not hold it. Memory that no solve has written to is not in use yet.
    pub(super) fn new(n: usize, from: usize) -> Option<Self> {
        let mut made = Self { from, ..Self::default() };
        made.ensure(n);
        (made.d_u.len() >= MEMORY.checked_mul(n)? && made.start.len() >= n).then_some(made)
    }

    /// After iteration `k`, which `changed` the map: remembers it, or begins. Tries a step only if another iteration can judge it
    /// before the solve ends.
    pub(super) fn after(&mut self, k: usize, changed: bool, judged: bool, tape: &mut Tape<T>) {
        if k + 1 < self.from {
            return;
        }
        if changed || k + 1 == self.from {
            self.begin(k + 1, tape);
        } else {
            self.step(k, judged, tape);
        }
    }

    /// Whether the next iteration will judge a step: until then it may be taken back, and its residuals mean nothing.
    pub(super) fn is_on_trial(&self) -> bool {
        self.goal.is_some()
    }

    /// Before the first iteration.
    pub(super) fn start(&mut self, tape: &Tape<T>) {
        // The last solve may have ended while a step was on trial.
        (self.ahead, self.goal) = (T::ZERO, None);
        if self.from == 0 {
            self.begin(0, tape);
        }
    }

    fn ensure(&mut self, n: usize) {
        for v in self.f.iter_mut().chain(&mut self.last).chain([&mut self.start]) {
            v.ensure(n);
        }
        for v in [&mut self.d_f, &mut self.d_z, &mut self.d_u] {
            v.ensure(MEMORY.saturating_mul(n));
        }
    }

    /// Before iteration `k`, after a change of the map or of the state: forgets everything.
    fn begin(&mut self, k: usize, tape: &Tape<T>) {
        self.ensure(tape.states);
        (self.count, self.next, self.steps, self.since, self.goal) = (0, 0, 0, 0, None);
        self.set_start(k, tape);
    }

    fn set_start(&mut self, k: usize, tape: &Tape<T>) {
        let each = self.start.iter_mut().zip(tape.z(k).iter().zip(tape.u(k)));
        each.for_each(|(w, (&z, &u))| *w = z + u);
    }

    /// After iteration `k`: remembers it, and combines the last ones if it is time.
    fn step(&mut self, k: usize, judged: bool, tape: &mut Tape<T>) {
        let n = tape.states;
        let (z, u) = (tape.z(k + 1), tape.u(k + 1));
        let (size, worse) = self.judge(z, u);
        if worse {
            self.ahead = if self.ahead > T::ZERO { T::ZERO } else { T::from_f64(REACH) };
            self.go_back(k + 1, tape);
            return self.begin(k + 1, tape);
        }
        if self.steps > 0 {
            self.remember(n, z, u);
        }
        self.last[0][..n].copy_from_slice(z);
        self.last[1][..n].copy_from_slice(u);
        (self.steps, self.since) = (self.steps + 1, self.since + 1);
        if !judged || self.since <= EVERY || self.count < 2 || !(size > T::ZERO && size.is_finite()) {
            return self.set_start(k + 1, tape);
        }
        self.since = 0;
        if self.ahead > T::ZERO {
            self.straight(k, n, tape);
            self.set_start(k + 1, tape);
            self.goal = Some(size * T::from_f64(STRAIGHT));
        } else if self.combine(k, n, tape) {
            self.set_start(k + 1, tape);
            let reach = T::from_f64(REACH) * size / self.step_len(n);
            self.goal = Some(if reach < T::ONE { size * reach.sqrt() } else { size });
        } else {
            self.set_start(k + 1, tape);
        }
    }

    /// ‖f‖ of an iteration that led to z and u, and whether a step on trial must be taken back.
    fn judge(&mut self, z: &[T], u: &[T]) -> (T, bool) {
        self.f.swap(0, 1);
        let each = self.f[0].iter_mut().zip(self.start.iter()).zip(z.iter().zip(u));
        each.for_each(|((f, &w), (&z, &u))| *f = (z + u) - w);
        let size = norm(&self.f[0][..z.len()]);
        let worse = |goal: T| size.partial_cmp(&goal).is_none_or(|order| order.is_gt());
        (size, self.goal.take().is_some_and(worse))
    }

    /// Puts z and u from before the last step in the place of those that iteration `k` starts from.
    fn go_back(&self, k: usize, tape: &mut Tape<T>) {
        let (n, row, z_row) = (tape.states, tape.row(k), tape.z_row(k));
        tape.z[z_row * n..][..n].copy_from_slice(&self.last[0][..n]);
        tape.u[row * n..][..n].copy_from_slice(&self.last[1][..n]);
    }

    /// At the end of a solve that was cut off after `k` iterations: returns whether a step on trial was taken back. With
    /// `judged` the last iteration started from the step; its x is then replaced by the one before.
    pub(super) fn end(&mut self, k: usize, judged: bool, tape: &mut Tape<T>) -> bool {
        if self.goal.is_none() || (judged && !self.judge(tape.z(k), tape.u(k)).1) {
            return false;
        }
        self.goal = None;
        self.go_back(k, tape);
        if judged && k > 1 {
            let (n, from, to) = (tape.states, tape.x_row(k - 2), tape.x_row(k - 1));
            tape.x.copy_within(from * n..(from + 1) * n, to * n);
        }
        true
    }

    fn remember(&mut self, n: usize, z: &[T], u: &[T]) {
        let own = self.next * n..(self.next + 1) * n;
        let [f, last] = &self.f;
        let parts = (&mut self.d_f[own.clone()], &mut self.d_z[own.clone()], &mut self.d_u[own]);
        for i in 0..n {
            parts.0[i] = f[i] - last[i];
            parts.1[i] = z[i] - self.last[0][i];
            parts.2[i] = u[i] - self.last[1][i];
        }
        self.count = (self.count + 1).min(MEMORY);
        for j in 0..self.count {
            let product = dot(&self.d_f[self.next * n..][..n], &self.d_f[j * n..][..n]);
            (self.gram[self.next][j], self.gram[j][self.next]) = (product, product);
        }
        self.next = (self.next + 1) % MEMORY;
    }

    /// ‖w − w'‖ from before a combination to after it. Squares of a step that is far too long would overflow.
    fn step_len(&self, n: usize) -> T {
        let [z, u] = &self.last;
        norms::norm((0..n).map(|i| self.start[i] - (z[i] + u[i])))
    }

    /// Goes on in the direction of the last iteration.
    fn straight(&mut self, k: usize, n: usize, tape: &mut Tape<T>) {
        let last = (self.next + MEMORY - 1) % MEMORY * n;
        let (row, z_row) = (tape.row(k + 1) * n, tape.z_row(k + 1) * n);
        axpy(&mut tape.z[z_row..z_row + n], self.ahead, &self.d_z[last..][..n]);
        axpy(&mut tape.u[row..row + n], self.ahead, &self.d_u[last..][..n]);
        // What follows if this one is not taken back.
        self.ahead += self.ahead;
    }

    /// Writes the combination in the place of z and u after iteration `k`; false if there is none.
    fn combine(&mut self, k: usize, n: usize, tape: &mut Tape<T>) -> bool {
        let m = self.count;
        let mut gamma = [T::ZERO; MEMORY];
        for (j, gamma) in gamma.iter_mut().enumerate().take(m) {
            *gamma = dot(&self.d_f[j * n..][..n], &self.f[0][..n]);
        }
        if !solve(&self.gram, m, &mut gamma) {
            return false;
        }
        let (row, z_row) = (tape.row(k + 1) * n, tape.z_row(k + 1) * n);
        for (j, &g) in gamma.iter().enumerate().take(m) {
            axpy(&mut tape.z[z_row..z_row + n], -g, &self.d_z[j * n..][..n]);
            axpy(&mut tape.u[row..row + n], -g, &self.d_u[j * n..][..n]);
        }
        true
    }
}

/// (G + small) γ = b by elimination, b in `gamma`; false if there is no finite solution.
fn solve<T: Real>(gram: &[[T; MEMORY]; MEMORY], m: usize, gamma: &mut [T; MEMORY]) -> bool {
    let mut a = *gram;
    let trace = (0..m).map(|j| a[j][j]).fold(T::ZERO, |sum, v| sum + v);
    (0..m).for_each(|j| a[j][j] += trace * T::EPSILON * T::from_f64(1e3));
    for p in 0..m {
        if a[p][p].partial_cmp(&T::ZERO).is_none_or(|order| order.is_le()) {
            return false;
        }
        for i in p + 1..m {
            let factor = a[i][p] / a[p][p];
            for j in p..m {
                let below = a[p][j];
                a[i][j] -= factor * below;
            }
            let above = gamma[p];
            gamma[i] -= factor * above;
        }
    }
    for p in (0..m).rev() {
        for j in p + 1..m {
            let known = gamma[j];
            gamma[p] -= a[p][j] * known;
        }
        gamma[p] /= a[p][p];
    }
    gamma[..m].iter().all(|g| g.is_finite())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_solve_does_not_begin_with_a_step_of_the_last_one_on_trial() {
        for from in [0, 16] {
            let Some(mut anderson) = Anderson::<f64>::new(0, from) else { panic!("no memory for nothing") };
            anderson.goal = Some(1.0);
            anderson.start(&Tape { z: AlignedVec::zeros(0), ..Tape::default() });
            assert!(!anderson.is_on_trial());
        }
    }
}
