//! Sheaf-ADMM with parts removed or replaced, on all tasks.

use super::{Metric, Row, Table, Variant, cell, paper};

/// (group, name, label, keys for MNIST, Maze and Sudoku, paper's values for the three).
type Ablation = (&'static str, &'static str, &'static str, [&'static [&'static str]; 3], [f64; 3]);

const NONE: &[&str] = &[];
const DESCENT: &[&str] = &["model.consensus=descent", "model.cg_steps=10"];

const ROWS: [Ablation; 9] = [
    (
        "sheaf",
        "no-coordination",
        "no coordination (K = 0)",
        [&["model.coordination=none"]; 3],
        [11.0, 0.0, 0.0],
    ),
    (
        "sheaf",
        "identity",
        "identity maps (F = I)",
        [
            &["model.maps=identity", "model.d_e=32"],
            &["model.maps=identity", "model.d_e=10"],
            &["model.maps=identity", "model.d_e=288"],
        ],
        [64.2, 0.0, 6.1],
    ),
    (
        "sheaf",
        "shared",
        "learned shared maps",
        [&["model.maps=shared"], &["model.maps=shared"], NONE],
        [82.4, 8.9, 92.5],
    ),
    ("sheaf", "lora", "shared + LoRA", [NONE, NONE, &["lowrank"]], [98.5, 99.8, 87.5]),
    ("x-update", "fixed-q", "diagonal (fixed Q)", [&["model.objective=tether"]; 3], [98.4, 38.9, 15.8]),
    ("x-update", "quadratic", "diagonal quadratic", [&["model.objective=quadratic"]; 3], [98.2, 99.2, 47.0]),
    ("x-update", "l1", "diagonal quadratic + ℓ1", [NONE; 3], [98.5, 99.8, 92.5]),
    ("z-update", "descent", "gradient descent + Nesterov", [DESCENT; 3], [52.2, 98.2, 0.0]),
    ("z-update", "cg", "conjugate gradients", [NONE; 3], [98.5, 99.8, 92.5]),
];

/// (K, MNIST, Maze, Sudoku).
const ITERATIONS: [(usize, [f64; 3]); 6] = [
    (1, [11.0, 0.0, 5.5]),
    (2, [19.0, 0.0, 13.6]),
    (5, [95.4, 1.2, 64.0]),
    (10, [98.5, 77.4, 83.6]),
    (20, [97.7, 86.6, 92.5]),
    (30, [90.3, 99.8, 92.3]),
];

/// The files of the three tasks, with the evaluation and the metric.
const TASKS: [(&str, &str, Metric); 3] = [
    ("mnist", "none", Metric::Accuracy),
    ("maze", "test", Metric::Solved),
    ("sudoku", "test", Metric::Solved),
];

fn variant(file: &'static str, name: &str, keys: &[&str]) -> Variant {
    match keys {
        [] => Variant::file(file),
        // The published low-rank variant of Sudoku has an experiment of its own.
        ["lowrank"] => Variant::file("sudoku-lowrank"),
        keys => Variant::with(file, name, keys),
    }
}

/// The combined ablations.
pub fn table() -> Table {
    let of_keys = |&(group, name, label, keys, values): &Ablation| Row {
        name: name.into(),
        group,
        label: label.into(),
        cells: (0..3)
            .map(|t| {
                let (file, eval, metric) = TASKS[t];
                cell(&variant(file, name, keys[t]), eval, metric, paper(values[t]))
            })
            .collect(),
    };
    let of_iterations = |&(k, values): &(usize, [f64; 3])| Row {
        name: format!("k-{k}"),
        group: "iterations",
        label: format!("K = {k}"),
        cells: (0..3)
            .map(|t| {
                let (file, eval, metric) = TASKS[t];
                let keys = [
                    format!("iterations.train={k}"),
                    "iterations.train_max=0".into(),
                    format!("iterations.eval={k}"),
                ];
                cell(&Variant::with(file, &format!("k-{k}"), &keys), eval, metric, paper(values[t]))
            })
            .collect(),
    };
    Table {
        name: "ablations",
        title: "Ablations: MNIST accuracy, Maze and Sudoku solved (%)",
        notes: "Identity maps compare whole states (d_e = d_v). Fixed Q is the tether β/2 ‖x − h‖². K rows are trained \
                and evaluated with K iterations; the paper does not say with how many it evaluates them.",
        columns: ["MNIST", "Maze", "Sudoku"].map(String::from).to_vec(),
        rows: ROWS.iter().map(of_keys).chain(ITERATIONS.iter().map(of_iterations)).collect(),
    }
}
