//! `sheaf run`: a problem of one's own from a file.

use std::fmt::Write as _;
use std::path::Path;

use serde_json::{Value, json};
use sheaf_admm::network::file::{Problem, seconds};
use sheaf_admm::network::{AgentId, Network, Settings, Solution};
use sheaf_admm::share::Order;
use sheaf_admm::{Error, ErrorKind, Result, chunks};
use sheaf_learn::train::file::{read_at_most, read_text_at_most, write_whole};

use super::{Ending, Job, check_out, without_effect};
use crate::args::{ConsensusArg, RunArgs};
use crate::problem::{Folder, Format, MAX_BYTES, Read, located, read};
use crate::progress::say;
use crate::ranks;
use crate::report::{Report, count, duration};

/// Checks the arguments; the job reads the file and solves.
pub fn run(args: RunArgs, json: bool) -> Result<Box<dyn Job>> {
    let format = Format::of(&args.problem)?;
    if let Some(out) = &args.out {
        check_out(out, [args.problem.as_path()])?;
    }
    let limit = args.time_limit.map(|s| seconds("--time-limit", s)).transpose()?;
    let base = Settings { tol: args.tol.unwrap_or(Settings::default().tol), ..Settings::default() };
    base.validate()?;
    if args.report && json {
        return Err(without_effect("--report", "results for people", "--json, which has all of it"));
    }
    let shared = args.consensus == ConsensusArg::Cg;
    let job = move || -> Result<Report> {
        let bytes = read_at_most(&args.problem, MAX_BYTES, "a readable file")?;
        let place = args.problem.display().to_string();
        let Read { problem, network } = read(&bytes, format, &place, &mut Folder::of(&args.problem))?;
        let order = args.partition.as_deref().map(|how| order(how, &network)).transpose()?;
        let network = order.as_ref().map_or(Ok(network.clone()), |order| network.in_order(order))?;
        let file = problem.settings(Settings::default())?;
        let settings = Settings {
            tol: args.tol.unwrap_or(file.tol),
            iterations: args.iterations.unwrap_or(file.iterations),
            time_limit: limit.or(file.time_limit),
            consensus: args.consensus.into(),
            ..file
        };
        if ranks::count() > 1 && !shared {
            say(
                "note: rank 0 solves this problem alone, with the result of one process: the consensus step is a\n\
                 factorisation or a sparse system of the whole network; --consensus cg is shared by all ranks",
            );
        }
        let mut solver = network.solver(settings)?;
        // A network of one chunk has nothing to share: every rank solves it.
        let solution = match ranks::comm().filter(|_| shared && network.agent_ids().count() > chunks::AGENTS)
        {
            Some(comm) => solver.solve_over(comm),
            None => solver.solve(),
        };
        let solution = solution.map_err(|e| located(e, &bytes, format, &place))?;
        if !ranks::is_first() {
            return Ok(Report::new());
        }
        let names = Names::of(&problem, &network, order.as_ref());
        let mut report = Report::new();
        if args.report {
            report.above(table(solution, &names, &network));
        }
        summary(&mut report, solution);
        if let Some(out) = &args.out {
            let value = full(solution, &names, &network);
            let text = serde_json::to_string_pretty(&value)
                .map_err(|e| Error::new(ErrorKind::Malformed, "solution", "numbers that JSON knows", e))?;
            write_whole(out, text.as_bytes())?;
            report.add("out", "written", out.display().to_string(), out.display().to_string());
        } else {
            let Value::Object(parts) = full(solution, &names, &network) else { return Ok(report) };
            for key in ["agents", "edges"] {
                report.value(key, parts[key].clone());
            }
        }
        Ok(report)
    };
    Ok(Box::new(Run { job, shared }))
}

/// A problem to solve, by all ranks or by rank 0.
struct Run<F> {
    job: F,
    shared: bool,
}

impl<F: Fn() -> Result<Report>> Job for Run<F> {
    fn run(&self) -> Result<Ending> {
        (self.job)().map(Ending::Done)
    }

    fn is_shared(&self) -> bool {
        self.shared
    }
}

/// The order of a partition: by METIS, or that of a file.
fn order(how: &Path, network: &Network) -> Result<Order> {
    let graph = network.graph()?;
    if how != Path::new("metis") {
        let text = read_text_at_most(how, MAX_BYTES, "a readable partition, or `metis`")?;
        return Order::read(&text, &how.display().to_string(), graph.agents());
    }
    #[cfg(feature = "metis")]
    return sheaf_mpi::partition::order(&graph);
    #[cfg(not(feature = "metis"))]
    Err(Error::new(
        ErrorKind::Unsupported,
        "--partition metis",
        "a program that was built with METIS",
        "one without",
    )
    .hint("cargo build --release --features mpi,metis; or give a file with one number per agent"))
}

