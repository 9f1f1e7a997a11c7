//! The published sets of mazes: names, sizes, minimum paths.
//!
//! Training and test mazes are 19×19 with at least 18 steps. The larger sets are the ones the authors released; the
//! size sweep follows the paper's rule for size generalisation, 1.5 times the width. The released long sets are of that
//! kind and show how it was rounded: 42 at 29 and 54 at 37 are 3·(n − 1)/2 exactly (their 109 at 73 is one more, with
//! no visible effect: such paths are several times longer on average). The sweep uses 3·(n − 1)/2 throughout, also at
//! 19, where it gives 27 and so a slightly harder set than the test set.

use sheaf_admm::Result;

use super::carve::MazeShape;

/// One set of the suite.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SuiteSet {
    /// Name, also of its file.
    pub name: String,
    /// Size and minimum path.
    pub shape: MazeShape,
    /// Number of mazes.
    pub count: usize,
}

/// Training mazes of the published runs.
pub const TRAIN_COUNT: usize = 10_000;
/// Mazes in the test set, and here in every other set.
pub const TEST_COUNT: usize = 1_000;

/// The published sets other than the sweep: (name, height, width, minimum path).
pub const PUBLISHED: [(&str, usize, usize, usize); 8] = [
    ("test", 19, 19, 18),
    ("29x29", 29, 29, 42),
    ("37x37", 37, 37, 36),
    ("37x37_long", 37, 37, 54),
    ("19x37", 19, 37, 35),
    ("19x73", 19, 73, 69),
    ("73x73", 73, 73, 72),
    ("73x73_long", 73, 73, 109),
];

/// Sizes of the sweep: 19, 23, …, 71, and 73, which ends it.
pub fn sweep_sizes() -> impl Iterator<Item = usize> {
    (19..73).step_by(4).chain([73])
}

/// Minimum path of the sweep's n × n mazes.
pub fn sweep_min_path(n: usize) -> usize {
    3 * n.saturating_sub(1) / 2
}

/// Size and minimum path of the training mazes.
pub fn training_shape() -> Result<MazeShape> {
    MazeShape::new(19, 19, 18)
}

/// All evaluation sets: the published ones, then the sweep as `sweep_19`, `sweep_23`, …
pub fn evaluation_sets() -> Result<Vec<SuiteSet>> {
    let published = PUBLISHED.iter().map(|&(name, h, w, min_path)| (name.to_string(), h, w, min_path));
    let sweep = sweep_sizes().map(|n| (format!("sweep_{n}"), n, n, sweep_min_path(n)));
    published
        .chain(sweep)
        .map(|(name, h, w, min_path)| {
            Ok(SuiteSet { name, shape: MazeShape::new(h, w, min_path)?, count: TEST_COUNT })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_sweep_goes_from_19_to_73_and_every_set_can_be_drawn() {
        let sets = evaluation_sets().unwrap();
        assert_eq!(sets.len(), 8 + 15);
        for set in &sets {
            let mazes = crate::maze::data::generate(&set.shape, 1, 2).unwrap();
            assert_eq!(mazes.len(), 2, "{}", set.name);
        }
    }

    #[test]
    fn the_sweep_agrees_with_the_released_long_sets() {
        assert_eq!((sweep_min_path(29), sweep_min_path(37)), (42, 54));
    }
}
