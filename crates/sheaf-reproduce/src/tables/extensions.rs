//! Beyond the paper: the extensions of its appendix, on mazes.

use super::{Metric, Row, Table, Variant, cell};

/// (group, name, label, keys).
const ROWS: [(&str, &str, &str, &[&str]); 19] = [
    ("over-relaxation", "relaxation-1.0", "α = 1.0", &[]),
    ("over-relaxation", "relaxation-1.2", "α = 1.2", &["model.relaxation=1.2"]),
    ("over-relaxation", "relaxation-1.4", "α = 1.4", &["model.relaxation=1.4"]),
    ("over-relaxation", "relaxation-1.6", "α = 1.6", &["model.relaxation=1.6"]),
    ("over-relaxation", "relaxation-1.8", "α = 1.8", &["model.relaxation=1.8"]),
    ("penalty", "balancing", "residual balancing", &["model.balancing=true"]),
    ("penalty", "per-agent", "a penalty per agent", &["model.penalty=per-agent"]),
    ("CG steps", "cg-1", "T = 1", &["model.cg_steps=1"]),
    ("CG steps", "cg-2", "T = 2", &["model.cg_steps=2"]),
    ("CG steps", "cg-5", "T = 5", &[]),
    ("CG steps", "cg-10", "T = 10", &["model.cg_steps=10"]),
    ("CG steps", "cg-20", "T = 20", &["model.cg_steps=20"]),
    ("consensus", "exact", "exact", &["model.consensus=exact"]),
    ("consensus", "edge", "edge space, warm start", &["model.consensus=edge", "model.cg_steps=10"]),
    ("consensus", "huber", "Huber edges", &["model.consensus=huber", "model.cg_steps=10"]),
    ("adjoint", "unrolled", "through all iterations", &[]),
    ("adjoint", "last-5", "through the last 5", &["iterations.gradient=5"]),
    ("adjoint", "last-10", "through the last 10", &["iterations.gradient=10"]),
    (
        "adjoint",
        "implicit",
        "implicit, exact consensus, ρ = 1 at first",
        &["iterations.adjoint=implicit", "model.consensus=exact", "model.rho_init=1.0"],
    ),
];

/// The extensions.
pub fn table() -> Table {
    let row = |&(group, name, label, keys): &(&'static str, &str, &str, &[&str])| {
        let variant = match keys {
            [] => Variant::file("maze"),
            keys => Variant::with("maze", name, keys),
        };
        Row {
            name: name.into(),
            group,
            label: label.into(),
            cells: ["test", "37x37"].map(|set| cell(&variant, set, Metric::Solved, None)).to_vec(),
        }
    };
    Table {
        name: "extensions",
        title: "Maze: extensions beyond the paper, solved (%)",
        notes: "The paper proposes these in its appendix and gives no numbers. The rows without a change are the model as \
                published. The implicit adjoint starts with ρ = 1: with the published ρ = 0.25 its series does not converge \
                within 500 terms.",
        columns: ["test", "2× OOD"].map(String::from).to_vec(),
        rows: ROWS.iter().map(row).collect(),
    }
}
