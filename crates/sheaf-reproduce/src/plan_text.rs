//! A plan in words: one line per run, a summary, and what will make runs fail.

use std::collections::BTreeMap;

use crate::plan::{Plan, Planned, State};
use crate::record::Record;
use crate::report::duration;
use crate::scale::grouped;
use crate::tables::Metric;

impl Plan {
    /// One line per run: name, state, steps, time left.
    pub fn lines(&self) -> Vec<String> {
        let wide = self.runs.iter().map(|run| run.name.len()).max().unwrap_or(0);
        self.runs.iter().map(|run| self.line(run, wide)).collect()
    }

    fn line(&self, run: &Planned, wide: usize) -> String {
        let steps = grouped(run.prepared.train.steps);
        let state = match self.state(run) {
            State::Finished => "finished".into(),
            State::Trained => "trained, to be evaluated".into(),
            State::Started(step) => format!("stopped after step {step}"),
            State::Failed(error) => format!("failed: {error}"),
            State::Missing => "not started".into(),
        };
        let left = match self.seconds_left(run) {
            Some(0.0) => String::new(),
            Some(seconds) => format!("about {}", duration(seconds)),
            None if self.measured => "time unknown".into(),
            None => "time not measured".into(),
        };
        format!("{:<wide$}  {steps:>7} steps  {left:<18}  {state}", run.name).trim_end().to_string()
    }

    /// Runs, steps, time and disk of what is missing.
    pub fn summary(&self) -> String {
        let open: Vec<&Planned> = self.runs.iter().filter(|run| self.state(run) != State::Finished).collect();
        let steps: u64 = open.iter().map(|run| self.steps_left(run)).sum();
        let times: Vec<Option<f64>> = open.iter().map(|run| self.seconds_left(run)).collect();
        // An empty sum is -0.
        let known = times.iter().flatten().sum::<f64>() + 0.0;
        let unknown = times.iter().filter(|time| time.is_none()).count();
        let time = match unknown {
            0 => format!("about {}", duration(known)),
            _ if unknown == open.len() && self.measured => "time unknown".into(),
            _ if unknown == open.len() => {
                "time not measured yet: the command without --list measures it".into()
            }
            _ => format!(
                "about {}, without {} of unknown time",
                duration(known),
                counted(unknown as u64, "run")
            ),
        };
        let all =
            format!("{} at scale {}", counted(self.runs.len() as u64, "run"), self.request.scale.name());
        if open.is_empty() {
            return format!("{all}, all finished");
        }
        format!(
            "{all}, {} finished; {} to make; {time}; {} of disk at most",
            self.runs.len() - open.len(),
            counted(steps, "step"),
            size(self.disk() as f64)
        )
    }

    /// What will make runs fail: data that are not there.
    pub fn warnings(&self) -> Vec<String> {
        let mut missing: BTreeMap<String, u64> = BTreeMap::new();
        for run in self.runs.iter().filter(|run| self.state(run) != State::Finished) {
            if let Err(error) = run.variant.task().check_data(&self.request.places) {
                *missing.entry(error.to_string().replace("\nhint: ", "; ")).or_default() += 1;
            }
        }
        missing
            .into_iter()
            .map(|(why, count)| format!("{} will fail: {why}", counted(count, "run")))
            .collect()
    }

    /// What came out of a finished run: its time, and the first result of its first evaluations.
    pub fn outcome(&self, run: &Planned) -> String {
        let record = Record::read(&self.result_folder(run)).ok().flatten().unwrap_or_default();
        // The evaluation of the training's own samples comes first.
        let mut evals: Vec<_> = record.evals.iter().collect();
        evals.sort_by_key(|(eval, _)| !["test", "none"].contains(&eval.as_str()));
        let results = evals.into_iter().filter_map(|(eval, values)| {
            let metric =
                [Metric::Solved, Metric::Accuracy].into_iter().find(|m| values.contains_key(m.key()))?;
            let eval = if eval == "none" { "test" } else { eval }; // the shift that is none
            Some(format!("{eval} {} {:.1} %", metric.key(), 100.0 * values[metric.key()]))
        });
        // More would not fit a line; the report has all.
        let results: Vec<String> = results.take(3).collect();
        let time = duration(record.train_seconds + record.eval_seconds);
        format!("finished in {time}; {}", results.join(", ")).trim_end_matches("; ").to_string()
    }

    /// Estimated seconds of all runs after this one.
    pub fn seconds_after(&self, index: usize) -> f64 {
        self.runs.iter().skip(index + 1).filter_map(|run| self.seconds_left(run)).sum()
    }
}

/// A number of things: 1 run, 2 runs.
pub fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

/// Bytes as people say them.
fn size(bytes: f64) -> String {
    if bytes < 1e8 { format!("{:.0} MB", bytes / 1e6) } else { format!("{:.1} GB", bytes / 1e9) }
}

#[cfg(test)]
mod tests {
    #[test]
    fn one_run_is_no_runs() {
        assert_eq!([0, 1, 2_000].map(|n| super::counted(n, "run")), ["0 runs", "1 run", "2,000 runs"]);
    }

    #[test]
    fn a_few_megabytes_are_not_nothing() {
        assert_eq!([4.2e6, 9.2e9].map(super::size), ["4 MB", "9.2 GB"]);
    }
}
