//! The experiment files of the repository: all of them can be read, and the models have the published sizes.

use std::path::PathBuf;

use sheaf_learn::config::{recipe, strict};
use sheaf_learn::task::{Experiment, Task};
use sheaf_tasks::baselines::cnn::CnnModel;
use sheaf_tasks::baselines::cnn::experiment::CnnExperiment;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

/// Parameters of the models as published. The sizes of Sudoku's message passing but the largest are those of this
/// code: the paper gives them rounded, for an encoder that is larger than the released one; those of the descent and
/// late experiments are ours, and so is the wider encoder of `sudoku-wide` and `sudoku-hard`.
const PARAMETERS: [(&str, usize); 31] = [
    ("maze", 181_859),
    ("maze-descent", 91_492),
    ("maze-far", 181_859),
    ("maze-late", 91_492),
    ("maze-mpnn-cm-max", 48_807),
    ("maze-mpnn-cm-mean", 48_807),
    ("maze-mpnn-pm-max", 182_007),
    ("maze-mpnn-pm-mean", 182_007),
    ("maze-staged", 181_859),
    ("mnist", 1_081_835),
    ("mnist-cnn", 358_378),
    ("mnist-descent", 62_524),
    ("mnist-drawn", 1_081_835),
    ("mnist-fast", 1_081_835),
    ("mnist-late", 62_524),
    ("mnist-mpnn", 198_027),
    ("mnist-staged", 1_081_835),
    ("sudoku", 543_025),
    ("sudoku-fast", 543_025),
    ("sudoku-hard", 903_345),
    ("sudoku-lowrank", 2_029_233),
    ("sudoku-mpnn-cm-max", 1_227_889),
    ("sudoku-mpnn-cm-mean", 1_227_889),
    ("sudoku-mpnn-pm-fixed-max", 879_156),
    ("sudoku-mpnn-pm-fixed-mean", 879_156),
    ("sudoku-mpnn-pm-lora-max", 3_026_185),
    ("sudoku-mpnn-pm-lora-mean", 3_026_185),
    ("sudoku-orthonormal", 543_025),
    ("sudoku-scaled", 543_057),
    ("sudoku-staged", 543_025),
    ("sudoku-wide", 903_345),
];

fn folder() -> PathBuf {
    PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("../../experiments")
}

fn parameters<K: Task>(name: &str, text: &str) -> usize {
    let check = |experiment: &Experiment<K>| {
        experiment.check()?;
        Ok(experiment.model()?.layout().clone())
    };
    recipe(name, text, &[], check).unwrap_or_else(|e| panic!("{name}: {e}")).layout.len()
}

#[test]
fn every_experiment_file_describes_a_model_of_the_published_size() {
    let mut found: Vec<String> = std::fs::read_dir(folder())
        .unwrap()
        .map(|entry| entry.unwrap().path().file_stem().unwrap().to_string_lossy().into_owned())
        .collect();
    found.sort();
    assert_eq!(found, PARAMETERS.map(|(name, _)| name), "every file has a row here");
    let mut counted = Vec::new();
    for (name, _) in PARAMETERS {
        let text = std::fs::read_to_string(folder().join(format!("{name}.toml"))).unwrap();
        let first = text.lines().next().unwrap();
        assert!(first.starts_with("# "), "{name}: the first line says what it is");
        let got = match name.split('-').next().unwrap() {
            "maze" => parameters::<Maze>(name, &text),
            "sudoku" => parameters::<Sudoku>(name, &text),
            _ if name == "mnist-cnn" => {
                let experiment: CnnExperiment = strict::parse(name, &text, &[]).unwrap();
                experiment.check().unwrap();
                CnnModel::new(experiment.model).unwrap().layout().len()
            }
            _ => parameters::<Mnist>(name, &text),
        };
        counted.push((name, got));
    }
    assert_eq!(counted, PARAMETERS);
}
