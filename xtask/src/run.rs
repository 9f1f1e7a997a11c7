//! Starting other programs from the root of the repository.

use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// True where CI says so in the usual way.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// A command that starts in the root, with the settings every cargo below it should see.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    if std::env::var_os("CARGO_TERM_COLOR").is_none() {
        let color = if std::io::stderr().is_terminal() { "always" } else { "never" };
        command.env("CARGO_TERM_COLOR", color);
    }
    if in_ci() {
        // A fresh checkout is built once: incremental files would only cost time and disk.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// The cargo that runs us, so that a chosen toolchain stays chosen.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(arguments);
    command
}

/// Shows the command, runs it, and fails when it does.
pub fn check(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let mut words = vec![program.to_string_lossy().into_owned()];
    words.extend(command.get_args().map(|argument| argument.to_string_lossy().into_owned()));
    words.join(" ")
}
