//! `sheaf inspect`: the contents of a weights file or a checkpoint.

use std::path::Path;

use serde_json::{Value, json};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::{CheckpointFile, Provenance, TensorFile};

use super::{Job, without_effect};
use crate::report::{Report, count, duration, rounded};
use crate::tasks::Source;
use crate::terminal;

/// Checks the arguments; the job reads the file. With `history` the report holds everything, without it a summary.
pub fn inspect(text: &str, history: bool, json: bool) -> Result<Box<dyn Job>> {
    if history && json {
        return Err(without_effect("--history", "results for people", "--json, which has all of it"));
    }
    let source = Source::parse(text)?;
    Ok(Box::new(move || {
        if let Source::File(path) = &source
            && let Some(report) = checkpoint(path, history)?
        {
            return Ok(report);
        }
        let weights = source.open()?;
        let about = weights.about();
        let record: Value = serde_json::from_str(&about.record).unwrap_or(Value::Null);
        let mut report = Report::new();
        if history {
            report.above(sections(&about.config, weights.tensors(), ""));
            report.above(format!("# training record\n{}\n", record_text(&record)));
        }
        report.add("kind", "kind", "weights", "weights");
        report.add("task", "task", about.task.clone(), about.task.clone());
        report.value("config", config_value(weights.tensors().place(), &about.config)?);
        finish(&mut report, weights.tensors(), "");
        summary(&mut report, &record);
        made(&mut report, &record, source.hours());
        report.value("record", record);
        more(&mut report, history);
        Ok(report)
    }))
}

/// A checkpoint's report, if the file is one.
fn checkpoint(path: &Path, history: bool) -> Result<Option<Report>> {
    // Any other error in the file is reported when it is read as weights.
    let Ok(file) = CheckpointFile::read(path) else { return Ok(None) };
    let tensors = TensorFile::read(path)?;
    let (task, counters) = (file.task()?.to_string(), file.counters()?);
    let mut report = Report::new();
    if history {
        report.above(sections(file.config()?, &tensors, "params/"));
    }
    report.add("kind", "kind", "checkpoint", "checkpoint").add("task", "task", task.clone(), task);
    report.value("config", config_value(tensors.place(), file.config()?)?);
    let at = format!("{}, {} samples", count(counters.step as usize), count(counters.samples as usize));
    report.add("step", "step", counters.step, at);
    report.add("elapsed_s", "trained", counters.elapsed_seconds, duration(counters.elapsed_seconds));
    report.value("seed", counters.seed).value("rollbacks", counters.rollbacks);
    finish(&mut report, &tensors, "params/");
    more(&mut report, history);
    Ok(Some(report))
}

/// How the weights came to be, in a line or two: the single values of the record and the last evaluation.
fn summary(report: &mut Report, record: &Value) {
    let Some(map) = record.as_object() else { return };
    let (short, _): (Vec<_>, Vec<_>) = map.iter().partition(|(_, v)| is_short(v));
    let parts: Vec<String> =
        short.into_iter().map(|(key, value)| format!("{key} {}", plain(value))).collect();
    if !parts.is_empty() {
        report.line("record", terminal::part(&parts.join(", ")));
    }
    if let Some(last) = map.get("history").and_then(Value::as_array).and_then(|all| all.last()) {
        let text = event_text("", last);
        report.line("last entry", terminal::part(text.lines().next().unwrap_or("").trim_start_matches(": ")));
    }
}

/// Recipe, program, seed and time.
fn made(report: &mut Report, record: &Value, hours: Option<f64>) {
    let made = Provenance::of(record);
    report
        .add("made", "recipe", made.summary(), terminal::part(&made.summary()))
        .value("recipe", made.recipe.clone());
    let or_not = |text: String| if text.is_empty() { "not recorded".into() } else { text };
    let commits = made.commits().join(", ");
    report.add("commits", "commit", made.commits(), terminal::part(&or_not(commits)));
    let mut seeds: Vec<u64> = made.runs.iter().map(|run| run.seed).collect();
    seeds.dedup();
    let text = seeds.iter().map(u64::to_string).collect::<Vec<_>>().join(", ");
    report.add("seeds", "seed", seeds, or_not(text));
    let split = made.runs.last().map_or("", |run| &run.split);
    report.add("chosen_on", "chosen on", split, terminal::part(&or_not(split.to_string())));
    let hours = hours.or(made.hours);
    let text = hours.map_or(String::new(), |hours| duration(3600.0 * hours));
    report.add("hours", "trained", hours.map(|hours| rounded(hours, 3)), or_not(text));
}

fn more(report: &mut Report, history: bool) {
    if !history {
        report.line("more", "--history shows configuration, tensors and the record of the training");
    }
}

/// Widest column of names.
const LONGEST_NAME: usize = 60;

