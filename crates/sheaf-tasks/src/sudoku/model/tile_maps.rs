//! The maps of a tile: the shared stack, and what every view adds to it.

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;

use super::low_rank::{LowRankGrad, LowRankTile};
use super::maps::{Stack, StackGrad};

/// The restriction maps of the agents of a tile.
#[derive(Clone, Copy, Debug)]
pub struct TileMaps<'a, T: Copy + Default> {
    /// Shared by all.
    pub stack: &'a Stack<T>,
    /// Each agent's own update.
    pub low: Option<&'a LowRankTile<T>>,
}

/// Where their gradients are added.
#[derive(Debug)]
pub struct TileMapsGrad<'g, T: Copy + Default> {
    /// Of the shared stack.
    pub stack: &'g mut StackGrad<T>,
    /// Of the updates.
    pub low: Option<&'g mut LowRankGrad<T>>,
}

impl<T: Real> TileMaps<'_, T> {
    /// y_i = F_i x_i, overwriting. `room` is scratch, here and below.
    pub fn project(&self, x: &[T], y: &mut [T], room: &mut AlignedVec<T>) {
        self.stack.project(x, y);
        if let Some(low) = self.low {
            low.project(x, y, room);
        }
    }

    /// g_i = F_iᵀ q_i, overwriting or adding.
    pub fn lift(&self, q: &[T], g: &mut [T], add: bool, room: &mut AlignedVec<T>) {
        self.stack.lift(q, g, add);
        if let Some(low) = self.low {
            low.lift(q, g, room);
        }
    }

    /// s_i = F_i F_iᵀ r_i, overwriting or adding.
    pub fn gram(&self, r: &[T], s: &mut [T], add: bool, room: &mut AlignedVec<T>) {
        self.stack.gram(r, s, add);
        if let Some(low) = self.low {
            low.gram(r, s, room);
        }
    }
}

impl<T: Real> TileMapsGrad<'_, T> {
    /// Of y_i = F_i x_i.
    pub fn add_project(&mut self, maps: &TileMaps<'_, T>, x: &[T], d_y: &[T]) {
        self.stack.add_pair(maps.stack, d_y, x);
        if let (Some(low), Some(grad)) = (maps.low, self.low.as_deref_mut()) {
            low.pair_vjp(d_y, x, grad);
        }
    }

    /// Of g_i = F_iᵀ q_i.
    pub fn add_lift(&mut self, maps: &TileMaps<'_, T>, q: &[T], d_g: &[T]) {
        self.stack.add_pair(maps.stack, q, d_g);
        if let (Some(low), Some(grad)) = (maps.low, self.low.as_deref_mut()) {
            low.pair_vjp(q, d_g, grad);
        }
    }

    /// Of s_i = F_i F_iᵀ r_i, any number of times: `d_s` and `r` are `[times, agents, m]`.
    pub fn add_gram(&mut self, maps: &TileMaps<'_, T>, d_s: &[T], r: &[T]) {
        self.stack.add_gram(maps.stack, d_s, r);
        if let (Some(low), Some(grad)) = (maps.low, self.low.as_deref_mut()) {
            low.gram_vjp(d_s, r, grad);
        }
    }
}
