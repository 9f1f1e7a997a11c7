//! The update of every agent to the shared stack: F_i = G + A_i B_iᵀ, A_i block-diagonal over the slots.
//!
//! With the factors of slot s at columns s·rank …, A_i is m × q and B_i is d_v × q, q = slots·rank. The Gram matrix is
//!
//! ```text
//! F_i F_iᵀ = C + A_i H_iᵀ + H_i A_iᵀ,      H_i = G B_i + ½ A_i (B_iᵀ B_i)
//! ```
//!
//! so a product with it costs one with C, one with H_iᵀ and one with H_i. Adjoints, α = A_iᵀ r, η = H_iᵀ r:
//!
//! ```text
//! y += A Bᵀx:       d_A += d_y (Bᵀx)ᵀ      d_B += x (Aᵀd_y)ᵀ      (the lift g += B Aᵀq is the same with d_g, q for x, d_y)
//! s += A η + H α:   d_A += d_s ηᵀ + r (Hᵀd_s)ᵀ      d_H += d_s αᵀ + r (Aᵀd_s)ᵀ
//! H:                d_B += Gᵀ d_H + B (d_S + d_Sᵀ),  d_S = ½ Aᵀ d_H      d_A += ½ d_H S      d_G += d_H Bᵀ
//! ```
//!
//! | name | stored as |
//! | --- | --- |
//! | A, times its scale | agents, q, d_e: the rows of its own slot |
//! | B, H | agents, q, d_v or m: by columns |
//!
//! Agents are those of all samples, sample after sample.

use super::stack::{SharedStack, SharedStackGrad};
use super::update_parts::{Update, restore_slots, transpose_slots};
use crate::error::{check_finite, check_len};
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::aligned::AlignedVec;
use sheaf_kernels::gemm::{Mat, gemm, gemm_strided};
use sheaf_kernels::thin::{thin_axpy, thin_dot};
use sheaf_kernels::vector::axpy;

/// Coefficients that a product holds on the stack; more columns are processed in several rounds.
pub(super) const ROOM: usize = 64;

/// Sizes of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UpdateDims {
    /// Slots of each agent.
    pub slots: usize,
    /// Vertex stalk.
    pub d_v: usize,
    /// Edge stalk.
    pub d_e: usize,
    /// Rank of the update of a slot.
    pub rank: usize,
}

impl UpdateDims {
    fn q(&self) -> usize {
        self.slots * self.rank
    }

    fn m(&self) -> usize {
        self.slots * self.d_e
    }
}

/// The updates of all agents of a batch.
#[derive(Debug)]
pub struct AgentUpdates<T> {
    dims: UpdateDims,
    agents: usize,
    scale: T,
    a: AlignedVec<T>,    // [agents, q, d_e]
    b: AlignedVec<T>,    // [agents, q, d_v]
    h: AlignedVec<T>,    // [agents, q, m]
    gram: AlignedVec<T>, // [agents, q, q], BᵀB
}

/// The gradients of the updates.
#[derive(Debug)]
pub struct AgentUpdatesGrad<T> {
    a: AlignedVec<T>,     // [agents, q, d_e]
    b: AlignedVec<T>,     // [agents, q, d_v]
    h: AlignedVec<T>,     // [agents, q, m]
    inner: AlignedVec<T>, // [q, q]
    room: AlignedVec<T>,  // [2, q]
    coefs: AlignedVec<T>, // [2, 2·times, q]
    terms: AlignedVec<T>, // [2·times, m]
}

impl<T: Real> Default for AgentUpdates<T> {
    fn default() -> Self {
        let (a, b, h, gram) = Default::default();
        Self { dims: UpdateDims::default(), agents: 0, scale: T::ZERO, a, b, h, gram }
    }
}

impl<T: Real> Default for AgentUpdatesGrad<T> {
    fn default() -> Self {
        let (a, b, h, inner, room, coefs, terms) = Default::default();
        Self { a, b, h, inner, room, coefs, terms }
    }
}

