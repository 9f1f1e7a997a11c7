//! `sheaf run`: problems of one's own.

use super::support::{fails, file, json, ok};

const PROBLEM: &str = r#"
[settings]
tol = 1e-9
[[agents]]
name = "left"
Q = [[1, 0], [0, 1]]
q = [-1, -7]
[[agents]]
name = "right"
Q = { identity = 3 }
q = [-2, 3, -1]
[[edges]]
name = "border"
a = "left"
F_a = [[1, 0]]
b = "right"
F_b = { select = [0], of = 3 }
offset = [0.5]
"#;

fn number(value: &serde_json::Value) -> f64 {
    value.as_f64().unwrap()
}

#[test]
fn a_problem_is_solved_with_prices_and_residuals() {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "two.toml", PROBLEM);
    let result = json(folder.path(), "run two.toml");
    assert_eq!(result["status"], "solved");
    assert!((number(&result["agents"][0]["x"][0]) - 1.75).abs() < 1e-6, "{result}");
    assert!((number(&result["edges"][0]["price"][0]) + 0.75).abs() < 1e-6, "{result}");
    assert!(number(&result["primal"]["value"]) <= number(&result["primal"]["goal"]));
    let text = ok(folder.path(), "run two.toml --report --out out.json");
    assert!(text.contains("left") && text.contains("border") && text.contains("solved"), "{text}");
    let out = std::fs::read_to_string(folder.path().join("out.json")).unwrap();
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["agents"][1]["name"], "right");
}

#[test]
fn matrices_may_be_in_files_beside_the_problem() {
    let folder = tempfile::tempdir().unwrap();
    let matrix = "%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 2\n2 1 1\n2 2 3\n";
    file(folder.path(), "q.mtx", matrix);
    let text = r#"{"agents": [{"Q": {"file": "q.mtx"}, "q": [-3, -4]}]}"#;
    file(folder.path(), "one.json", text);
    let result = json(folder.path(), "run one.json --tol 1e-9");
    assert!((number(&result["agents"][0]["x"][0]) - 1.0).abs() < 1e-6, "{result}");
    file(folder.path(), "out.json", text.replace("q.mtx", "../q.mtx"));
    assert!(fails(folder.path(), "run out.json").contains("beside the problem"));
}

#[test]
fn every_mistake_of_a_file_has_line_column_and_hint() {
    let folder = tempfile::tempdir().unwrap();
    for (right, wrong, place) in [
        ("identity = 3", "identity = 4", "11:5"),
        ("F_a = [[1, 0]]", "F_a = [[1, 0, 0]]", "15:7"),
        ("tol = 1e-9", "tol = 0", "3:7"),
        ("tol = 1e-9", "time_limit = -1", "3:14"),
        ("select = [0]", "select = [7]", "17:7"),
        ("q = [-1, -7]", "q = [-1, -7]\nlower = 3\nupper = 1", "8:9"),
        ("q = [-1, -7]", "q = [nan, -7]", "7:5"),
        ("offset = [0.5]", "offset = [0.5, 1]", "18:10"),
        ("offset = [0.5]", "coupling = { kind = \"soft\", weight = -1 }", "18:12"),
        ("name = \"right\"", "name = \"left\"", "9:8"),
        ("a = \"left\"", "a = 7", "14:5"),
    ] {
        assert!(PROBLEM.contains(right));
        file(folder.path(), "bad.toml", PROBLEM.replacen(right, wrong, 1));
        let error = fails(folder.path(), "run bad.toml");
        assert!(
            error.contains(&format!("bad.toml:{place}: ")) && error.contains("\nhint: "),
            "{wrong}: {error}"
        );
    }
}

#[test]
fn an_infeasible_problem_is_a_result_and_a_mistake_has_line_and_column() {
    let folder = tempfile::tempdir().unwrap();
    let again = PROBLEM.split("[[edges]]").nth(1).unwrap().replace("0.5", "1.5").replace("border", "wall");
    file(folder.path(), "torn.toml", format!("{PROBLEM}[[edges]]{again}"));
    assert_eq!(json(folder.path(), "run torn.toml")["status"], "infeasible");
    file(folder.path(), "bad.toml", PROBLEM.replace("offset", "ofset"));
    let error = fails(folder.path(), "run bad.toml");
    assert!(error.contains("bad.toml:18:1") && error.contains("hint:"), "{error}");
    file(folder.path(), "other.txt", PROBLEM);
    assert!(fails(folder.path(), "run other.txt").contains(".toml or .json"));
}

/// The message of a problem that must be refused.
fn refused(text: &str) -> String {
    let folder = tempfile::tempdir().unwrap();
    file(folder.path(), "a.mtx", "%%MatrixMarket matrix array real general\n2 3\n1\n2\n3\n4\n5\n6\n");
    file(folder.path(), "cut.mtx", "%%MatrixMarket matrix coordinate real symmetric\n2 2 3\n1 1 2\n2 2 3\n");
    let name = if text.starts_with('{') || text.starts_with("[null") { "p.json" } else { "p.toml" };
    file(folder.path(), name, text);
    fails(folder.path(), &format!("run {name}"))
}

