//! Messages of serde in the words of a file.

/// What a message of serde expected, if it says so, and what was found: in words of the file instead of names of types.
pub fn in_words(message: &str) -> (Option<String>, String) {
    match message.split_once(", expected ") {
        Some((got, expected)) => (Some(wanted(expected)), found(got)),
        None => (None, found(message)),
    }
}

fn wanted(expected: &str) -> String {
    match expected {
        "usize" | "u64" | "u32" | "u16" | "u8" => "a whole number, 0 or more".into(),
        "isize" | "i64" | "i32" => "a whole number".into(),
        "f64" | "f32" => "a number".into(),
        "a boolean" => "true or false".into(),
        name if name.starts_with("struct ") || name.starts_with("a map") => "a table".into(),
        name if name.starts_with("a sequence") || name.starts_with("tuple ") => "a list".into(),
        names => names.into(),
    }
}

/// What was found, without the parser's names for it.
fn found(got: &str) -> String {
    let mistakes = ["invalid value: ", "invalid type: ", "unknown variant "];
    let got = mistakes.iter().find_map(|mistake| got.strip_prefix(mistake)).unwrap_or(got);
    match got {
        "sequence" => "a list".into(),
        "map" => "a table".into(),
        other => other.replace("unknown field", "the unknown key").replace("field `", "key `"),
    }
}

#[cfg(test)]
mod tests {
    use super::in_words;

    #[test]
    fn messages_name_no_types_of_the_program() {
        let words = |message| {
            let (expected, got) = in_words(message);
            (expected.unwrap_or_default(), got)
        };
        let pair = |a: &str, b: &str| (a.to_string(), b.to_string());
        assert_eq!(
            words("invalid value: integer `-1`, expected usize"),
            pair("a whole number, 0 or more", "integer `-1`")
        );
        assert_eq!(words("invalid type: sequence, expected struct Data"), pair("a table", "a list"));
        assert_eq!(words("missing field `of`"), pair("", "missing key `of`"));
        assert_eq!(words("unknown field `x`, expected `y`"), pair("`y`", "the unknown key `x`"));
    }
}
