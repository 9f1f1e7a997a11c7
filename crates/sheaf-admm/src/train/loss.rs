//! Softmax cross-entropy over rows of logits.
//!
//! loss = Σ_rows weight·(ln Σ_c exp l_c − l_label); its gradient is weight·(softmax(l) − onehot(label)).

use crate::Real;

/// Rows whose label is this are left out.
pub const IGNORE: u8 = u8::MAX;

/// Adds up the loss and replaces the logits by their gradient. Rows labelled [`IGNORE`] count nothing.
/// `exps` is scratch like `logits`.
pub fn cross_entropy_grad<T: Real>(
    logits: &mut [T], // [rows, classes], becomes d_logits
    labels: &[u8],    // [rows]
    classes: usize,
    weight: T,
    exps: &mut [T],
) -> T {
    shifted_exps(logits, classes, exps);
    let mut loss = T::ZERO;
    for ((row, exps), &label) in logits.chunks_exact_mut(classes).zip(exps.chunks_exact(classes)).zip(labels)
    {
        if label == IGNORE {
            row.fill(T::ZERO);
            continue;
        }
        let sum: T = exps.iter().copied().sum();
        loss += sum.ln() - row[label as usize];
        let scale = weight / sum;
        row.iter_mut().zip(exps).for_each(|(d, &e)| *d = e * scale);
        row[label as usize] -= weight;
    }
    loss * weight
}

/// The loss alone. Leaves the logits shifted by their row's maximum.
pub fn cross_entropy<T: Real>(
    logits: &mut [T],
    labels: &[u8],
    classes: usize,
    weight: T,
    exps: &mut [T],
) -> T {
    shifted_exps(logits, classes, exps);
    let mut loss = T::ZERO;
    for ((row, exps), &label) in logits.chunks_exact(classes).zip(exps.chunks_exact(classes)).zip(labels) {
        if label != IGNORE {
            loss += exps.iter().copied().sum::<T>().ln() - row[label as usize];
        }
    }
    loss * weight
}

/// Shifts every row by its maximum and writes the exponentials.
fn shifted_exps<T: Real>(logits: &mut [T], classes: usize, exps: &mut [T]) {
    for row in logits.chunks_exact_mut(classes) {
        let top = row.iter().fold(row[0], |a, &b| a.max(b));
        row.iter_mut().for_each(|l| *l -= top);
    }
    T::exp_slice(logits, &mut exps[..logits.len()]);
}
