//! The slope that agents out of step see, and its adjoint: what a round does with messages.

use super::{Asynchronous, OutOfStep, Streams, When};
use crate::Real;
use crate::sheaf::{Sheaf, SheafOp};
use crate::x_update::Penalty;
use crate::z_update::Agreement;
use crate::z_update::descent::rule::Slope;
use crate::z_update::weights::Weights;
use sheaf_kernels::vector::{add, axpy, dot};

/// The mailboxes of all links: those at u of every edge, then those at v.
#[derive(Debug, Default)]
pub(super) struct Mail<'a, T> {
    pub heard: &'a mut [T], // [2, edges]
    pub inbox: &'a mut [T], // [2, edge_len]
}

impl<'a, T> Mail<'a, T> {
    /// The parts of a carry: the mailboxes and what was sent.
    pub(super) fn of(sheaf: &Sheaf, carry: &'a mut [T]) -> (Self, &'a mut [T]) {
        let (heard, rest) = carry.split_at_mut(2 * sheaf.edge_count());
        let (inbox, sent) = rest.split_at_mut(2 * sheaf.edge_len());
        (Self { heard, inbox }, sent)
    }
}

/// What the reverse sweep adds to.
#[derive(Debug)]
pub(super) struct SlopeGrad<'a, T> {
    pub sent: &'a mut [T],  // [delay + steps, rows], ȳ of every round
    pub mail: Mail<'a, T>,  // of the mailboxes
    pub along: &'a mut [T], // [rows], P ḡ
    pub tmp: &'a mut [T],   // [states]
    pub w: &'a mut [T],     // [states]
    pub rho: &'a mut [T],   // [1] or [agents]
    pub s: &'a mut [T],     // [agents], of the weights of the metric
    pub gamma: T,
    pub offsets: &'a mut [T],      // [edge_len] or []
    pub edge_weights: &'a mut [T], // [edges] or []
}

/// The slope of the rounds of an iteration.
pub(super) struct StaleSlope<'a, T> {
    pub op: &'a SheafOp<'a, T>,
    rho: &'a Penalty<'a, T>,
    pub weights: Weights<'a, T>,
    agreement: Agreement<T>,
    lag: OutOfStep,
    streams: Streams,
    steps: usize,
    first: usize, // round of the iteration's first step
    w: &'a [T],
    mail: Mail<'a, T>,
    history: &'a mut [T], // [delay + steps, rows], y of the rounds before and of this iteration
    rows: &'a mut [T],    // [1 or steps, rows], s
    codes: &'a mut [T],   // [1 or steps, 2, edges]: age of what was delivered, or one of the two codes below
    residuals: &'a mut [T], // [1 or steps, 2, edge_len], if edges have offsets or weights
    awake: &'a mut [T],   // [agents], 1 or 0
    pub grad: Option<SlopeGrad<'a, T>>,
}

/// Nothing was delivered: the mailbox is empty, or holds an older message.
const EMPTY: f64 = -1.0;
const OLDER: f64 = -2.0;

impl<'a, T: Real> StaleSlope<'a, T> {
    pub(super) fn new(
        of: &Asynchronous<T>,
        when: When,
        op: &'a SheafOp<'a, T>,
        rho: &'a Penalty<'a, T>,
        w: &'a [T],
        mail: Mail<'a, T>,
        history: &'a mut [T],
        rows: &'a mut [T],
        codes: &'a mut [T],
        residuals: &'a mut [T],
        awake: &'a mut [T],
    ) -> Self {
        let (streams, steps) = (Streams::new(of.lag, when.draw), of.steps());
        for (i, awake) in awake.iter_mut().enumerate() {
            *awake = if streams.awake(when.iteration, i) { T::ONE } else { T::ZERO };
        }
        let (weights, first) = (Weights::new(rho), when.iteration.saturating_mul(steps));
        let (agreement, lag, grad) = (of.descent.agreement, of.lag, None);
        Self {
            op,
            rho,
            weights,
            agreement,
            lag,
            streams,
            steps,
            first,
            w,
            mail,
            history,
            rows,
            codes,
            residuals,
            awake,
            grad,
        }
    }

