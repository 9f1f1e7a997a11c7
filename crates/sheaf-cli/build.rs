//! Tells the program its commit, which the records of weights name: from `SHEAF_COMMIT`, from git, or from the file that
//! `cargo package` puts into a package.

use std::path::Path;
use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rerun-if-env-changed=SHEAF_COMMIT");
    let given = std::env::var("SHEAF_COMMIT").ok().filter(|text| !text.is_empty());
    let commit = given.or_else(from_package).or_else(from_git).unwrap_or_default();
    println!("cargo::rustc-env=SHEAF_COMMIT={commit}");
}

/// `.cargo_vcs_info.json` holds one commit, `"sha1": "…"`.
fn from_package() -> Option<String> {
    let path = Path::new(".cargo_vcs_info.json");
    println!("cargo::rerun-if-changed={}", path.display());
    let text = std::fs::read_to_string(path).ok()?;
    let after = text.split("\"sha1\"").nth(1)?;
    after.split('"').nth(1).map(|sha| sha.chars().take(12).collect())
}

/// The commit that is checked out, and whether files differ from it as the program is built.
fn from_git() -> Option<String> {
    let commit = git(&["rev-parse", "--short=12", "HEAD"])?;
    // The log of HEAD grows with every commit and checkout.
    for path in ["HEAD", "logs/HEAD"] {
        if let Some(path) = git(&["rev-parse", "--git-path", path]) {
            println!("cargo::rerun-if-changed={path}");
        }
    }
    let changed = git(&["status", "--porcelain", "--untracked-files=no"]).is_none_or(|text| !text.is_empty());
    Some(if changed { format!("{commit} with changes") } else { commit })
}

fn git(arguments: &[&str]) -> Option<String> {
    let output =
        Command::new("git").args(arguments).output().ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&output.stdout).trim().to_string())
}
