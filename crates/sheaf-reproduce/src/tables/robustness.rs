//! MNIST under distribution shifts.

use super::{Metric, Row, Table, Variant, cell, paper};

/// (shift, label, paper's network, paper's agents).
const ROWS: [(&str, &str, f64, f64); 9] = [
    ("none", "no shift", 99.3, 98.5),
    ("pad:4", "padding 4", 70.8, 98.4),
    ("pad:8", "padding 8", 44.1, 97.5),
    ("pad:16", "padding 16", 11.4, 86.3),
    ("drop:0.05", "patch dropout 5 %", 94.4, 97.0),
    ("drop:0.1", "patch dropout 10 %", 84.0, 94.6),
    ("drop:0.3", "patch dropout 30 %", 45.5, 69.1),
    ("noise:0.1", "noise σ = 0.1", 54.0, 74.0),
    ("noise:0.2", "noise σ = 0.2", 9.9, 31.9),
];

/// Accuracy of the network, of the agents and of message passing.
pub fn table() -> Table {
    let (cnn, agents, talk) =
        (Variant::file("mnist-cnn"), Variant::file("mnist"), Variant::file("mnist-mpnn"));
    let row = |&(shift, label, network, sheaf): &(&str, &str, f64, f64)| Row {
        name: shift.replace([':', '.'], "-"),
        group: "",
        label: label.into(),
        cells: vec![
            cell(&cnn, shift, Metric::Accuracy, paper(network)),
            cell(&agents, shift, Metric::Accuracy, paper(sheaf)),
            cell(&talk, shift, Metric::Accuracy, None),
        ],
    };
    Table {
        name: "robustness",
        title: "MNIST: robustness to distribution shifts, accuracy (%)",
        notes: "Random shifts are drawn three times. The network is ours: the paper does not describe its own. Message \
                passing is not in the paper's table.",
        columns: ["CNN", "Sheaf-ADMM", "message passing"].map(String::from).to_vec(),
        rows: ROWS.iter().map(row).collect(),
    }
}