    /// Whether an agent sleeps in this iteration.
    pub(super) fn sleeps(&self, agent: usize) -> bool {
        self.awake[agent] == T::ZERO
    }

    /// Whether the agent of a row was awake in a round.
    fn sent(&self, row: usize, round: usize) -> bool {
        if self.lag.activity >= 1.0 {
            return true;
        }
        // Agents without rows share their offset with the next one.
        let agent = self.op.sheaf().row_offsets().partition_point(|&start| start <= row) - 1;
        self.streams.awake(round / self.steps, agent)
    }

    /// Sets the slopes of agents that sleep to 0.
    fn silence(&self, g: &mut [T]) {
        for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
            if self.sleeps(i) {
                g[range[0]..range[1]].fill(T::ZERO);
            }
        }
    }

    /// Delivers what has arrived in round `t` of the iteration, and sums the residuals in s.
    fn read_mail(&mut self, t: usize, kept: usize) {
        let sheaf = self.op.sheaf();
        let (m, edges, edge_len) = (sheaf.row_len(), sheaf.edge_count(), sheaf.edge_len());
        let (now, round) = (self.lag.delay + t, self.first + t);
        let (offsets, weights) = (self.op.raw().offsets(), self.op.raw().weights());
        self.rows[kept * m..][..m].fill(T::ZERO);
        for (e, edge) in sheaf.edges().iter().enumerate() {
            let n = edge.dim as usize;
            let ends = [edge.row_u as usize, edge.row_v as usize];
            for side in 0..2 {
                let (own, other, link) = (ends[side], ends[1 - side], side * edges + e);
                let newest = self.streams.newest(round, 2 * e + side, |round| self.sent(other, round));
                let inbox = side * edge_len + edge.start as usize;
                let code = match newest {
                    Some(age) => {
                        let from = (now - age) * m + other;
                        self.mail.inbox[inbox..][..n].copy_from_slice(&self.history[from..][..n]);
                        self.mail.heard[link] = T::ONE;
                        age as f64
                    }
                    None if self.mail.heard[link] != T::ZERO => OLDER,
                    None => EMPTY,
                };
                self.codes[kept * 2 * edges + link] = T::from_f64(code);
                for k in 0..n {
                    let (here, there) = (self.history[now * m + own + k], self.mail.inbox[inbox + k]);
                    // Written as the edge is oriented, so that agents in step have the bits of a single difference.
                    let mut r = if side == 0 { here - there } else { there - here };
                    if let Some(b) = offsets {
                        r -= b[edge.start as usize + k];
                    }
                    if code == EMPTY {
                        r = T::ZERO;
                    }
                    if !self.residuals.is_empty() {
                        self.residuals[kept * 2 * edge_len + inbox + k] = r;
                    }
                    if let Some(weights) = weights {
                        r *= weights[e];
                    }
                    let s = &mut self.rows[kept * m + own + k];
                    if side == 0 { *s += r } else { *s -= r }
                }
            }
        }
    }

    /// Adjoint of [`read_mail`](Self::read_mail): from d_s to ȳ of the rounds in which messages were sent.
    fn return_mail(&self, t: usize, grad: &mut SlopeGrad<'_, T>) {
        let sheaf = self.op.sheaf();
        let (m, edges, edge_len) = (sheaf.row_len(), sheaf.edge_count(), sheaf.edge_len());
        let now = self.lag.delay + t;
        let weights = self.op.raw().weights();
        for (e, edge) in sheaf.edges().iter().enumerate() {
            let n = edge.dim as usize;
            let ends = [edge.row_u as usize, edge.row_v as usize];
            let weight = weights.map_or(T::ONE, |weights| weights[e]);
            for side in 0..2 {
                let (own, other, link) = (ends[side], ends[1 - side], side * edges + e);
                let code = self.codes[t * 2 * edges + link].to_f64();
                if code == EMPTY {
                    continue;
                }
                let (inbox, sign) =
                    (side * edge_len + edge.start as usize, if side == 0 { T::ONE } else { -T::ONE });
                for k in 0..n {
                    let d_sum = sign * grad.along[own + k]; // of ω r
                    let d_here = sign * weight * d_sum; // r is y_own − message, or its negative
                    grad.sent[now * m + own + k] += d_here;
                    grad.mail.inbox[inbox + k] -= d_here;
                    if let Some(d) = grad.offsets.get_mut(edge.start as usize + k) {
                        *d -= weight * d_sum;
                    }
                    if let Some(d) = grad.edge_weights.get_mut(e) {
                        *d += d_sum * self.residuals[t * 2 * edge_len + inbox + k];
                    }
                }
                if code != OLDER {
                    let to = (now - code as usize) * m + other;
                    let waiting = &mut grad.mail.inbox[inbox..][..n];
                    add(&mut grad.sent[to..][..n], waiting);
                    waiting.fill(T::ZERO);
                    grad.mail.heard[link] = T::ZERO;
                }
            }
        }
    }
}

