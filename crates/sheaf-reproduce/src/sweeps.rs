//! Results of mazes of many sizes, as the figure takes them.

use std::path::Path;

use sheaf_admm::Result;
use sheaf_figures::sizes::{AtSize, Sweep};
use sheaf_tasks::maze::suite::sweep_sizes;

use crate::Scale;
use crate::report::results::{Results, mean_and_deviation};

/// The models of the sweep: experiment and name.
const MODELS: [(&str, &str); 2] = [("maze", "Sheaf-ADMM"), ("maze-mpnn-pm-max", "MPNN (PM; max)")];

/// The sweeps in a results folder, of the largest scale that has them; with the largest number of iterations.
pub fn read(folder: &Path) -> Result<(Vec<Sweep>, usize)> {
    let results = Results::read(folder)?;
    for scale in Scale::ALL {
        let sweeps: Vec<Sweep> = MODELS
            .iter()
            .map(|(experiment, name)| Sweep {
                name: name.to_string(),
                sizes: sweep_sizes().filter_map(|n| at(&results, scale, experiment, n)).collect(),
            })
            .filter(|sweep| !sweep.sizes.is_empty())
            .collect();
        if !sweeps.is_empty() {
            return Ok((sweeps, 100));
        }
    }
    Ok((Vec::new(), 100))
}

fn at(results: &Results, scale: Scale, experiment: &str, size: usize) -> Option<AtSize> {
    let eval = format!("sweep_{size}");
    let values = |key: &str| results.values(scale, experiment, &eval, key);
    let solved = mean_and_deviation(&values("solved"))?;
    Some(AtSize { size, solved, first_solve: mean_and_deviation(&values("first_solve")) })
}
