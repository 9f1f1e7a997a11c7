//! Soft consensus of a tile of boards, in the space of projections.
//!
//! The system is A z = ρ w with A = γ Gᵀ M G + ρ, solved from z = w by T conjugate-gradient steps. The first residual is
//! −γ Gᵀ M G w, so every residual is Gᵀr, every direction Gᵀp, and z = w + Gᵀξ, with r, p, ξ in the space of
//! projections, where a step costs one product with C = G Gᵀ instead of two with G. With e = C p and s = C r:
//!
//! ```text
//! y = G w      r = −γ M y
//! s = C r      c = r·s      b = c/(c_prev + ε) (0 at first)      p = r + b p_prev      e = s + b e_prev
//! k = γ M e + ρ p      δ = e·k + ε      a = c/δ      ξ += a p      r_next = r − a k
//! g = Gᵀξ      z = w + g
//! ```
//!
//! Inner products run over the 27 agents of a board; the products over all boards of the tile at once. Adjoint, t from
//! the last step to the first, with f = G d_g the gradient of ξ:
//!
//! ```text
//! d_a = f·p − d_r·k      d_c += d_a/δ      d_δ = −d_a a/δ
//! d_k = d_δ e − a d_r      d_e += d_δ k + γ M d_k      d_p += a f + ρ d_k      d_ρ += d_k·p
//! d_b = d_p·p_prev + d_e·e_prev      d_c += d_b/(c_prev + ε)      d_c_prev = −d_b c/(c_prev + ε)²
//! d_r += d_p + d_c s      d_s = d_e + d_c r      d_r += C d_s      d_p_prev = b d_p      d_e_prev = b d_e
//! at the end: d_y = −γ M d_r
//! ```
//!
//! The forward keeps y, every s and the scalars; from them the adjoint rebuilds the rest without a product.
//!
//! With orthonormal maps C = I and the system is solved exactly: ξ = −β M y, β = γ/(ρ + 3γ); d_y = −β M d_ξ.
//!
//! | name | shape |
//! | --- | --- |
//! | w, z, g | boards, 27, d_v |
//! | y, r, s, p, e, k, ξ | boards, 27, 9·d_e |

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::cliques::{
    Direction, DirectionInPlace, DirectionVjp, Groups, ResidualVjp, StepInPlace, advance, direction,
    direction_in_place, direction_vjp, exchange_cliques, residual_vjp, step_in_place,
};
use sheaf_kernels::vector::{axpy, dot};

use super::tile_maps::{TileMaps, TileMapsGrad};

/// How consensus is found.
#[derive(Clone, Copy, Debug)]
pub struct Consensus<'a, T> {
    /// The cell that every view shows.
    pub cell_of: &'a [u32], // [27, 9]
    /// Edge stalk.
    pub d_e: usize,
    /// Price of disagreement.
    pub gamma: T,
    /// Penalty.
    pub rho: T,
    /// Conjugate-gradient steps; 0 for the closed form of orthonormal maps.
    pub steps: usize,
}

/// Added to both denominators.
const GUARD: f64 = 1e-8;

/// The scalars of one step of one board.
#[derive(Clone, Copy, Debug, Default)]
pub struct Scalars<T> {
    a: T,
    b: T,
    c: T,
    delta: T,
}

/// What the forward of one consensus step leaves for its adjoint.
#[derive(Debug)]
pub struct Kept<'k, T> {
    /// G w; with orthonormal maps ξ, which is all their adjoint needs.
    pub y: &'k mut [T], // [boards, 27, m]
    /// C r of every step, or, where no adjoint follows, room for one.
    pub s: &'k mut [T], // [steps or 1, boards, 27, m]
    /// Scalars.
    pub scalars: &'k mut [Scalars<T>], // [steps, boards]
}

/// Vectors of a running solve.
#[derive(Debug, Default)]
pub struct Work<T: Copy + Default> {
    r: AlignedVec<T>,    // [steps or 1, n], n = boards·27·m
    p: AlignedVec<T>,    // [steps or 1, n]
    e: AlignedVec<T>,    // [steps or 1, n]
    k: AlignedVec<T>,    // [steps or 1, n]
    d_s: AlignedVec<T>,  // [steps, n]
    room: AlignedVec<T>, // the maps'
    sums: AlignedVec<T>, // [81, d_e]
    xi: AlignedVec<T>,   // [n]
    f: AlignedVec<T>,    // [n]
    d_r: AlignedVec<T>,  // [n]
    d_p: AlignedVec<T>,  // [n]
    d_e: AlignedVec<T>,  // [n]
    d_c: Vec<T>,         // [boards]
}

