//! What every view adds to the shared stack: F_i = G + A_i B_iᵀ, A_i block-diagonal over the nine slots.
//!
//! With the factors of slot s at columns s·rank …, A_i is m × q and B_i is d_v × q, q = 9·rank. The Gram matrix is
//!
//! ```text
//! F_i F_iᵀ = C + A_i H_iᵀ + H_i A_iᵀ,      H_i = G B_i + ½ A_i (B_iᵀ B_i)
//! ```
//!
//! so a product with it costs one with C, one with H_iᵀ and one with H_i. Adjoints, α = A_iᵀ r, η = H_iᵀ r:
//!
//! ```text
//! y += A B ᵀx:      d_A += d_y (Bᵀx)ᵀ      d_B += x (Aᵀd_y)ᵀ      (the lift g += B Aᵀq is the same with d_g, q for x, d_y)
//! s += A η + H α:   d_A += d_s ηᵀ + r (Hᵀd_s)ᵀ      d_H += d_s αᵀ + r (Aᵀd_s)ᵀ
//! H:                d_B += Gᵀ d_H + B (d_S + d_Sᵀ),  d_S = ½ Aᵀ d_H      d_A += ½ d_H S      d_G += d_H Bᵀ
//! ```
//!
//! | name | stored as |
//! | --- | --- |
//! | A, times alpha/rank | agents, q, d_e: the rows of its own slot |
//! | B, H | agents, q, d_v or m: by columns |

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::gemm::{Mat, gemm, gemm_strided};
use sheaf_kernels::thin::{block_axpy, block_dot, thin_axpy, thin_dot};
use sheaf_kernels::vector::axpy;

use super::maps::{Stack, StackGrad};
use crate::sudoku::views::SLOTS;

/// Sizes of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LowRankDims {
    /// Vertex stalk.
    pub d_v: usize,
    /// Edge stalk.
    pub d_e: usize,
    /// Rank of the update of a slot.
    pub rank: usize,
}

impl LowRankDims {
    fn q(&self) -> usize {
        SLOTS * self.rank
    }

    fn m(&self) -> usize {
        SLOTS * self.d_e
    }
}

/// The updates of the agents of a tile.
#[derive(Clone, Debug, Default)]
pub struct LowRankTile<T: Copy + Default> {
    dims: LowRankDims,
    agents: usize,
    a: AlignedVec<T>,    // [agents, q, d_e]
    b: AlignedVec<T>,    // [agents, q, d_v]
    h: AlignedVec<T>,    // [agents, q, m]
    gram: AlignedVec<T>, // [agents, q, q], BᵀB
}

/// Their gradients.
#[derive(Clone, Debug, Default)]
pub struct LowRankGrad<T: Copy + Default> {
    a: AlignedVec<T>,     // [agents, q, d_e]
    b: AlignedVec<T>,     // [agents, q, d_v]
    h: AlignedVec<T>,     // [agents, q, m]
    inner: AlignedVec<T>, // [q, q]
    room: AlignedVec<T>,  // [2, q]
    coefs: AlignedVec<T>, // [2, 2·times, q]
    terms: AlignedVec<T>, // [2·times, m]
}

