//! A grid with a table of maps, as a maze has.

use sheaf_kernels::Real;
use sheaf_kernels::aligned::AlignedVec;

use crate::support::{integers, numbers};

pub const SIDES: (usize, usize) = (95, 131);
pub const VIEWS: usize = 13;
pub const D_V: usize = 10;
pub const D_E: usize = 5;

/// Its numbers; every part of a sheaf takes those of its agents.
pub struct Grid<T: Real> {
    pub stacks: AlignedVec<T>, // [views, d_v, ld]
    pub index: Vec<u32>,       // [agents]
    pub diag: Vec<T>,          // [agents, d_v]
    pub q: Vec<T>,             // [agents, d_v]
    pub rho: Vec<T>,           // [agents]
}

impl<T: Real> Grid<T> {
    pub fn new() -> Self {
        let agents = SIDES.0 * SIDES.1;
        let of = |seed, count, scale: f64, shift: f64| -> Vec<T> {
            numbers(seed, count).into_iter().map(|v| T::from_f64(scale * v + shift)).collect()
        };
        let mut stacks = AlignedVec::zeros(VIEWS * D_V * 48);
        stacks.copy_from_slice(&of(1, VIEWS * D_V * 48, 0.4, 0.0));
        Self {
            stacks,
            index: integers(2, agents, VIEWS).into_iter().map(|v| v as u32).collect(),
            diag: of(3, agents * D_V, 0.4, 0.6),
            q: of(4, agents * D_V, 1.0, 0.0),
            rho: of(5, agents, 0.1, 0.3),
        }
    }
}
