//! Exit codes and error messages: `error:` what and where, then `hint:` what to do.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use sheaf_admm::Error;

/// How the tool exits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// Success.
    Success,
    /// The job failed.
    Failure,
    /// The arguments are invalid; nothing was done.
    Usage,
    /// The job was interrupted after saving its progress.
    Interrupted,
}

impl Exit {
    /// The exit code.
    pub fn code(self) -> u8 {
        match self {
            Self::Success => 0,
            Self::Failure => 1,
            Self::Usage => 2,
            Self::Interrupted => 130,
        }
    }
}

impl From<Exit> for ExitCode {
    fn from(exit: Exit) -> Self {
        exit.code().into()
    }
}

/// Writes an error to standard error.
pub fn tell(error: &Error, exit: Exit) -> ExitCode {
    let coloured = std::io::stderr().is_terminal() && std::env::var_os("NO_COLOR").is_none();
    // Standard error may be closed; the exit code still reports the failure.
    let _ = write!(std::io::stderr(), "{}", text(error, coloured));
    exit.into()
}

/// An error as lines of text.
pub fn text(error: &Error, coloured: bool) -> String {
    let (red, cyan, plain) = if coloured { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
    let what = format!("{}: expected {}, got {}", error.place(), error.expected(), error.got());
    let hint = error.hint_text().map(|hint| format!("{cyan}hint:{plain} {hint}\n"));
    format!("{red}error:{plain} {what}\n{}", hint.unwrap_or_default())
}
