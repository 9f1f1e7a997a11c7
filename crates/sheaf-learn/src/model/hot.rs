//! Single solves and their parts on one core, with buffers kept between calls: what `sheaf bench` measures.

use std::hint::black_box;
use std::ops::Range;

use sheaf_admm::admm::Options;
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::{Real, Result};
use sheaf_kernels::aligned::AlignedVec;

use super::maps::MapIndex;
use super::net::{Decoder, Encoder};
use super::views::Samples;
use super::worker::{Encoded, Given, Worker};
use super::{Model, Prepared};

/// Some encoded samples, and buffers to solve one of them at a time.
#[derive(Debug)]
pub struct HotPaths<T: Real, E: Encoder, D: Decoder> {
    prepared: Prepared<T, D>,
    encoded: Encoded<T, E, D>,
    worker: Worker<T, D>,
    maps: MapIndex<T>,
}

impl<T: Real, E: Encoder, D: Decoder> Default for HotPaths<T, E, D> {
    fn default() -> Self {
        let (prepared, encoded) = (Prepared::default(), Encoded::default());
        Self { prepared, encoded, worker: Worker::default(), maps: MapIndex::default() }
    }
}

impl<T: Real, E: Encoder, D: Decoder> HotPaths<T, E, D> {
    /// Prepares for these parameters.
    pub fn prepare(&mut self, model: &Model<E, D>, params: &[T], sheaf: &Sheaf) -> Result<()> {
        self.prepared.prepare(model, params, sheaf)
    }

    /// Encodes some samples together.
    pub fn encode(
        &mut self,
        model: &Model<E, D>,
        params: &[T],
        sheaf: &Sheaf,
        samples: &dyn Samples,
        range: Range<usize>,
    ) -> Result<()> {
        let given = Given { model, params, sheaf, prepared: &self.prepared };
        self.encoded.encode(&given, samples, range)
    }

    /// Applies the sheaf Laplacian of the first encoded sample this many times.
    pub fn laplacians(&mut self, model: &Model<E, D>, sheaf: &Sheaf, count: usize) -> Result<()> {
        let (index, tables) = (&self.encoded.index()[..sheaf.agents()], &self.encoded.tables.maps);
        model.maps.group(sheaf, &self.prepared.maps, tables, index, &mut self.maps)?;
        let op = model.maps.op(sheaf, &self.prepared.maps, tables, index, &self.maps)?;
        let [mut z, mut g] = [(); 2].map(|()| AlignedVec::<T>::zeros(sheaf.state_len()));
        let [mut y, mut s] = [(); 2].map(|()| AlignedVec::<T>::zeros(sheaf.row_len()));
        z.iter_mut().enumerate().for_each(|(i, z)| *z = T::from_f64((i % 7) as f64 * 0.1));
        for _ in 0..count {
            op.laplacian(black_box(&z), &mut g, &mut y, &mut s)?;
            black_box(&g);
        }
        Ok(())
    }

    /// Runs this many iterations and the decoder on encoded sample `i`.
    pub fn solve(
        &mut self,
        model: &Model<E, D>,
        params: &[T],
        sheaf: &Sheaf,
        i: usize,
        iterations: usize,
    ) -> Result<()> {
        let Self { prepared, encoded, worker, .. } = self;
        let at = Given { model, params, sheaf, prepared }.with(&encoded.tables);
        let index = &encoded.index()[i * sheaf.agents()..][..sheaf.agents()];
        worker.solve(&at, index, &Options::fixed(iterations).x_only(), &mut ())?;
        worker.decode_last(&at, index);
        black_box(worker.outputs().first());
        Ok(())
    }
}