impl<T: Real> LowRankTile<T> {
    /// Takes the encoder's factors and prepares H.
    pub fn prepare(
        &mut self,
        stack: &Stack<T>,
        dims: LowRankDims,
        scale: T,
        a: &[T], // [agents, 9, d_e, rank]
        b: &[T], // [agents, 9, d_v, rank]
    ) {
        let (q, m, d_v) = (dims.q(), dims.m(), dims.d_v);
        let agents = a.len() / (q * dims.d_e);
        (self.dims, self.agents) = (dims, agents);
        self.a.ensure(agents * q * dims.d_e);
        self.b.ensure(agents * q * d_v);
        self.h.ensure(agents * q * m);
        self.gram.ensure(agents * q * q);
        transpose_slots(a, dims.d_e, dims.rank, scale, &mut self.a);
        transpose_slots(b, d_v, dims.rank, T::ONE, &mut self.b);
        stack.project(&self.b[..agents * q * d_v], &mut self.h[..agents * q * m]);
        let half = T::from_f64(0.5);
        for agent in 0..agents {
            let b = Mat::new(&self.b[agent * q * d_v..], q, d_v);
            let gram = &mut self.gram[agent * q * q..][..q * q];
            gemm(gram, b, b.t(), T::ONE, T::ZERO);
            for slot in 0..SLOTS {
                let a = Mat::new(&self.a[(agent * q + slot * dims.rank) * dims.d_e..], dims.rank, dims.d_e);
                let part = Mat::strided(&gram[slot * dims.rank..], q, dims.rank, q);
                let h = &mut self.h[agent * q * m + slot * dims.d_e..];
                gemm_strided(h, m, part, a, half, T::ONE);
            }
        }
    }

    /// Adjoint of [`prepare`](Self::prepare): from the gradients of A, B, H to those of the encoder's factors and G.
    pub fn prepare_vjp(
        &self,
        stack: &Stack<T>,
        scale: T,
        grad: &mut LowRankGrad<T>,
        d_a: &mut [T], // [agents, 9, d_e, rank], overwritten
        d_b: &mut [T], // [agents, 9, d_v, rank], overwritten
        d_stack: &mut StackGrad<T>,
    ) {
        let LowRankDims { d_v, d_e, rank } = self.dims;
        let (q, m, agents) = (self.dims.q(), self.dims.m(), self.agents);
        let half = T::from_f64(0.5);
        for agent in 0..agents {
            let d_h = &grad.h[agent * q * m..][..q * m];
            let gram = &self.gram[agent * q * q..][..q * q];
            let inner = &mut grad.inner[..q * q];
            for slot in 0..SLOTS {
                let at = (agent * q + slot * rank) * d_e;
                let a = Mat::new(&self.a[at..], rank, d_e);
                let d_h = Mat::strided(&d_h[slot * d_e..], q, d_e, m);
                let part = Mat::strided(&gram[slot * rank..], q, rank, q);
                // h_k += ½ Σ_l S_kl a_l: d_S_kl = ½ d_h_k·a_l, d_a_l += ½ Σ_k S_kl d_h_k
                gemm_strided(&mut inner[slot * rank..], q, d_h, a.t(), half, T::ZERO);
                gemm(&mut grad.a[at..][..rank * d_e], part.t(), d_h, half, T::ONE);
            }
            let b = Mat::new(&self.b[agent * q * d_v..], q, d_v);
            let d_b = &mut grad.b[agent * q * d_v..][..q * d_v];
            gemm(d_b, Mat::new(inner, q, q), b, T::ONE, T::ONE);
            gemm(d_b, Mat::new(inner, q, q).t(), b, T::ONE, T::ONE);
        }
        let (rows, states) = (&grad.h[..agents * q * m], &self.b[..agents * q * d_v]);
        d_stack.add_pair(stack, rows, states);
        stack.lift(rows, &mut grad.b[..agents * q * d_v], true);
        restore_slots(&grad.a, d_e, rank, scale, d_a);
        restore_slots(&grad.b, d_v, rank, T::ONE, d_b);
    }

