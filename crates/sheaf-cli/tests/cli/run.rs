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
