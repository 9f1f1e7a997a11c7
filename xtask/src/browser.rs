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

/// Browser, node and driver, installed where that is allowed.
fn needs() -> Result<Needs> {
    let there = |program: &str| runs(program, &["--version"]);
    let browser = install::apt("a browser", &["chromium", "fonts-dejavu-core"], || there("chromium"))?;
    if browser != Needs::Met {
        return Ok(browser);
    }
    // Node may come from elsewhere, and Debian's npm conflicts with such a node: neither is installed over it.
    let node = install::apt("node or npm", &["nodejs", "npm"], || there("node") && there("npm"))?;
    if node != Needs::Met {
        return Ok(node);
    }
    let installed = |name: &str| directory().join("node_modules").join(name).join("package.json").is_file();
    install::npm(&directory(), || installed("playwright-core") && installed("gifenc"))
}

/// Runs the page in chromium. `build` makes `target/debug/sheaf` as the other tests have made it.
pub fn run(build: &mut Command) -> Result<Needs> {
    let needs = needs()?;
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
    release("load.mjs", seconds)
}

/// The page in use, as the GIF of the README.
pub fn gif() -> Result<()> {
    release("gif.mjs", "docs/pictures/explore.gif")
}

/// Runs a script of the browser with a release build and an argument.
fn release(script: &str, argument: &str) -> Result<()> {
    if let Needs::Missing(why) = needs()? {
        anyhow::bail!("{why}");
    }
    check(&mut cargo(&["build", "--release", "-p", "sheaf-cli"]))?;
    let program = root().join("target/release/sheaf");
    check(command("node").arg(directory().join(script)).arg(program).arg(argument))
}
