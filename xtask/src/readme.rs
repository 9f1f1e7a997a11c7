//! Runs the commands of the README.
//!
//! A fenced block with the info string `sh ci` is checked: every line that is neither empty nor a comment runs in the
//! root of the repository and must succeed. Blocks marked `sh` alone are not run.

use std::fs;

use anyhow::{Context, Result, bail};

use crate::run::{check, command, root};

/// Runs every checked command of README.md, in order.
pub fn run_commands() -> Result<()> {
    let path = root().join("README.md");
    let text = fs::read_to_string(&path).with_context(|| format!("cannot read {}", path.display()))?;
    let commands = checked_commands(&text)?;
    if commands.is_empty() {
        bail!("README.md has no block marked `sh ci`: nothing it says is checked");
    }
    for line in commands {
        check(command("sh").args(["-e", "-c", &line])).context("a command of README.md")?;
    }
    Ok(())
}

/// The lines to run; a line that ends in a backslash continues on the next.
fn checked_commands(text: &str) -> Result<Vec<String>> {
    let mut commands = Vec::new();
    let mut inside: Option<bool> = None; // in a fenced block? a checked one?
    let mut open = String::new();
    for line in text.lines() {
        match (inside, line.trim().strip_prefix("```")) {
            (None, Some(info)) => inside = Some(info.trim() == "sh ci"),
            (Some(_), Some("")) => inside = None,
            (Some(true), _) => {
                let line = line.trim();
                if let Some(part) = line.strip_suffix('\\') {
                    open.push_str(part);
                } else if !line.is_empty() && !line.starts_with('#') {
                    commands.push(std::mem::take(&mut open) + line);
                }
            }
            _ => {}
        }
    }
    if inside.is_some() || !open.is_empty() {
        bail!("README.md: a fenced block or a continued line has no end");
    }
    Ok(commands)
}

#[cfg(test)]
mod tests {
    use super::checked_commands;

    #[test]
    fn only_lines_of_checked_blocks_are_commands() {
        let text =
            "a\n```sh\nno\n```\n```sh ci\n# remark\none --two\n\nthree \\\n  four\n```\n```rust\nno\n```\n";
        assert_eq!(checked_commands(text).unwrap(), ["one --two", "three four"]);
    }

    #[test]
    fn a_block_without_end_is_an_error() {
        assert!(checked_commands("```sh ci\none\n").is_err());
        assert!(checked_commands("```sh ci\none \\\n```\n").is_err());
    }
}
