//! Size generalisation of mazes: trained on 19×19, evaluated up to 73×73.

use sheaf_tasks::maze::suite::sweep_sizes;

use super::{Metric, Row, Table, Variant, cell};

/// The sweep. The paper shows it as a curve without numbers.
pub fn table() -> Table {
    let (sheaf, talk) = (Variant::file("maze"), Variant::file("maze-mpnn-pm-max"));
    let row = |n: usize| {
        let set = format!("sweep_{n}");
        let cells = [&sheaf, &talk].into_iter().flat_map(|variant| {
            [Metric::Solved, Metric::FirstSolve].map(|metric| cell(variant, &set, metric, None))
        });
        Row { name: format!("n-{n}"), group: "", label: format!("{n}×{n}"), cells: cells.collect() }
    };
    Table {
        name: "sizes",
        title: "Maze: size generalisation, solved (%) and iterations until first solved",
        notes: "Paths of 1.5 times the width or more, K = 100 at most. The paper shows Sheaf-ADMM as a curve: near 100 % \
                up to 39×39, then falling. Message passing is not in the paper's figure.",
        columns: ["Sheaf-ADMM", "first solve", "MPNN (PM; max)", "first solve"].map(String::from).to_vec(),
        rows: sweep_sizes().map(row).collect(),
    }
}
