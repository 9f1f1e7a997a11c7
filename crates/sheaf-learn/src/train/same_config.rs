//! Whether a resumed run has the configuration it was started with.

use std::collections::BTreeMap;

use sheaf_admm::{Error, ErrorKind, Result};

/// Checks that two configurations (TOML) agree except for the keys in `may_change`; the error names the first
/// difference.
pub fn check_same_config(place: &str, old: &str, new: &str, may_change: &[&str]) -> Result<()> {
    let flat = |text: &str| -> Result<BTreeMap<String, String>> {
        let table: toml::Table = text
            .parse()
            .map_err(|e: toml::de::Error| Error::new(ErrorKind::Malformed, place, "TOML", e.message()))?;
        let mut out = BTreeMap::new();
        flatten("", &table, &mut out);
        Ok(out)
    };
    let (old, new) = (flat(old)?, flat(new)?);
    for key in old.keys().chain(new.keys()) {
        let [was, is] = [old.get(key), new.get(key)].map(|v| v.map_or("nothing", String::as_str));
        if was != is && !may_change.contains(&key.as_str()) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                format!("configuration key `{key}`"),
                format!("{was}, as in {place}"),
                is,
            )
            .hint("resume with the configuration the run was started with, or start a new run"));
        }
    }
    Ok(())
}

fn flatten(prefix: &str, table: &toml::Table, out: &mut BTreeMap<String, String>) {
    for (key, value) in table {
        let key = if prefix.is_empty() { key.clone() } else { format!("{prefix}.{key}") };
        match value {
            toml::Value::Table(inner) => flatten(&key, inner, out),
            other => {
                out.insert(key, other.to_string());
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_key_that_differs_is_named_and_layout_of_the_text_is_not_a_difference() {
        let old = "name = 'x'\n[train]\nsteps = 10\non_nan = 'stop'\n";
        check_same_config("c", old, "# text\nname='x'\ntrain = { on_nan = \"stop\", steps = 10 }", &[])
            .unwrap();
        let differs =
            |new: &str, free: &[&str]| check_same_config("c", old, new, free).unwrap_err().to_string();
        let more_steps = old.replace("10", "20");
        assert!(differs(&more_steps, &[]).contains("`train.steps`: expected 10, as in c, got 20"));
        assert!(differs(&format!("{old}extra = 1"), &[]).contains("`train.extra`: expected nothing"));
        let rollback = old.replace("stop", "rollback");
        assert!(differs(&rollback, &["train.steps"]).contains("`train.on_nan`"));
        check_same_config("c", old, &rollback, &["train.on_nan"]).unwrap();
    }
}
