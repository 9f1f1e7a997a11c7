//! Maps that all agents share: a prepared stack and, optionally, an update for each agent.

use super::stack::{SharedStack, SharedStackGrad};
use super::updates::{AgentUpdates, AgentUpdatesGrad};
use super::{Sheaf, Uniform};
use crate::error::check_len;
use crate::{Error, ErrorKind, Real, Result};

/// Shared maps of a batch, F_i = G or F_i = G + A_i B_iᵀ.
#[derive(Clone, Copy, Debug)]
pub struct SharedMaps<'a, T> {
    stack: &'a SharedStack<T>,
    updates: Option<&'a AgentUpdates<T>>,
    /// Offset of the agents within the updates.
    first: usize,
}

/// The gradients of [`SharedMaps`], added to.
#[derive(Debug)]
pub struct SharedMapsGrad<'a, T> {
    /// Gradient of the stack and its Gram matrix.
    pub stack: &'a mut SharedStackGrad<T>,
    /// Gradient of the updates; needed if the maps have them.
    pub updates: Option<&'a mut AgentUpdatesGrad<T>>,
}

impl<'a, T: Real> SharedMaps<'a, T> {
    /// The same maps for all agents.
    pub fn new(stack: &'a SharedStack<T>) -> Self {
        Self { stack, updates: None, first: 0 }
    }

    /// Each agent of each sample with an update of its own.
    pub fn with_updates(stack: &'a SharedStack<T>, updates: &'a AgentUpdates<T>) -> Self {
        Self { stack, updates: Some(updates), first: 0 }
    }

    /// The stack.
    pub fn stack(&self) -> &'a SharedStack<T> {
        self.stack
    }

    /// The updates, if any.
    pub fn updates(&self) -> Option<&'a AgentUpdates<T>> {
        self.updates
    }

    /// The maps of one sample of `agents` agents.
    pub(super) fn sample(&self, b: usize, agents: usize) -> Self {
        Self { first: self.first + b * agents, ..*self }
    }

    pub(super) fn validate(&self, u: Uniform, agents: usize) -> Result<()> {
        check_len("rows of the shared stack", u.slots * u.d_e, self.stack.m())?;
        check_len("columns of the shared stack", u.d_v, self.stack.d_v())?;
        let Some(updates) = self.updates else { return Ok(()) };
        let dims = updates.dims();
        check_len("slots of the updates", u.slots, dims.slots)?;
        check_len("edge stalk of the updates", u.d_e, dims.d_e)?;
        check_len("vertex stalk of the updates", u.d_v, dims.d_v)?;
        if self.first + agents > updates.agents() {
            let expected = format!("{} agents", self.first + agents);
            return Err(Error::new(ErrorKind::Shape, "updates of the agents", expected, updates.agents()));
        }
        Ok(())
    }

    pub(super) fn check_finite(&self) -> Result<()> {
        crate::error::check_finite("shared maps", self.stack.maps())?;
        self.updates.map_or(Ok(()), AgentUpdates::check_finite)
    }

    /// y_i = F_i x_i, overwriting; rows `stride` apart.
    pub(crate) fn project(&self, x: &[T], y: &mut [T], stride: usize) {
        self.stack.project(x, y, stride);
        if let Some(updates) = self.updates {
            updates.project(self.first, x, y, stride);
        }
    }

    /// g_i = F_iᵀ q_i, overwriting or adding.
    pub(crate) fn lift(&self, q: &[T], stride: usize, g: &mut [T], add: bool) {
        self.stack.lift(q, stride, g, add);
        if let Some(updates) = self.updates {
            updates.lift(self.first, q, stride, g);
        }
    }

    /// s_i = F_i F_iᵀ r_i for all agents of a batch, overwriting or adding.
    pub(crate) fn gram(&self, r: &[T], s: &mut [T], add: bool) {
        self.stack.gram(r, s, add);
        if let Some(updates) = self.updates {
            updates.gram(r, s);
        }
    }
}

impl<T: Real> SharedMapsGrad<'_, T> {
    pub(super) fn validate(&self, maps: &SharedMaps<'_, T>) -> Result<()> {
        self.stack.validate(maps.stack)?;
        match (maps.updates, &self.updates) {
            (None, _) => Ok(()),
            (Some(updates), Some(grad)) => grad.validate(updates),
            (Some(_), None) => Err(Error::new(
                ErrorKind::Unsupported,
                "gradient of shared maps",
                "a place for the gradient of the updates",
                "none",
            )
            .hint("give an AgentUpdatesGrad, or MapsGrad::None")),
        }
    }

    /// dF_i += scale·rows_i states_iᵀ: a projection (d_y, x) or a lift (q, d_g).
    pub(crate) fn add_pair(
        &mut self,
        maps: &SharedMaps<'_, T>,
        scale: T,
        rows: &[T],
        stride: usize,
        states: &[T],
    ) {
        self.stack.add_pair(maps.stack, scale, rows, stride, states);
        if let (Some(updates), Some(grad)) = (maps.updates, self.updates.as_deref_mut()) {
            updates.pair_vjp(maps.first, scale, rows, stride, states, grad);
        }
    }

    /// Gradient of s_i = F_i F_iᵀ r_i, any number of times: `d_s` and `r` are `[times, agents, m]`.
    pub(crate) fn add_gram(&mut self, maps: &SharedMaps<'_, T>, d_s: &[T], r: &[T]) {
        self.stack.add_gram(maps.stack, d_s, r);
        if let (Some(updates), Some(grad)) = (maps.updates, self.updates.as_deref_mut()) {
            updates.gram_vjp(d_s, r, grad);
        }
    }

    /// The same gradients, reborrowed.
    pub(super) fn reborrow(&mut self) -> SharedMapsGrad<'_, T> {
        SharedMapsGrad { stack: self.stack, updates: self.updates.as_deref_mut() }
    }
}

/// Writes 0 between the rows of a padded row vector.
pub(super) fn clear_padding<T: Real>(sheaf: &Sheaf, u: Uniform, y: &mut [T]) {
    let used = u.slots * u.d_e;
    if used < u.ld {
        y[..sheaf.row_len()].chunks_exact_mut(u.ld).for_each(|row| row[used..].fill(T::ZERO));
    }
}
