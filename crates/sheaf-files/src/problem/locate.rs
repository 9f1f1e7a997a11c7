//! Where in a text a value stands, from the way that leads to it.

use sheaf_admm::network::file::Step;
use toml::Spanned;
use toml::de::{DeTable, DeValue};

use super::Format;

/// `:line:column` of a byte, both from 1.
pub fn position(text: &str, byte: usize) -> String {
    let end = (0..=byte.min(text.len())).rev().find(|&end| text.is_char_boundary(end)).unwrap_or(0);
    let before = &text[..end];
    let line = before.matches('\n').count() + 1;
    let column = before.chars().rev().take_while(|c| *c != '\n').count() + 1;
    format!(":{line}:{column}")
}

/// The first byte of the value at the end of the path, or of the last part of the way that exists.
pub fn find(text: &str, format: Format, path: &[Step]) -> Option<usize> {
    match format {
        Format::Toml => {
            let table = DeTable::parse(text).ok()?;
            Some(in_table(&table, path).unwrap_or(table.span().start))
        }
        Format::Json => in_json(text, path),
    }
}

fn in_table(table: &Spanned<DeTable<'_>>, path: &[Step]) -> Option<usize> {
    let (Step::Key(key), rest) = path.split_first()? else { return None };
    let value = table.get_ref().get(*key)?;
    Some(in_value(value, rest))
}

fn in_value(value: &Spanned<DeValue<'_>>, path: &[Step]) -> usize {
    let Some((step, rest)) = path.split_first() else { return value.span().start };
    let next = match (step, value.get_ref()) {
        (Step::Key(key), DeValue::Table(table)) => table.get(*key),
        (Step::Index(i), DeValue::Array(array)) => array.get(*i),
        _ => None,
    };
    next.map_or(value.span().start, |next| in_value(next, rest))
}

/// JSON that has been parsed before: only the way is followed, nothing is checked.
fn in_json(text: &str, path: &[Step]) -> Option<usize> {
    let mut at = skip_space(text, 0);
    for step in path {
        match child(text, at, step) {
            Some(next) => at = next,
            None => break,
        }
    }
    Some(at)
}

/// The start of a child of the value at `at`.
fn child(text: &str, at: usize, step: &Step) -> Option<usize> {
    let bytes = text.as_bytes();
    let (mut at, mut index) = (skip_space(text, at + 1), 0);
    while !matches!(bytes.get(at)?, b']' | b'}') {
        match step {
            Step::Index(i) => {
                if index == *i {
                    return Some(at);
                }
            }
            Step::Key(key) => {
                let end = skip_value(text, at)?;
                let found = text.get(at + 1..end - 1)? == *key;
                at = skip_space(text, end);
                at = skip_space(text, at + 1);
                if found {
                    return Some(at);
                }
            }
        }
        at = skip_space(text, skip_value(text, at)?);
        if *bytes.get(at)? == b',' {
            at = skip_space(text, at + 1);
        }
        index += 1;
    }
    None
}

fn skip_space(text: &str, at: usize) -> usize {
    let rest = text.as_bytes().get(at..).unwrap_or_default();
    at + rest.iter().take_while(|b| b.is_ascii_whitespace()).count()
}

/// The byte after the value that begins at `at`; brackets are counted, not followed, so that depth costs no stack.
fn skip_value(text: &str, mut at: usize) -> Option<usize> {
    let (bytes, mut depth) = (text.as_bytes(), 0usize);
    loop {
        match bytes.get(at)? {
            b'"' => {
                at += 1;
                while *bytes.get(at)? != b'"' {
                    at += 1 + usize::from(bytes[at] == b'\\');
                }
                at += 1;
            }
            b'[' | b'{' => {
                depth += 1;
                at += 1;
            }
            b']' | b'}' => {
                depth = depth.checked_sub(1)?;
                at += 1;
            }
            _ if depth == 0 => {
                let rest = &bytes[at..];
                at += rest.iter().take_while(|b| !b",]} \t\r\n".contains(b)).count().max(1);
            }
            _ => at += 1,
        }
        if depth == 0 {
            return Some(at);
        }
    }
}
