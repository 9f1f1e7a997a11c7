//! The fixtures of the library's tests, made by `tools/reference` in its own Python environment.

use anyhow::Result;

use crate::run::{check, command, root};

/// Prepares `tools/.venv` and runs the script with these arguments.
pub fn make(arguments: &[&str]) -> Result<()> {
    let environment = root().join("tools/.venv");
    let bin = environment.join(if cfg!(windows) { "Scripts" } else { "bin" });
    let python = bin.join("python");
    if !python.exists() {
        check(command("python3").args(["-m", "venv"]).arg(&environment))?;
    }
    let python = python.to_string_lossy().into_owned();
    let requirements = root().join("tools/requirements.txt");
    check(command(&python).args(["-m", "pip", "install", "--quiet", "-r"]).arg(requirements))?;
    check(command(&python).arg("tools/reference/make_fixtures.py").args(arguments))
}