/// The configuration and the table of parameters.
fn sections(config: &str, tensors: &TensorFile, prefix: &str) -> String {
    let mut text = format!("# configuration\n{}\n\n# parameters\n", config.trim_end());
    let rows = rows(tensors, prefix);
    // A name may be as long as its file allows; columns are not.
    let width = rows.iter().map(|(name, ..)| name.chars().count()).max().unwrap_or(0).min(LONGEST_NAME);
    for (name, dtype, shape, n) in rows {
        let shape = format!("{shape:?}");
        text += &format!("{name:<width$}  {dtype:<4} {shape:<12} {:>9}\n", count(n));
    }
    text + "\n"
}

/// Name, type, shape and size of each tensor.
fn rows(tensors: &TensorFile, prefix: &str) -> Vec<(String, String, Vec<usize>, usize)> {
    let names = tensors.names().into_iter();
    let row = |name: String| {
        let (dtype, shape) = tensors.info(&name)?;
        let short = name.strip_prefix(prefix)?.to_string();
        Some((
            short,
            format!("{dtype:?}"),
            shape.to_vec(),
            shape.iter().fold(1, |n: usize, &d| n.saturating_mul(d)),
        ))
    };
    names.filter_map(row).collect()
}

fn finish(report: &mut Report, tensors: &TensorFile, prefix: &str) {
    let rows = rows(tensors, prefix);
    let total: usize = rows.iter().fold(0, |n, row| n.saturating_add(row.3));
    report.add("parameters", "parameters", total, format!("{} in {} tensors", count(total), rows.len()));
    let list: Vec<Value> = rows
        .into_iter()
        .map(|(name, dtype, shape, _)| json!({ "name": name, "dtype": dtype, "shape": shape }))
        .collect();
    report.value("tensors", list);
}

/// The record as lines: single values first, then the history, one line each.
fn record_text(record: &Value) -> String {
    let Some(map) = record.as_object() else { return "none\n".into() };
    let (short, long): (Vec<_>, Vec<_>) = map.iter().partition(|(_, v)| is_short(v));
    let mut text = String::new();
    for (key, value) in short {
        text += &format!("{key}: {}\n", plain(value));
    }
    for (key, value) in long {
        match value {
            Value::Array(items) => items.iter().for_each(|item| text += &event_text(key, item)),
            Value::String(lines) => text += &format!("{key}:\n{}", indented(lines)),
            _ => text += &format!("{key}:\n{}", indented(&record_text(value))),
        }
    }
    text
}

/// An event or a part of one: first the values that fit on one line, steps first; then the others, indented.
fn event_text(key: &str, item: &Value) -> String {
    let Some(map) = item.as_object() else { return format!("{key}: {}\n", plain(item)) };
    let (mut short, long): (Vec<_>, Vec<_>) = map.iter().partition(|(_, v)| is_short(v));
    short.sort_by_key(|(k, _)| (*k != "step", *k != "samples"));
    let parts: Vec<String> = short.into_iter().map(|(k, v)| format!("{k} {}", plain(v))).collect();
    let rest: Value = long.into_iter().map(|(k, v)| (k.clone(), v.clone())).collect();
    format!("{key}: {}\n{}", parts.join(", "), indented(&record_text(&rest)))
}

/// Whether a value fits on one line.
fn is_short(value: &Value) -> bool {
    !value.is_array() && !value.is_object() && !value.as_str().is_some_and(|text| text.contains('\n'))
}

fn plain(value: &Value) -> String {
    value.as_str().map_or_else(|| value.to_string(), str::to_string)
}

fn indented(text: &str) -> String {
    text.lines().map(|line| if line.is_empty() { "\n".into() } else { format!("  {line}\n") }).collect()
}

fn config_value(place: &str, config: &str) -> Result<Value> {
    let table: toml::Table = config.parse().map_err(|e: toml::de::Error| {
        Error::new(ErrorKind::Malformed, place, "a TOML configuration", e.message())
    })?;
    serde_json::to_value(table).map_err(|e| Error::new(ErrorKind::Malformed, place, "a configuration", e))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn records_within_records_are_set_further_in() {
        let first = json!({ "seed": 42, "history": [{ "samples": 64, "step": 2, "eval/solved": 0.5 }] });
        let record = json!({
            "weights": "mean of two",
            "parts": [{ "share": 0.25, "config": "[train]\nsteps = 2", "record": first }],
        });
        let expected = "weights: mean of two\nparts: share 0.25\n  config:\n    [train]\n    steps = 2\n  record:\n\
                        \x20   seed: 42\n    history: step 2, samples 64, eval/solved 0.5\n";
        assert_eq!(record_text(&record), expected);
        assert_eq!(record_text(&Value::Null), "none\n");
    }
}
