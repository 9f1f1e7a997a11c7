//! Strict configuration: an unknown key is an error, not ignored.
//!
//! ```text
//! TOML text + `--set a.b=value` → table → every key known? every kind right? → T
//! ```
//!
//! The schema comes from the type itself: an example value with every key is serialised, and its keys and the kinds of
//! its values are the schema. Errors name the file and line (or the `--set`), the key and the nearest known key. A
//! table that is empty in the example accepts any key.

use std::collections::BTreeMap;
use std::path::Path;

use crate::limits::MAX_EXPERIMENT_BYTES;
use crate::train::WeightsFile;
use crate::train::file::read_text_at_most;
use serde::Serialize;
use serde::de::DeserializeOwned;
use sheaf_admm::{Error, ErrorKind, Result};
use toml::de::{DeTable, DeValue};
use toml::{Table, Value};

use super::nearest::nearest;
use super::stages;
use super::words::in_words;

/// A type that can be read strictly. Its structs carry `#[serde(default)]`, so a file lists only the keys it changes.
pub trait StrictConfig: Serialize + DeserializeOwned + Default {
    /// A value that contains every key: every `Option` is `Some`, every list of tables has an entry.
    fn all_keys_example() -> Self {
        Self::default()
    }

    /// Dotted keys that the example cannot contain, such as those of the other variants of an enum. Their kinds are
    /// checked only when the value is built.
    fn more_keys() -> &'static [&'static str] {
        &[]
    }

    /// Refuses a key that was set by hand, as `text`, and that nothing reads with the other keys as they are. Files may hold
    /// such keys: a run writes down every default.
    fn check_set(&self, _key: &str, _text: &str) -> Result<()> {
        Ok(())
    }

    /// Older names of keys that stay valid: (old, new).
    fn aliases() -> &'static [(&'static str, &'static str)] {
        &[]
    }
}

/// Reads the file at `path` and applies the overrides, each `key=value`.
pub fn read<T: StrictConfig>(path: &Path, overrides: &[String]) -> Result<T> {
    let place = path.display().to_string();
    let text = read_text_at_most(path, MAX_EXPERIMENT_BYTES, "a readable file")?;
    parse(&place, &text, overrides)
}

/// Reads the file at `path`; without one, the defaults.
pub fn read_or_default<T: StrictConfig>(path: Option<&Path>) -> Result<T> {
    path.map_or_else(|| Ok(T::default()), |path| read(path, &[]))
}

/// Parses `text` and applies the overrides; `place` names the text in errors. Of a file with stages, the last.
pub fn parse<T: StrictConfig>(place: &str, text: &str, overrides: &[String]) -> Result<T> {
    parse_stage(place, text, Some(usize::MAX), overrides)
}

/// The same for stage `stage` of a file (the last, if there are fewer); without one, the keys that all stages share.
pub fn parse_stage<T: StrictConfig>(
    place: &str,
    text: &str,
    stage: Option<usize>,
    overrides: &[String],
) -> Result<T> {
    let schema = Table::try_from(T::all_keys_example())
        .map_err(|e| Error::new(ErrorKind::Malformed, "schema", "a type that fits in TOML", e))?;
    let mut origins = BTreeMap::new();
    let spanned = DeTable::parse(text).map_err(|e| {
        let line = e.span().map_or(1, |span| line_of(text, span.start));
        let got = e.message().replace('\n', "; ");
        Error::new(ErrorKind::Malformed, format!("{place}, line {line}"), "valid TOML", got)
    })?;
    note_lines("", spanned.get_ref(), text, place, &mut origins);
    let mut table: Table = text
        .parse()
        .map_err(|e: toml::de::Error| Error::new(ErrorKind::Malformed, place, "valid TOML", e.message()))?;
    rename(&mut table, T::aliases(), &mut origins);
    stages::merge(place, &mut table, stage, T::aliases(), &mut origins)?;
    for text in overrides {
        apply(&mut table, &schema, text, &mut origins)?;
    }
    rename(&mut table, T::aliases(), &mut origins);
    let check = Check { place, schema: &schema, more: T::more_keys(), origins: &origins };
    check.table("", &table, &schema)?;
    let defaults = Table::try_from(T::default())
        .map_err(|e| Error::new(ErrorKind::Malformed, "defaults", "a type that fits in TOML", e))?;
    fill(&mut table, &defaults, T::more_keys());
    let read =
        T::deserialize(table.clone()).map_err(|e| check.explain(&e, culprit::<T>(&table, &defaults)))?;
    for text in overrides {
        read.check_set(text.split_once('=').map_or(text, |(key, _)| key.trim()), text)?;
    }
    Ok(read)
}

