//! From the agents' logits to one class.
//!
//! Each agent votes with softmax(logits); the votes are averaged and the largest wins; ties go to the first.
//!
//! | name | shape |
//! | --- | --- |
//! | `logits` | `[agents, classes]` |
//! | `votes` | `[classes]` |

use sheaf_admm::Real;

/// Averages the agents' votes and returns the winner.
pub fn vote<T: Real>(
    logits: &[T],    // [agents, classes]
    votes: &mut [T], // [classes]
) -> usize {
    let classes = votes.len();
    votes.fill(T::ZERO);
    for row in logits.chunks_exact(classes) {
        let top = row.iter().fold(row[0], |a, &b| a.max(b));
        let sum: T = row.iter().map(|&l| (l - top).exp()).sum();
        for (vote, &l) in votes.iter_mut().zip(row) {
            *vote += (l - top).exp() / sum;
        }
    }
    let agents = T::from_f64((logits.len() / classes.max(1)).max(1) as f64);
    votes.iter_mut().for_each(|vote| *vote /= agents);
    argmax(votes)
}

/// The class each agent votes for and how certain it is, for pictures of the votes.
pub fn agent_votes<T: Real>(
    logits: &[T], // [agents, classes]
    classes: usize,
) -> impl Iterator<Item = (usize, T)> {
    logits.chunks_exact(classes).map(|row| {
        let best = argmax(row);
        let sum: T = row.iter().map(|&l| (l - row[best]).exp()).sum();
        (best, T::ONE / sum)
    })
}

/// The index of the largest value; ties go to the first.
pub fn argmax<T: Real>(values: &[T]) -> usize {
    (1..values.len()).fold(0, |best, c| if values[c] > values[best] { c } else { best })
}
