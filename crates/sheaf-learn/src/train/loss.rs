//! Softmax cross-entropy over rows of logits.
//!
//! loss = Σ_rows weight·(ln Σ_c exp l_c − l_label); its gradient is weight·(softmax(l) − onehot(label)). A label
//! outside the classes makes the loss NaN, which ends a training step with an error.

use sheaf_admm::Real;

/// Label of rows to skip.
pub const IGNORE: u8 = u8::MAX;

/// Adds the loss and replaces the logits by their gradient. Rows labelled [`IGNORE`] contribute nothing. `exps` is
/// scratch like `logits`.
pub fn cross_entropy_grad<T: Real>(
    logits: &mut [T], // [rows, classes], becomes d_logits
    labels: &[u8],    // [rows]
    classes: usize,
    weight: T,
    exps: &mut [T],
) -> T {
    let classes = classes.max(1);
    shifted_exps(logits, classes, exps);
    let mut loss = T::ZERO;
    for ((row, exps), &label) in logits.chunks_exact_mut(classes).zip(exps.chunks_exact(classes)).zip(labels)
    {
        if label == IGNORE {
            row.fill(T::ZERO);
            continue;
        }
        let sum: T = exps.iter().copied().sum();
        loss += sum.ln() - logit(row, label);
        let scale = weight / sum;
        row.iter_mut().zip(exps).for_each(|(d, &e)| *d = e * scale);
        if let Some(d) = row.get_mut(label as usize) {
            *d -= weight;
        }
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
    let classes = classes.max(1);
    shifted_exps(logits, classes, exps);
    let mut loss = T::ZERO;
    for ((row, exps), &label) in logits.chunks_exact(classes).zip(exps.chunks_exact(classes)).zip(labels) {
        if label != IGNORE {
            loss += exps.iter().copied().sum::<T>().ln() - logit(row, label);
        }
    }
    loss * weight
}

fn logit<T: Real>(row: &[T], label: u8) -> T {
    row.get(label as usize).copied().unwrap_or(T::from_f64(f64::NAN))
}

/// Shifts every row by its maximum and writes the exponentials.
fn shifted_exps<T: Real>(logits: &mut [T], classes: usize, exps: &mut [T]) {
    for row in logits.chunks_exact_mut(classes) {
        let top = row.iter().fold(row[0], |a, &b| a.max(b));
        row.iter_mut().for_each(|l| *l -= top);
    }
    T::exp_slice(logits, &mut exps[..logits.len()]);
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_gradient_is_that_of_the_loss() {
        let logits = [0.3, -0.2, 1.0, 0.5, 0.1, -1.3, 2.0, 0.4, -0.6f64];
        let (labels, weight, mut exps) = ([2, IGNORE, 0], 0.7, [0.0; 9]);
        let mut gradient = logits;
        let loss = cross_entropy_grad(&mut gradient, &labels, 3, weight, &mut exps);
        assert!((loss - cross_entropy(&mut logits.clone(), &labels, 3, weight, &mut exps)).abs() < 1e-15);
        for k in 0..9 {
            let mut at = |by: f64| {
                let mut moved = logits;
                moved[k] += by;
                cross_entropy(&mut moved, &labels, 3, weight, &mut exps)
            };
            let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
            assert!((slope - gradient[k]).abs() < 1e-9, "{k}: {slope} {}", gradient[k]);
        }
    }

    #[test]
    fn a_label_without_a_class_makes_the_loss_nan_and_an_ignored_row_nothing() {
        let (mut exps, logits) = ([0.0f64; 4], [0.3, -0.2, 1.0, 0.5]);
        for label in [2, 200] {
            assert!(cross_entropy_grad(&mut logits.clone(), &[0, label], 2, 1.0, &mut exps).is_nan());
            assert!(cross_entropy(&mut logits.clone(), &[0, label], 2, 1.0, &mut exps).is_nan());
        }
        let alone = cross_entropy(&mut logits.clone(), &[0, IGNORE], 2, 1.0, &mut exps);
        assert!((alone - (1.0 + (-0.5f64).exp()).ln()).abs() < 1e-15);
        assert_eq!(cross_entropy::<f64>(&mut [], &[], 0, 1.0, &mut []), 0.0);
    }
}
