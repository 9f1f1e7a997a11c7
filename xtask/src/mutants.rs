//! Mutation testing of the solver and the trainer on a seeded sample.
//!
//! A mutant is the code with one place changed; it survives if all tests pass. A build for each would take hours, so
//! that the whole sample is compiled once: every mutant stands in the source behind a switch (`schema`) that a file
//! sets, and the tests that reach its place run for each, the quickest first, until one fails.
//! The work happens in a clone of the last commit, `target/mutants`.

mod find;
mod schema;
mod trial;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Stdio;

use anyhow::{Context, Result, bail};
use serde_json::Value;

use crate::run::{cargo, check, command, root};
use find::Mutant;
use schema::{SWITCH, Schema};
use trial::{Outcome, Test};

/// What is mutated.
const FOLDERS: [&str; 5] = [
    "crates/sheaf-admm/src/sheaf",
    "crates/sheaf-admm/src/x_update",
    "crates/sheaf-admm/src/z_update",
    "crates/sheaf-admm/src/admm",
    "crates/sheaf-learn/src/train",
];

/// The packages of these folders, and the features of their tests.
const PACKAGES: [&str; 6] = ["-p", "sheaf-admm", "-p", "sheaf-learn", "--features", "sheaf-admm/serde"];

/// Tests a sample of `count` mutants, drawn with `seed`: the same seed gives the same mutants of the same code.
pub fn run(count: &str, seed: &str) -> Result<()> {
    let count: usize = count.parse().context("the number of mutants")?;
    let seed: u64 = seed.parse().context("the seed of the sample")?;
    let tree = clone()?;
    let sources = sources(&tree)?;
    let mut all = Vec::new();
    for (path, text) in &sources {
        all.extend(
            find::mutants(path, text).with_context(|| path.clone())?.into_iter().map(|mutant| (path, mutant)),
        );
    }
    println!("{} mutants, {count} of them by seed {seed}", all.len());
    all.sort_by_cached_key(|(_, mutant)| (hash(&mutant.name, seed), mutant.name.clone()));
    // Numbers are places in this order, from 1: the sample are the first that compile.
    let mut left_out = BTreeSet::new();
    let (chosen, messages) = loop {
        let chosen: Vec<usize> =
            (1..=all.len()).filter(|number| !left_out.contains(number)).take(count).collect();
        let schemas = write(&tree, &sources, &chosen, &all)?;
        let (success, messages) = build(&tree)?;
        if success {
            break (chosen, messages);
        }
        let broken = broken(&messages, &schemas)?;
        broken.iter().for_each(|number| println!("does not compile: {}", all[number - 1].1.name));
        left_out.extend(broken);
    };
    println!("{} mutants do not compile and were replaced by the next", left_out.len());
    let tests = tests(&tree, &messages)?;
    println!("{} tests, {:.0} s", tests.len(), tests.iter().map(|test| test.time.as_secs_f64()).sum::<f64>());
    let mut counts = BTreeMap::new();
    for number in chosen {
        let outcome = trial(&tree, number, &tests)?;
        println!("{outcome}: {number}: {}", all[number - 1].1.name);
        *counts.entry(outcome.split(':').next().unwrap_or_default().to_string()).or_insert(0) += 1;
    }
    println!("{counts:?}");
    Ok(())
}

/// Runs the tests that reach the mutant, the quickest first, until one fails.
fn trial(tree: &Path, number: usize, tests: &[Test]) -> Result<String> {
    let mut reached = false;
    for test in tests.iter().filter(|test| test.reached.contains(&number)) {
        reached = true;
        match test.run(tree, number)? {
            Outcome::Passed => {}
            Outcome::Failed => return Ok(format!("killed: by {}", test.name)),
            Outcome::TooLong => return Ok(format!("too long: in {}", test.name)),
        }
    }
    Ok(if reached { "SURVIVED" } else { "NOT REACHED" }.to_string())
}

/// A clone of the last commit, brought up to date.
fn clone() -> Result<PathBuf> {
    let tree = root().join("target/mutants");
    if !tree.join(".git").is_dir() {
        std::fs::create_dir_all(&tree)?;
        check(command("git").args(["clone", "--quiet", "--local", "."]).arg(&tree))?;
    }
    let head = command("git").args(["rev-parse", "HEAD"]).output()?;
    let head = String::from_utf8_lossy(&head.stdout).trim().to_string();
    for arguments in [["fetch", "--quiet", "origin"], ["reset", "--hard", &head]] {
        check(command("git").current_dir(&tree).args(arguments))?;
    }
    for package in ["crates/sheaf-admm", "crates/sheaf-learn"] {
        std::fs::write(tree.join(package).join("src/mutant.rs"), SWITCH)?;
        let library = tree.join(package).join("src/lib.rs");
        let text = std::fs::read_to_string(&library)?;
        std::fs::write(
            &library,
            format!("{text}\n#[doc(hidden)]\n#[allow(missing_docs)]\npub mod mutant;\n"),
        )?;
    }
    Ok(tree)
}

/// The sources to mutate with their paths, without files of tests.
fn sources(tree: &Path) -> Result<BTreeMap<String, String>> {
    let mut found = BTreeMap::new();
    let mut folders: Vec<PathBuf> = FOLDERS.iter().map(|folder| tree.join(folder)).collect();
    while let Some(folder) = folders.pop() {
        for entry in std::fs::read_dir(&folder)? {
            let path = entry?.path();
            let name = path.file_name().unwrap_or_default().to_string_lossy();
            if path.is_dir() {
                folders.push(path);
            } else if name.ends_with(".rs") && !name.starts_with("test") {
                let relative = path.strip_prefix(tree)?.to_string_lossy().into_owned();
                found.insert(relative, std::fs::read_to_string(&path)?);
            }
        }
    }
    Ok(found)
}