impl<T: Real> AgentUpdates<T> {
    /// Takes the factors of all agents and prepares H: F_i = G + scale·A_i B_iᵀ.
    pub fn prepare(
        &mut self,
        stack: &SharedStack<T>,
        dims: UpdateDims,
        scale: T,
        a: &[T], // [agents, slots, d_e, rank]
        b: &[T], // [agents, slots, d_v, rank]
    ) -> Result<()> {
        check_dims(stack, dims)?;
        let (q, m, d_v) = (dims.q(), dims.m(), dims.d_v);
        let agents = a.len() / (q * dims.d_e).max(1);
        check_len("factors A of the updates", agents * q * dims.d_e, a.len())?;
        check_len("factors B of the updates", agents * q * d_v, b.len())?;
        (self.dims, self.agents, self.scale) = (dims, agents, scale);
        self.a.ensure(agents * q * dims.d_e);
        self.b.ensure(agents * q * d_v);
        self.h.ensure(agents * q * m);
        self.gram.ensure(agents * q * q);
        transpose_slots(a, dims.d_e, dims.rank, scale, &mut self.a);
        transpose_slots(b, d_v, dims.rank, T::ONE, &mut self.b);
        stack.project(&self.b[..agents * q * d_v], &mut self.h[..agents * q * m], m);
        let half = T::from_f64(0.5);
        for agent in 0..agents {
            let b = Mat::new(&self.b[agent * q * d_v..], q, d_v);
            let gram = &mut self.gram[agent * q * q..][..q * q];
            gemm(gram, b, b.t(), T::ONE, T::ZERO);
            for slot in 0..dims.slots {
                let a = Mat::new(&self.a[(agent * q + slot * dims.rank) * dims.d_e..], dims.rank, dims.d_e);
                let part = Mat::strided(&gram[slot * dims.rank..], q, dims.rank, q);
                let h = &mut self.h[agent * q * m + slot * dims.d_e..];
                gemm_strided(h, m, part, a, half, T::ONE);
            }
        }
        Ok(())
    }

