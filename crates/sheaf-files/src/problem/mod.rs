//! Problem files: TOML or JSON, with matrices inline or in `.npy`, `.npz` and `.mtx` files.
//!
//! Input is not trusted: [`read`] works on bytes, errors have line and column, and nothing is allocated that is larger
//! than the text or [`MAX_SIZE`](sheaf_admm::network::file::MAX_SIZE) allows.

mod files;
mod locate;
mod market;

pub use files::{Folder, matrix};

/// The largest problem file, in bytes.
pub const MAX_BYTES: u64 = 1 << 26;

use std::path::Path;

use sheaf_admm::network::file::{Loader, Problem, Step};
use sheaf_admm::network::{Network, Settings};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::config::in_words;

/// The two formats.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Format {
    /// TOML.
    Toml,
    /// JSON.
    Json,
}

impl Format {
    /// The format of a file, by the end of its name.
    pub fn of(path: &Path) -> Result<Self> {
        match path.extension().and_then(|e| e.to_str()) {
            Some("toml") => Ok(Self::Toml),
            Some("json") => Ok(Self::Json),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                path.display().to_string(),
                "a .toml or .json file",
                "another name",
            )
            .hint("docs/solver.md has the format of problems")),
        }
    }
}

/// A problem file, read and checked.
#[derive(Clone, Debug)]
pub struct Read {
    /// As it stands in the file.
    pub problem: Problem,
    /// As a network.
    pub network: Network,
}

/// Reads the bytes of a problem; `place` names them in errors.
pub fn read(bytes: &[u8], format: Format, place: &str, loader: &mut impl Loader) -> Result<Read> {
    let text = std::str::from_utf8(bytes).map_err(|e| {
        Error::new(
            ErrorKind::Malformed,
            place,
            "UTF-8 text",
            format_args!("another byte at {}", e.valid_up_to()),
        )
    })?;
    let problem: Problem = match format {
        Format::Toml => toml::from_str(text).map_err(|e| {
            let at = e.span().map_or(String::new(), |span| locate::position(text, span.start));
            malformed(format!("{place}{at}"), e.message())
        })?,
        Format::Json => serde_json::from_str(text).map_err(|e| {
            malformed(format!("{place}:{}:{}", e.line(), e.column()), &without_place(&e.to_string()))
        })?,
    };
    problem.settings(Settings::default()).map_err(|e| {
        let name = e.place().strip_prefix("settings: ").unwrap_or(e.place());
        let key = SETTINGS.into_iter().find(|key| *key == name);
        let path: Vec<Step> = ["settings"].into_iter().chain(key).map(Step::Key).collect();
        at(&e, text, format, place, &path)
    })?;
    let network = problem.network(loader).map_err(|m| at(&m.error, text, format, place, &m.path))?;
    if problem.agents.is_empty() {
        let error = Error::new(ErrorKind::Shape, "network", "at least one agent", "none");
        return Err(at(&error, text, format, place, &[]));
    }
    Ok(Read { problem, network })
}

/// The keys of the settings whose values can be wrong.
const SETTINGS: [&str; 4] = ["tol", "rho", "relax", "time_limit"];

/// An error of a solve, with line and column of the agent that it names, if it names one: what an agent's own constraints
/// exclude is found when they are first used.
pub fn located(error: Error, bytes: &[u8], format: Format, place: &str) -> Error {
    let agent = error.place().strip_prefix("agent ").and_then(|rest| rest.split(':').next()?.parse().ok());
    match (agent, std::str::from_utf8(bytes)) {
        (Some(agent), Ok(text)) => {
            at(&error, text, format, place, &[Step::Key("agents"), Step::Index(agent)])
        }
        _ => error,
    }
}

/// The same error with file, line and column before its place.
fn at(error: &Error, text: &str, format: Format, place: &str, path: &[Step]) -> Error {
    let at = locate::find(text, format, path).map_or(String::new(), |at| locate::position(text, at));
    let found =
        Error::new(error.kind(), format!("{place}{at}: {}", error.place()), error.expected(), error.got());
    error.hint_text().map_or(found.clone(), |hint| found.hint(hint))
}

/// serde_json ends its messages with a position, which stands before them here.
fn without_place(message: &str) -> String {
    message.rsplit_once(" at line ").map_or(message, |(text, _)| text).to_string()
}

fn malformed(place: String, message: &str) -> Error {
    let (expected, got) = in_words(message.trim());
    let expected = expected.unwrap_or_else(|| "a problem as docs/solver.md describes it".into());
    Error::new(ErrorKind::Malformed, place, expected, got)
        .hint("docs/solver.md has the format: `agents`, `edges` and perhaps `settings`")
}

#[cfg(test)]
mod tests {
    use super::*;

