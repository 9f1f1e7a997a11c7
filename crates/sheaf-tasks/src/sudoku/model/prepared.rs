//! What depends on the parameters alone: computed once per optimiser step, read by every tile.

use sheaf_admm::Real;
use sheaf_kernels::aligned::AlignedVec;

use super::cayley::Cayley;
use super::consensus::Consensus;
use super::decoder::Folded;
use super::maps::{Stack, StackGrad};
use super::{MapKind, SudokuModel};
use crate::sudoku::views::cell_of_view;

/// The shared maps, the penalty and the places of the cells.
#[derive(Clone, Debug, Default)]
pub struct Prepared<T: Copy + Default> {
    pub(super) stack: Stack<T>,
    pub(super) rho: T,
    pub(super) decoder: Folded<T>,
    cayley: Cayley<T>,
    orthogonal: AlignedVec<T>, // [m, d_v]
    cell_of: Vec<u32>,         // [27, 9]
}

impl SudokuModel {
    /// Prepares for these parameters.
    pub fn prepare<T: Real>(&self, params: &[T], p: &mut Prepared<T>) {
        let d_v = self.config.d_v;
        p.rho = self.rho(params).0;
        if p.cell_of.is_empty() {
            p.cell_of = cell_of_view();
        }
        p.decoder.ensure(self.decoder.folded_len());
        self.decoder.fold(params, &mut p.decoder);
        let maps = &params[self.maps.clone()];
        if self.checked.maps == MapKind::Orthonormal {
            p.orthogonal.ensure(d_v * d_v);
            p.cayley.forward(d_v, maps, &mut p.orthogonal);
            p.stack.prepare(&p.orthogonal[..d_v * d_v], d_v);
        } else {
            p.stack.prepare(maps, d_v);
        }
    }

    /// Adjoint of [`prepare`](Self::prepare) as far as maps and decoder go: adds to `d_params`.
    pub(super) fn prepare_vjp<T: Real>(
        &self,
        params: &[T],
        p: &mut Prepared<T>,
        d: &StackGrad<T>,
        d_decoder: &[T],
        d_params: &mut [T],
    ) {
        let d_v = self.config.d_v;
        self.decoder.fold_vjp(params, d_decoder, d_params);
        let d_maps = &mut d_params[self.maps.clone()];
        if self.checked.maps == MapKind::Orthonormal {
            p.cayley.vjp(d_v, &d.g, d_maps);
        } else {
            sheaf_kernels::vector::add(d_maps, &d.g);
            p.stack.gram_vjp(&d.c, d_maps);
        }
    }

    /// The consensus step.
    pub(super) fn consensus<'a, T: Real>(&self, p: &'a Prepared<T>) -> Consensus<'a, T> {
        Consensus {
            cell_of: &p.cell_of,
            d_e: self.config.d_e,
            gamma: T::from_f64(self.config.gamma),
            rho: p.rho,
            steps: if self.checked.maps == MapKind::Orthonormal { 0 } else { self.config.cg_steps },
        }
    }
}