impl<T: Real> Consensus<'_, T> {
    /// Numbers of `s` and count of scalars kept for a tile of `n` = boards·27·m projections.
    pub fn kept_len(&self, n: usize, boards: usize) -> (usize, usize) {
        (self.steps * n, self.steps * boards)
    }

    fn board_len(&self) -> usize {
        self.cell_of.len() * self.d_e
    }

    /// Every cell is a clique of its three views.
    pub(super) fn groups(&self) -> Groups<'_> {
        Groups { of: self.cell_of, sizes: &[3; 81] }
    }

    fn sums_len(&self) -> usize {
        self.board_len() / 3
    }

    fn guard(&self) -> T {
        T::from_f64(GUARD)
    }

    /// β and its derivative by ρ.
    fn closed_form(&self) -> (T, T) {
        let base = self.rho + T::from_f64(3.0) * self.gamma;
        (self.gamma / base, -self.gamma / (base * base))
    }

    /// out = scale·M y, board by board.
    fn exchange(&self, scale: T, y: &[T], out: &mut [T], sums: &mut [T]) {
        let m = self.board_len();
        for (y, out) in y.chunks_exact(m).zip(out.chunks_exact_mut(m)) {
            exchange_cliques(self.groups(), self.d_e, scale, y, out, sums);
        }
    }

    /// g = z − w.
    pub fn forward(
        &self,
        maps: &TileMaps<'_, T>,
        w: &[T],
        kept: &mut Kept<'_, T>,
        g: &mut [T],
        work: &mut Work<T>,
    ) {
        let n = kept.y.len();
        work.fit(1, n, self.sums_len());
        if self.steps == 0 {
            let y = &mut work.r[..n];
            maps.project(w, y, &mut work.room);
            self.exchange(-self.closed_form().0, y, kept.y, &mut work.sums);
            maps.lift(kept.y, g, false, &mut work.room);
            return;
        }
        maps.project(w, kept.y, &mut work.room);
        self.exchange(-self.gamma, kept.y, &mut work.r[..n], &mut work.sums);
        work.xi[..n].fill(T::ZERO);
        for t in 0..self.steps {
            let at = if kept.s.len() > n { t * n } else { 0 };
            maps.gram(&work.r[..n], &mut kept.s[at..][..n], false, &mut work.room);
            self.step(t, &kept.s[at..][..n], kept.scalars, work);
        }
        maps.lift(&work.xi[..n], g, false, &mut work.room);
    }

    /// One step of every board, from r and s to ξ and the next r, in place.
    fn step(&self, t: usize, s: &[T], scalars: &mut [Scalars<T>], work: &mut Work<T>) {
        let m = self.board_len();
        let boards = s.len() / m;
        let (before, scalars) = scalars.split_at_mut(t * boards);
        let (groups, width, gamma, rho) = (self.groups(), self.d_e, self.gamma, self.rho);
        for (board, scalars) in scalars[..boards].iter_mut().enumerate() {
            let own = board * m..(board + 1) * m;
            let (s, r) = (&s[own.clone()], &mut work.r[own.clone()]);
            let (p, e) = (&mut work.p[own.clone()], &mut work.e[own.clone()]);
            let (sums, xi) = (&mut work.sums[..], &mut work.xi[own]);
            scalars.c = dot(r, s);
            let c_prev = t.checked_sub(1).map(|last| before[last * boards + board].c);
            let b = c_prev.map(|c_prev| scalars.c / (c_prev + self.guard()));
            scalars.b = b.unwrap_or(T::ZERO);
            let mut e_dot_k = T::ZERO;
            let direction =
                DirectionInPlace { groups, width, gamma, rho, b, r, s, p, e, sums, e_dot_k: &mut e_dot_k };
            direction_in_place(direction);
            scalars.delta = e_dot_k + self.guard();
            scalars.a = scalars.c / scalars.delta;
            let (a, p, e, sums) =
                (scalars.a, &work.p[board * m..][..m], &work.e[board * m..][..m], &work.sums);
            if t + 1 < self.steps {
                let r = &mut work.r[board * m..][..m];
                step_in_place(StepInPlace { groups, width, gamma, rho, a, p, e, sums, r, xi });
            } else {
                axpy(xi, a, p);
            }
        }
    }

    /// The same step again, with its scalars known. Everything is kept: vectors of step t lie at place t.
    fn step_again(&self, t: usize, kept: &Kept<'_, T>, work: &mut Work<T>) {
        let (n, m) = (kept.y.len(), self.board_len());
        let (at, prev, next) = (t * n, t.saturating_sub(1) * n, (t + 1) * n);
        let boards = n / m;
        for (board, scalars) in kept.scalars[t * boards..][..boards].iter().enumerate() {
            let o = board * m;
            let (s, mut known) = (&kept.s[at + o..][..m], T::ZERO);
            let (r, k) = (&work.r[at + o..][..m], &mut work.k[at + o..][..m]);
            let ((p_prev, p), (e_prev, e)) = if t == 0 {
                ((r, &mut work.p[o..][..m]), (s, &mut work.e[o..][..m]))
            } else {
                (pair(&mut work.p, prev + o, at + o, m), pair(&mut work.e, prev + o, at + o, m))
            };
            direction(Direction {
                groups: self.groups(),
                width: self.d_e,
                gamma: self.gamma,
                rho: self.rho,
                b: scalars.b,
                r,
                s,
                p_prev,
                e_prev,
                p,
                e,
                k,
                sums: &mut work.sums,
                e_dot_k: &mut known,
            });
            let (p, k, xi) = (&work.p[at + o..][..m], &work.k[at + o..][..m], &mut work.xi[o..][..m]);
            if t + 1 < self.steps {
                let (r, r_next) = pair(&mut work.r, at + o, next + o, m);
                advance(scalars.a, p, k, r, xi, r_next);
            } else {
                axpy(xi, scalars.a, p);
            }
        }
    }

    /// Adjoint of [`forward`](Self::forward): from `d_g` adds to `d_w`, the maps' gradient and `d_rho`.
    pub fn vjp(
        &self,
        maps: &TileMaps<'_, T>,
        w: &[T],
        kept: &mut Kept<'_, T>,
        d_g: &[T],
        d_w: &mut [T],
        grad: &mut TileMapsGrad<'_, T>,
        d_rho: &mut T,
        work: &mut Work<T>,
    ) {
        let n = kept.y.len();
        work.fit(self.steps.max(1), n, self.sums_len());
        work.fit_adjoint(self.steps, n, n / self.board_len());
        if self.steps == 0 {
            let (beta, slope) = self.closed_form();
            maps.project(d_g, &mut work.f[..n], &mut work.room);
            // ξ = −β M y: what multiplies the derivative of β is ξ/β.
            *d_rho += dot(&work.f[..n], kept.y) * slope / beta;
            self.exchange(-beta, &work.f[..n], &mut work.d_r[..n], &mut work.sums);
        } else {
            self.replay(kept, work);
            maps.project(d_g, &mut work.f[..n], &mut work.room);
            self.steps_vjp(maps, kept, d_rho, work);
            grad.add_gram(maps, &work.d_s[..self.steps * n], &work.r[..self.steps * n]);
            // The gradient of y takes the place of that of p, which is no longer needed.
            self.exchange(-self.gamma, &work.d_r[..n], &mut work.d_p[..n], &mut work.sums);
        }
        let (d_y, xi) =
            if self.steps == 0 { (&work.d_r[..n], &*kept.y) } else { (&work.d_p[..n], &work.xi[..n]) };
        grad.add_lift(maps, xi, d_g);
        grad.add_project(maps, w, d_y);
        maps.lift(d_y, d_w, true, &mut work.room);
    }

    /// Rebuilds r, p, e, k of every step and ξ.
    fn replay(&self, kept: &Kept<'_, T>, work: &mut Work<T>) {
        let n = kept.y.len();
        self.exchange(-self.gamma, kept.y, &mut work.r[..n], &mut work.sums);
        work.xi[..n].fill(T::ZERO);
        for t in 0..self.steps {
            self.step_again(t, kept, work);
        }
    }

    fn steps_vjp(&self, maps: &TileMaps<'_, T>, kept: &Kept<'_, T>, d_rho: &mut T, work: &mut Work<T>) {
        let (n, m) = (kept.y.len(), self.board_len());
        let boards = n / m;
        for v in [&mut work.d_r, &mut work.d_p, &mut work.d_e] {
            v[..n].fill(T::ZERO);
        }
        work.d_c[..boards].fill(T::ZERO);
        for t in (0..self.steps).rev() {
            for board in 0..boards {
                let c_prev = if t > 0 { Some(kept.scalars[(t - 1) * boards + board].c) } else { None };
                let k = kept.scalars[t * boards + board];
                self.board_vjp(t, n, board * m, k, c_prev, &kept.s[t * n..][..n], d_rho, board, work);
            }
            maps.gram(&work.d_s[t * n..][..n], &mut work.d_r[..n], true, &mut work.room);
        }
    }

    /// One step of one board backwards, up to the product with C. `o` is where the board starts in a vector.
    fn board_vjp(
        &self,
        t: usize,
        n: usize,
        o: usize,
        k: Scalars<T>,
        c_prev: Option<T>,
        s: &[T],
        d_rho: &mut T,
        board: usize,
        work: &mut Work<T>,
    ) {
        let m = self.board_len();
        let of = |v: &[T], t: usize| -> std::ops::Range<usize> {
            debug_assert!(v.len() >= t * n + o + m);
            t * n + o..t * n + o + m
        };
        let before = t.saturating_sub(1);
        let (p, e) = (&work.p[of(&work.p, t)], &work.e[of(&work.e, t)]);
        let (p_prev, e_prev) = (&work.p[of(&work.p, before)], &work.e[of(&work.e, before)]);
        let (r, kv) = (&work.r[of(&work.r, t)], &work.k[of(&work.k, t)]);
        let (f, d_r) = (&work.f[o..][..m], &mut work.d_r[o..][..m]);
        let (d_p, d_e) = (&mut work.d_p[o..][..m], &mut work.d_e[o..][..m]);
        let d_a = dot(f, p) - dot(d_r, kv);
        let mut d_c = work.d_c[board] + d_a / k.delta;
        let (mut d_k_dot_p, mut d_b) = (T::ZERO, T::ZERO);
        direction_vjp(DirectionVjp {
            groups: self.groups(),
            width: self.d_e,
            gamma: self.gamma,
            rho: self.rho,
            a: k.a,
            d_delta: -d_a * k.a / k.delta,
            f,
            d_r,
            p,
            e,
            k: kv,
            p_prev,
            e_prev,
            d_p,
            d_e,
            sums: &mut work.sums,
            d_k_dot_p: &mut d_k_dot_p,
            d_b: &mut d_b,
        });
        *d_rho += d_k_dot_p;
        if let Some(c_prev) = c_prev {
            let guarded = c_prev + self.guard();
            d_c += d_b / guarded;
            work.d_c[board] = -d_b * k.c / (guarded * guarded);
        }
        let d_s = &mut work.d_s[t * n + o..][..m];
        residual_vjp(ResidualVjp { b: k.b, d_c, r, s: &s[o..][..m], d_p, d_e, d_r, d_s });
    }
}

impl<T: Real> Work<T> {
    fn fit(&mut self, depth: usize, n: usize, sums: usize) {
        self.sums.ensure(sums);
        self.xi.ensure(n);
        for v in [&mut self.r, &mut self.p, &mut self.e, &mut self.k] {
            v.ensure(depth * n);
        }
    }

    fn fit_adjoint(&mut self, steps: usize, n: usize, boards: usize) {
        self.d_s.ensure(steps * n);
        for v in [&mut self.f, &mut self.d_r, &mut self.d_p, &mut self.d_e] {
            v.ensure(n);
        }
        self.d_c.resize(boards.max(self.d_c.len()), T::ZERO);
    }
}

/// `len` numbers from `from` to read and as many from `to`, further on, to write.
fn pair<T>(v: &mut [T], from: usize, to: usize, len: usize) -> (&[T], &mut [T]) {
    let (front, back) = v.split_at_mut(to);
    (&front[from..][..len], &mut back[..len])
}
