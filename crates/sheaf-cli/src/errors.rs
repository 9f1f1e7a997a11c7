//! How the tool ends, and how it says what went wrong: `error:` what and where, then `hint:` what to do.

use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use sheaf_admm::Error;

/// How the tool ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exit {
    /// It did what was asked.
    Success,
    /// It could not.
    Failure,
    /// It did not understand what was asked, and did nothing.
    Usage,
    /// It was interrupted, after it had saved its work.
    Interrupted,
}

impl Exit {
    /// The number the shell sees.
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
    // Nobody may be listening; the exit code tells as well.
    let _ = write!(std::io::stderr(), "{}", text(error, coloured));
    exit.into()
}

/// An error as lines.
pub fn text(error: &Error, coloured: bool) -> String {
    let (red, cyan, plain) = if coloured { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
    let what = format!("{}: expected {}, got {}", error.place(), error.expected(), error.got());
    let hint = error.hint_text().map(|hint| format!("{cyan}hint:{plain} {hint}\n"));
    format!("{red}error:{plain} {what}\n{}", hint.unwrap_or_default())
}
