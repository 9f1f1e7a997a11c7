//! Gradients of restriction maps.
//!
//! Both products of a map have rank-one adjoints: y = F z gives dF += d_y zᵀ, g = Fᵀ s gives dF += s d_gᵀ. So one
//! primitive serves every solver: add outer products of row vectors with state vectors, agent by agent.

use super::maps::{LowRank, Maps, each_agent, table, valid_uniform};
use super::{SharedMapsGrad, Sheaf, TableParts, Uniform};
use crate::error::check_len;
use crate::{Error, ErrorKind, Real, Result};
use sheaf_kernels::gemm::{Mat, gemm};
use sheaf_kernels::low_rank::PairTape;

/// Gradients of [`LowRank`], all added to.
#[derive(Debug)]
pub struct LowRankGrad<'a, T> {
    /// Like `LowRank::base`.
    pub base: &'a mut [T],
    /// Like `LowRank::a`.
    pub a: &'a mut [T],
    /// Like `LowRank::b`.
    pub b: &'a mut [T],
    /// Like `LowRank::gate`.
    pub gate: Option<&'a mut [T]>,
}

impl<T: Real> LowRankGrad<'_, T> {
    /// Checks that this is the gradient of maps like these.
    pub(super) fn validate(&self, low: &LowRank<'_, T>) -> Result<()> {
        check_len("gradient of the base maps", low.base.len(), self.base.len())?;
        check_len("gradient of factors A", low.a.len(), self.a.len())?;
        check_len("gradient of factors B", low.b.len(), self.b.len())?;
        match (&self.gate, low.gate) {
            (Some(d), Some(gate)) => check_len("gradient of gates", gate.len(), d.len()),
            (Some(d), None) => check_len("gradient of gates", 0, d.len()),
            (None, _) => Ok(()),
        }
    }
}