/// Writes all sources with the chosen mutants in them.
fn write(
    tree: &Path,
    sources: &BTreeMap<String, String>,
    chosen: &[usize],
    all: &[(&String, Mutant)],
) -> Result<BTreeMap<String, Schema>> {
    let mut schemas = BTreeMap::new();
    for (path, text) in sources {
        let here = chosen.iter().filter(|number| all[*number - 1].0 == path);
        let here: Vec<(usize, &Mutant)> = here.map(|number| (*number, &all[number - 1].1)).collect();
        let schema = Schema::new(text, &here);
        let old = std::fs::read_to_string(tree.join(path))?;
        if old != schema.text {
            std::fs::write(tree.join(path), &schema.text)?;
        }
        schemas.insert(path.clone(), schema);
    }
    Ok(schemas)
}

/// Builds the tests in the clone: whether it succeeded, and cargo's messages.
fn build(tree: &Path) -> Result<(bool, Vec<Value>)> {
    let mut command = cargo(&["test", "--no-run", "--lib", "--tests", "--message-format=json"]);
    command.args(PACKAGES).current_dir(tree).env_remove("CARGO_TARGET_DIR");
    let output = command.stderr(Stdio::inherit()).output()?;
    let lines = output.stdout.split(|byte| *byte == b'\n').filter(|line| !line.is_empty());
    Ok((output.status.success(), lines.filter_map(|line| serde_json::from_slice(line).ok()).collect()))
}

/// The mutants that the compiler refuses.
fn broken(messages: &[Value], schemas: &BTreeMap<String, Schema>) -> Result<BTreeSet<usize>> {
    let mut broken = BTreeSet::new();
    for message in
        messages.iter().map(|message| &message["message"]).filter(|message| message["level"] == "error")
    {
        let spans: Vec<&Value> = message["spans"].as_array().into_iter().flatten().collect();
        let mutant = spans.iter().find_map(|span| {
            let schema = schemas.get(span["file_name"].as_str()?)?;
            schema.mutant_at(span["byte_start"].as_u64()? as usize)
        });
        if mutant.is_none() && !spans.is_empty() {
            bail!("an error that belongs to no mutant: {}", message["rendered"].as_str().unwrap_or_default());
        }
        broken.extend(mutant);
    }
    if broken.is_empty() {
        bail!("the tests do not build, and no mutant is the cause");
    }
    Ok(broken)
}

/// The tests of all binaries, the quickest first.
fn tests(tree: &Path, messages: &[Value]) -> Result<Vec<Test>> {
    let mut tests = Vec::new();
    for message in messages.iter().filter(|message| message["profile"]["test"] == true) {
        let (path, manifest) = (message["executable"].as_str(), message["manifest_path"].as_str());
        let (Some(path), Some(folder)) = (path, manifest.and_then(|path| Path::new(path).parent())) else {
            continue;
        };
        tests.extend(trial::tests(tree, Path::new(path), folder)?);
    }
    tests.sort_by_key(|test| test.time);
    Ok(tests)
}

/// A hash of name and seed, which orders the sample.
fn hash(name: &str, seed: u64) -> u64 {
    name.bytes().fold(seed ^ 0xCBF2_9CE4_8422_2325, |hash, byte| {
        (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01B3).rotate_left(17)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    const SOURCE: &str = "fn f(a: usize, b: usize) -> usize {\n    match a + b * 2 {\n        0 => 1,\n        _ => -3,\n    }\n}\n";

    #[test]
    fn operators_bodies_and_arms_are_mutated_and_constants_are_not() {
        let names: Vec<String> = find::mutants("a.rs", SOURCE).unwrap().into_iter().map(|m| m.name).collect();
        let expected = [
            "1:4: return 0 in f",
            "1:4: return 1 in f",
            "2:13: + becomes - in f",
            "2:13: + becomes * in f",
            "2:17: * becomes + in f",
            "2:17: * becomes / in f",
            "3:9: arm 0 is removed in f",
            "4:14: - is removed in f",
        ];
        assert_eq!(names, expected.map(|name| format!("a.rs:{name}")));
        let rest = "const A: usize = 1 + 2;\n#[test]\nfn t() { 1 + 2; }\nfn u() -> bool { true }\n";
        let names: Vec<String> = find::mutants("a.rs", rest).unwrap().into_iter().map(|m| m.name).collect();
        assert_eq!(names, ["a.rs:4:4: return false in u"], "a body that is this value already is no mutant");
    }

    #[test]
    fn all_mutants_of_a_source_fit_into_one_and_errors_find_theirs() {
        let found = find::mutants("a.rs", SOURCE).unwrap();
        let numbered: Vec<(usize, &Mutant)> = found.iter().enumerate().map(|(i, m)| (i + 1, m)).collect();
        let schema = Schema::new(SOURCE, &numbered);
        assert!(syn::parse_file(&schema.text).is_ok(), "{}", schema.text);
        assert_eq!(Schema::new(SOURCE, &[]).text, SOURCE);
        for number in 1..=found.len() {
            let at = schema.text.find(&format!("on({number})")).unwrap();
            assert_eq!(schema.mutant_at(at), Some(number));
        }
        let inner = "a + (if crate::mutant::on(5) { (b) + (2) } else { (if crate::mutant::on(6) { (b) / (2) } else { b * 2 }) })";
        assert!(schema.text.contains(inner), "{}", schema.text);
    }

    #[test]
    fn a_sample_is_the_same_for_the_same_seed_and_differs_for_another() {
        assert_eq!(hash("a.rs:1: + becomes -", 1), hash("a.rs:1: + becomes -", 1));
        assert_ne!(hash("a.rs:1: + becomes -", 1), hash("a.rs:1: + becomes -", 2));
    }
}
