//! The page of `sheaf explore`: tests in a real browser, and a load test.

use std::path::PathBuf;
use std::process::Command;

use anyhow::Result;

use crate::install::{self, Needs, runs};
use crate::run::{cargo, check, command, root};

/// Where the tests are; pictures go to the target directory.
fn directory() -> PathBuf {
    root().join("crates/sheaf-explore/browser")
}

/// Runs the page in chromium. `build` makes `target/debug/sheaf` as the other tests have made it.
pub fn run(build: &mut Command) -> Result<Needs> {
    let packages = ["chromium", "nodejs", "npm", "fonts-dejavu-core"];
    let there = || [("chromium", "--version"), ("node", "--version")].iter().all(|(p, v)| runs(p, &[v]));
    let needs = install::apt("a browser or node", &packages, there)?;
    if needs != Needs::Met {
        return Ok(needs);
    }
    let driver = directory().join("node_modules/playwright-core/package.json");
    let needs = install::npm(&directory(), || driver.is_file())?;
    if needs != Needs::Met {
        return Ok(needs);
    }
    check(build)?;
    let pictures = root().join("target/browser");
    check(
        command("node")
            .arg(directory().join("test.mjs"))
            .arg(root().join("target/debug/sheaf"))
            .arg(pictures),
    )?;
    Ok(Needs::Met)
}

/// Requests to a release build for some seconds; prints rates, errors and memory.
pub fn load(seconds: &str) -> Result<()> {
    check(&mut cargo(&["build", "--release", "-p", "sheaf-cli"]))?;
    check(
        command("node")
            .arg(directory().join("load.mjs"))
            .arg(root().join("target/release/sheaf"))
            .arg(seconds),
    )
}
