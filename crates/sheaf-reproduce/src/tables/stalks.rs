//! Vertex and edge stalks of learned shared maps on mazes: 30 cells.

use super::{Metric, Row, Table, Variant, cell, paper};

const EDGE: [usize; 5] = [5, 16, 32, 64, 128];
const PAPER: [(usize, [f64; 5]); 6] = [
    (10, [8.9, 0.0, 0.0, 0.0, 0.0]),
    (16, [2.2, 0.0, 0.0, 0.0, 0.0]),
    (32, [68.2, 38.1, 61.1, 0.2, 0.0]),
    (64, [93.6, 90.8, 61.1, 0.2, 0.0]),
    (128, [96.6, 92.8, 93.3, 84.6, 10.6]),
    (256, [97.8, 97.1, 97.7, 95.3, 94.7]),
];

/// The experiment of one cell. The smallest is the row of the ablations.
fn variant(d_v: usize, d_e: usize) -> Variant {
    if (d_v, d_e) == (10, 5) {
        return Variant::with("maze", "shared", &["model.maps=shared"]);
    }
    let keys = ["model.maps=shared".into(), format!("model.d_v={d_v}"), format!("model.d_e={d_e}")];
    Variant::with("maze", &format!("shared-{d_v}-{d_e}"), &keys)
}

/// The sweep.
pub fn table() -> Table {
    let row = |&(d_v, values): &(usize, [f64; 5])| Row {
        name: format!("d_v-{d_v}"),
        group: "",
        label: format!("d_v = {d_v}"),
        cells: (0..EDGE.len())
            .map(|i| cell(&variant(d_v, EDGE[i]), "test", Metric::Solved, paper(values[i])))
            .collect(),
    };
    Table {
        name: "stalks",
        title: "Maze: stalks of learned shared maps, solved (%)",
        notes: "The dimension of a state (d_v) against that of what two neighbours compare (d_e). Trained on 19×19, K = 100 \
                at evaluation. The paper prints the same three values for d_v = 32 and 64.",
        columns: EDGE.iter().map(|d_e| format!("d_e = {d_e}")).collect(),
        rows: PAPER.iter().map(row).collect(),
    }
}