    fn agent(&self, agent: usize) -> Update<'_, T> {
        let (q, m) = (self.dims.q(), self.dims.m());
        Update {
            dims: self.dims,
            a: &self.a[agent * q * self.dims.d_e..][..q * self.dims.d_e],
            b: &self.b[agent * q * self.dims.d_v..][..q * self.dims.d_v],
            h: &self.h[agent * q * m..][..q * m],
        }
    }

    /// y_i += A_i B_iᵀ x_i. `room` holds coefficients.
    pub fn project(&self, x: &[T], y: &mut [T], room: &mut AlignedVec<T>) {
        room.ensure(self.dims.q());
        let coefs = &mut room[..self.dims.q()];
        let (x, y) = (x.chunks_exact(self.dims.d_v), y.chunks_exact_mut(self.dims.m()));
        for (agent, (x, y)) in x.zip(y).enumerate() {
            let update = self.agent(agent);
            thin_dot(update.b, x, coefs);
            update.add_a(coefs, y);
        }
    }

    /// g_i += B_i A_iᵀ q_i.
    pub fn lift(&self, rows: &[T], g: &mut [T], room: &mut AlignedVec<T>) {
        room.ensure(self.dims.q());
        let coefs = &mut room[..self.dims.q()];
        let (rows, g) = (rows.chunks_exact(self.dims.m()), g.chunks_exact_mut(self.dims.d_v));
        for (agent, (rows, g)) in rows.zip(g).enumerate() {
            let update = self.agent(agent);
            update.dot_a(rows, coefs);
            thin_axpy(update.b, coefs, g);
        }
    }

    /// s_i += A_i H_iᵀ r_i + H_i A_iᵀ r_i.
    pub fn gram(&self, r: &[T], s: &mut [T], room: &mut AlignedVec<T>) {
        room.ensure(2 * self.dims.q());
        let (alpha, eta) = room[..2 * self.dims.q()].split_at_mut(self.dims.q());
        let m = self.dims.m();
        for (agent, (r, s)) in r.chunks_exact(m).zip(s.chunks_exact_mut(m)).enumerate() {
            let update = self.agent(agent);
            thin_dot(update.h, r, eta);
            update.dot_a(r, alpha);
            thin_axpy(update.h, alpha, s);
            update.add_a(eta, s);
        }
    }

    /// What y += A Bᵀ x with gradient d_y (or g += B Aᵀ q with gradient d_g) adds: rows are d_y or q, states x or d_g.
    pub fn pair_vjp(&self, rows: &[T], states: &[T], grad: &mut LowRankGrad<T>) {
        let (d_v, d_e, m, q) = (self.dims.d_v, self.dims.d_e, self.dims.m(), self.dims.q());
        let (from_b, from_a) = grad.room[..2 * q].split_at_mut(q);
        for (agent, (rows, states)) in rows.chunks_exact(m).zip(states.chunks_exact(d_v)).enumerate() {
            let update = self.agent(agent);
            thin_dot(update.b, states, from_b);
            update.dot_a(rows, from_a);
            let d_a = grad.a[agent * q * d_e..][..q * d_e].chunks_exact_mut(d_e);
            let d_b = grad.b[agent * q * d_v..][..q * d_v].chunks_exact_mut(d_v);
            for (l, (d_a, d_b)) in d_a.zip(d_b).enumerate() {
                axpy(d_a, from_b[l], update.slot(l, rows));
                axpy(d_b, from_a[l], states);
            }
        }
    }

    /// What `times` products with the Gram matrices add; `d_s` and `r` are `[times, agents, m]`.
    pub fn gram_vjp(&self, d_s: &[T], r: &[T], grad: &mut LowRankGrad<T>) {
        let (d_e, m, q, n) = (self.dims.d_e, self.dims.m(), self.dims.q(), self.agents * self.dims.m());
        let times = r.len() / n;
        let LowRankGrad { a, h, coefs, terms, .. } = grad;
        coefs.ensure(2 * times * 2 * q);
        terms.ensure(2 * times * m);
        let (alphas, etas) = coefs[..4 * times * q].split_at_mut(2 * times * q);
        for agent in 0..self.agents {
            let update = self.agent(agent);
            for t in 0..times {
                let at = t * n + agent * m;
                let (d_s, r) = (&d_s[at..][..m], &r[at..][..m]);
                terms[2 * t * m..][..m].copy_from_slice(d_s);
                terms[(2 * t + 1) * m..][..m].copy_from_slice(r);
                update.dot_a(r, &mut alphas[2 * t * q..][..q]);
                update.dot_a(d_s, &mut alphas[(2 * t + 1) * q..][..q]);
            }
            let both = Mat::new(&terms[..], 2 * times, m);
            gemm(etas, both, Mat::new(update.h, q, m).t(), T::ONE, T::ZERO);
            // Rows 2t are of d_s, rows 2t + 1 of r, but each goes with the other.
            for pair in etas.chunks_exact_mut(2 * q) {
                let (of_d_s, of_r) = pair.split_at_mut(q);
                of_d_s.swap_with_slice(of_r);
            }
            let alphas = Mat::new(alphas, 2 * times, q);
            gemm(&mut h[agent * q * m..][..q * m], alphas.t(), both, T::ONE, T::ONE);
            for slot in 0..SLOTS {
                let etas = Mat::strided(&etas[slot * self.dims.rank..], 2 * times, self.dims.rank, q);
                let both = Mat::strided(&terms[slot * d_e..], 2 * times, d_e, m);
                let d_a = &mut a[(agent * q + slot * self.dims.rank) * d_e..][..self.dims.rank * d_e];
                gemm(d_a, etas.t(), both, T::ONE, T::ONE);
            }
        }
    }
}

