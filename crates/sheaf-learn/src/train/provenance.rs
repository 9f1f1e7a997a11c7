//! How weights were made, read from their record: which runs, one after the other, by which program, in how many hours,
//! and whether one command does the same again.

use serde_json::Value;

/// How weights were made.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Provenance {
    /// The runs, oldest first; those of the weights a run started from stand before it.
    pub runs: Vec<RunRecord>,
    /// The recipe, TOML, if the runs are its stages.
    pub recipe: Option<String>,
    /// Hours of all runs, if they were recorded.
    pub hours: Option<f64>,
    /// Why no command of the program makes these weights again, if none does.
    pub by_hand: Option<String>,
}

/// One run.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct RunRecord {
    /// The name of the stage; empty for a run of its own.
    pub name: String,
    /// The seed.
    pub seed: u64,
    /// Updates.
    pub steps: u64,
    /// Samples seen.
    pub samples: u64,
    /// The commits of the programs that trained, in their order; empty if they were not recorded.
    pub commits: Vec<String>,
    /// The samples that selected the best weights; empty if that was not recorded.
    pub split: String,
    /// The weights that the first run started from, if they came from elsewhere.
    pub init: Option<String>,
    /// The last evaluation: names and values.
    pub evaluation: Vec<(String, f64)>,
}

impl Provenance {
    /// Reads the record of weights, JSON.
    pub fn of(record: &Value) -> Self {
        let mut out = Self { hours: record["hours"].as_f64(), ..Self::default() };
        out.add(record);
        // Files of version 0.1 hold the seconds of their last run.
        let alone = out.by_hand.is_none() && out.runs.len() == 1 && out.runs[0].init.is_none();
        out.hours =
            out.hours.or(record["seconds"].as_f64().filter(|_| alone).map(|seconds| seconds / 3600.0));
        out
    }

    fn add(&mut self, record: &Value) {
        for (key, why) in [
            ("parts", "a mean of weights of several runs"),
            ("set", "keys or numbers were changed after training"),
            ("made", "runs whose records were not kept"),
        ] {
            if record.get(key).is_some() {
                self.by_hand.get_or_insert_with(|| why.to_string());
            }
        }
        if let Some(of) = record.get("of") {
            return self.add(of);
        }
        let none = Vec::new();
        let history = record["history"].as_array().unwrap_or(&none);
        let (Some(seed), Some(steps)) = (record["seed"].as_u64(), record["step"].as_u64()) else { return };
        let mut run = RunRecord {
            seed,
            steps,
            samples: record["samples"].as_u64().unwrap_or(0),
            ..RunRecord::default()
        };
        for event in history {
            self.read(event, &mut run);
        }
        self.runs.push(run);
    }

    /// Reads one line of a history.
    fn read(&mut self, event: &Value, run: &mut RunRecord) {
        let text = |key: &str| event[key].as_str().map(str::to_string);
        if let Some(init) = text("init") {
            let stage = init.starts_with("stage ");
            if !stage && !init.starts_with("builtin:") {
                self.by_hand
                    .get_or_insert_with(|| format!("it starts from {init}, which is no part of the program"));
            }
            match stage {
                true => self.add(&event["record"]),
                false => run.init = Some(init),
            }
        }
        run.commits.extend(text("commit"));
        run.split = text("evaluated_on").unwrap_or(std::mem::take(&mut run.split));
        run.name = text("name").unwrap_or(std::mem::take(&mut run.name));
        self.recipe = text("recipe").or(self.recipe.take());
        let values: Vec<(String, f64)> = event
            .as_object()
            .into_iter()
            .flatten()
            .filter_map(|(key, value)| Some((key.strip_prefix("eval/")?.to_string(), value.as_f64()?)))
            .collect();
        if !values.is_empty() {
            run.evaluation = values;
        }
    }

    /// The commits of all runs, each once.
    pub fn commits(&self) -> Vec<&str> {
        let mut out: Vec<&str> = self.runs.iter().flat_map(|run| &run.commits).map(String::as_str).collect();
        out.dedup();
        out
    }

    /// How the weights were made, in one line.
    pub fn summary(&self) -> String {
        if let Some(why) = &self.by_hand {
            return format!("no single command: {why}");
        }
        let run = |run: &RunRecord| {
            let name = if run.name.is_empty() { String::new() } else { format!("{}: ", run.name) };
            format!("{name}{} steps", run.steps)
        };
        let all: Vec<String> = self.runs.iter().map(run).collect();
        let from = self.runs.first().and_then(|run| run.init.as_ref()).map(|init| format!(" from {init}"));
        match all.as_slice() {
            [] => "not recorded".into(),
            [one] => format!("one run of {one}{}", from.unwrap_or_default()),
            all => format!("{} stages{} ({})", all.len(), from.unwrap_or_default(), all.join(", ")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn stages_are_read_in_their_order_and_hands_are_noticed() {
        let first = json!({ "seed": 1, "step": 5, "samples": 40, "history": [
            { "step": 0, "commit": "a", "name": "x", "recipe": "r", "evaluated_on": "validation" },
            { "step": 5, "samples": 40, "eval/solved": 0.5 } ] });
        let record = json!({ "seed": 2, "step": 4, "samples": 8, "hours": 1.5, "history": [
            { "step": 0, "init": "stage 1: x", "record": first },
            { "step": 0, "commit": "a", "name": "y", "recipe": "r", "evaluated_on": "validation" },
            { "step": 2, "commit": "b" } ] });
        let provenance = Provenance::of(&record);
        assert_eq!(
            provenance.runs.iter().map(|r| (r.steps, r.name.as_str())).collect::<Vec<_>>(),
            [(5, "x"), (4, "y")]
        );
        assert_eq!(
            (provenance.commits(), provenance.hours, provenance.recipe.as_deref()),
            (vec!["a", "b"], Some(1.5), Some("r"))
        );
        assert_eq!(provenance.runs[0].evaluation, [("solved".to_string(), 0.5)]);
        assert_eq!(provenance.summary(), "2 stages (x: 5 steps, y: 4 steps)");
        let builtin = json!({ "seed": 2, "step": 4, "history": [{ "step": 0, "init": "builtin:maze", "record": first }] });
        assert_eq!(Provenance::of(&builtin).summary(), "one run of 4 steps from builtin:maze");
        for by_hand in [
            json!({ "weights": "mean of two", "parts": [] }),
            json!({ "set": ["model.alpha=1"], "of": record }),
            json!({ "seed": 2, "step": 4, "history": [{ "step": 0, "init": "final.safetensors", "record": first }] }),
        ] {
            assert!(Provenance::of(&by_hand).summary().starts_with("no single command"), "{by_hand}");
        }
        assert_eq!(Provenance::of(&Value::Null).summary(), "not recorded");
    }
}
