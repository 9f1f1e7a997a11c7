//! The crates that are published: what their packages contain, and whether they build from them.

use anyhow::{Result, bail};

use crate::run::{cargo, check};

/// The published crates, each after those it depends on.
const CRATES: [&str; 11] = [
    "sheaf-kernels",
    "sheaf-admm",
    "sheaf-mpi",
    "sheaf-learn",
    "sheaf-files",
    "sheaf-tasks",
    "sheaf-explore",
    "sheaf-bench",
    "sheaf-figures",
    "sheaf-reproduce",
    "sheaf-cli",
];

/// Files without which a package would not build or not be usable.
const NEEDED: [(&str, &str); 7] = [
    ("sheaf-figures", "assets/DejaVuSans.ttf"),
    ("sheaf-reproduce", "experiments/maze.toml"),
    ("sheaf-tasks", "weights/maze.safetensors"),
    ("sheaf-tasks", "weights/sudoku.safetensors"),
    ("sheaf-admm", "README.md"),
    ("sheaf-explore", "assets/index.html"),
    ("sheaf-cli", "LICENSE-MIT"),
];

/// Checks that every package can be put together and holds what it needs, and that `cargo publish` would take it. Builds
/// nothing.
pub fn list() -> Result<()> {
    for name in CRATES {
        let output = cargo(&["package", "--list", "--allow-dirty", "-p", name]).output()?;
        if !output.status.success() {
            bail!("`cargo package --list -p {name}` failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        let files = String::from_utf8_lossy(&output.stdout).into_owned();
        for (_, file) in NEEDED.iter().filter(|(of, _)| *of == name) {
            if !files.lines().any(|line| line == *file) {
                bail!("the package of {name} lacks {file}");
            }
        }
        eprintln!("{name}: {} files", files.lines().count());
    }
    dry_run(&["--no-verify"])
}

/// `cargo publish --dry-run` of all of them: each is built from its package alone.
pub fn verify() -> Result<()> {
    dry_run(&[])
}

fn dry_run(more: &[&str]) -> Result<()> {
    let mut command = cargo(&["publish", "--dry-run", "--allow-dirty"]);
    CRATES.iter().for_each(|name| {
        command.args(["-p", name]);
    });
    check(command.args(more))
}
