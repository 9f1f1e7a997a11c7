//! How much of a published schedule is run.

use crate::task::TaskKind;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The published schedule.
    Full,
    /// Half of its steps; everything else as published.
    Half,
    /// A few steps on small data: a test of the machinery, not comparable with anything.
    Quick,
}

/// Steps of a quick run, and samples of each: all tables together take minutes on two cores.
const QUICK_STEPS: u64 = 8;
const QUICK_BATCH: usize = 8;

impl Scale {
    /// All scales, largest first.
    pub const ALL: [Self; 3] = [Self::Full, Self::Half, Self::Quick];

    /// Its name in arguments and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Half => "half",
            Self::Quick => "quick",
        }
    }

    /// The scale of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|scale| scale.name() == name)
    }

    /// Keys that change an experiment of `steps` steps.
    pub fn overrides(self, task: TaskKind, steps: u64) -> Vec<String> {
        let own: &[&str] = match (self, task) {
            (Self::Full, _) => return Vec::new(),
            (Self::Half, _) => return vec![format!("train.steps={}", (steps / 2).max(1))],
            (Self::Quick, TaskKind::Maze) => &["data.count=64", "data.test_count=8", "eval.larger=0"],
            (Self::Quick, TaskKind::Sudoku) => &["data.count=32", "data.test_count=8"],
            (Self::Quick, TaskKind::Mnist) => &["data.count=128", "eval.test=8", "eval.long=0"],
            (Self::Quick, TaskKind::Cnn) => &["data.count=128", "eval.test=8"],
        };
        let common = [
            format!("train.steps={QUICK_STEPS}"),
            format!("train.batch={QUICK_BATCH}"),
            "train.warmup=2".into(),
            "train.ema=0.9".into(),
            "train.log_every=1".into(),
            "train.eval_every=4".into(),
            "train.checkpoint_every=4".into(),
        ];
        own.iter().map(ToString::to_string).chain(common).collect()
    }

    /// Samples of an evaluation of `count` samples with `agents` agents each.
    pub fn samples(self, count: usize, agents: usize) -> usize {
        match self {
            Self::Full | Self::Half => count,
            // About as many agents in every set, so that large mazes take no longer than small ones.
            Self::Quick => (16 * 81 / agents.max(1)).clamp(2, 16).min(count),
        }
    }

    /// What is reduced in a run of `steps` steps of `batch` samples, for reports; empty for the published schedule.
    pub fn reduction(self, steps: u64, published: u64, batch: usize) -> String {
        match self {
            Self::Full if steps == published => String::new(),
            Self::Full | Self::Half => format!("{steps} of {published} steps"),
            Self::Quick => format!("quick: {steps} steps of {batch} on small data; not comparable"),
        }
    }
}
