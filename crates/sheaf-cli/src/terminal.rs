//! What a terminal can show, and text that is safe to show there.
//!
//! Names, cells, metadata and keys come from files that nobody has checked. Text that holds them passes through
//! [`line()`] or [`lines`] before it is written: control characters, which a terminal would obey, and characters that
//! reverse the direction of text are shown as escapes. Without a UTF-8 locale (`LC_ALL=C`), [`spelled`] writes other
//! characters in ASCII.

use std::borrow::Cow;
use std::fmt::Write as _;

pub use sheaf_figures::terminal::{colours, moves};

/// Longest part of an error that is shown; the rest of a damaged file helps nobody.
pub const LONGEST: usize = 600;

/// Whether the locale was set to one without UTF-8. Where nothing is set, UTF-8 is assumed.
fn is_ascii_only() -> bool {
    let set = ["LC_ALL", "LC_CTYPE", "LANG"].map(|name| std::env::var(name).unwrap_or_default());
    set.iter().find(|value| !value.is_empty()).is_some_and(|value| ["C", "POSIX"].contains(&value.as_str()))
}

/// Whether a terminal obeys the character instead of showing it, or text around it changes direction.
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200e}' | '\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}' | '\u{feff}')
}

fn escaped(text: &str, keep: impl Fn(char) -> bool) -> Cow<'_, str> {
    if !text.chars().any(|c| is_unsafe(c) && !keep(c)) {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        // Writing to a string cannot fail.
        let _ = match c {
            c if !is_unsafe(c) || keep(c) => out.write_char(c),
            '\n' => out.write_str("\\n"),
            '\r' => out.write_str("\\r"),
            '\t' => out.write_str("\\t"),
            c if (c as u32) < 0x80 => write!(out, "\\x{:02x}", c as u32),
            c => write!(out, "\\u{{{:x}}}", c as u32),
        };
    }
    Cow::Owned(out)
}

/// A text on one line, safe to show.
pub fn line(text: &str) -> Cow<'_, str> {
    escaped(text, |_| false)
}

/// A text whose line breaks stay, safe to show.
pub fn lines(text: &str) -> Cow<'_, str> {
    escaped(text, |c| c == '\n')
}

/// A text on one line, safe to show, and cut where it is very long.
pub fn part(text: &str) -> Cow<'_, str> {
    match text.char_indices().nth(LONGEST) {
        None => line(text),
        Some((end, _)) => {
            let more = text[end..].chars().count();
            Cow::Owned(format!("{} … ({more} characters more)", line(&text[..end])))
        }
    }
}

/// JSON in which the characters that a terminal would obey are escaped. They occur in strings only.
pub fn json(text: &str) -> Cow<'_, str> {
    if !text.chars().any(|c| is_unsafe(c) && c != '\n') {
        return Cow::Borrowed(text);
    }
    let mut out = String::with_capacity(text.len() + 16);
    for c in text.chars() {
        if is_unsafe(c) && c != '\n' {
            // Writing to a string cannot fail.
            let _ = write!(out, "\\u{:04x}", c as u32);
        } else {
            out.push(c);
        }
    }
    Cow::Owned(out)
}

/// The text as the locale can show it: unchanged with UTF-8, else spelled in ASCII.
pub fn spelled(text: &str) -> Cow<'_, str> {
    if text.is_ascii() || !is_ascii_only() { Cow::Borrowed(text) } else { Cow::Owned(ascii(text)) }
}

fn ascii(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            c if c.is_ascii() => out.push(c),
            '×' => out.push('x'),
            '·' => out.push('*'),
            '–' | '—' | '−' | '━' => out.push('-'),
            '…' => out.push_str("..."),
            '≤' => out.push_str("<="),
            '≥' => out.push_str(">="),
            '‖' => out.push_str("||"),
            '“' | '”' => out.push('"'),
            '’' => out.push('\''),
            // Bars of a curve, low to high.
            '▁' | '▂' => out.push('_'),
            '▃' | '▄' => out.push('-'),
            '▅' | '▆' => out.push('+'),
            '▇' | '█' => out.push('#'),
            _ => out.push('?'),
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_terminal_would_obey_is_shown_instead() {
        let hostile = "a\u{1b}[31mred\u{9b}2J\u{7f}\u{202e}back\u{2066}\r\n\tend ü ×";
        let shown = "a\\x1b[31mred\\u{9b}2J\\x7f\\u{202e}back\\u{2066}\\r\\n\\tend ü ×";
        assert_eq!(line(hostile), shown);
        assert_eq!(lines("two\nlines\u{7}"), "two\nlines\\x07");
        assert!(matches!(line("plain, ünïcode"), Cow::Borrowed(_)));
        let value = serde_json::json!({ "name": hostile }).to_string();
        let safe = json(&value);
        assert!(!safe.chars().any(is_unsafe), "{safe}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&safe).unwrap()["name"], hostile);
    }

    #[test]
    fn very_long_parts_are_cut_and_say_by_how_much() {
        let long = "é".repeat(LONGEST + 5);
        assert!(part(&long).ends_with("é … (5 characters more)"));
        assert_eq!(part("short"), "short");
    }

    #[test]
    fn ascii_spells_what_the_tool_writes() {
        assert_eq!(ascii("19 × 19 pixels … 1–2 ≥ ▁▃▆█ ü"), "19 x 19 pixels ... 1-2 >= _-+# ?");
    }
}
