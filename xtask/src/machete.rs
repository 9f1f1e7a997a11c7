//! Unused dependencies, found by `cargo machete`.

use std::env;
use std::ffi::OsString;
use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Result, bail};

use crate::run::{cargo, check, in_ci, root};

/// The message if the tool is missing and cannot be installed.
pub const MISSING: &str =
    "cargo-machete is missing and could not be installed: `cargo install cargo-machete --locked`";

/// Fails if a package declares an unused dependency. Installs the tool in the target directory if it is missing.
/// Returns false if that is not possible; with CI=true that is an error.
pub fn run() -> Result<bool> {
    if !is_there() {
        eprintln!("cargo-machete is missing; installing it in {}", tools().display());
        let directory = tools().into_os_string();
        let mut install = cargo(&["install", "cargo-machete", "--locked", "--root"]);
        if let Err(error) = check(install.arg(directory)) {
            eprintln!("{error:#}");
        }
    }
    if is_there() {
        check(&mut machete(&["--with-metadata", "--skip-target-dir"]))?;
        return Ok(true);
    }
    if in_ci() {
        bail!("{MISSING}");
    }
    Ok(false)
}

fn is_there() -> bool {
    let mut version = machete(&["--version"]);
    version.stdout(Stdio::null()).stderr(Stdio::null());
    version.status().is_ok_and(|status| status.success())
}

/// `cargo machete`, wherever it is installed.
fn machete(arguments: &[&str]) -> Command {
    let mut command = cargo(&["machete"]);
    command.args(arguments).env("PATH", path_with(tools().join("bin")));
    // Set by `cargo run`; the tool takes it as a sign that cargo did not start it.
    command.env_remove("CARGO_PKG_NAME");
    command
}

/// The installation directory: nothing outside the build directory changes.
fn tools() -> PathBuf {
    let target = env::var_os("CARGO_TARGET_DIR").map_or_else(|| "target".into(), PathBuf::from);
    root().join(target).join("tools")
}

/// The search path with one directory appended.
fn path_with(directory: PathBuf) -> OsString {
    let before = env::var_os("PATH").unwrap_or_default();
    let all = env::split_paths(&before).chain([directory]);
    // A directory whose name cannot be part of a search path is omitted.
    env::join_paths(all).unwrap_or(before)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_directory_of_the_tools_comes_last() {
        let path = path_with(PathBuf::from("/some/tools/bin"));
        assert_eq!(env::split_paths(&path).last(), Some(PathBuf::from("/some/tools/bin")));
    }
}