#[test]
fn a_problem_that_is_written_in_no_known_form_is_never_solved_as_another() {
    for (text, expected) in [
        // By the order of keys, these would be an identity, a selection, a file, an agent and a whole problem.
        ("[[agents]]\nQ = [3]\n", "a list"),
        ("[[agents]]\nQ = [[0, 1], 2]\n", "a list"),
        ("[[agents]]\nq = [\"a.mtx\"]\n", "a number"),
        ("{\"agents\": [[null, 1]]}", "a table"),
        ("[null, [{\"dim\": 1}]]", "a table"),
        ("[[agents]]\nQ = { identity = 2, of = 3 }\n", "`select` and `of`"),
        ("[[agents]]\ndim = -1\n", "a whole number, 0 or more"),
        ("[[agents]]\nQ = 3\n", "a list of rows, or a table for a matrix"),
        ("[[agents]]\nq = { file = \"a.mtx\" }\n", "one row or one column"),
        ("[[agents]]\nQ = { file = \"cut.mtx\" }\n", "3 entries"),
        ("[[agents]]\nQ = { file = \"cut.mtx\", array = \"a\" }\n", "only with a .npz file"),
        ("[settings]\ntime_limit = inf\n[[agents]]\ndim = 1\nl2 = 1\n", "seconds"),
    ] {
        let error = refused(text);
        assert!(error.starts_with("exit 1") && error.contains(expected), "{text}: {error}");
        for internal in ["usize", "f64", "untagged", "File", "variant", "Duration", "struct"] {
            assert!(!error.contains(internal), "`{internal}` in {error}");
        }
    }
}

#[test]
fn many_short_forms_cannot_ask_for_all_memory() {
    let agents = vec!["{\"dim\": 1048576}"; 20].join(",");
    assert!(refused(&format!("{{\"agents\": [{agents}]}}")).contains("at most 16777216 numbers together"));
    let rows = "{\"shape\": [30000, 3], \"sparse\": [[0, 1, 1.0]]}";
    for constraint in [
        format!("\"at_most\": {{\"G\": {rows}, \"h\": 3}}"),
        format!("\"equal\": {{\"A\": {rows}, \"b\": 0}}"),
    ] {
        let error = refused(&format!("{{\"agents\": [{{\"dim\": 3, {constraint}}}]}}"));
        assert!(error.contains("expected at most 256"), "{error}");
    }
    let identity = "{\"identity\": 1048576}";
    let edge = format!("{{\"a\": 0, \"F_a\": {identity}, \"b\": 1, \"F_b\": {identity}}}");
    let edges = vec![edge; 17].join(",");
    let ends = "{\"dim\": 1048576}, {\"dim\": 1048576}";
    let error = refused(&format!("{{\"agents\": [{ends}], \"edges\": [{edges}]}}"));
    assert!(error.contains("rows of the edges so far"), "{error}");
}

#[cfg(unix)]
#[test]
fn endless_problems_and_matrices_are_refused_by_size() {
    let folder = tempfile::tempdir().unwrap();
    for name in ["p.toml", "m.npy", "m.mtx"] {
        std::os::unix::fs::symlink("/dev/zero", folder.path().join(name)).unwrap();
    }
    assert!(fails(folder.path(), "run p.toml").contains("at most 67108864 bytes"));
    for name in ["m.npy", "m.mtx"] {
        file(folder.path(), "q.toml", format!("[[agents]]\nQ = {{ file = \"{name}\" }}\n"));
        assert!(fails(folder.path(), "run q.toml").contains("bytes, got more"));
    }
}

#[test]
fn a_command_never_writes_over_its_own_input() {
    let folder = tempfile::tempdir().unwrap();
    let here = folder.path();
    file(here, "p.json", "{\"agents\": [{\"dim\": 1, \"l2\": 1}]}");
    ok(here, "data maze --count 2 --size 9 --out m.npz");
    ok(here, "data sudoku --count 2 --out s.csv");
    ok(here, "export --weights builtin:maze --out w.safetensors");
    ok(here, "solve maze --seed 1 --size 9 --iterations 2 --out m.png");
    for (command, input) in [
        ("run p.json --out ./p.json", "p.json"),
        ("trace --weights builtin:maze --data m.npz --out m.npz", "m.npz"),
        ("data maze --count 2 --size 9 --exclude m.npz --out m.npz", "m.npz"),
        ("data sudoku --from s.csv --out s.csv", "s.csv"),
        ("export --weights w.safetensors --half --out w.safetensors", "w.safetensors"),
        ("solve maze m.png --out m.png", "m.png"),
    ] {
        let before = std::fs::read(here.join(input)).unwrap();
        let error = fails(here, command);
        assert!(error.starts_with("exit 2") && error.contains("another file than the input"), "{error}");
        assert_eq!(std::fs::read(here.join(input)).unwrap(), before, "{command}");
    }
}

#[test]
fn networks_are_measured_against_general_solvers() {
    let here = std::path::Path::new(".");
    let told = json(here, "bench problems --agents 300");
    let rows = told["rows"].as_array().unwrap();
    assert_eq!(rows.len(), 6 * 4);
    for row in rows {
        let solver = row["solver"].as_str().unwrap();
        if solver == "sheaf-admm" || solver == "clarabel" {
            assert_eq!(row["status"], "solved", "{row}");
        }
        if row["status"] == "solved" {
            assert!(row["error"].as_f64().unwrap() < 1e-2, "{row}");
            assert!(
                row["seconds"].as_f64().unwrap() > 0.0 && row["peak_rss_mb"].as_f64().unwrap() > 1.0,
                "{row}"
            );
        }
    }
}