    const TWO: &str = r#"
[[agents]]
name = "left"
Q = [[1, 0], [0, 1]]
q = [-1, -7]
[[agents]]
name = "right"
Q = { identity = 3 }
q = [-2, 3, -1]
[[edges]]
a = "left"
F_a = [[1, 0]]
b = "right"
F_b = { select = [0], of = 3 }
offset = [0.5]
"#;

    fn fails(text: &str, format: Format) -> String {
        read(text.as_bytes(), format, "p", &mut ()).unwrap_err().to_string()
    }

    #[test]
    fn a_problem_is_read_from_either_format() {
        let toml = read(TWO.as_bytes(), Format::Toml, "p", &mut ()).unwrap();
        let json = serde_json::to_string(&toml.problem).unwrap();
        let again = read(json.as_bytes(), Format::Json, "p", &mut ()).unwrap();
        assert_eq!(toml.problem, again.problem);
        let solution = again.network.solve(1e-9).unwrap();
        assert!((solution.all_x()[0] - 1.75).abs() < 1e-6);
    }

    #[test]
    fn mistakes_have_line_and_column() {
        let broken = TWO.replace("q = [-1, -7]", "q = [-1, -7");
        assert!(fails(&broken, Format::Toml).starts_with("p:"), "{}", fails(&broken, Format::Toml));
        let unknown = TWO.replace("offset", "ofset");
        assert!(fails(&unknown, Format::Toml).starts_with("p:15:1: "), "{}", fails(&unknown, Format::Toml));
        let shape = TWO.replace("q = [-1, -7]", "q = [-1, -7, 2]");
        assert!(
            fails(&shape, Format::Toml).starts_with("p:5:5: agent left: q"),
            "{}",
            fails(&shape, Format::Toml)
        );
        let name = TWO.replace("b = \"right\"", "b = \"wrong\"");
        assert!(
            fails(&name, Format::Toml).starts_with("p:13:5: edge 0: b"),
            "{}",
            fails(&name, Format::Toml)
        );
        let json = "{\"agents\": [\n  {\"q\": [1, 2]},\n  {\"q\": [1], \"lower\": [0]}\n],\n\"edges\": [\n  {\"a\": 0, \"F_a\": [[1, 0]], \"b\": 7, \"F_b\": [[1]]}]}";
        assert!(fails(json, Format::Json).starts_with("p:6:34: edge 0: b"), "{}", fails(json, Format::Json));
        assert!(fails("{\"agents\": 3}", Format::Json).starts_with("p:1:12"));
    }

    #[test]
    fn a_mistake_in_one_key_is_found_at_that_key() {
        let cases = [
            ("q = [-1, -7]", "q = [-1, -7]\nlower = [2, 0]\nupper = [1, 1]", "p:6:9: agent left: bounds"),
            ("Q = [[1, 0], [0, 1]]", "Q = [[1, 0], [0, -1]]", "p:4:5: agent left: Q"),
            ("F_a = [[1, 0]]", "F_a = [[1, 0, 2]]", "p:12:7: edge 0: map of end a"),
            ("of = 3 }", "of = 4 }", "p:14:7: edge 0: map of end b"),
            ("offset = [0.5]", "offset = [0.5, 1]", "p:15:10: edge 0: offset"),
            ("offset = [0.5]", "coupling = { kind = \"soft\", weight = -1 }", "p:15:12: edge 0: weight"),
            ("offset = [0.5]", "[settings]\ntol = 0", "p:16:7: tol"),
            ("offset = [0.5]", "[settings]\ntime_limit = -1", "p:16:14: settings: time_limit"),
        ];
        for (from, to, expected) in cases {
            let found = fails(&TWO.replace(from, to), Format::Toml);
            assert!(found.starts_with(expected), "{found}");
        }
        assert!(fails("agents = []", Format::Toml).starts_with("p:1:1: network"));
    }

    #[test]
    fn an_agent_that_excludes_everything_is_found_in_the_file() {
        let text = TWO.replace("q = [-2, 3, -1]", "equal = { A = [[1, 0, 0], [1, 0, 0]], b = [1, 2] }");
        let solver = read(text.as_bytes(), Format::Toml, "p", &mut ()).unwrap().network.solve(1e-6);
        let error = located(solver.unwrap_err(), text.as_bytes(), Format::Toml, "p");
        assert!(error.place().starts_with("p:6:1: agent 1"), "{error}");
    }

    #[test]
    fn huge_sizes_are_refused_before_they_are_allocated() {
        for agent in [
            "{\"Q\": {\"identity\": 99999999999}}",
            "{\"dim\": 99999999999}",
            "{\"map\": {\"kind\": \"simplex\", \"dim\": 99999999999, \"total\": 1}}",
        ] {
            let text = format!("{{\"agents\": [{agent}]}}");
            assert!(fails(&text, Format::Json).contains("at most"), "{}", fails(&text, Format::Json));
        }
    }
}
