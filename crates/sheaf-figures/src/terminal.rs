//! What a terminal can show.

fn variable(name: &str) -> String {
    std::env::var(name).unwrap_or_default()
}

/// Whether colours may be written to a stream.
pub fn colours(is_terminal: bool) -> bool {
    moves(is_terminal) && variable("NO_COLOR").is_empty()
}

/// Whether a stream is a terminal whose cursor can be moved, for bars and animations.
pub fn moves(is_terminal: bool) -> bool {
    is_terminal && variable("TERM") != "dumb"
}
