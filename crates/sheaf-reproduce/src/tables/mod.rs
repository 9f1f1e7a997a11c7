//! Every table: its rows, the experiments behind them, and the paper's values.
//!
//! A [`Variant`] is an experiment file with some keys changed; variants of the same name are the same, so that tables
//! share runs. A [`Cell`] is one number of a row: which variant, evaluated how, and what the paper has there.

mod ablations;
mod baselines;
mod extensions;
mod robustness;
mod sizes;
mod stalks;

use crate::task::TaskKind;

/// An experiment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Variant {
    /// Its name, also in the names of runs.
    pub name: String,
    /// The experiment file, without the ending.
    pub file: &'static str,
    /// Keys that differ from the file.
    pub set: Vec<String>,
}

impl Variant {
    /// A file as it is.
    pub fn file(file: &'static str) -> Self {
        Self { name: file.into(), file, set: Vec::new() }
    }

    /// A file with some keys changed.
    pub fn with<K: AsRef<str>>(file: &'static str, name: &str, keys: &[K]) -> Self {
        let set = keys.iter().map(|key| key.as_ref().to_string()).collect();
        Self { name: format!("{file}-{name}"), file, set }
    }

    /// Its task.
    pub fn task(&self) -> TaskKind {
        TaskKind::of(self.file)
    }

    /// What it learns from, whatever the model: maze, mnist or sudoku, with which the names of files begin.
    pub fn data(&self) -> &'static str {
        self.file.split('-').next().unwrap_or(self.file)
    }

    /// The name of its run with a seed.
    pub fn run(&self, seed: u64) -> String {
        format!("{}-s{seed}", self.name)
    }

    /// The text of its file.
    pub fn text(&self) -> &'static str {
        FILES.iter().find(|(name, _)| *name == self.file).map_or("", |(_, text)| text)
    }
}

/// One number of a row.
#[derive(Clone, Debug, PartialEq)]
pub struct Cell {
    /// The experiment.
    pub variant: Variant,
    /// How it is evaluated: a set of mazes, a shift of pictures, or `test`.
    pub eval: String,
    /// Which of the results.
    pub metric: Metric,
    /// The paper's value in percent, and its deviation.
    pub paper: Option<(f64, Option<f64>)>,
}

/// Which result of an evaluation.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Metric {
    /// Solved samples, in percent.
    Solved,
    /// Correct cells, in percent.
    Cells,
    /// Correct pictures, in percent.
    Accuracy,
    /// Iterations until the first solution.
    FirstSolve,
}

impl Metric {
    /// Its key in the values of an evaluation.
    pub fn key(self) -> &'static str {
        match self {
            Self::Solved => "solved",
            Self::Cells => "cell_accuracy",
            Self::Accuracy => "accuracy",
            Self::FirstSolve => "first_solve",
        }
    }

    /// Whether it is a share, shown in percent.
    pub fn is_share(self) -> bool {
        self != Self::FirstSolve
    }
}

/// A row.
#[derive(Clone, Debug, PartialEq)]
pub struct Row {
    /// Its name for `--only`.
    pub name: String,
    /// The group it belongs to; rows of a group follow each other.
    pub group: &'static str,
    /// What it is.
    pub label: String,
    /// One cell per column; none where the paper has none.
    pub cells: Vec<Option<Cell>>,
}

impl Row {
    /// The names of its experiments.
    pub fn experiments(&self) -> impl Iterator<Item = &String> {
        self.cells.iter().flatten().map(|cell| &cell.variant.name)
    }

    /// Whether `--only` can call it so: by its name, or by its label as reports print it.
    pub fn is_called(&self, name: &str) -> bool {
        self.name == name || self.label.eq_ignore_ascii_case(name.trim())
    }

    /// Empties the cells that `only` asks for neither by this row nor by their experiment.
    pub fn keep(&mut self, only: &[String]) {
        if only.iter().any(|name| self.is_called(name)) {
            return;
        }
        for place in &mut self.cells {
            *place = place.take().filter(|cell| only.contains(&cell.variant.name));
        }
    }
}

/// A table.
#[derive(Clone, Debug, PartialEq)]
pub struct Table {
    /// Its name.
    pub name: &'static str,
    /// Its title.
    pub title: &'static str,
    /// What to know about it.
    pub notes: &'static str,
    /// Titles of the columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Row>,
}

impl Table {
    /// All its cells, row after row.
    pub fn cells(&self) -> impl Iterator<Item = &Cell> {
        self.rows.iter().flat_map(|row| &row.cells).flatten()
    }

    /// The names of its rows, as `--only` takes them.
    pub fn row_names(&self) -> String {
        self.rows.iter().map(|row| row.name.as_str()).collect::<Vec<_>>().join(", ")
    }
}

/// Experiment files with their texts.
macro_rules! files {
    ($($name:literal,)*) => {
        &[$(($name, include_str!(concat!("../../experiments/", $name, ".toml")))),*]
    };
}

/// The experiment files that rows name.
const FILES: &[(&str, &str)] = files![
    "maze",
    "maze-mpnn-pm-max",
    "maze-mpnn-pm-mean",
    "maze-mpnn-cm-max",
    "maze-mpnn-cm-mean",
    "mnist",
    "mnist-cnn",
    "mnist-mpnn",
    "sudoku",
    "sudoku-lowrank",
    "sudoku-mpnn-pm-fixed-max",
    "sudoku-mpnn-pm-fixed-mean",
    "sudoku-mpnn-cm-max",
    "sudoku-mpnn-cm-mean",
    "sudoku-mpnn-pm-lora-max",
    "sudoku-mpnn-pm-lora-mean",
];

/// Seeds of the paper.
pub const SEEDS: [u64; 3] = [42, 123, 456];

/// All tables, in the order of their reports.
pub fn all() -> Vec<Table> {
    vec![
        baselines::maze(),
        baselines::sudoku(),
        robustness::table(),
        ablations::table(),
        stalks::table(),
        sizes::table(),
        extensions::table(),
    ]
}

/// A value of the paper without a deviation.
fn paper(value: f64) -> Option<(f64, Option<f64>)> {
    Some((value, None))
}

/// A cell.
fn cell(variant: &Variant, eval: &str, metric: Metric, paper: Option<(f64, Option<f64>)>) -> Option<Cell> {
    Some(Cell { variant: variant.clone(), eval: eval.into(), metric, paper })
}
