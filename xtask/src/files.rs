//! Checks of the source tree: no long files, unsafe code and golden tests only in their designated places, no package
//! registry named.

use std::fs;
use std::path::PathBuf;

use anyhow::{Context, Result, bail};

use crate::run::{command, root};

/// Maximum length of a source file in lines.
const MAX_LINES: usize = 400;

/// Where unsafe code is allowed: the kernels and the counting allocator.
const UNSAFE_PLACES: &[&str] = &["crates/sheaf-kernels/src/", "crates/testkit/src/counting_alloc.rs"];

/// The packages that have golden tests and declare the feature for them.
pub const GOLDEN_PACKAGES: [&str; 4] = ["sheaf-admm", "sheaf-cli", "sheaf-learn", "sheaf-tasks"];

/// All checks of this file.
pub fn check_all() -> Result<()> {
    let files = read_tree()?;
    let mut problems = Vec::new();
    for (path, text) in &files {
        problems.extend(too_long(path, text));
        problems.extend(misplaced_unsafe_code(path, text));
        problems.extend(misplaced_goldens(path, text));
        problems.extend(registry_hosts(path, text));
    }
    report(problems, files.len())
}

/// Checks only the places of unsafe code.
pub fn check_unsafe_code() -> Result<()> {
    let files = read_tree()?;
    let problems = files.iter().flat_map(|(path, text)| misplaced_unsafe_code(path, text)).collect();
    report(problems, files.len())
}

fn report(problems: Vec<String>, files: usize) -> Result<()> {
    if !problems.is_empty() {
        bail!("{} problems in the tree:\n  {}", problems.len(), problems.join("\n  "));
    }
    eprintln!("{files} files are in order");
    Ok(())
}

/// Every text file of the repository with its path relative to the root, sorted.
fn read_tree() -> Result<Vec<(String, String)>> {
    let root = root();
    let mut paths = listed()?;
    paths.sort();
    let mut files = Vec::new();
    for path in paths {
        let bytes = fs::read(&path).with_context(|| format!("cannot read {}", path.display()))?;
        let relative = path.strip_prefix(&root).unwrap_or(&path).to_string_lossy().replace('\\', "/");
        // A file that is not UTF-8 is an array or an image and is not checked.
        if let Ok(text) = String::from_utf8(bytes) {
            files.push((relative, text));
        }
    }
    Ok(files)
}