/// The key of a section whose value fails to parse on its own. If the keys of a section come from several structs, the
/// error names only the section.
fn culprit<T: StrictConfig>(table: &Table, defaults: &Table) -> Option<String> {
    let sections = table.iter().filter_map(|(name, section)| Some((name, section.as_table()?)));
    let mut keys =
        sections.flat_map(|(name, section)| section.iter().map(move |(key, value)| (name, key, value)));
    let fits = |name: &str, key: &str, value: &Value| {
        let mut trial = defaults.clone();
        if let Some(Value::Table(section)) = trial.get_mut(name) {
            section.insert(key.to_string(), value.clone());
        }
        T::deserialize(trial).is_ok()
    };
    keys.find(|(name, key, value)| !fits(name, key, value)).map(|(name, key, _)| join(name, key))
}

/// Renames keys from older names to current ones.
pub(super) fn rename(table: &mut Table, aliases: &[(&str, &str)], origins: &mut BTreeMap<String, String>) {
    for (old, new) in aliases {
        let (Some((section, from)), Some((_, to))) = (old.rsplit_once('.'), new.rsplit_once('.')) else {
            continue;
        };
        let Some(Value::Table(inner)) = table.get_mut(section) else { continue };
        if let Some(value) = inner.remove(from) {
            inner.insert(to.to_string(), value);
            if let Some(origin) = origins.remove(*old) {
                origins.insert((*new).to_string(), origin);
            }
        }
    }
}

/// Fills in the missing keys of the sections from the default of the whole value: a section alone does not know which
/// experiment it belongs to. Sections that are enum variants are left unchanged.
fn fill(table: &mut Table, defaults: &Table, more: &[&str]) {
    for (name, section) in table.iter_mut() {
        let (Value::Table(given), Some(Value::Table(usual))) = (section, defaults.get(name)) else {
            continue;
        };
        if more.iter().any(|key| key.split('.').next() == Some(name)) {
            continue;
        }
        for (key, value) in usual.iter().filter(|(_, value)| !value.is_table()) {
            given.entry(key.clone()).or_insert_with(|| value.clone());
        }
    }
}

/// The experiment in a weights file, which must be of `task`.
pub fn of_weights<T: StrictConfig>(file: &WeightsFile, task: &str) -> Result<T> {
    let (about, place) = (file.about(), file.tensors().place());
    if about.task != task {
        let want = format!("weights of the task {task}");
        return Err(Error::new(ErrorKind::Unsupported, place, want, &about.task));
    }
    parse(&format!("configuration in {place}"), &about.config, &[])
}

/// The whole value as TOML with every default written out: equal configurations give equal text.
pub fn to_toml<T: Serialize>(value: &T) -> Result<String> {
    toml::to_string(value)
        .map_err(|e| Error::new(ErrorKind::Malformed, "configuration", "values that fit in TOML", e))
}

fn join(prefix: &str, key: &str) -> String {
    if prefix.is_empty() { key.to_string() } else { format!("{prefix}.{key}") }
}

fn line_of(text: &str, offset: usize) -> usize {
    1 + text.as_bytes().iter().take(offset).filter(|b| **b == b'\n').count()
}

