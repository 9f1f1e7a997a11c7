//! What tests need beyond Rust: looked for, installed where that is allowed, named where it is not.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::sync::OnceLock;

use anyhow::{Result, bail};

use crate::run::{check, command, in_ci, root};

/// Whether the needs of a stage are met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Needs {
    /// They are.
    Met,
    /// They are not; what to install.
    Missing(String),
}

/// Debian packages for what `there` looks for. Installs them as root; elsewhere, or if that fails, says what to install.
/// With CI=true a missing package is an error.
pub fn apt(what: &str, packages: &[&str], there: impl Fn() -> bool) -> Result<Needs> {
    let wanted = format!("{what} is missing: `apt-get install {}`", packages.join(" "));
    ensure(&wanted, there, || {
        if !is_root() || !runs("apt-get", &["--version"]) {
            return Ok(());
        }
        update_lists();
        let arguments = [&["install", "-y", "--no-install-recommends"], packages].concat();
        check(command("apt-get").args(arguments).env("DEBIAN_FRONTEND", "noninteractive"))
    })
}

/// A virtual environment of `python` in the target directory with the packages of a requirements file, which names
/// their versions. Made again when the file changes. Returns the path of its interpreter.
pub fn python_environment(python: &str, name: &str, requirements: &Path) -> Result<(Needs, PathBuf)> {
    let directory = root().join("target/venv").join(name);
    let interpreter = directory.join("bin/python");
    let wanted = format!(
        "Python packages are missing: `{python} -m venv` and `pip install -r {}`",
        requirements.display()
    );
    let text = std::fs::read_to_string(requirements)?;
    let stamp = directory.join("requirements.txt");
    let there = || std::fs::read_to_string(&stamp).is_ok_and(|installed| installed == text);
    let needs = ensure(&wanted, there, || {
        check(command(python).args(["-m", "venv", "--system-site-packages", "--clear"]).arg(&directory))?;
        let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check", "-r"];
        check(command(&interpreter.to_string_lossy()).args(pip).arg(requirements))?;
        Ok(std::fs::write(&stamp, &text)?)
    })?;
    Ok((needs, interpreter))
}

/// Packages from npm in `directory`, whose `package.json` and lock file name their versions.
pub fn npm(directory: &Path, there: impl Fn() -> bool) -> Result<Needs> {
    let wanted = format!("npm packages are missing: `npm ci --prefix {}`", directory.display());
    ensure(&wanted, there, || {
        check(command("npm").args(["ci", "--no-audit", "--no-fund", "--prefix"]).arg(directory))
    })
}

/// Whether a program starts and ends well.
pub fn runs(program: &str, arguments: &[&str]) -> bool {
    let mut command = command(program);
    command.args(arguments).stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.status().is_ok_and(|status| status.success())
}

fn ensure(wanted: &str, there: impl Fn() -> bool, install: impl FnOnce() -> Result<()>) -> Result<Needs> {
    if there() {
        return Ok(Needs::Met);
    }
    if let Err(error) = install() {
        eprintln!("{error:#}");
    }
    if there() {
        return Ok(Needs::Met);
    }
    if in_ci() {
        bail!("{wanted}");
    }
    Ok(Needs::Missing(wanted.into()))
}

fn is_root() -> bool {
    let id = command("id").arg("-u").output();
    id.is_ok_and(|output| output.stdout.trim_ascii() == b"0")
}

/// Package lists are fetched once. If that fails, the install that follows says what is wrong.
fn update_lists() {
    static UPDATED: OnceLock<()> = OnceLock::new();
    UPDATED.get_or_init(|| {
        if let Err(error) = check(command("apt-get").arg("update").stdout(Stdio::null())) {
            eprintln!("{error:#}");
        }
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_there_is_not_installed() {
        let needs = ensure("x", || true, || panic!("installs")).unwrap();
        assert_eq!(needs, Needs::Met);
    }

    #[test]
    fn what_cannot_be_installed_is_named_or_fails_in_ci() {
        match ensure("x is missing", || false, || Ok(())) {
            Ok(needs) => assert_eq!(needs, Needs::Missing("x is missing".into())),
            Err(error) => assert!(in_ci() && error.to_string() == "x is missing"),
        }
    }
}