    /// Adjoint of [`prepare`](Self::prepare): from the gradients of A, B, H, which are consumed, to those of the
    /// factors (overwritten) and of G (added to).
    pub fn prepare_vjp(
        &self,
        stack: &SharedStack<T>,
        grad: &mut AgentUpdatesGrad<T>,
        d_a: &mut [T], // [agents, slots, d_e, rank]
        d_b: &mut [T], // [agents, slots, d_v, rank]
        d_stack: &mut SharedStackGrad<T>,
    ) -> Result<()> {
        let UpdateDims { d_v, d_e, rank, slots } = self.dims;
        let (q, m, agents) = (self.dims.q(), self.dims.m(), self.agents);
        check_dims(stack, self.dims)?;
        grad.validate(self)?;
        d_stack.validate(stack)?;
        check_len("gradient of factors A", agents * q * d_e, d_a.len())?;
        check_len("gradient of factors B", agents * q * d_v, d_b.len())?;
        let half = T::from_f64(0.5);
        for agent in 0..agents {
            let d_h = &grad.h[agent * q * m..][..q * m];
            let gram = &self.gram[agent * q * q..][..q * q];
            let inner = &mut grad.inner[..q * q];
            for slot in 0..slots {
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
        d_stack.add_pair(stack, T::ONE, rows, m, states);
        stack.lift(rows, m, &mut grad.b[..agents * q * d_v], true);
        restore_slots(&grad.a, d_e, rank, self.scale, d_a);
        restore_slots(&grad.b, d_v, rank, T::ONE, d_b);
        Ok(())
    }

    /// Agents of all samples together.
    pub fn agents(&self) -> usize {
        self.agents
    }

    /// The sizes.
    pub fn dims(&self) -> UpdateDims {
        self.dims
    }

    pub(super) fn check_finite(&self) -> Result<()> {
        let q = self.agents * self.dims.q();
        check_finite("factors A of the updates", &self.a[..q * self.dims.d_e])?;
        check_finite("factors B of the updates", &self.b[..q * self.dims.d_v])
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

    /// y_i += A_i B_iᵀ x_i for the agents from `first` on.
    pub(super) fn project(&self, first: usize, x: &[T], y: &mut [T], stride: usize) {
        let mut room = [T::ZERO; ROOM];
        let (x, y) = (x.chunks_exact(self.dims.d_v), y.chunks_mut(stride));
        for (agent, (x, y)) in x.zip(y).enumerate() {
            for part in self.agent(first + agent).parts() {
                let coefs = &mut room[..part.q()];
                thin_dot(part.b, x, coefs);
                part.add_a(coefs, y);
            }
        }
    }

    /// g_i += B_i A_iᵀ q_i for the agents from `first` on.
    pub(super) fn lift(&self, first: usize, rows: &[T], stride: usize, g: &mut [T]) {
        let mut room = [T::ZERO; ROOM];
        let (rows, g) = (rows.chunks(stride), g.chunks_exact_mut(self.dims.d_v));
        for (agent, (rows, g)) in rows.zip(g).enumerate() {
            for part in self.agent(first + agent).parts() {
                let coefs = &mut room[..part.q()];
                part.dot_a(rows, coefs);
                thin_axpy(part.b, coefs, g);
            }
        }
    }

    /// s_i += A_i H_iᵀ r_i + H_i A_iᵀ r_i.
    pub(super) fn gram(&self, r: &[T], s: &mut [T]) {
        let (mut alpha, mut eta) = ([T::ZERO; ROOM], [T::ZERO; ROOM]);
        let m = self.dims.m();
        for (agent, (r, s)) in r.chunks_exact(m).zip(s.chunks_exact_mut(m)).enumerate() {
            for part in self.agent(agent).parts() {
                let (alpha, eta) = (&mut alpha[..part.q()], &mut eta[..part.q()]);
                thin_dot(part.h, r, eta);
                part.dot_a(r, alpha);
                thin_axpy(part.h, alpha, s);
                part.add_a(eta, s);
            }
        }
    }

    /// Adds the gradient of y += A Bᵀ x, given d_y (or of g += B Aᵀ q, given d_g), scaled: rows are d_y or q, states x
    /// or d_g, of the agents from `first` on.
    pub(super) fn pair_vjp(
        &self,
        first: usize,
        scale: T,
        rows: &[T],
        stride: usize,
        states: &[T],
        grad: &mut AgentUpdatesGrad<T>,
    ) {
        let (d_v, d_e, q) = (self.dims.d_v, self.dims.d_e, self.dims.q());
        let (from_b, from_a) = grad.room[..2 * q].split_at_mut(q);
        for (agent, (rows, states)) in rows.chunks(stride).zip(states.chunks_exact(d_v)).enumerate() {
            let (agent, update) = (first + agent, self.agent(first + agent));
            thin_dot(update.b, states, from_b);
            update.dot_a(rows, from_a);
            let d_a = grad.a[agent * q * d_e..][..q * d_e].chunks_exact_mut(d_e);
            let d_b = grad.b[agent * q * d_v..][..q * d_v].chunks_exact_mut(d_v);
            for (l, (d_a, d_b)) in d_a.zip(d_b).enumerate() {
                axpy(d_a, scale * from_b[l], update.slot(l, rows));
                axpy(d_b, scale * from_a[l], states);
            }
        }
    }

    /// Adds the gradient of `times` products with the Gram matrices; `d_s` and `r` are `[times, agents, m]`.
    pub(super) fn gram_vjp(&self, d_s: &[T], r: &[T], grad: &mut AgentUpdatesGrad<T>) {
        let UpdateDims { d_e, rank, slots, .. } = self.dims;
        let (m, q, n) = (self.dims.m(), self.dims.q(), self.agents * self.dims.m());
        let times = r.len() / n;
        let AgentUpdatesGrad { a, h, coefs, terms, .. } = grad;
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
            // Rows 2t belong to d_s, rows 2t + 1 to r, and each is paired with the other.
            for pair in etas.chunks_exact_mut(2 * q) {
                let (of_d_s, of_r) = pair.split_at_mut(q);
                of_d_s.swap_with_slice(of_r);
            }
            let alphas = Mat::new(alphas, 2 * times, q);
            gemm(&mut h[agent * q * m..][..q * m], alphas.t(), both, T::ONE, T::ONE);
            for slot in 0..slots {
                let etas = Mat::strided(&etas[slot * rank..], 2 * times, rank, q);
                let both = Mat::strided(&terms[slot * d_e..], 2 * times, d_e, m);
                let d_a = &mut a[(agent * q + slot * rank) * d_e..][..rank * d_e];
                gemm(d_a, etas.t(), both, T::ONE, T::ONE);
            }
        }
    }
}

impl<T: Real> AgentUpdatesGrad<T> {
    /// Zeros for the agents of a batch.
    pub fn reset(&mut self, updates: &AgentUpdates<T>) {
        let (dims, q, agents) = (updates.dims, updates.dims.q(), updates.agents);
        self.inner.ensure(q * q);
        self.room.ensure(2 * q);
        for (v, len) in
            [(&mut self.a, q * dims.d_e), (&mut self.b, q * dims.d_v), (&mut self.h, q * dims.m())]
        {
            v.ensure(agents * len);
            v[..agents * len].fill(T::ZERO);
        }
    }

    pub(super) fn validate(&self, updates: &AgentUpdates<T>) -> Result<()> {
        let (dims, q) = (updates.dims, updates.dims.q());
        let rows = updates.agents * q;
        let enough = self.a.len() >= rows * dims.d_e
            && self.b.len() >= rows * dims.d_v
            && self.h.len() >= rows * dims.m()
            && self.room.len() >= 2 * q
            && self.inner.len() >= q * q;
        if enough {
            return Ok(());
        }
        let expected = format!("room for {} agents", updates.agents);
        Err(Error::new(ErrorKind::Shape, "gradient of the updates", expected, "less")
            .hint("size it with AgentUpdatesGrad::reset"))
    }
}

fn check_dims<T: Real>(stack: &SharedStack<T>, dims: UpdateDims) -> Result<()> {
    if dims.rank == 0 || dims.rank > ROOM {
        let expected = format!("1 to {ROOM}");
        return Err(Error::new(ErrorKind::Shape, "rank of the updates", expected, dims.rank));
    }
    check_len("rows of the shared stack", dims.m(), stack.m())?;
    check_len("columns of the shared stack", dims.d_v, stack.d_v())
}