/// Records the line of every key.
fn note_lines(
    prefix: &str,
    table: &DeTable<'_>,
    text: &str,
    place: &str,
    out: &mut BTreeMap<String, String>,
) {
    for (key, value) in table {
        let path = join(prefix, key.get_ref());
        out.insert(path.clone(), format!("{place}, line {}", line_of(text, key.span().start)));
        match value.get_ref() {
            DeValue::Table(inner) => note_lines(&path, inner, text, place, out),
            DeValue::Array(items) => {
                for (k, item) in items.iter().enumerate() {
                    if let DeValue::Table(inner) = item.get_ref() {
                        note_lines(&format!("{path}[{k}]"), inner, text, place, out);
                    }
                }
            }
            _ => {}
        }
    }
}

/// Inserts `key=value` into the table.
fn apply(
    table: &mut Table,
    schema: &Table,
    text: &str,
    origins: &mut BTreeMap<String, String>,
) -> Result<()> {
    let place = format!("--set {text}");
    let Some((key, value)) = text.split_once('=').map(|(k, v)| (k.trim(), v.trim())) else {
        return Err(Error::new(ErrorKind::Malformed, place, "key=value", "no `=`")
            .hint("for example --set train.steps=1000"));
    };
    let parts: Vec<&str> = key.split('.').map(str::trim).collect();
    let (Some((last, parents)), false) = (parts.split_last(), parts.contains(&"")) else {
        return Err(Error::new(ErrorKind::Malformed, place, "a dotted key", format!("`{key}`")));
    };
    let (mut table, mut known, mut path) = (table, Some(schema), String::new());
    for part in parents {
        path = join(&path, part);
        known = known.and_then(|s| s.get(*part)).and_then(Value::as_table);
        origins.entry(path.clone()).or_insert_with(|| place.clone());
        let entry = table.entry(part.to_string()).or_insert_with(|| Value::Table(Table::new()));
        table = match entry {
            Value::Table(inner) => inner,
            other => {
                let got = describe(other);
                return Err(Error::new(ErrorKind::Malformed, place, format!("`{path}` to be a table"), got));
            }
        };
    }
    origins.insert(join(&path, last), place);
    table.insert(last.to_string(), override_value(value, known.and_then(|s| s.get(*last))));
    Ok(())
}

/// A TOML value; if the text is not one, or a string is expected, the text itself.
fn override_value(text: &str, known: Option<&Value>) -> Value {
    let as_text = || Value::String(text.to_string());
    match format!("v = {text}").parse::<Table>() {
        Ok(mut one) if one.len() == 1 => {
            let value = one.remove("v").unwrap_or_else(as_text);
            let scalar = matches!(value, Value::Integer(_) | Value::Float(_) | Value::Boolean(_));
            if scalar && matches!(known, Some(Value::String(_))) { as_text() } else { value }
        }
        _ => as_text(),
    }
}

struct Check<'a> {
    place: &'a str,
    schema: &'a Table,
    more: &'a [&'a str],
    origins: &'a BTreeMap<String, String>,
}

