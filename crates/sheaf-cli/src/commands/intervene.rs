//! `sheaf intervene`: a script of interventions, run by the crate `sheaf-explore`.

use serde_json::json;
use sheaf_admm::Result;
use sheaf_explore::draw::{self, Format};
use sheaf_explore::{Script, Want, open, subject};
use sheaf_learn::train::file::read_text_at_most;

use super::{Job, check_out};
use crate::args::InterveneArgs;
use crate::report::{Report, sparkline};
use crate::tasks::Source;

/// Largest script, in bytes.
const MAX_SCRIPT: u64 = 1 << 24;

/// Checks the arguments; the job runs the script with and without its interventions.
pub fn intervene(args: InterveneArgs) -> Result<Box<dyn Job>> {
    let weights = args.weights.as_deref().map(Source::parse).transpose()?;
    if let Some(out) = &args.out {
        let inputs = weights.as_ref().and_then(Source::path).into_iter().chain([args.script.as_path()]);
        check_out(out, inputs)?;
        Format::of(out)?;
    }
    Ok(Box::new(move || {
        let text = read_text_at_most(&args.script, MAX_SCRIPT, "a script")?;
        let script = Script::parse(&text, &args.script.display().to_string())?;
        let subject = match &weights {
            Some(source) => open(&source.name(), &source.open()?)?,
            None => subject::builtin(&script.task)?,
        };
        let outcome = subject.run(&script, &Want::everything())?;
        let mut report = Report::new();
        tell(&mut report, &script, subject.name(), &outcome);
        if let Some(out) = &args.out {
            draw::write(out, &script.task, outcome)?;
            report.written(out);
        }
        Ok(report)
    }))
}

fn tell(report: &mut Report, script: &Script, weights: &str, outcome: &subject::Outcome) {
    report.add("task", "task", script.task.clone(), script.task.clone());
    report.add("weights", "weights", weights, weights);
    if !script.about.is_empty() {
        report.add("about", "about", script.about.clone(), script.about.clone());
    }
    report.value("iterations", outcome.run.iterations);
    for (key, label, record) in
        [("before", "without", outcome.base.as_ref()), ("after", "with", Some(&outcome.run))]
    {
        let Some((record, answer)) = record.and_then(|record| Some((record, record.answer()?))) else {
            continue;
        };
        let input = record.input.last().map_or(0, |&input| usize::from(input));
        let text = outcome.field.tell(input, answer);
        let value =
            json!({"answer": text, "right": answer.right, "cells": answer.classes, "votes": answer.votes});
        report.add(key, label, value, text);
    }
    let Some(c) = &outcome.comparison else { return };
    let at = |k: Option<usize>| k.map_or("never".to_string(), |k| format!("k = {k}"));
    report.add("parted", "answers part", c.parted, at(c.parted));
    report.add("agree_again", "agree again", c.agree_again, at(c.agree_again));
    report.add("agree_to_the_end", "agree to the end", c.agree_to_the_end, at(c.agree_to_the_end));
    let recovery =
        c.recovery.map_or("none".to_string(), |n| format!("{n} iterations after the last intervention"));
    report.add("recovery", "recovery", c.recovery, recovery);
    let cells = format!("{} at the end, {} at most", c.cells_changed, c.most_cells_changed);
    report.add("cells_changed", "cells changed", c.cells_changed, cells);
    report.value("most_cells_changed", c.most_cells_changed);
    let agents = format!("{} of {}", c.agents_changed.len(), outcome.field.sheaf().agents());
    report.add("agents_changed", "agents changed", c.agents_changed.clone(), agents);
    let last = c.distance.last().copied().unwrap_or(0.0);
    let text = format!("{}  {last:.3e} at the end", sparkline(&c.distance, 50));
    report.add("distance", "distance", c.distance.clone(), text);
    report.value("cells_differing", c.differing.clone());
}
