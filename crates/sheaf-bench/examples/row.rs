//! One row in this process: `cargo run --release -p sheaf-bench --example row -- plane-soft sheaf-admm 100000`.

use std::time::Duration;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let args: Vec<String> = std::env::args().collect();
    let [_, problem, solver, agents] = &args[..] else {
        return Err("give a problem, a solver and a number of agents".into());
    };
    let row = sheaf_bench::measure(problem, solver, agents.parse()?, Duration::from_secs(600))?;
    println!("{}", serde_json::to_string_pretty(&row)?);
    Ok(())
}
