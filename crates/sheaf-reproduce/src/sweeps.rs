//! Results of mazes of many sizes, as the figure takes them.

use std::path::Path;

use sheaf_admm::Result;
use sheaf_figures::sizes::{AtSize, Sweep};
use sheaf_tasks::maze::suite::sweep_sizes;

use crate::Scale;
use crate::report::results::{Results, mean_and_deviation};

/// The models of the sweep: experiment and name.
const MODELS: [(&str, &str); 2] = [("maze", "Sheaf-ADMM"), ("maze-mpnn-pm-max", "MPNN (PM; max)")];

/// What the figure takes.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sweeps {
    /// One for each model that has results.
    pub sweeps: Vec<Sweep>,
    /// The largest number of iterations.
    pub most: usize,
    /// What a reader must know of the runs; empty for the published schedule.
    pub note: &'static str,
}

/// The sweeps in a results folder, of the largest scale that has them.
pub fn read(folder: &Path) -> Result<Sweeps> {
    let results = Results::read(folder)?;
    let mut found = Sweeps { most: 100, ..Sweeps::default() };
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
            (found.sweeps, found.note) = (sweeps, scale.note());
            break;
        }
    }
    Ok(found)
}

fn at(results: &Results, scale: Scale, experiment: &str, size: usize) -> Option<AtSize> {
    let eval = format!("sweep_{size}");
    let values = |key: &str| results.values(scale, experiment, &eval, key);
    let solved = mean_and_deviation(&values("solved"))?;
    Some(AtSize { size, solved, first_solve: mean_and_deviation(&values("first_solve")) })
}
