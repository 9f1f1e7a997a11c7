//! Sheaf-ADMM against recurrent message passing.

use super::{Metric, Row, Table, Variant, cell};

type Pair = (f64, f64);

/// Mazes: (name, label, file, test, twice and four times the size).
const MAZE: [(&str, &str, &str, Pair, Pair, Pair); 5] = [
    ("sheaf-admm", "Sheaf-ADMM", "maze", (99.9, 0.1), (98.1, 1.2), (4.5, 1.1)),
    ("pm-max", "MPNN (PM; max)", "maze-mpnn-pm-max", (99.9, 0.1), (68.3, 2.4), (1.3, 1.0)),
    ("pm-mean", "MPNN (PM; mean)", "maze-mpnn-pm-mean", (93.8, 6.3), (52.0, 25.4), (0.5, 0.8)),
    ("cm-max", "MPNN (CM; max)", "maze-mpnn-cm-max", (35.1, 37.2), (6.5, 9.2), (0.0, 0.1)),
    ("cm-mean", "MPNN (CM; mean)", "maze-mpnn-cm-mean", (94.7, 4.5), (43.0, 7.6), (0.6, 0.7)),
];

/// Sudoku: (name, label, file, solved, cells).
const SUDOKU: [(&str, &str, &str, Pair, Pair); 8] = [
    ("sheaf-admm", "Sheaf-ADMM (fixed RM)", "sudoku", (92.6, 0.2), (99.5, 0.0)),
    ("sheaf-admm-lora", "Sheaf-ADMM (LoRA)", "sudoku-lowrank", (87.4, 1.0), (99.2, 0.1)),
    ("pm-fixed-max", "MPNN (PM-fixed; max)", "sudoku-mpnn-pm-fixed-max", (10.7, 0.6), (86.3, 0.7)),
    ("pm-fixed-mean", "MPNN (PM-fixed; mean)", "sudoku-mpnn-pm-fixed-mean", (4.0, 0.2), (74.8, 1.5)),
    ("cm-max", "MPNN (CM; max)", "sudoku-mpnn-cm-max", (19.9, 3.5), (91.0, 1.3)),
    ("cm-mean", "MPNN (CM; mean)", "sudoku-mpnn-cm-mean", (6.2, 1.1), (79.4, 0.9)),
    ("pm-lora-max", "MPNN (PM-LoRA; max)", "sudoku-mpnn-pm-lora-max", (34.7, 5.8), (94.1, 0.7)),
    ("pm-lora-mean", "MPNN (PM-LoRA; mean)", "sudoku-mpnn-pm-lora-mean", (10.8, 1.2), (85.3, 1.1)),
];

fn paper((mean, deviation): Pair) -> Option<(f64, Option<f64>)> {
    Some((mean, Some(deviation)))
}

/// Mazes solved exactly.
pub fn maze() -> Table {
    let row = |&(name, label, file, test, twice, four): &(&str, &str, &'static str, Pair, Pair, Pair)| {
        let variant = Variant::file(file);
        let sets = [("test", test), ("37x37", twice), ("73x73", four)];
        Row {
            name: name.into(),
            group: "",
            label: label.into(),
            cells: sets.map(|(set, value)| cell(&variant, set, Metric::Solved, paper(value))).to_vec(),
        }
    };
    Table {
        name: "maze-baselines",
        title: "Maze: recurrent baselines, solved (%)",
        notes: "Trained on 19×19; test is 19×19, 2× is 37×37, 4× is 73×73, 1,000 mazes each, K = 100.",
        columns: ["test", "2× OOD", "4× OOD"].map(String::from).to_vec(),
        rows: MAZE.iter().map(row).collect(),
    }
}

/// Sudoku puzzles solved exactly.
pub fn sudoku() -> Table {
    let row = |&(name, label, file, solved, cells): &(&str, &str, &'static str, Pair, Pair)| {
        let variant = Variant::file(file);
        let columns = [(Metric::Solved, solved), (Metric::Cells, cells)];
        Row {
            name: name.into(),
            group: "",
            label: label.into(),
            cells: columns.map(|(metric, value)| cell(&variant, "test", metric, paper(value))).to_vec(),
        }
    };
    Table {
        name: "sudoku-baselines",
        title: "Sudoku: recurrent baselines (%)",
        notes: "Puzzles are generated in the mixture of the published collection unless `--sudoku FILE.csv` names it; \
                generated ones all have one solution, the published ones have not.",
        columns: ["solved", "cell accuracy"].map(String::from).to_vec(),
        rows: SUDOKU.iter().map(row).collect(),
    }
}
