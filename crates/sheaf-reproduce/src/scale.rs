//! How much of a published schedule is run.

use std::collections::{BTreeMap, BTreeSet};

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

    /// Steps that it makes of a schedule of `published` steps.
    pub fn steps(self, published: u64) -> u64 {
        match self {
            Self::Full => published,
            Self::Half => (published / 2).max(1),
            Self::Tenth => (published / 10).max(1),
            Self::Quick => QUICK_STEPS,
        }
    }

    /// Keys that change an experiment of `published` steps.
    pub fn overrides(self, task: TaskKind, published: u64) -> Vec<String> {
        let steps = format!("train.steps={}", self.steps(published));
        match self {
            Self::Full => return Vec::new(),
            Self::Half | Self::Tenth => return vec![steps],
            Self::Quick => {}
        }
        let common = [
            steps,
            format!("train.batch={QUICK_BATCH}"),
            "train.warmup=2".into(),
            "train.ema=0.9".into(),
            "train.log_every=1".into(),
            "train.eval_every=4".into(),
            "train.checkpoint_every=4".into(),
        ];
        task.quick_keys().iter().map(ToString::to_string).chain(common).collect()
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

    /// What was reduced in runs that are trained, for reports; empty for the published schedule.
    pub fn reduction(self, records: &[&Record]) -> String {
        let trained = || records.iter().filter(|record| record.steps > 0);
        let reduced = trained().filter(|record| self != Self::Full || record.steps != record.published_steps);
        let mut parts =
            Vec::from_iter(of_steps(reduced.map(|record| (record.steps, record.published_steps))));
        if self == Self::Quick && !parts.is_empty() {
            parts.extend(trained().map(|record| format!("batches of {}", record.batch)));
            parts.dedup();
            let samples = trained().flat_map(|record| record.evals.values()).filter_map(|v| v.get("samples"));
            let most = samples.fold(0.0, |most: f64, &samples| most.max(samples));
            parts.extend((most > 0.0).then(|| format!("{most:.0} test samples at most")));
            parts = vec![format!("quick: {}; not comparable", parts.join(", "))];
        }
        let left_out: u64 = trained().map(|record| record.left_out).sum();
        parts.extend(
            (left_out > 0)
                .then(|| format!("batches skipped by rollbacks (loss or gradient not finite): {left_out}")),
        );
        parts.join("; ")
    }
}

/// How many steps of how many, for several runs in one sentence.
fn of_steps(steps: impl Iterator<Item = (u64, u64)>) -> Option<String> {
    // By the steps that were made: runs of a quick scale make the same number of different schedules.
    let mut made: BTreeMap<u64, BTreeSet<u64>> = BTreeMap::new();
    steps.for_each(|(done, published)| _ = made.entry(done).or_default().insert(published));
    let one = |(done, published): (u64, BTreeSet<u64>)| {
        let published: Vec<String> = published.into_iter().map(grouped).collect();
        format!("{} of {}", grouped(done), published.join(" or "))
    };
    let parts: Vec<String> = made.into_iter().map(one).collect();
    (!parts.is_empty()).then(|| format!("{} steps", parts.join(" and ")))
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
        for task in TaskKind::ALL {
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
        let quick = "quick: 8 of 31,250 steps, batches of 8; not comparable";
        assert_eq!(Scale::Quick.reduction(&[&record]), quick);
        let values = BTreeMap::from([("samples".to_string(), 16.0)]);
        let evaluated = Record { evals: [("test".to_string(), values)].into(), ..record.clone() };
        let pictures = Record { published_steps: 9_375, ..record.clone() };
        // One sentence for all runs of a row.
        assert_eq!(
            Scale::Quick.reduction(&[&evaluated, &pictures, &record]),
            "quick: 8 of 9,375 or 31,250 steps, batches of 8, 16 test samples at most; not comparable"
        );
        assert_eq!([7, 1_000, 1_234_567].map(grouped), ["7", "1,000", "1,234,567"]);
    }

    #[test]
    fn schedules_that_were_shortened_say_so_and_whole_ones_do_not() {
        let whole = Record { steps: 31_250, published_steps: 31_250, ..Record::default() };
        assert_eq!(Scale::Full.reduction(&[&whole]), "");
        let half = Record { steps: 15_625, ..whole.clone() };
        assert_eq!(Scale::Half.reduction(&[&half]), "15,625 of 31,250 steps");
        let pictures = Record { steps: 937, published_steps: 9_375, ..whole.clone() };
        let tenth = Record { steps: 3_125, ..whole.clone() };
        let both = "937 of 9,375 and 3,125 of 31,250 steps";
        assert_eq!(Scale::Tenth.reduction(&[&tenth, &pictures, &tenth]), both);
        // A run that is not trained yet was not reduced either.
        assert_eq!(Scale::Half.reduction(&[&Record { steps: 0, ..whole.clone() }]), "");
        let lost = Record { left_out: 2, ..whole };
        assert_eq!(
            Scale::Full.reduction(&[&lost]),
            "batches skipped by rollbacks (loss or gradient not finite): 2"
        );
    }
}
