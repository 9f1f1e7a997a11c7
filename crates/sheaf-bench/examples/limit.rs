//! How far a solve goes beyond its time limit: `cargo run --release -p sheaf-bench --example limit -- plane-soft 100000`.

use std::time::{Duration, Instant};

use sheaf_admm::network::Settings;
use sheaf_bench::instance::Instance;
use sheaf_bench::{graph, network};

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, problem, agents] = &args[..] else { return Err("give a problem and a number of agents".into()) };
    let (agents, hard) = (agents.parse()?, problem.ends_with("hard"));
    let instance = Instance::new(agents, graph::nearest_in_the_plane(agents, 8, 1), hard, 1);
    let settings = Settings { tol: 1e-13, iterations: usize::MAX, ..Settings::default() };
    let mut solver = network(&instance)?.into_solver(settings)?;
    for limit in [20, 200, 600, 20, 200, 600, 1500] {
        solver.reset();
        solver.settings_mut().time_limit = Some(Duration::from_millis(limit));
        let began = Instant::now();
        let (status, iterations) = solver.solve().map(|s| (s.status(), s.iterations()))?;
        let over = began.elapsed().as_secs_f64() * 1e3 - limit as f64;
        println!("limit {limit} ms: {over:+.0} ms, {iterations} iterations, {status}");
    }
    Ok(())
}
