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
    /// What a reader must know of all of them; empty for the published schedule, and where they differ.
    pub note: &'static str,
}

/// The sweeps in a results folder: of every model those of its largest scale. Quick ones, which are comparable with
/// nothing, are shown only where there are no others.
pub fn read(folder: &Path) -> Result<Sweeps> {
    let results = Results::read(folder)?;
    let sizes = |experiment: &str, scale: Scale| -> Vec<AtSize> {
        sweep_sizes().filter_map(|n| at(&results, scale, experiment, n)).collect()
    };
    let [comparable, quick] = [&Scale::ALL[..Scale::ALL.len() - 1], &[Scale::Quick]].map(|scales| {
        let of = |(experiment, name): &(&str, &'static str)| {
            let mut found = scales.iter().map(|&scale| (*name, scale, sizes(experiment, scale)));
            found.find(|(.., sizes)| !sizes.is_empty())
        };
        MODELS.iter().filter_map(of).collect::<Vec<_>>()
    });
    let found = if comparable.is_empty() { quick } else { comparable };
    let alike = found.iter().all(|(_, scale, _)| *scale == found[0].1);
    let note = found.first().filter(|_| alike).map_or("", |(_, scale, _)| scale.note());
    // Where models differ in their scales, the legend says whose is reduced.
    let sweep = |(name, scale, sizes): (&str, Scale, Vec<AtSize>)| Sweep {
        name: if alike || scale == Scale::Full { name.into() } else { format!("{name}, {}", scale.note()) },
        sizes,
    };
    let sweeps = found.into_iter().map(sweep).collect();
    Ok(Sweeps { sweeps, most: 100, note })
}

fn at(results: &Results, scale: Scale, experiment: &str, size: usize) -> Option<AtSize> {
    let eval = format!("sweep_{size}");
    let values = |key: &str| results.values(scale, experiment, &eval, key);
    let solved = mean_and_deviation(&values("solved"))?;
    Some(AtSize { size, solved, first_solve: mean_and_deviation(&values("first_solve")) })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::Record;

    fn add(folder: &Path, scale: Scale, experiment: &str) {
        let values = [("solved".to_string(), 0.5), ("first_solve".to_string(), 20.0)].into();
        let record = Record { evals: [("sweep_19".to_string(), values)].into(), ..Record::default() };
        record.write(&Record::folder(folder, scale.name(), &format!("{experiment}-s42"))).unwrap();
    }

    #[test]
    fn every_model_is_shown_at_its_own_largest_scale_and_quick_runs_only_alone() {
        let folder = tempfile::tempdir().unwrap();
        let folder = folder.path();
        add(folder, Scale::Quick, "maze");
        add(folder, Scale::Quick, "maze-mpnn-pm-max");
        let quick = read(folder).unwrap();
        assert_eq!((quick.sweeps.len(), quick.note), (2, Scale::Quick.note()));
        add(folder, Scale::Full, "maze");
        let one = read(folder).unwrap();
        assert_eq!((one.sweeps.len(), one.note), (1, ""));
        add(folder, Scale::Tenth, "maze-mpnn-pm-max");
        let both = read(folder).unwrap();
        let names: Vec<&str> = both.sweeps.iter().map(|sweep| sweep.name.as_str()).collect();
        assert_eq!(names, ["Sheaf-ADMM", "MPNN (PM; max), a tenth of the published steps"]);
        assert_eq!(both.note, "");
    }
}
