//! From the agents' logits to one picture, and whether that picture is correct.
//!
//! Overlapping views are averaged, `picture[p] = mean over the agents that see p of their logits for p`, and each pixel
//! takes its largest class; ties go to the first. A maze is *solved* when the pixels predicted as path are exactly
//! those of the label; other predictions only enter cell accuracy. *Connected* and *valid* depend less on the label and
//! more on the maze: see [`Score`].
//!
//! | name | shape |
//! | --- | --- |
//! | `logits` | `[agents, patch, patch, CLASSES]` |
//! | `picture` | `[height, width, CLASSES]` |
//! | `predicted`, `label`, `input` | `[height, width]` |

use sheaf_admm::Real;

use super::solve::neighbours;
use super::{CLASSES, GOAL, PATH, START, WALL};

/// The largest class of each pixel; ties go to the first.
pub fn argmax<T: Real>(
    picture: &[T],        // [height, width, CLASSES]
    predicted: &mut [u8], // [height, width]
) {
    for (out, classes) in predicted.iter_mut().zip(picture.chunks_exact(CLASSES)) {
        let best = (1..CLASSES).fold(0, |best, c| if classes[c] > classes[best] { c } else { best });
        *out = best as u8;
    }
}

/// The probability of the path at each pixel: softmax of the averaged logits.
pub fn path_probability<T: Real>(
    picture: &[T],         // [height, width, CLASSES]
    probability: &mut [T], // [height, width]
) {
    for (out, classes) in probability.iter_mut().zip(picture.chunks_exact(CLASSES)) {
        let largest = classes.iter().fold(classes[0], |a, &b| a.max(b));
        let sum: T = classes.iter().map(|&c| (c - largest).exp()).sum();
        *out = (classes[PATH as usize] - largest).exp() / sum;
    }
}

/// The score of a prediction of one maze.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Score {
    /// The predicted path cells are exactly those of the label.
    pub solved: bool,
    /// The predicted path cells with start and goal form an unbroken path through open pixels, and there are no others.
    /// In a perfect maze this is the same as solved; in a maze with loops a path other than the label's may be valid
    /// too.
    pub valid: bool,
    /// Predicted open path cells connect start and goal, whatever else is predicted.
    pub connected: bool,
    /// Pixels that match the label.
    pub right_cells: usize,
    /// All pixels.
    pub cells: usize,
}

/// Scores predictions; holds the buffers of the search.
#[derive(Clone, Debug, Default)]
pub struct Judge {
    visited: Vec<bool>, // [height, width]
    stack: Vec<u32>,
}

impl Judge {
    /// The score of a prediction.
    pub fn score(
        &mut self,
        input: &[u8],     // [height, width]
        label: &[u8],     // [height, width]
        predicted: &[u8], // [height, width]
        width: usize,
    ) -> Score {
        debug_assert!(input.len() == label.len() && label.len() == predicted.len());
        let pairs = || label.iter().zip(predicted);
        let (connected, valid) = self.walk(input, predicted, width);
        Score {
            solved: pairs().all(|(&l, &p)| (l == PATH) == (p == PATH)),
            valid,
            connected,
            right_cells: pairs().filter(|(l, p)| l == p).count(),
            cells: label.len(),
        }
    }

    /// Whether a prediction is valid, as defined by [`Score::valid`]; no label is needed.
    pub fn valid(&mut self, input: &[u8], predicted: &[u8], width: usize) -> bool {
        self.walk(input, predicted, width).1
    }

    /// Whether predicted cells connect start and goal, and whether there are no others.
    fn walk(&mut self, input: &[u8], predicted: &[u8], width: usize) -> (bool, bool) {
        let ends = [START, GOAL].map(|token| input.iter().position(|&t| t == token));
        let [Some(start), Some(goal)] = ends else { return (false, false) };
        let chosen = |p: usize| p == start || p == goal || predicted[p] == PATH;
        let open = |p: usize| chosen(p) && input[p] != WALL;
        self.visited.clear();
        self.visited.resize(input.len(), false);
        self.visited[start] = true;
        self.stack.clear();
        self.stack.push(start as u32);
        let (mut reached, mut links_fit) = (0, true);
        while let Some(pixel) = self.stack.pop() {
            let pixel = pixel as usize;
            reached += 1;
            let mut links = 0;
            for next in neighbours(pixel, width, input.len()).into_iter().flatten().filter(|&p| open(p)) {
                links += 1;
                if !self.visited[next] {
                    self.visited[next] = true;
                    self.stack.push(next as u32);
                }
            }
            links_fit &= links == if pixel == start || pixel == goal { 1 } else { 2 };
        }
        let connected = self.visited[goal];
        let all = (0..input.len()).filter(|&p| chosen(p)).count();
        (connected, connected && links_fit && reached == all)
    }
}

/// Sums of scores; the averages do not depend on the order of addition.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Mazes scored.
    pub mazes: usize,
    /// Of these, solved.
    pub solved: usize,
    /// Of these, valid.
    pub valid: usize,
    /// Of these, connected.
    pub connected: usize,
    /// Pixels that match the label.
    pub right_cells: usize,
    /// Pixels scored.
    pub cells: usize,
}

impl Summary {
    /// Adds one maze.
    pub fn add(&mut self, score: &Score) {
        self.mazes += 1;
        self.solved += usize::from(score.solved);
        self.valid += usize::from(score.valid);
        self.connected += usize::from(score.connected);
        self.right_cells += score.right_cells;
        self.cells += score.cells;
    }

    /// Adds the counts of another worker.
    pub fn merge(&mut self, other: &Self) {
        self.mazes += other.mazes;
        self.solved += other.solved;
        self.valid += other.valid;
        self.connected += other.connected;
        self.right_cells += other.right_cells;
        self.cells += other.cells;
    }

    /// Fraction of mazes solved, 0 to 1; NaN without mazes.
    pub fn solved_rate(&self) -> f64 {
        self.solved as f64 / self.mazes as f64
    }

    /// Fraction of mazes with a valid path, 0 to 1; NaN without mazes.
    pub fn valid_rate(&self) -> f64 {
        self.valid as f64 / self.mazes as f64
    }

    /// Fraction of mazes with start and goal connected, 0 to 1; NaN without mazes.
    pub fn connected_rate(&self) -> f64 {
        self.connected as f64 / self.mazes as f64
    }

    /// Fraction of correct pixels, 0 to 1; for mazes of one size also the mean over mazes. NaN without mazes.
    pub fn cell_accuracy(&self) -> f64 {
        self.right_cells as f64 / self.cells as f64
    }
}
