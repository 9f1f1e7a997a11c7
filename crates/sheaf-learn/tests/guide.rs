//! The guide to writing a task quotes the example verbatim.

use std::fs;
use std::path::Path;

/// Lines of code without indentation; blank lines and the module documentation do not count.
fn code_lines(text: &str) -> Vec<&str> {
    text.lines().map(str::trim).filter(|line| !line.is_empty() && !line.starts_with("//!")).collect()
}

/// The lines of all Rust blocks in a Markdown text, in order.
fn quoted_lines(markdown: &str) -> Vec<&str> {
    let blocks = markdown.split("```rust\n").skip(1);
    blocks.flat_map(|block| code_lines(block.split("```").next().unwrap_or_default())).collect()
}

#[test]
fn the_blocks_of_the_guide_are_the_example_line_by_line() {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    let read = |path: &str| fs::read_to_string(here.join(path)).unwrap_or_else(|e| panic!("{path}: {e}"));
    let (guide, example) = (read("../../docs/your-own-task.md"), read("examples/denoise.rs"));
    assert!(example.lines().count() <= 300, "the example is meant to be short");
    let (quoted, wanted) = (quoted_lines(&guide), code_lines(&example));
    let same = quoted.iter().zip(&wanted).take_while(|(quoted, wanted)| quoted == wanted).count();
    assert_eq!(quoted.get(same), wanted.get(same), "after {same} lines of code the guide differs");
}
