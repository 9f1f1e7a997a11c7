//! Starting other programs from the root of the repository.

use std::ffi::OsStr;
use std::io::IsTerminal;
use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

/// The root of the repository.
pub fn root() -> PathBuf {
    let here = Path::new(env!("CARGO_MANIFEST_DIR"));
    here.parent().unwrap_or(here).to_owned()
}

/// True in CI, by the usual environment variable.
pub fn in_ci() -> bool {
    std::env::var_os("CI").is_some_and(|value| value == "true" || value == "1")
}

/// A command that starts in the root, with the settings for every cargo process below it.
pub fn command(program: &str) -> Command {
    let mut command = Command::new(program);
    command.current_dir(root());
    if std::env::var_os("CARGO_TERM_COLOR").is_none() {
        let color = if std::io::stderr().is_terminal() { "always" } else { "never" };
        command.env("CARGO_TERM_COLOR", color);
    }
    if in_ci() {
        // A fresh checkout is built once: incremental files would only cost time and disk space.
        command.env("CARGO_INCREMENTAL", "0");
    }
    command
}

/// The cargo that runs this tool, so that a selected toolchain is kept.
pub fn cargo(arguments: &[&str]) -> Command {
    let mut command = command(&std::env::var("CARGO").unwrap_or_else(|_| "cargo".into()));
    command.args(arguments);
    command
}

/// Prints the command, runs it, and fails if it fails.
pub fn check(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.status().with_context(|| format!("cannot start `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed: {status}");
    }
    Ok(())
}

/// The command as typed in a shell, with the variables that change what it checks.
fn show(command: &Command) -> String {
    let program = Path::new(command.get_program()).file_name().unwrap_or(command.get_program());
    let ours = |name: &OsStr| {
        !["CARGO_TERM_COLOR", "CARGO_INCREMENTAL", "CARGO_PKG_NAME", "PATH"].iter().any(|n| name == *n)
    };
    let variables = command.get_envs().filter(|(name, _)| ours(name)).map(|(name, value)| {
        format!("{}={:?}", name.to_string_lossy(), value.unwrap_or_default().to_string_lossy())
    });
    let arguments = command.get_args().map(|argument| argument.to_string_lossy().into_owned());
    let words = variables.chain([program.to_string_lossy().into_owned()]).chain(arguments);
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    #[test]
    fn a_command_is_shown_with_the_variables_that_matter() {
        let mut command = super::command("sh");
        command.args(["-c", "true"]).env("SHEAF_SIMD", "off");
        assert_eq!(super::show(&command), "SHEAF_SIMD=\"off\" sh -c true");
    }

    #[test]
    fn a_command_that_fails_is_an_error_that_shows_it() {
        let error = super::check(super::command("sh").args(["-c", "exit 3"])).unwrap_err();
        assert!(error.to_string().starts_with("`sh -c exit 3` failed"), "{error}");
        assert!(super::check(&mut super::command("no-such-program-here")).is_err());
    }
}
