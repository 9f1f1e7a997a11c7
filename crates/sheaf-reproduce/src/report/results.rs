//! All records of a results folder.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::io_error;

use crate::Scale;
use crate::record::Record;
use crate::tables::Variant;

/// The records, by scale and name of the run.
#[derive(Clone, Debug, Default)]
pub struct Results {
    /// The folder.
    pub folder: PathBuf,
    records: BTreeMap<(&'static str, String), Record>,
}

impl Results {
    /// Reads every record of a folder.
    pub fn read(folder: &Path) -> Result<Self> {
        let mut records = BTreeMap::new();
        if !folder.is_dir() {
            let place = folder.display().to_string();
            return Err(Error::new(ErrorKind::Io, place, "a results folder", "none")
                .hint("`sheaf reproduce TABLE --out DIR` makes DIR/results"));
        }
        for scale in Scale::ALL {
            let Ok(entries) = std::fs::read_dir(folder.join(scale.name())) else { continue };
            for entry in entries {
                let path = entry.map_err(|e| io_error(folder, "a readable folder", &e))?.path();
                if let Some(record) = Record::read(&path)? {
                    let name = path.file_name().unwrap_or_default().to_string_lossy().into_owned();
                    records.insert((scale.name(), name), record);
                }
            }
        }
        Ok(Self { folder: folder.to_path_buf(), records })
    }

    /// The records of an experiment at a scale, one per seed.
    pub fn of(&self, scale: Scale, variant: &str) -> Vec<&Record> {
        let own = |name: &str| {
            let seed = name.strip_prefix(variant).and_then(|rest| rest.strip_prefix("-s"));
            seed.is_some_and(|seed| seed.parse::<u64>().is_ok())
        };
        let found = self.records.iter().filter(|((s, name), _)| *s == scale.name() && own(name));
        found.map(|(_, record)| record).collect()
    }

    /// The largest scale with a result of that evaluation of an experiment, or with any record of it.
    pub fn best_scale(&self, variant: &Variant, eval: &str, scales: &[Scale]) -> Option<Scale> {
        let has = |scale: Scale, known: &dyn Fn(&Record) -> bool| {
            self.of(scale, &variant.name).into_iter().any(known)
        };
        let evaluated = |record: &Record| record.evals.contains_key(eval);
        let found = scales.iter().copied().find(|&scale| has(scale, &evaluated));
        found.or_else(|| scales.iter().copied().find(|&scale| has(scale, &|_| true)))
    }

    /// One result of an evaluation, for every seed that has it.
    pub fn values(&self, scale: Scale, variant: &str, eval: &str, key: &str) -> Vec<f64> {
        let records = self.of(scale, variant).into_iter();
        records.filter_map(|record| record.evals.get(eval)?.get(key).copied()).collect()
    }

    /// Whether there is no record.
    pub fn is_empty(&self) -> bool {
        self.records.is_empty()
    }

    /// All records, ordered.
    pub fn all(&self) -> impl Iterator<Item = &Record> {
        self.records.values()
    }
}

/// Mean and standard deviation of a sample; 0 for a single value.
pub fn mean_and_deviation(values: &[f64]) -> Option<(f64, f64)> {
    let n = values.len() as f64;
    let mean = (!values.is_empty()).then(|| values.iter().sum::<f64>() / n)?;
    let squares: f64 = values.iter().map(|v| (v - mean) * (v - mean)).sum();
    Some((mean, if values.len() < 2 { 0.0 } else { (squares / (n - 1.0)).sqrt() }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn deviations_are_those_of_a_sample() {
        assert_eq!(mean_and_deviation(&[]), None);
        assert_eq!(mean_and_deviation(&[2.0]), Some((2.0, 0.0)));
        assert_eq!(mean_and_deviation(&[1.0, 2.0, 3.0]), Some((2.0, 1.0)));
    }
}