impl<T: Real> LowRankGrad<T> {
    /// Zeros for the agents of a tile.
    pub fn reset(&mut self, tile: &LowRankTile<T>) {
        let (dims, q, agents) = (tile.dims, tile.dims.q(), tile.agents);
        self.inner.ensure(q * q);
        self.room.ensure(2 * q);
        for (v, len) in
            [(&mut self.a, q * dims.d_e), (&mut self.b, q * dims.d_v), (&mut self.h, q * dims.m())]
        {
            v.ensure(agents * len);
            v[..agents * len].fill(T::ZERO);
        }
    }
}

/// The factors of one agent.
struct Update<'a, T> {
    dims: LowRankDims,
    a: &'a [T], // [q, d_e]
    b: &'a [T], // [q, d_v]
    h: &'a [T], // [q, m]
}

impl<T: Real> Update<'_, T> {
    /// The part of a projection that column l touches.
    #[inline]
    fn slot<'r>(&self, l: usize, row: &'r [T]) -> &'r [T] {
        &row[l / self.dims.rank * self.dims.d_e..][..self.dims.d_e]
    }

    /// out = Aᵀ row.
    fn dot_a(&self, row: &[T], out: &mut [T]) {
        block_dot(self.a, self.dims.rank, self.dims.d_e, row, out);
    }

    /// row += A coefs.
    fn add_a(&self, coefs: &[T], row: &mut [T]) {
        block_axpy(self.a, self.dims.rank, self.dims.d_e, coefs, row);
    }
}

/// `[slots, len, rank]` → `[slots·rank, len]`, scaled.
fn transpose_slots<T: Real>(from: &[T], len: usize, rank: usize, scale: T, to: &mut [T]) {
    for (from, to) in from.chunks_exact(len * rank).zip(to.chunks_exact_mut(len * rank)) {
        for (k, to) in to.chunks_exact_mut(len).enumerate() {
            for (to, from) in to.iter_mut().zip(from.chunks_exact(rank)) {
                *to = scale * from[k];
            }
        }
    }
}

/// The adjoint of [`transpose_slots`], overwriting.
fn restore_slots<T: Real>(from: &[T], len: usize, rank: usize, scale: T, to: &mut [T]) {
    for (from, to) in from.chunks_exact(len * rank).zip(to.chunks_exact_mut(len * rank)) {
        for (k, from) in from.chunks_exact(len).enumerate() {
            for (&from, to) in from.iter().zip(to.chunks_exact_mut(rank)) {
                to[k] = scale * from;
            }
        }
    }
}