/// Gradients of [`Maps`], the same kind and layout, all added to.
#[derive(Debug)]
pub enum MapsGrad<'a, T> {
    /// Gradient of the shared stack and its updates.
    Shared(SharedMapsGrad<'a, T>),
    /// Gradient of the stack, `[d_v, ld]`.
    Stack(&'a mut [T]),
    /// Gradient of the stacks, `[views, d_v, ld]`.
    Table(&'a mut [T]),
    /// Gradient of a table whose agents are several chunks, while a reverse sweep runs: see [`TableParts`].
    TableParts(TableParts<'a, T>),
    /// As [`Maps::PerAgent`].
    PerAgent(&'a mut [T]),
    /// As [`Maps::LowRank`].
    LowRank(LowRankGrad<'a, T>),
    /// Gradient of [`Maps::Packed`]: dense stacks `[distinct views of the sample, d_v, ld]`, sample after
    /// sample, for [`unpack_grad`](super::unpack_grad).
    Packed(&'a mut [T]),
    /// The maps are constants.
    None,
}

impl<T: Real> MapsGrad<'_, T> {
    /// Checks that this is the gradient of maps like these, length by length.
    pub fn validate(&self, sheaf: &Sheaf, maps: &Maps<'_, T>) -> Result<()> {
        match (self, maps) {
            (Self::None, _) => Ok(()),
            (Self::Shared(d), Maps::Shared(maps)) => d.validate(maps),
            (Self::Stack(d), Maps::Stack(stack)) => check_len("gradient of the stack", stack.len(), d.len()),
            (Self::Table(d), Maps::Table { stacks, .. }) => {
                check_len("gradient of the stacks", stacks.len(), d.len())
            }
            (Self::TableParts(d), Maps::Table { stacks, .. }) => {
                check_len("gradient of the stacks", stacks.len(), d.len())
            }
            (Self::PerAgent(d), Maps::PerAgent(stacks)) => {
                check_len("gradient of the stacks", stacks.len(), d.len())
            }
            (Self::LowRank(d), Maps::LowRank(low)) => d.validate(low),
            (Self::Packed(d), Maps::Packed(low)) => {
                let one = sheaf.as_uniform().map_or(0, |u| u.d_v * u.ld);
                let views: usize = low.agents.iter().map(|groups| groups.views().len()).sum();
                check_len("gradient of the stacks", views * one, d.len())
            }
            _ => Err(Error::new(ErrorKind::Unsupported, "gradient of maps", maps.name(), self.name())),
        }
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Shared(_) => "shared",
            Self::Stack(_) => "one stack",
            Self::Table(_) | Self::TableParts(_) => "table",
            Self::PerAgent(_) => "per agent",
            Self::LowRank(_) => "low-rank",
            Self::Packed(_) => "packed low-rank",
            Self::None => "none",
        }
    }

    /// dF_i += scale·Σ_t rows_t,i · state_t,iᵀ over `terms` terms, `rows` `[terms, row_len]` and `states`
    /// `[terms, state_len]` contiguous. The maps are those the gradient belongs to.
    pub fn add_outers(
        &mut self,
        sheaf: &Sheaf,
        maps: &Maps<'_, T>,
        scale: T,
        terms: usize,
        rows: &[T],
        states: &[T],
    ) -> Result<()> {
        maps.validate(sheaf, 1)?;
        self.validate(sheaf, maps)?;
        check_len("gradient of maps: rows", terms.saturating_mul(sheaf.row_len()), rows.len())?;
        check_len("gradient of maps: states", terms.saturating_mul(sheaf.state_len()), states.len())?;
        self.outers(sheaf, maps, scale, terms, rows, states);
        Ok(())
    }

    /// The same on vectors of lengths checked by the caller.
    pub(crate) fn outers(
        &mut self,
        sheaf: &Sheaf,
        maps: &Maps<'_, T>,
        scale: T,
        terms: usize,
        rows: &[T],
        states: &[T],
    ) {
        let (n_rows, n_states) = (sheaf.row_len(), sheaf.state_len());
        if terms == 0 || n_rows == 0 {
            return;
        }
        match (self, maps) {
            (Self::None, _) => {}
            (Self::Shared(grad), Maps::Shared(maps)) => {
                let ld = valid_uniform(sheaf).ld;
                for t in 0..terms {
                    let (rows, states) = (&rows[t * n_rows..][..n_rows], &states[t * n_states..][..n_states]);
                    grad.add_pair(maps, scale, rows, ld, states);
                }
            }
            (Self::Stack(d_stack), Maps::Stack(_)) => {
                let Uniform { d_v, ld, .. } = valid_uniform(sheaf);
                let n = terms * sheaf.agents();
                gemm(d_stack, Mat::new(states, n, d_v).t(), Mat::new(rows, n, ld), scale, T::ONE);
            }
            (Self::Table(d_stacks), Maps::Table { index, order, .. }) => {
                T::outers_table(table(sheaf, index, order), d_stacks, scale, terms, rows, states);
            }
            (Self::TableParts(parts), Maps::Table { order, .. }) => {
                parts.outers(sheaf, order, scale, terms, rows, states);
            }
            (Self::PerAgent(d_stacks), Maps::PerAgent(_)) => {
                each_agent(sheaf, 0..sheaf.agents(), |one, place, own_states, own_rows| {
                    let terms = if own_rows.is_empty() { 0 } else { terms };
                    for t in 0..terms {
                        T::outers_table(
                            one,
                            &mut d_stacks[place.clone()],
                            scale,
                            1,
                            &rows[t * n_rows..][own_rows.clone()],
                            &states[t * n_states..][own_states.clone()],
                        );
                    }
                })
            }
            (Self::LowRank(grad), Maps::LowRank(low)) => {
                for t in 0..terms {
                    low.add_outer(sheaf, scale, &rows[t * n_rows..], &states[t * n_states..], grad);
                }
            }
            (Self::Packed(d_stacks), Maps::Packed(low)) => {
                low.add_outers(sheaf, d_stacks, scale, terms, rows, states);
            }
            _ => debug_assert!(false, "the gradient has the kind of its maps"),
        }
    }
}

impl<T: Real> MapsGrad<'_, T> {
    /// Whether maps like these support whole pairs of states, so that no exchanged residuals need to be kept for their
    /// gradient.
    pub(crate) fn takes_pairs(sheaf: &Sheaf, maps: &Maps<'_, T>) -> bool {
        matches!(maps, Maps::Packed(low) if low.takes_pairs(sheaf))
    }

    /// dF_i += scale·Σ e_i(p) q̄_iᵀ + e_i(q̄) p_iᵀ over all pairs of a tape, e the exchanged residuals; for maps that
    /// [`takes_pairs`](Self::takes_pairs).
    pub(crate) fn add_pairs(&mut self, sheaf: &Sheaf, maps: &Maps<'_, T>, scale: T, tape: PairTape<'_, T>) {
        if let (Self::Packed(d_stacks), Maps::Packed(low)) = (self, maps) {
            low.add_pairs(sheaf, d_stacks, scale, tape);
        }
    }
}

impl<T: Real> LowRank<'_, T> {
    fn add_outer(&self, sheaf: &Sheaf, scale: T, rows: &[T], states: &[T], grad: &mut LowRankGrad<'_, T>) {
        let u = valid_uniform(sheaf);
        let one = u.d_e * u.d_v;
        for (i, &view) in self.index.iter().enumerate() {
            let z = &states[i * u.d_v..][..u.d_v];
            for slot in 0..u.slots {
                let (_, a, b, factor) = self.slot(u, view as usize, slot);
                let k = view as usize * u.slots + slot;
                let y = &rows[i * u.ld + slot * u.d_e..][..u.d_e];
                let base_start = if self.base.len() == one { 0 } else { slot * one };
                for (r, &y) in y.iter().enumerate() {
                    let d_row = &mut grad.base[base_start + r * u.d_v..][..u.d_v];
                    for (d, &z) in d_row.iter_mut().zip(z) {
                        *d += scale * y * z;
                    }
                }
                let d_a = &mut grad.a[k * u.d_e * self.rank..][..u.d_e * self.rank];
                let d_b = &mut grad.b[k * u.d_v * self.rank..][..u.d_v * self.rank];
                let mut d_factor = T::ZERO;
                for t in 0..self.rank {
                    let bz: T = z.iter().zip(b.chunks_exact(self.rank)).map(|(&z, b)| z * b[t]).sum();
                    let ay: T = y.iter().zip(a.chunks_exact(self.rank)).map(|(&y, a)| y * a[t]).sum();
                    for (d, &y) in d_a.chunks_exact_mut(self.rank).zip(y) {
                        d[t] += scale * factor * y * bz;
                    }
                    for (d, &z) in d_b.chunks_exact_mut(self.rank).zip(z) {
                        d[t] += scale * factor * z * ay;
                    }
                    d_factor += bz * ay;
                }
                if let Some(gate) = grad.gate.as_deref_mut().and_then(|gates| gates.get_mut(k)) {
                    *gate += scale * self.scale * d_factor;
                }
            }
        }
    }
}
