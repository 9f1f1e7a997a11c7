//! `sheaf bench problems`: networks of agents against general solvers.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_bench::{AGENTS, Options, Row, measure, run};

use super::Job;
use crate::args::BenchArgs;
use crate::progress::Bar;
use crate::report::{Report, count, rounded, significant};

/// Checks the arguments.
pub fn problems(args: BenchArgs) -> Result<Box<dyn Job>> {
    let without_effect = [
        ("--experiment", args.experiment.is_some()),
        ("--iterations", args.iterations.is_some()),
        ("--batch", args.batch.is_some()),
        ("--size", args.size.is_some()),
        ("--precision", args.precision.is_some()),
        ("--threads", args.threads.is_some()),
    ];
    if let Some((option, _)) = without_effect.iter().find(|(_, given)| *given) {
        return Err(Error::new(ErrorKind::Unsupported, *option, "another kind", "problems")
            .hint("leave the option out"));
    }
    let own = args.problems;
    let limit = Duration::from_secs(own.limit.clamp(1, 86_400));
    let agents = own.agents.unwrap_or(AGENTS);
    if let (true, Some(problem), Some(solver)) = (own.here, own.problem.clone(), own.solver.clone()) {
        return Ok(Box::new(move || {
            let Value::Object(row) = json!(measure(&problem, &solver, agents, limit)?) else {
                return Ok(Report::new());
            };
            let mut report = Report::new();
            for key in KEYS {
                report.value(key, row[key].clone());
            }
            Ok(report)
        }));
    }
    let memory_mb = own.memory as f64;
    let options = Options { problem: own.problem, solver: own.solver, agents, limit, memory_mb };
    Ok(Box::new(move || {
        let program = std::env::current_exe()
            .map_err(|e| Error::new(ErrorKind::Io, "this program", "a path to start it again", e))?;
        let child = |problem: &str, solver: &str| {
            let mut command = Command::new(&program);
            command.args(["--json", "bench", "problems", "--here", "--problem", problem, "--solver", solver]);
            command.args(["--agents", &agents.to_string(), "--limit", &limit.as_secs().to_string()]);
            command
        };
        let bar = Bar::new("measuring", 0);
        let rows = run(&options, child, |_| bar.add(1))?;
        bar.clear();
        let mut report = Report::new();
        report.above(table(&rows)).value("rows", json!(rows));
        Ok(report)
    }))
}

/// The keys of a row.
const KEYS: [&str; 8] =
    ["problem", "solver", "status", "agents", "seconds", "cpu_seconds", "peak_rss_mb", "error"];

/// A table in Markdown, to be pasted as it is.
fn table(rows: &[Row]) -> String {
    let mut out =
        String::from("| problem | agents | solver | seconds | CPU seconds | peak MB | error | status |\n");
    out += "| --- | ---: | --- | ---: | ---: | ---: | ---: | --- |\n";
    for row in rows {
        let or = |value: Option<String>| value.unwrap_or("-".into());
        let cells = [
            row.problem.clone(),
            count(row.agents),
            row.solver.clone(),
            or(row.seconds.map(significant)),
            or(row.cpu_seconds.map(significant)),
            or(row.peak_rss_mb.map(|mb| rounded(mb, 0).to_string())),
            or(row.error.map(|e| format!("{e:.0e}"))),
            // A message of another program may hold anything.
            row.status.replace(['|', '\n'], " "),
        ];
        out += &format!("| {} |\n", cells.join(" | "));
    }
    out
}
