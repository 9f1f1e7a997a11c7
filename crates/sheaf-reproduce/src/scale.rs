//! How much of a published schedule is run.

use crate::record::Record;
use crate::task::TaskKind;

/// How much is run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Scale {
    /// The published schedule.
    Full,
    /// Half of its steps; everything else as published.
    Half,
    /// A tenth of its steps; everything else as published.
    Tenth,
    /// A few steps on small data: a test of the machinery, not comparable with anything.
    Quick,
}

/// Steps of a quick run, and samples of each: all tables together take minutes on two cores.
const QUICK_STEPS: u64 = 8;
const QUICK_BATCH: usize = 8;

impl Scale {
    /// All scales, largest first.
    pub const ALL: [Self; 4] = [Self::Full, Self::Half, Self::Tenth, Self::Quick];

    /// Its name in arguments and folders.
    pub fn name(self) -> &'static str {
        match self {
            Self::Full => "full",
            Self::Half => "half",
            Self::Tenth => "tenth",
            Self::Quick => "quick",
        }
    }

    /// What it makes of a schedule, for help.
    pub fn about(self) -> &'static str {
        match self {
            Self::Full => "All of their steps",
            Self::Half => "Half of their steps; data and evaluations as published",
            Self::Tenth => "A tenth of their steps; data and evaluations as published",
            Self::Quick => "A few steps on small data: a test, not comparable with anything",
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
            (Self::Tenth, _) => return vec![format!("train.steps={}", (steps / 10).max(1))],
            (Self::Quick, TaskKind::Maze) => {
                &["data.count=64", "data.test_count=8", "eval.test=8", "eval.larger=0"]
            }
            (Self::Quick, TaskKind::Sudoku) => &["data.count=32", "data.test_count=8", "eval.test=8"],
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
            Self::Full | Self::Half | Self::Tenth => count,
            // About as many agents in every set, so that large mazes take no longer than small ones.
            Self::Quick => (16 * 81 / agents.max(1)).clamp(2, 16).min(count),
        }
    }

    /// What a figure says of runs of this scale; empty for the published schedule.
    pub fn note(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Half => "half of the published steps",
            Self::Tenth => "a tenth of the published steps",
            Self::Quick => "quick: a few steps on small data, not comparable",
        }
    }

    /// What was reduced in a run, for reports; empty for the published schedule.
    pub fn reduction(self, record: &Record) -> String {
        let Record { steps, published_steps, batch, .. } = record;
        let of_steps = format!("{} of {} steps", grouped(*steps), grouped(*published_steps));
        let samples = record.evals.values().filter_map(|values| values.get("samples").copied());
        let most = samples.fold(0.0, f64::max);
        match self {
            Self::Full if steps == published_steps => String::new(),
            Self::Full | Self::Half | Self::Tenth => of_steps,
            Self::Quick if most == 0.0 => format!("quick: {of_steps}, batches of {batch}; not comparable"),
            Self::Quick => {
                format!(
                    "quick: {of_steps}, batches of {batch}, {most:.0} test samples at most; not comparable"
                )
            }
        }
    }
}

/// A number with commas between thousands.
pub fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (i, digit) in digits.chars().enumerate() {
        if i > 0 && (digits.len() - i).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fraction_of_the_schedule_changes_its_steps_alone() {
        for task in [TaskKind::Maze, TaskKind::Sudoku, TaskKind::Mnist, TaskKind::Cnn] {
            let steps = |scale: Scale, steps| scale.overrides(task, steps);
            assert_eq!(steps(Scale::Full, 31_250), [""; 0]);
            assert_eq!(steps(Scale::Half, 31_250), ["train.steps=15625"]);
            assert_eq!(steps(Scale::Tenth, 31_250), ["train.steps=3125"]);
            assert_eq!(steps(Scale::Tenth, 3), ["train.steps=1"]);
        }
        // The evaluation sets stay whole: rows of a tenth can be compared with the paper's.
        assert_eq!(Scale::Tenth.samples(1_000, 36 * 36), 1_000);
    }

    #[test]
    fn a_reduction_says_how_much_is_left() {
        let record = Record { steps: 8, published_steps: 31_250, batch: 8, ..Record::default() };
        assert_eq!(Scale::Quick.reduction(&record), "quick: 8 of 31,250 steps, batches of 8; not comparable");
        let values = std::collections::BTreeMap::from([("samples".to_string(), 16.0)]);
        let evaluated = Record { evals: [("test".to_string(), values)].into(), ..record };
        assert!(Scale::Quick.reduction(&evaluated).contains("16 test samples at most"));
        assert_eq!(Scale::Full.reduction(&Record { steps: 31_250, ..evaluated.clone() }), "");
        let half = Record { steps: 15_625, ..evaluated.clone() };
        assert_eq!(Scale::Half.reduction(&half), "15,625 of 31,250 steps");
        let tenth = Record { steps: 3_125, ..evaluated };
        assert_eq!(Scale::Tenth.reduction(&tenth), "3,125 of 31,250 steps");
        assert_eq!([7, 1_000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
    }
}
