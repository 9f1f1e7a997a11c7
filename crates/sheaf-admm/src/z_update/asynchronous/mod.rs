//! Local descent by agents that are not in step: messages arrive late or never, agents sleep.
//!
//! One *round* is one descent step; iteration k of ADMM with T steps has the rounds τ = kT, …, kT + T − 1. In round τ every
//! awake agent sends y_i^τ = P_i x_i^τ along its edges. The message of an edge's end is lost with probability `loss`, else it
//! arrives d rounds later, d uniform in 0..=`delay`. The receiver keeps the newest message that has arrived in a mailbox:
//!
//! ```text
//! σ = max { σ' ≤ τ : sent in round σ', not lost, σ' + d ≤ τ }        the round of the message that is read
//! s_u += ω (y_u^τ − y_v^σ − b)     s_v −= ω (y_u^σ' − y_v^τ − b)     an edge over which nothing has arrived pulls nothing
//! g = γ Pᵀ s + ρ (x^τ − w)  (soft)        g = S Pᵀ s  (hard)          0 for an agent that sleeps
//! ```
//!
//! and the step is that of [`Descent`]. So a message read in the first rounds of an iteration may be one of the last rounds of
//! the iteration before, from another target w. Descent starts at w, as published, or where the agent was (z_prev): then the
//! states, hence all messages, stand still at a solution, and delays do not move it. An agent is awake in the whole of an
//! iteration with probability `activity`; one that sleeps keeps x, z and u, sends nothing, and its mailbox fills.
//!
//! No delay, no loss and full activity give the bits of [`Descent`].
//!
//! What remains after an iteration is the carry: mailboxes and the messages of the last `delay` rounds, of which some are on
//! their way. The adjoint goes back through the messages as they were sent: the gradient of a message that was read waits in
//! its mailbox until the round in which it was delivered, and is added there to ȳ of the round in which it was sent.
//!
//! | carry | shape | holds |
//! | --- | --- | --- |
//! | heard | `[2, edges]` | 1 if anything has arrived: at u, at v |
//! | inbox | `[2, edge_len]` | the newest message: at u, at v |
//! | sent | `[delay, rows]` | y of the last rounds, oldest first |

mod lag;
mod slope;
mod streams;
#[cfg(test)]
mod tests;
mod vjp;

pub use lag::{MAX_DELAY, OutOfStep};
pub use streams::{Draw, When};

pub(crate) use streams::Streams;

use super::descent::rule::Rule;
use super::{Agreement, Descent, InnerReport, Stop};
use crate::linalg::scratch::Scratch;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::{Error, ErrorKind, Real, Result};
use slope::{Mail, StaleSlope};

/// Descent by agents that are not in step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Asynchronous<T> {
    /// The steps, a fixed number.
    pub descent: Descent<T>,
    /// Start where each agent was instead of at its target. For soft agreement.
    pub warm: bool,
    /// How far out of step.
    pub lag: OutOfStep,
}

impl<T: Real> Asynchronous<T> {
    /// Checks the options.
    pub fn validate(&self, op: &SheafOp<'_, T>) -> Result<()> {
        self.descent.validate(op)?;
        self.lag.validate()?;
        let refuse = |expected: &str, got: &str, hint: &str| {
            Err(Error::new(ErrorKind::Unsupported, "asynchronous consensus", expected, got).hint(hint))
        };
        if let Stop::Tolerance { .. } = self.descent.stop {
            let hint = "the norm of a slope is a sum over all agents, which agents out of step do not have";
            return refuse("a fixed number of steps", "a tolerance", hint);
        }
        if self.warm && self.descent.agreement == Agreement::Hard {
            let hint = "hard descent knows w only by its start; use soft agreement, or start at the target";
            return refuse("descent that starts at the target when agreement is hard", "a warm start", hint);
        }
        Ok(())
    }

    /// Steps T of an iteration.
    fn steps(&self) -> usize {
        self.descent.stop.max_steps()
    }

    fn rule(&self) -> Rule<T> {
        self.descent.steps().rule
    }

    /// Length of the carry of a sample.
    pub(super) fn carry_len(&self, op: &SheafOp<'_, T>) -> usize {
        let sheaf = op.sheaf();
        let mail = 2 * (sheaf.edge_count() + sheaf.edge_len());
        mail.saturating_add(self.lag.delay.saturating_mul(sheaf.row_len()))
    }

    /// Rounds whose messages are at hand in an iteration: those before it, then its own.
    fn rounds(&self) -> usize {
        self.lag.delay.saturating_add(self.steps())
    }

    /// Length of the residuals of a round that gradients of edges need.
    fn residual_len(op: &SheafOp<'_, T>) -> usize {
        if op.raw().is_plain() { 0 } else { 2 * op.sheaf().edge_len() }
    }

    /// Length of the scratch of [`forward`](Self::forward).
    pub(super) fn forward_scratch_len(&self, op: &SheafOp<'_, T>) -> usize {
        let sheaf = op.sheaf();
        let (n, m, e) = (sheaf.state_len(), sheaf.row_len(), sheaf.edge_count());
        let fixed = m + 2 * n + 2 * e + sheaf.agents() + Self::residual_len(op);
        self.rounds().saturating_mul(m).saturating_add(fixed)
    }

    /// Runs the rounds of an iteration. Saves: nothing; the adjoint replays, and draws the same numbers again.
    pub(super) fn forward(
        &self,
        when: When,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        w: &[T],      // [states]
        z_prev: &[T], // [states]
        carry: &mut [T],
        z: &mut [T], // [states]
        scratch: &mut [T],
    ) -> InnerReport {
        let sheaf = op.sheaf();
        let (n, m, delay) = (sheaf.state_len(), sheaf.row_len(), self.lag.delay);
        let mut scratch = Scratch::new(scratch);
        let (mail, sent) = Mail::of(sheaf, carry);
        let history = scratch.take(self.rounds() * m);
        history[..delay * m].copy_from_slice(sent);
        let rows = scratch.take(m);
        let codes = scratch.take(2 * sheaf.edge_count());
        let residuals = scratch.take(Self::residual_len(op));
        let awake = scratch.take(sheaf.agents());
        let mut slope = StaleSlope::new(self, when, op, rho, w, mail, history, rows, codes, residuals, awake);
        self.start(&slope, w, z_prev, z);
        let report = self.rule().run(&mut slope, None, z, scratch.take(n), scratch.take(n), None);
        sent.copy_from_slice(&history[self.steps() * m..]);
        report
    }

    /// Where the states start: at w, or at z_prev for agents that start there or sleep.
    fn start(&self, slope: &StaleSlope<'_, T>, w: &[T], z_prev: &[T], x: &mut [T]) {
        for (i, range) in slope.op.sheaf().state_offsets().windows(2).enumerate() {
            let own = range[0]..range[1];
            let from = if self.warm || slope.sleeps(i) { z_prev } else { w };
            x[own.clone()].copy_from_slice(&from[own]);
        }
    }
}
