//! The gradient of a table of maps over several chunks and ranks.
//!
//! Agents of all chunks use the same stacks, so that the gradient of stack v is a sum over agents:
//!
//! ```text
//! d_stack[v] = Σ_c Σ_(i in chunk c, index[i] = v) dF_i
//! ```
//!
//! Every chunk has a sum of its own for each stack that one of its agents uses, through all iterations. At the end they are
//! added in the order of the chunks; a rank adds those of its chunks to the sum of the ranks before it, so that no rank holds
//! the sums of all chunks. Alternative that was rejected: one gradient for the chunks of each rank. It needs less memory, but
//! adds in an order that depends on the number of ranks.
//!
//! | what | shape |
//! | --- | --- |
//! | `total` | `[views, d_v, ld]` |
//! | `sums` | `[parts, d_v, ld]`; a part is a chunk and a view that it uses, so that there are at most as many as agents |
//! | `views` | `[parts]`, the view of a part |
//! | `index` | `[samples, agents]`, the part of an agent |

use std::borrow::Cow;

use super::maps::{table, valid_uniform};
use super::{Maps, MapsGrad, Sheaf};
use crate::Real;
use crate::chunks;

/// The gradient of a table of maps while [`Problem::reverse`](crate::admm::Problem::reverse) runs over several chunks.
#[derive(Debug)]
pub struct TableParts<'a, T> {
    total: &'a mut [T],
    sums: Sums<'a, T>,
    views: Cow<'a, [u32]>,
    index: Cow<'a, [u32]>,
}

/// Sums that a batch owns and its samples borrow.
#[derive(Debug)]
enum Sums<'a, T> {
    Own(Vec<T>),
    Of(&'a mut [T]),
}

impl<T> Sums<'_, T> {
    fn all(&mut self) -> &mut [T] {
        match self {
            Self::Own(sums) => sums,
            Self::Of(sums) => sums,
        }
    }
}

impl<'a, T: Real> TableParts<'a, T> {
    /// Sums of 0 for the views that agents of each chunk use; `one` is the length of a stack.
    fn new(sheaf: &Sheaf, index: &[u32], one: usize, total: &'a mut [T]) -> Self {
        let agents = sheaf.agents();
        let mut part_of = vec![u32::MAX; total.len().checked_div(one).unwrap_or(0)];
        let (mut views, mut parts) = (Vec::new(), vec![0; index.len()]);
        for chunk in 0..chunks::count(agents) {
            let (own, first) = (chunks::agents(chunk, agents), views.len() as u32);
            let samples = (0..index.len()).step_by(agents.max(1));
            for i in samples.flat_map(|start| start + own.start..start + own.end) {
                let part = &mut part_of[index[i] as usize];
                if *part == u32::MAX || *part < first {
                    *part = views.len() as u32;
                    views.push(index[i]);
                }
                parts[i] = *part;
            }
        }
        let sums = Sums::Own(vec![T::ZERO; views.len() * one]);
        Self { total, sums, views: views.into(), index: parts.into() }
    }

    /// Length of the gradient of the stacks.
    pub(super) fn len(&self) -> usize {
        self.total.len()
    }

    /// The part of sample `b`.
    pub(super) fn sample(&mut self, agents: usize, b: usize) -> TableParts<'_, T> {
        TableParts {
            total: self.total,
            sums: Sums::Of(self.sums.all()),
            views: Cow::Borrowed(&self.views),
            index: Cow::Borrowed(&self.index[b * agents..][..agents]),
        }
    }

    /// As [`MapsGrad::outers`], into the sums of the agents' parts.
    pub(super) fn outers(
        &mut self,
        sheaf: &Sheaf,
        order: &[u32],
        scale: T,
        terms: usize,
        rows: &[T],
        states: &[T],
    ) {
        let (u, agents) = (valid_uniform(sheaf), self.index.len());
        let (n_rows, n_states) = (sheaf.row_len(), sheaf.state_len());
        if n_rows == agents * u.ld {
            return T::outers_table(
                table(sheaf, &self.index, order),
                self.sums.all(),
                scale,
                terms,
                rows,
                states,
            );
        }
        // Rows of other ranks stand between those of two terms; the kernel takes terms without gaps.
        let (mut own_rows, mut own_states, mut own_order) = (Vec::new(), Vec::new(), Vec::new());
        for chunk in 0..chunks::count(agents) {
            let own = chunks::agents(chunk, agents);
            own_rows.clear();
            own_states.clear();
            own_order.clear();
            for t in 0..terms {
                own_rows.extend_from_slice(&rows[t * n_rows..][own.start * u.ld..own.end * u.ld]);
                own_states.extend_from_slice(&states[t * n_states..][own.start * u.d_v..own.end * u.d_v]);
            }
            if !order.is_empty() {
                own_order.extend(order[own.clone()].iter().map(|agent| agent - own.start as u32));
            }
            let chunk = table(sheaf, &self.index[own], &own_order);
            T::outers_table(chunk, self.sums.all(), scale, terms, &own_rows, &own_states);
        }
    }

    /// Adds the sums of all chunks to the gradient, in their order.
    fn add_up(mut self, sheaf: &Sheaf) -> &'a mut [T] {
        let mut sum = vec![T::ZERO; self.total.len()];
        let one = self.sums.all().len().checked_div(self.views.len()).unwrap_or(0);
        let (sums, views) = (self.sums.all(), &self.views);
        let mut add = |sum: &mut [T]| {
            for (own, &view) in sums.chunks_exact(one.max(1)).zip(views.iter()) {
                let to = &mut sum[view as usize * one..][..one];
                to.iter_mut().zip(own).for_each(|(to, &d)| *to += d);
            }
        };
        match sheaf.share() {
            None => add(&mut sum),
            Some(share) => share.in_turn(&mut sum, &mut add),
        }
        self.total.iter_mut().zip(&sum).for_each(|(to, &d)| *to += d);
        self.total
    }
}

impl<T: Real> MapsGrad<'_, T> {
    /// Gives every chunk sums of its own, if the agents of several chunks use the stacks of one table.
    pub(crate) fn split(&mut self, sheaf: &Sheaf, maps: &Maps<'_, T>) {
        let (Maps::Table { index, .. }, Some(u), false) = (maps, sheaf.as_uniform(), sheaf.is_one_chunk())
        else {
            return;
        };
        *self = match std::mem::replace(self, MapsGrad::None) {
            Self::Table(total) => Self::TableParts(TableParts::new(sheaf, index, u.d_v * u.ld, total)),
            other => other,
        };
    }

    /// Ends what [`split`](Self::split) began; `add` is false after a failure, whose sums are of no use.
    pub(crate) fn join(&mut self, sheaf: &Sheaf, add: bool) {
        *self = match std::mem::replace(self, MapsGrad::None) {
            Self::TableParts(parts) => Self::Table(if add { parts.add_up(sheaf) } else { parts.total }),
            other => other,
        };
    }
}
