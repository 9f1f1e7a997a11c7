//! The loss of the outputs against the targets.

use sheaf_admm::Real;

use super::views::Targets;
use crate::train::loss::{IGNORE, cross_entropy_grad};

/// The loss of one agent's outputs, averaged over all terms that count.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// Cross-entropy over rows of logits.
    CrossEntropy {
        /// Logits per row.
        classes: usize,
    },
    /// Squared error of every output.
    SquaredError,
}

impl Loss {
    /// The number of terms that count in these targets.
    pub fn counted(&self, targets: &Targets) -> usize {
        match self {
            Self::CrossEntropy { .. } => targets.labels.iter().filter(|&&l| l != IGNORE).count(),
            Self::SquaredError => targets.values.iter().filter(|v| !v.is_nan()).count(),
        }
    }

    /// Adds the loss of one sample, each term times `weight`, and replaces the outputs by their gradient.
    pub fn grad<T: Real>(&self, outputs: &mut [T], targets: &Targets, weight: T, exps: &mut [T]) -> T {
        match *self {
            Self::CrossEntropy { classes } => {
                cross_entropy_grad(outputs, &targets.labels, classes, weight, exps)
            }
            Self::SquaredError => {
                let mut loss = T::ZERO;
                for (out, &target) in outputs.iter_mut().zip(&targets.values) {
                    if target.is_nan() {
                        *out = T::ZERO;
                        continue;
                    }
                    let error = *out - T::from_f64(f64::from(target));
                    loss += error * error;
                    *out = (weight + weight) * error;
                }
                loss * weight
            }
        }
    }
}
