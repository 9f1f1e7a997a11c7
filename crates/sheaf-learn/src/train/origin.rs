//! What produced the weights of a run: the program, the split that selects the best, the recipe and its stage. It stands
//! in the first line of the run's history, and so in checkpoints and in the record of weights.

use serde_json::{Map, Value, json};

/// What produced the weights of a run, for their record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Origin<'a> {
    /// The commit of the program; empty if it is not known.
    pub commit: &'a str,
    /// The stage of a recipe that the run is, if it is one.
    pub stage: Option<StageOf<'a>>,
}

/// A stage of a recipe.
#[derive(Clone, Copy, Debug)]
pub struct StageOf<'a> {
    /// The whole recipe, TOML.
    pub recipe: &'a str,
    /// The name of the stage.
    pub name: &'a str,
    /// Its number, from 1.
    pub number: usize,
    /// The number of stages.
    pub count: usize,
}

impl Origin<'_> {
    /// The line of a new run, whose evaluations are on the samples called `split`.
    pub(super) fn started(&self, split: &str) -> String {
        let mut line = Map::new();
        line.insert("step".into(), json!(0));
        if !self.commit.is_empty() {
            line.insert("commit".into(), json!(self.commit));
        }
        line.insert("evaluated_on".into(), json!(split));
        if let Some(StageOf { recipe, name, number, count }) = self.stage {
            for (key, value) in [
                ("stage", json!(number)),
                ("stages", json!(count)),
                ("name", json!(name)),
                ("recipe", json!(recipe)),
            ] {
                line.insert(key.into(), value);
            }
        }
        format!("{}\n", Value::Object(line))
    }

    /// The line of a run that goes on after `step` updates, if another program than before does it.
    pub(super) fn resumed(&self, step: u64, history: &str) -> Option<String> {
        if self.commit.is_empty() || commits(history).last().map(String::as_str) == Some(self.commit) {
            return None;
        }
        Some(format!("{}\n", json!({ "step": step, "commit": self.commit })))
    }
}

/// The commits in a history, JSON lines, in their order.
fn commits(history: &str) -> Vec<String> {
    let commit =
        |line: &str| Some(serde_json::from_str::<Value>(line).ok()?.get("commit")?.as_str()?.to_string());
    history.lines().filter_map(commit).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_run_says_once_which_program_made_it() {
        let origin = Origin { commit: "abc", stage: None };
        let history = origin.started("validation");
        assert_eq!(history, "{\"commit\":\"abc\",\"evaluated_on\":\"validation\",\"step\":0}\n");
        assert_eq!(origin.resumed(5, &history), None);
        let other = Origin { commit: "def", stage: None };
        assert_eq!(other.resumed(5, &history).unwrap(), "{\"commit\":\"def\",\"step\":5}\n");
        assert_eq!(Origin::default().resumed(5, &history), None);
    }
}
