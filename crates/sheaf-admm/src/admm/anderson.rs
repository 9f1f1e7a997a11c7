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
//! belongs to the combination of w. If the next ‖f‖ is not smaller than the last one, the step is taken back and the
//! memory starts anew: the iteration is then the plain one, which converges.

use super::Tape;
use crate::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::vector::{axpy, dot, norm};

/// Steps that are remembered, and iterations from one combination to the next.
const MEMORY: usize = 10;
const EVERY: usize = 20;

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
    /// ‖f‖ before a combination that has not been judged.
    tried: Option<T>,
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

    /// After iteration `k`, which `changed` the map: remembers it, or begins.
    pub(super) fn after(&mut self, k: usize, changed: bool, tape: &mut Tape<T>) {
        if k + 1 < self.from {
            return;
        }
        if changed || k + 1 == self.from {
            self.begin(k + 1, tape);
        } else {
            self.step(k, tape);
        }
    }

    /// Before the first iteration.
    pub(super) fn start(&mut self, tape: &Tape<T>) {
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
        (self.count, self.next, self.steps, self.since, self.tried) = (0, 0, 0, 0, None);
        self.set_start(k, tape);
    }

    fn set_start(&mut self, k: usize, tape: &Tape<T>) {
        let each = self.start.iter_mut().zip(tape.z(k).iter().zip(tape.u(k)));
        each.for_each(|(w, (&z, &u))| *w = z + u);
    }

    /// After iteration `k`: remembers it, and combines the last ones if it is time.
    fn step(&mut self, k: usize, tape: &mut Tape<T>) {
        let n = tape.states;
        let (z, u) = (tape.z(k + 1), tape.u(k + 1));
        self.f.swap(0, 1);
        let each = self.f[0].iter_mut().zip(self.start.iter()).zip(z.iter().zip(u));
        each.for_each(|((f, &w), (&z, &u))| *f = (z + u) - w);
        let size = norm(&self.f[0][..n]);
        let worse = self
            .tried
            .take()
            .is_some_and(|before| size.partial_cmp(&before).is_none_or(|order| order.is_gt()));
        if worse {
            // Back to where the combination began.
            let (row, z_row) = (tape.row(k + 1) * n, tape.z_row(k + 1) * n);
            tape.z[z_row..z_row + n].copy_from_slice(&self.last[0][..n]);
            tape.u[row..row + n].copy_from_slice(&self.last[1][..n]);
            return self.begin(k + 1, tape);
        }
        if self.steps > 0 {
            self.remember(n, z, u);
        }
        self.last[0][..n].copy_from_slice(z);
        self.last[1][..n].copy_from_slice(u);
        (self.steps, self.since) = (self.steps + 1, self.since + 1);
        if self.since > EVERY && self.count > 1 && size > T::ZERO && size.is_finite() {
            self.combine(k, n, size, tape);
        }
        self.set_start(k + 1, tape);
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

    /// Writes the combination in the place of z and u after iteration `k`.
    fn combine(&mut self, k: usize, n: usize, size: T, tape: &mut Tape<T>) {
        let m = self.count;
        let mut gamma = [T::ZERO; MEMORY];
        for (j, gamma) in gamma.iter_mut().enumerate().take(m) {
            *gamma = dot(&self.d_f[j * n..][..n], &self.f[0][..n]);
        }
        self.since = 0;
        if !solve(&self.gram, m, &mut gamma) {
            return;
        }
        let (row, z_row) = (tape.row(k + 1) * n, tape.z_row(k + 1) * n);
        for (j, &g) in gamma.iter().enumerate().take(m) {
            axpy(&mut tape.z[z_row..z_row + n], -g, &self.d_z[j * n..][..n]);
            axpy(&mut tape.u[row..row + n], -g, &self.d_u[j * n..][..n]);
        }
        self.tried = Some(size);
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
