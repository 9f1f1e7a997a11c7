//! The worked scripts of `docs/interventions`: each runs, and its page says what was measured.
//!
//! Pages hold a table between two marks. `SHEAF_UPDATE=1 cargo test -p sheaf-explore --test scripts` writes it anew. Other
//! kernels round differently, so that a count may move a little; whether something happens at all may not.

use std::fs;
use std::path::{Path, PathBuf};

use sheaf_explore::draw::{to_gif, to_svg};
use sheaf_explore::subject::Outcome;
use sheaf_explore::{Script, Want, subject};

const MARKS: [&str; 2] = ["<!-- measured -->\n", "<!-- end -->\n"];

fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/interventions")
}

fn scripts() -> Vec<PathBuf> {
    let entries = fs::read_dir(folder()).unwrap().map(|entry| entry.unwrap().path());
    let mut paths: Vec<_> =
        entries.filter(|path| path.extension().is_some_and(|end| end == "json")).collect();
    paths.sort();
    paths
}

fn run(path: &Path) -> (Script, Outcome) {
    let script = Script::parse(&fs::read_to_string(path).unwrap(), &path.display().to_string()).unwrap();
    let outcome = subject::builtin(&script.task).unwrap().run(&script, &Want::everything()).unwrap();
    (script, outcome)
}

/// The rows of a page's table.
fn measured(outcome: &Outcome) -> Vec<(&'static str, String)> {
    let c = outcome.comparison.as_ref().unwrap();
    let at = |k: Option<usize>| k.map_or("never".into(), |k| format!("k = {k}"));
    let yes = |record: &sheaf_explore::record::Record| {
        if record.answer().unwrap().right { "yes" } else { "no" }.to_string()
    };
    vec![
        ("right without interventions", yes(outcome.base.as_ref().unwrap())),
        ("right with them", yes(&outcome.run)),
        ("answers part at", at(c.parted)),
        ("answers agree to the end from", at(c.agree_to_the_end)),
        ("iterations after the last intervention", c.recovery.map_or("none".into(), |n| n.to_string())),
        ("cells changed, at most", c.most_cells_changed.to_string()),
        ("cells changed at the end", c.cells_changed.to_string()),
        (
            "agents changed at the end",
            format!("{} of {}", c.agents_changed.len(), outcome.field.sheaf().agents()),
        ),
    ]
}

fn table(rows: &[(&str, String)]) -> String {
    let rows: String = rows.iter().map(|(name, value)| format!("| {name} | {value} |\n")).collect();
    format!("| measured | |\n| --- | --- |\n{rows}")
}

/// The first number of a value.
fn number(value: &str) -> Option<f64> {
    value.split(|c: char| !c.is_ascii_digit()).find(|part| !part.is_empty())?.parse().ok()
}

fn agree(said: &str, is: &str) -> bool {
    match (number(said), number(is)) {
        (Some(a), Some(b)) => (a - b).abs() <= f64::max(3.0, 0.25 * a.max(b)),
        _ => said == is,
    }
}

#[test]
fn every_page_says_what_its_script_does() {
    let paths = scripts();
    assert!(paths.len() >= 7);
    for path in paths {
        let (_, outcome) = run(&path);
        let (page, rows) = (path.with_extension("md"), measured(&outcome));
        let text = fs::read_to_string(&page).unwrap_or_else(|e| panic!("{}: {e}", page.display()));
        let start = text.find(MARKS[0]).expect("a mark") + MARKS[0].len();
        let end = text.find(MARKS[1]).expect("an end mark");
        if std::env::var_os("SHEAF_UPDATE").is_some() {
            fs::write(&page, format!("{}{}{}", &text[..start], table(&rows), &text[end..])).unwrap();
            continue;
        }
        let said: Vec<&str> = text[start..end].lines().skip(2).collect();
        assert_eq!(said.len(), rows.len(), "{}", page.display());
        for (line, (name, value)) in said.iter().zip(&rows) {
            let mut parts = line.trim_matches('|').split('|').map(str::trim);
            let (said_name, said_value) = (parts.next().unwrap(), parts.next().unwrap());
            assert_eq!(said_name, *name, "{}", page.display());
            assert!(agree(said_value, value), "{}: {name}: says {said_value}, is {value}", page.display());
        }
    }
}

#[test]
fn the_agreed_state_remembers_and_the_duals_do_not() {
    let of = |name: &str| run(&folder().join(name)).1.comparison.unwrap();
    let (u, z) = (of("forget-u.json"), of("forget-z.json"));
    // Without z the whole path is gone; without u no more than a cell or two is in doubt.
    assert!(z.most_cells_changed > 20 && u.most_cells_changed < 5, "{z:?} {u:?}");
    let furthest = |c: &sheaf_explore::Comparison| c.distance.iter().copied().fold(0.0, f32::max);
    assert!(furthest(&z) > 2.0 * furthest(&u), "{} {}", furthest(&z), furthest(&u));
}

#[test]
fn a_comparison_is_drawn_as_vectors_and_as_an_animation() {
    for name in ["kick.json", "wrong-digit.json"] {
        let (script, outcome) = run(&folder().join(name));
        let svg = to_svg(&script.task, &outcome);
        assert!(svg.starts_with("<svg") && svg.contains("<polyline") && svg.len() < 400_000);
        let gif = to_gif(&script.task, &outcome).unwrap();
        assert!(gif.starts_with(b"GIF89a") && gif.len() < 4_000_000, "{} bytes", gif.len());
    }
}
