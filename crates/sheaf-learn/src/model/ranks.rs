//! A batch over several ranks: each computes the gradients of some of its chunks, and the blocks are added in the order of
//! the chunks, as one process adds them.
//!
//! The running sum goes from rank to rank in segments: a rank adds its own chunks to a segment and passes it on while the one
//! before adds the next segment. Rank 0, which needs the result, has the last chunks.

use std::ops::Range;
use std::sync::Arc;

use sheaf_admm::Real;
use sheaf_admm::share::Comm;
use sheaf_kernels::vector::add;

use super::batch::Chunk;

/// Numbers of a segment.
const SEGMENT: usize = 1 << 14;

/// The ranks that share batches; one if there is no connection.
#[derive(Clone, Debug, Default)]
pub struct Ranks(
    /// The connection with the others.
    pub Option<Arc<dyn Comm>>,
);

impl Ranks {
    /// The place of this rank in the order of the chunks, and the number of ranks.
    fn place(&self) -> (usize, usize) {
        self.0.as_ref().map_or((0, 1), |comm| ((comm.rank() + comm.ranks() - 1) % comm.ranks(), comm.ranks()))
    }

    /// The chunks of this rank, of so many.
    pub fn own(&self, chunks: usize) -> Range<usize> {
        let (place, ranks) = self.place();
        place * chunks / ranks..(place + 1) * chunks / ranks
    }

    /// Whether this rank gets the sums.
    pub fn has_sums(&self) -> bool {
        let (place, ranks) = self.place();
        place + 1 == ranks
    }

    /// Calls `add` on the sum of the chunks before those of this rank, and passes the result on.
    /// [The last](Self::has_sums) keeps the sum of all.
    pub fn pass<T: Real>(&self, sum: &mut [T], add: impl FnOnce(&mut [T])) {
        let mut bytes = vec![0; if self.0.is_some() { sum.len() * T::BYTES } else { 0 }];
        if let (Some(comm), Some(rank)) = (&self.0, self.before()) {
            comm.receive(rank, &mut bytes);
            T::from_bytes(&bytes, sum);
        }
        add(sum);
        if let (Some(comm), Some(rank)) = (&self.0, self.after()) {
            T::to_bytes(sum, &mut bytes);
            comm.send(rank, &bytes);
        }
    }

    /// The rank with the chunks before those of this one.
    fn before(&self) -> Option<usize> {
        let (comm, (place, ranks)) = (self.0.as_ref()?, self.place());
        (place > 0).then(|| (comm.rank() + ranks - 1) % ranks)
    }

    /// The rank with the chunks after those of this one.
    fn after(&self) -> Option<usize> {
        let (comm, (place, ranks)) = (self.0.as_ref()?, self.place());
        (place + 1 < ranks).then(|| (comm.rank() + 1) % ranks)
    }

    /// Adds the blocks of all ranks. The first of the own blocks, which has the sizes of all even if this rank has no chunk,
    /// receives the sums of this rank and those before it.
    pub(super) fn add<T: Real>(&self, own: usize, blocks: &mut [Chunk<T>], touched: Range<usize>) {
        let Some(comm) = &self.0 else { return };
        let (before, after) = (self.before(), self.after());
        self.add_losses(own, blocks);
        let (mut bytes, mut sum) = (Vec::new(), Vec::new());
        let lengths = blocks[0].slices(touched.clone()).map(|slice| slice.len());
        for (k, len) in lengths.into_iter().enumerate() {
            for start in (0..len).step_by(SEGMENT) {
                let part = start..(start + SEGMENT).min(len);
                sum.clear();
                sum.resize(part.len(), T::ZERO);
                bytes.resize(part.len() * T::BYTES, 0);
                if let Some(rank) = before {
                    comm.receive(rank, &mut bytes);
                    T::from_bytes(&bytes, &mut sum);
                }
                for (c, block) in blocks[..own].iter_mut().enumerate() {
                    let numbers = &block.slices(touched.clone())[k][part.clone()];
                    // Not 0 + x: that would lose the sign of −0.
                    match c == 0 && before.is_none() {
                        true => sum.copy_from_slice(numbers),
                        false => add(&mut sum, numbers),
                    }
                }
                match after {
                    Some(rank) => {
                        T::to_bytes(&sum, &mut bytes);
                        comm.send(rank, &bytes);
                    }
                    None => blocks[0].slices(touched.clone())[k][part].copy_from_slice(&sum),
                }
            }
        }
    }

    /// The same for the losses and the first sample that is not finite.
    fn add_losses<T: Real>(&self, own: usize, blocks: &mut [Chunk<T>]) {
        let mut sum = [0.0, -1.0];
        self.pass(&mut sum, |sum| {
            for block in &blocks[..own] {
                sum[0] += block.grad.loss;
                if let (true, Some(bad)) = (sum[1] < 0.0, block.grad.bad) {
                    sum[1] = bad as f64;
                }
            }
        });
        if self.has_sums() {
            blocks[0].grad.loss = sum[0];
            blocks[0].grad.bad = (sum[1] >= 0.0).then_some(sum[1] as usize);
        }
    }
}