/// The names of agents and edges: as given, or their numbers.
struct Names {
    ids: Vec<AgentId>, // in the order of the file
    agents: Vec<String>,
    edges: Vec<String>,
}

impl Names {
    fn of(problem: &Problem, network: &Network, order: Option<&Order>) -> Self {
        let name = |i: usize, name: &Option<String>| name.clone().unwrap_or_else(|| i.to_string());
        let ids: Vec<AgentId> = network.agent_ids().collect();
        let ids = order.map_or(ids.clone(), |order| order.places().iter().map(|&place| ids[place]).collect());
        Self {
            ids,
            agents: problem.agents.iter().enumerate().map(|(i, a)| name(i, &a.name)).collect(),
            edges: problem.edges.iter().enumerate().map(|(i, e)| name(i, &e.name)).collect(),
        }
    }
}

fn summary(report: &mut Report, solution: &Solution) {
    let status = solution.status().to_string();
    report.add("status", "status", status.clone(), status);
    report.value("solved", solution.is_solved());
    let value = solution.objective();
    let text = value.map_or("unknown".to_string(), |f| format!("{f:.10}"));
    report.add("objective", "objective", value, text);
    let iterations = solution.iterations();
    report.add("iterations", "iterations", iterations, count(iterations));
    let seconds = solution.time().as_secs_f64();
    report.add("seconds", "time", seconds, duration(seconds));
    let misses = solution.misses();
    for (key, label, (value, goal)) in [
        ("primal", "proposals off by", misses.primal),
        ("dual", "slopes off by", misses.dual),
        ("edges_missed", "hard edges off by", misses.edges),
    ] {
        report.add(
            key,
            label,
            json!({"value": value, "goal": goal}),
            format!("{value:.1e}, goal {goal:.1e}"),
        );
    }
}

/// Everything, for programs.
fn full(solution: &Solution, names: &Names, network: &Network) -> Value {
    let agents =
        names.ids.iter().zip(&names.agents).map(|(&id, name)| json!({"name": name, "x": solution.x(id)}));
    let edges = network
        .edge_ids()
        .zip(&names.edges)
        .map(|(id, name)| json!({"name": name, "price": solution.price(id)}));
    let misses = solution.misses();
    let pair = |(value, goal): (f64, f64)| json!({"value": value, "goal": goal});
    json!({
        "status": solution.status().to_string(),
        "solved": solution.is_solved(),
        "objective": solution.objective(),
        "iterations": solution.iterations(),
        "seconds": solution.time().as_secs_f64(),
        "rho": solution.rho(),
        "primal": pair(misses.primal),
        "dual": pair(misses.dual),
        "edges_missed": pair(misses.edges),
        "agents": agents.collect::<Vec<_>>(),
        "edges": edges.collect::<Vec<_>>(),
    })
}

/// x, prices and the fall of the residuals, for people.
fn table(solution: &Solution, names: &Names, network: &Network) -> String {
    let mut text = String::from("# agents\n");
    let numbers = |values: &[f64]| values.iter().map(|v| format!("{v:.6}")).collect::<Vec<_>>().join("  ");
    let width = names.agents.iter().chain(&names.edges).map(|n| n.chars().count()).max().unwrap_or(0);
    // Writing to a string cannot fail.
    for (&id, name) in names.ids.iter().zip(&names.agents) {
        let _ = writeln!(text, "{name:width$}  x = {}", numbers(solution.x(id)));
    }
    text.push_str("\n# edges\n");
    for (id, name) in network.edge_ids().zip(&names.edges) {
        let _ = writeln!(text, "{name:width$}  price = {}", numbers(solution.price(id)));
    }
    text.push_str("\n# iterations\n");
    let history = solution.history();
    let mut k = 1;
    while k <= history.len() {
        let r = history[k - 1];
        let _ =
            writeln!(text, "{k:>7}  proposals {:.1e}  slopes {:.1e}  rho {:.1e}", r.primal, r.dual, r.rho);
        k = if k < history.len() { (2 * k).min(history.len()) } else { k + 1 };
    }
    text.push('\n');
    text
}