/// The files that git tracks and the new ones that it does not ignore.
fn listed() -> Result<Vec<PathBuf>> {
    let mut git = command("git");
    let output = git.args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"]).output();
    let output = output.context("cannot start git, which lists the files to check")?;
    if !output.status.success() {
        bail!("git cannot list the files to check: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    let names = output.stdout.split(|byte| *byte == 0).filter(|name| !name.is_empty());
    let paths = names.map(|name| root().join(String::from_utf8_lossy(name).as_ref()));
    // A file that was removed but not committed is still listed; a link has no text of its own.
    Ok(paths.filter(|path| path.symlink_metadata().is_ok_and(|meta| meta.is_file())).collect())
}

fn too_long(path: &str, text: &str) -> Option<String> {
    let lines = text.lines().count();
    let source = path.ends_with(".rs") || path.ends_with(".py");
    (source && lines > MAX_LINES).then(|| format!("{path}: {lines} lines, at most {MAX_LINES}: split it"))
}

fn misplaced_unsafe_code(path: &str, text: &str) -> Vec<String> {
    if !path.ends_with(".rs") || UNSAFE_PLACES.iter().any(|place| path.starts_with(place)) {
        return Vec::new();
    }
    let numbered = text.lines().enumerate().filter(|(_, line)| opens_unsafe_code(line));
    numbered.map(|(i, _)| format!("{path}:{}: unsafe code outside {UNSAFE_PLACES:?}", i + 1)).collect()
}

/// True if the keyword is code in this line: a separate word, outside a comment, before a block or item.
fn opens_unsafe_code(line: &str) -> bool {
    let keyword = "unsafe";
    let code = line.split("//").next().unwrap_or("");
    code.match_indices(keyword).any(|(at, _)| {
        let before = code[..at].chars().next_back();
        let after = code[at + keyword.len()..].trim_start();
        let is_word = !before.is_some_and(|c| c.is_alphanumeric() || c == '_');
        let opens = ["{", "fn ", "impl", "extern", "trait ", "("].iter().any(|next| after.starts_with(next));
        is_word && (opens || after.is_empty())
    })
}

/// Golden tests must be targets called `golden…`, because the `goldens` stage runs only those.
fn misplaced_goldens(path: &str, text: &str) -> Option<String> {
    // Split, so that this file passes its own check.
    let marks = [["Golden", "::open("], ["SHEAF_", "GOLDENS"], ["feature = ", "\"goldens\""]];
    let reads = path.ends_with(".rs") && marks.iter().any(|mark| text.contains(&mark.concat()));
    let target = GOLDEN_PACKAGES.iter().any(|p| path.starts_with(&format!("crates/{p}/tests/golden")));
    let tool = path.starts_with("crates/testkit/") || path.starts_with("xtask/");
    (reads && !target && !tool)
        .then(|| format!("{path}: reads goldens, but is no tests/golden….rs of {GOLDEN_PACKAGES:?}"))
}

/// Fails if a package that should have golden tests has none.
pub fn check_golden_targets() -> Result<()> {
    let files = read_tree()?;
    for package in GOLDEN_PACKAGES {
        let start = format!("crates/{package}/tests/golden");
        if !files.iter().any(|(path, _)| path.starts_with(&start)) {
            bail!("{package} has no golden test: expected a file {start}….rs");
        }
    }
    Ok(())
}

/// Package sources belong in the user's configuration. Cargo writes the lock file itself.
fn registry_hosts(path: &str, text: &str) -> Vec<String> {
    if path == "Cargo.lock" {
        return Vec::new();
    }
    // Split, so that this file passes its own check.
    let hosts =
        [["crates", "io"], ["pypi", "org"], ["pythonhosted", "org"], ["npmjs", "org"], ["npmjs", "com"]];
    let found = hosts.map(|host| host.join(".")).into_iter().filter(|host| text.contains(host.as_str()));
    found.map(|host| format!("{path}: names the package registry {host}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unsafe_blocks_functions_and_impls_are_found_outside_the_kernels() {
        for item in ["{ x }", "fn f() {}", "impl Send for A {}", "extern \"C\" {}", ""] {
            let line = format!("    let _ = {} {item}", "unsafe");
            let found = misplaced_unsafe_code("crates/sheaf-admm/src/lib.rs", &format!("// one\n{line}\n"));
            assert_eq!(found.len(), 1, "{line}");
            assert!(found[0].starts_with("crates/sheaf-admm/src/lib.rs:2: "), "{}", found[0]);
            assert!(misplaced_unsafe_code("crates/sheaf-kernels/src/gemm.rs", &line).is_empty());
        }
    }

    #[test]
    fn lint_names_and_comments_are_not_unsafe_code() {
        let text = format!("unsafe_code = 1\n// {0} fn f()\nlet not_{0} {{}}\n", "unsafe");
        assert!(misplaced_unsafe_code("a.rs", &text).is_empty());
    }

    #[test]
    fn a_source_file_of_401_lines_is_too_long_and_a_text_of_that_length_is_not() {
        assert!(too_long("a.rs", &"\n".repeat(401)).is_some());
        assert!(too_long("a.rs", &"\n".repeat(400)).is_none());
        assert!(too_long("a.md", &"\n".repeat(401)).is_none());
    }

    #[test]
    fn goldens_outside_golden_targets_are_found() {
        let text = "#![cfg(feature = \"goldens\")]";
        assert!(misplaced_goldens("crates/sheaf-admm/tests/solver.rs", text).is_some());
        assert!(misplaced_goldens("crates/sheaf-admm/src/lib.rs", text).is_some());
        assert!(misplaced_goldens("crates/sheaf-tasks/tests/golden_maze.rs", text).is_none());
    }

    #[test]
    fn a_registry_host_is_found() {
        let text = format!("see https://{}.io", "crates");
        assert_eq!(registry_hosts("README.md", &text).len(), 1);
        assert!(registry_hosts("Cargo.lock", &text).is_empty());
    }
}