impl<T: Real> Slope<T> for StaleSlope<'_, T> {
    fn dot(&self, a: &[T], b: &[T]) -> T {
        self.op.sheaf().dot(a, b)
    }

    fn slope(&mut self, t: usize, x: &[T], g: &mut [T]) {
        let m = self.op.sheaf().row_len();
        let kept = if self.rows.len() == m { 0 } else { t };
        let now = (self.lag.delay + t) * m;
        self.op.raw().project(x, &mut self.history[now..][..m]);
        self.read_mail(t, kept);
        self.op.raw().lift(&self.rows[kept * m..][..m], g);
        match self.agreement {
            Agreement::Hard => self.weights.scale(self.op.sheaf(), g),
            Agreement::Soft { gamma } => {
                for (i, range) in self.op.sheaf().state_offsets().windows(2).enumerate() {
                    let rho = self.rho.of(i);
                    for k in range[0]..range[1] {
                        g[k] = gamma * g[k] + rho * (x[k] - self.w[k]);
                    }
                }
            }
        }
        self.silence(g);
    }

    fn slope_vjp(&mut self, t: usize, x: &[T], d_g: &mut [T], d_x: &mut [T]) {
        let Some(mut grad) = self.grad.take() else { return };
        let sheaf = self.op.sheaf();
        let m = sheaf.row_len();
        self.silence(d_g);
        if self.agreement == Agreement::Hard {
            self.weights.scale(sheaf, d_g);
        }
        self.op.raw().project(d_g, grad.along);
        let s = &self.rows[t * m..][..m];
        let mut d_gamma = T::ZERO;
        for (i, range) in sheaf.row_offsets().windows(2).enumerate() {
            // Rows are padded.
            let used = sheaf.slot_rows(i).last().copied().unwrap_or(0);
            let rows = range[0]..range[0] + used;
            let along_s = dot(&grad.along[rows.clone()], &s[rows]);
            grad.s[i] += along_s / self.weights.of(i);
            d_gamma += along_s;
        }
        if let Agreement::Soft { gamma } = self.agreement {
            grad.gamma += d_gamma;
            grad.along.iter_mut().for_each(|d| *d *= gamma);
            for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
                let (rho, mut d_rho) = (self.rho.of(i), T::ZERO);
                for k in range[0]..range[1] {
                    d_x[k] += rho * d_g[k];
                    grad.w[k] -= rho * d_g[k];
                    d_rho += d_g[k] * (x[k] - self.w[k]);
                }
                grad.rho[self.rho.grad_index(i)] += d_rho;
            }
        }
        self.return_mail(t, &mut grad);
        // Every round that read a message of this one has been here: its ȳ is complete.
        self.op.raw().lift(&grad.sent[(self.lag.delay + t) * m..][..m], grad.tmp);
        axpy(d_x, T::ONE, grad.tmp);
        self.grad = Some(grad);
    }
}
