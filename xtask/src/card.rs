//! The model card `weights/README.md`: what `sheaf inspect` reads from the records of the weights that ship, and the
//! measured results, data and limits in `results/weights.json`.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::run::{cargo, command, root};

const CARD: &str = "weights/README.md";
const RESULTS: &str = "results/weights.json";

/// Writes the card or, with `check`, compares it.
pub fn make(check: bool) -> Result<()> {
    let text = card()?;
    let path = root().join(CARD);
    if !check {
        fs::write(&path, text).with_context(|| format!("cannot write {CARD}"))?;
        eprintln!("wrote {CARD}");
        return Ok(());
    }
    let stored = fs::read_to_string(&path).with_context(|| format!("cannot read {CARD}"))?;
    if stored != text {
        bail!("{CARD} is not what the records and {RESULTS} say; `cargo xtask card` writes it anew");
    }
    Ok(())
}

fn card() -> Result<String> {
    let text = fs::read_to_string(root().join(RESULTS)).with_context(|| format!("cannot read {RESULTS}"))?;
    let about: Value = serde_json::from_str(&text).with_context(|| format!("{RESULTS} is not JSON"))?;
    let mut files: Vec<_> = fs::read_dir(root().join("weights"))?
        .flatten()
        .map(|entry| entry.path())
        .filter(|path| path.extension().is_some_and(|e| e == "safetensors"))
        .collect();
    files.sort();
    let mut out = format!("{}\n", words(&about, "introduction")?);
    let known = about["weights"].as_object().with_context(|| format!("no `weights` in {RESULTS}"))?;
    ensure!(
        known.len() == files.len(),
        "{RESULTS} describes {} files, there are {}",
        known.len(),
        files.len()
    );
    for path in &files {
        let name = path.file_stem().unwrap_or_default().to_string_lossy();
        let own = known.get(&*name).with_context(|| format!("no `{name}` in {RESULTS}"))?;
        out += &section(&name, own, &inspect(path)?)?;
    }
    Ok(out + "\n" + words(&about, "licence")? + "\n")
}

/// What the program reads from a file. `SHEAF_BIN` names one that is built already.
fn inspect(path: &Path) -> Result<Value> {
    let path = path.to_string_lossy();
    let mut command = match std::env::var("SHEAF_BIN") {
        Ok(program) => command(&program),
        Err(_) => cargo(&["run", "--quiet", "-p", "sheaf-cli", "--"]),
    };
    command.args(["inspect", &path, "--json"]);
    let output = command.output().with_context(|| format!("cannot inspect {path}"))?;
    ensure!(output.status.success(), "cannot inspect {path}: {}", String::from_utf8_lossy(&output.stderr));
    serde_json::from_slice(&output.stdout).context("`sheaf inspect` printed no JSON")
}

fn section(name: &str, own: &Value, inspected: &Value) -> Result<String> {
    let bits = if inspected["tensors"][0]["dtype"] == "F16" { 16 } else { 32 };
    let parameters = inspected["parameters"].as_u64().context("no number of parameters")?;
    let list = |key: &str| -> String {
        let items = inspected[key].as_array().map(Vec::as_slice).unwrap_or_default();
        let items: Vec<String> =
            items.iter().map(|v| v.as_str().map_or(v.to_string(), str::to_string)).collect();
        if items.is_empty() { "not recorded".into() } else { items.join(", ") }
    };
    let hours = inspected["hours"].as_f64().map_or("not recorded".into(), |h| format!("{h:.1}"));
    let split = inspected["chosen_on"].as_str().filter(|s| !s.is_empty()).unwrap_or("not recorded");
    let mut out = format!("\n## `builtin:{name}`\n\n{}\n\n", words(own, "title")?);
    out += &format!("- file: `{name}.safetensors`, {parameters} parameters, {bits} bits each\n");
    out += &format!("- data: {}\n", words(own, "data")?);
    out += &format!("- recipe: {}\n", inspected["made"].as_str().unwrap_or("not recorded"));
    let command = words(own, "command")?;
    let quotes = command.matches('`').count();
    ensure!(
        quotes % 2 == 0 && !command.starts_with("sheaf "),
        "{RESULTS}: backquotes around the command of `{name}`"
    );
    out += &format!("- command: {command}\n");
    out += &format!("- commit: {}; seed: {}; hours: {hours}\n", list("commits"), list("seeds"));
    out += &format!("- the best were chosen on: {split}\n- limits: {}\n\n", words(own, "limits")?);
    out += "| measured on | result | command | commit |\n| --- | --- | --- | --- |\n";
    for row in own["results"].as_array().context("no results")? {
        let cells = ["on", "result", "command", "commit"].map(|key| words(row, key));
        let [on, result, command, commit] = cells;
        out += &format!("| {} | {} | `{}` | `{}` |\n", on?, result?, command?, commit?);
    }
    Ok(out)
}

fn words<'v>(value: &'v Value, key: &str) -> Result<&'v str> {
    value[key].as_str().with_context(|| format!("no text `{key}` in {RESULTS}"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn a_section_says_what_was_recorded_and_what_was_not() {
        let own = json!({ "title": "T.", "data": "D.", "command": "`c`", "limits": "L.", "results": [
            { "on": "set", "result": "90 %", "command": "sheaf eval", "commit": "abc" } ] });
        let inspected = json!({ "parameters": 7, "tensors": [{ "dtype": "F16" }], "made": "one run of 5 steps",
            "commits": ["abc"], "seeds": [42], "hours": null, "chosen_on": "validation" });
        let text = section("maze", &own, &inspected).unwrap();
        for line in [
            "## `builtin:maze`",
            "7 parameters, 16 bits",
            "one run of 5 steps",
            "commit: abc; seed: 42; hours: not recorded",
            "chosen on: validation",
            "| set | 90 % | `sheaf eval` | `abc` |",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
        assert!(section("maze", &json!({ "title": "T." }), &inspected).is_err());
        for broken in ["sheaf train", "`sheaf train"] {
            let mut own = own.clone();
            own["command"] = broken.into();
            assert!(section("maze", &own, &inspected).unwrap_err().to_string().contains("backquotes"));
        }
    }
}
