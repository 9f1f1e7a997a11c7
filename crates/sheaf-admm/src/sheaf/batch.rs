//! The part of one sample in the maps of a batch, and in their gradients.
//!
//! | kind | of a batch | of a sample |
//! | --- | --- | --- |
//! | shared, stack | one for all | the same |
//! | table, low-rank | `index` and `order` are `[samples, agents]` | its part of them |
//! | packed | one [`ViewGroups`](super::ViewGroups) per sample, gradients one after the other | its own |
//! | per agent | stacks `[samples, stack_len]` | its part |

use super::{LowRank, LowRankGrad, Maps, MapsGrad, PackedLowRank, Sheaf};
use crate::Real;

impl<'a, T: Real> Maps<'a, T> {
    /// The maps of sample `b`.
    pub(super) fn sample(&self, sheaf: &Sheaf, b: usize) -> Self {
        let n = sheaf.agents();
        match *self {
            Self::Stack(stack) => Self::Stack(stack),
            Self::Shared(maps) => Self::Shared(maps.sample(b, n)),
            Self::Table { stacks, index, order, tiles } => {
                let order = if order.is_empty() { order } else { &order[b * n..][..n] };
                Self::Table { stacks, index: &index[b * n..][..n], order, tiles }
            }
            Self::PerAgent(stacks) => Self::PerAgent(&stacks[b * sheaf.stack_len()..][..sheaf.stack_len()]),
            Self::LowRank(low) => Self::LowRank(LowRank { index: &low.index[b * n..][..n], ..low }),
            Self::Packed(low) => {
                Self::Packed(PackedLowRank { agents: std::slice::from_ref(&low.agents[b]), ..low })
            }
        }
    }
}

impl<T: Real> MapsGrad<'_, T> {
    /// The gradient of the maps of sample `b`; `maps` are those of the batch.
    pub(crate) fn sample(&mut self, sheaf: &Sheaf, maps: &Maps<'_, T>, b: usize) -> MapsGrad<'_, T> {
        match self {
            Self::None => MapsGrad::None,
            Self::Stack(d) => MapsGrad::Stack(d),
            Self::Shared(d) => MapsGrad::Shared(d.reborrow()),
            Self::Table(d) => MapsGrad::Table(d),
            Self::TableParts(parts) => MapsGrad::TableParts(parts.sample(sheaf.agents(), b)),
            Self::PerAgent(d) => MapsGrad::PerAgent(&mut d[b * sheaf.stack_len()..][..sheaf.stack_len()]),
            Self::LowRank(d) => {
                MapsGrad::LowRank(LowRankGrad { base: d.base, a: d.a, b: d.b, gate: d.gate.as_deref_mut() })
            }
            Self::Packed(d) => {
                let one = sheaf.as_uniform().map_or(0, |u| u.d_v * u.ld);
                let Maps::Packed(low) = maps else { return MapsGrad::None };
                let first: usize = low.agents[..b].iter().map(|groups| groups.views().len()).sum();
                MapsGrad::Packed(&mut d[first * one..][..low.agents[b].views().len() * one])
            }
        }
    }
}
