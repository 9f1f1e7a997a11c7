//! Gradients of a part of the batch, and their sum.

use std::ops::Range;

use sheaf_admm::Real;
use sheaf_admm::sheaf::SharedStackGrad;
use sheaf_kernels::vector::add;

use super::inputs::{Inputs, SLOTS, Slot};

/// Parts of a batch. The number is fixed, so that sums do not depend on the number of threads.
pub const PARTS: usize = 16;

/// The samples of every part.
pub fn parts(samples: usize) -> Vec<Range<usize>> {
    let size = samples.div_ceil(PARTS).max(1);
    (0..samples).step_by(size).map(|first| first..(first + size).min(samples)).collect()
}

/// Gradients of the samples of a part.
pub struct Part<T: Real> {
    /// The first sample.
    pub first: usize,
    /// Of every wanted input: of the part's own samples where an input spreads over samples, else whole.
    pub grads: [Vec<T>; SLOTS],
    /// Of shared maps that are prepared once.
    pub stack: SharedStackGrad<T>,
}

impl<T: Real> Part<T> {
    /// Zeros for the inputs that `wanted` names, and for those that the reverse sweep always writes.
    pub fn new(inputs: &Inputs<'_, T>, wanted: &[bool; SLOTS], samples: Range<usize>) -> Self {
        let mut grads = [const { Vec::new() }; SLOTS];
        let low_rank = [Slot::Base, Slot::A, Slot::B].iter().any(|&slot| wanted[slot as usize]);
        for (k, grad) in grads.iter_mut().enumerate() {
            let slot = ALL[k];
            let factor = low_rank && matches!(slot, Slot::Base | Slot::A | Slot::B);
            let needed = wanted[k] || factor || slot == Slot::Rho;
            let len = inputs.get(slot).map_or(0, <[T]>::len);
            let own = if inputs.spreads(slot) { len / inputs.samples * samples.len() } else { len };
            *grad = vec![T::ZERO; if needed { own } else { 0 }];
        }
        Self { first: samples.start, grads, stack: SharedStackGrad::default() }
    }

    /// Three gradients at once.
    pub fn three(&mut self, slots: [Slot; 3]) -> [&mut [T]; 3] {
        match self.grads.get_disjoint_mut(slots.map(|slot| slot as usize)) {
            Ok(three) => three.map(Vec::as_mut_slice),
            Err(_) => [&mut [], &mut [], &mut []],
        }
    }
}

/// All inputs, in order.
pub const ALL: [Slot; SLOTS] = [
    Slot::Q,
    Slot::Diag,
    Slot::Quad,
    Slot::L1,
    Slot::L2,
    Slot::Lo,
    Slot::Hi,
    Slot::EqA,
    Slot::EqB,
    Slot::InG,
    Slot::InH,
    Slot::Maps,
    Slot::Base,
    Slot::A,
    Slot::B,
    Slot::Rho,
    Slot::Gamma,
    Slot::Eta,
    Slot::Start,
];

/// The gradient of an input: parts side by side where it spreads over samples, else their sum, in order.
pub fn joined<T: Real>(inputs: &Inputs<'_, T>, slot: Slot, parts: &[Part<T>]) -> Vec<T> {
    let each = || parts.iter().map(|part| &part.grads[slot as usize]);
    if inputs.spreads(slot) {
        return each().flatten().copied().collect();
    }
    let mut all = each();
    let mut sum = all.next().cloned().unwrap_or_default();
    all.for_each(|grad| add(&mut sum, grad));
    sum
}