impl Check<'_> {
    /// The location of a key. An item of a list has the location of its list.
    fn origin(&self, mut path: &str) -> &str {
        loop {
            match (self.origins.get(path), path.rfind(['[', '.'])) {
                (Some(origin), _) => return origin,
                (None, Some(end)) => path = &path[..end],
                (None, None) => return self.place,
            }
        }
    }

    fn table(&self, path: &str, given: &Table, schema: &Table) -> Result<()> {
        // An empty example is an open table: any key is accepted.
        if schema.is_empty() && !path.is_empty() {
            return Ok(());
        }
        for (key, value) in given {
            let path = join(path, key);
            match schema.get(key) {
                Some(known) => self.value(&path, value, known)?,
                None if self.more.contains(&plain(&path).as_str()) => {}
                None => return Err(self.unknown(&path, key, schema)),
            }
        }
        Ok(())
    }

    fn value(&self, path: &str, given: &Value, known: &Value) -> Result<()> {
        match (given, known) {
            (Value::Table(given), Value::Table(known)) => self.table(path, given, known),
            (Value::Array(given), Value::Array(known)) => match known.first() {
                None => Ok(()),
                Some(known) => given
                    .iter()
                    .enumerate()
                    .try_for_each(|(k, item)| self.value(&format!("{path}[{k}]"), item, known)),
            },
            // An enum variant is a string or a table; which one fits is checked when the value is built.
            (Value::Table(_), Value::String(_)) | (Value::String(_), Value::Table(_)) => Ok(()),
            (Value::Integer(_), Value::Float(_)) => Ok(()),
            (given, known) if given.same_type(known) => Ok(()),
            (given, known) => {
                let place = format!("{}: key `{path}`", self.origin(path));
                Err(Error::new(ErrorKind::Malformed, place, kind(known), describe(given)))
            }
        }
    }

    fn unknown(&self, path: &str, key: &str, schema: &Table) -> Error {
        let parent = path.strip_suffix(key).unwrap_or_default();
        let mut all = Vec::new();
        paths("", self.schema, &mut all);
        all.extend(self.more.iter().map(|s| s.to_string()));
        let elsewhere = || all.iter().find(|known| known.rsplit('.').next() == Some(key)).cloned();
        let siblings: Vec<&String> = schema.keys().collect();
        let near = nearest(key, siblings.iter().copied()).map(|near| format!("{parent}{near}"));
        let hint = match near.or_else(elsewhere) {
            Some(known) => format!("did you mean `{known}`?"),
            None => format!(
                "known keys here: {}",
                siblings.iter().map(|s| s.as_str()).collect::<Vec<_>>().join(", ")
            ),
        };
        Error::new(ErrorKind::Malformed, self.origin(path), "a known key", format!("`{path}`")).hint(hint)
    }

    /// An error from building the value: its text names what was expected, its end names the key.
    fn explain(&self, error: &toml::de::Error, culprit: Option<String>) -> Error {
        let text = error.to_string();
        let path = text.lines().last().and_then(|l| l.strip_prefix("in `")?.strip_suffix('`')).unwrap_or("");
        let path = culprit.as_deref().filter(|key| key.starts_with(path)).unwrap_or(path);
        let (got, expected) = error.message().split_once(", expected ").unwrap_or((error.message(), ""));
        let (want, found) = in_words(error.message());
        let want = want.unwrap_or_else(|| "a value that fits".into());
        let place = match path {
            "" => self.place.to_string(),
            path => format!("{}: key `{path}`", self.origin(path)),
        };
        let out = Error::new(ErrorKind::Malformed, place, want, found);
        // "unknown variant `stpo`, expected `stop` or `rollback`": names are between backquotes.
        let typed = got.split('`').nth(1).unwrap_or_default();
        match nearest(typed, expected.split('`').skip(1).step_by(2)) {
            Some(near) if got.starts_with("unknown variant") => out.hint(format!("did you mean `{near}`?")),
            _ => out,
        }
    }
}

/// All dotted keys of the schema.
fn paths(prefix: &str, table: &Table, out: &mut Vec<String>) {
    for (key, value) in table {
        let path = join(prefix, key);
        if let Value::Table(inner) = value {
            paths(&path, inner, out);
        }
        out.push(path);
    }
}

/// A path without its indices.
fn plain(path: &str) -> String {
    let mut out = String::new();
    let mut inside = false;
    for c in path.chars() {
        inside = (inside || c == '[') && c != ']';
        if !inside && c != ']' {
            out.push(c);
        }
    }
    out
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::String(_) => "a string",
        Value::Integer(_) => "an integer",
        Value::Float(_) => "a number",
        Value::Boolean(_) => "true or false",
        Value::Datetime(_) => "a date",
        Value::Array(_) => "a list",
        Value::Table(_) => "a table",
    }
}

fn describe(value: &Value) -> String {
    match value {
        Value::Table(_) => "a table".into(),
        Value::Boolean(yes) => yes.to_string(),
        other => format!("{} {other}", kind(other)),
    }
}
