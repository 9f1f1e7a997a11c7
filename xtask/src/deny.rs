//! Licences, sources and duplicate versions of all dependencies, read from `cargo metadata`.
//!
//! This is the part of `cargo deny` that needs no network, without a tool to install. Known vulnerabilities need the
//! advisory database: `cargo deny check advisories` checks them where it can be fetched.

use std::collections::BTreeMap;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run::cargo;

/// Licences that ask for no more than a notice.
const ALLOWED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "CDLA-Permissive-2.0",
    "ISC",
    "MIT",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// Crates that dependencies need in several versions; a new one is looked at before it is listed.
const DUPLICATES: &[&str] = &[
    "base64",
    "bitflags",
    "equator",
    "equator-macro",
    "getrandom",
    "hashbrown",
    "miniz_oxide",
    // The rasteriser of figures links an older version, of which nothing is called.
    "png",
    "strsim",
    "syn",
    "web-time",
    "windows-sys",
];

/// Fails if a dependency has another licence, comes from elsewhere than the registry, or is there twice unexpectedly.
pub fn run() -> Result<()> {
    let output = cargo(&["metadata", "--format-version", "1", "--locked"]).output()?;
    if !output.status.success() {
        bail!("`cargo metadata` failed: {}", String::from_utf8_lossy(&output.stderr));
    }
    let data: Value = serde_json::from_slice(&output.stdout)?;
    let packages = data["packages"].as_array().context("no packages in the metadata")?;
    let problems = problems(packages);
    if !problems.is_empty() {
        bail!("{} problems with dependencies:\n  {}", problems.len(), problems.join("\n  "));
    }
    eprintln!("{} packages are in order; advisories are not checked offline", packages.len());
    Ok(())
}

fn problems(packages: &[Value]) -> Vec<String> {
    let mut found = Vec::new();
    let mut versions: BTreeMap<&str, Vec<&str>> = BTreeMap::new();
    for package in packages {
        let text = |key: &str| package[key].as_str().unwrap_or_default();
        let (name, version) = (text("name"), text("version"));
        versions.entry(name).or_default().push(version);
        if !is_allowed(text("license")) {
            found.push(format!("{name} {version}: licence `{}`", text("license")));
        }
        if !(package["source"].is_null() || text("source").starts_with("registry+")) {
            found.push(format!("{name} {version}: comes from {}", text("source")));
        }
    }
    for (name, all) in &versions {
        match (all.len() > 1, DUPLICATES.contains(name)) {
            (true, false) => found.push(format!("{name}: versions {}", all.join(", "))),
            (false, true) => found.push(format!("{name}: one version only; take it off the list in deny.rs")),
            _ => {}
        }
    }
    let gone = DUPLICATES.iter().filter(|name| !versions.contains_key(**name));
    found.extend(gone.map(|name| format!("{name}: no longer there; take it off the list in deny.rs")));
    found
}

/// Whether an SPDX expression can be satisfied by allowed licences. An older form writes `/` for `OR`.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    let mut depth = 0;
    // The loosest operator outside parentheses decides: OR binds less than AND.
    for operator in [" OR ", " AND "] {
        for (at, c) in expression.char_indices() {
            match c {
                '(' => depth += 1,
                ')' => depth -= 1,
                ' ' if depth == 0 && expression[at..].starts_with(operator) => {
                    let (left, right) =
                        (is_allowed(&expression[..at]), is_allowed(&expression[at + operator.len()..]));
                    return if operator == " OR " { left || right } else { left && right };
                }
                _ => {}
            }
        }
    }
    let inner = expression.trim();
    match inner.strip_prefix('(').and_then(|rest| rest.strip_suffix(')')) {
        Some(inside) => is_allowed(inside),
        None => ALLOWED.contains(&inner),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn expressions_are_read_as_spdx_means_them() {
        for good in [
            "MIT",
            "MIT/Apache-2.0",
            "GPL-3.0 OR MIT",
            "(MIT OR GPL-3.0) AND Unicode-3.0",
            "Apache-2.0 AND ISC",
        ] {
            assert!(is_allowed(good), "{good}");
        }
        for bad in ["", "GPL-3.0", "MIT AND GPL-3.0", "(MIT OR ISC) AND GPL-3.0", "Apache-2.0 WITH other"] {
            assert!(!is_allowed(bad), "{bad}");
        }
    }

    #[test]
    fn foreign_sources_licences_and_new_duplicates_are_found() {
        let package = |name: &str, version: &str, license: &str, source: &str| serde_json::json!({ "name": name, "version": version, "license": license, "source": source });
        let mut all: Vec<Value> = Vec::new();
        for name in DUPLICATES {
            all.extend(["1.0.0", "2.0.0"].map(|version| package(name, version, "MIT", "registry+x")));
        }
        assert_eq!(problems(&all), [""; 0]);
        all.push(package("evil", "1.0.0", "GPL-3.0", "git+x"));
        all.push(package("evil", "2.0.0", "MIT", "registry+x"));
        assert_eq!(problems(&all).len(), 3);
    }
}
