//! Exit codes and error messages: `error:` what and where, then `hint:` what to do.

use std::borrow::Cow;
use std::io::{IsTerminal, Write};
use std::process::ExitCode;

use sheaf_admm::Error;

use crate::{ranks, report, terminal};

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

/// Reports a panic of the program itself as an error: what, where, and what to do about it. A panic is a defect, but
/// even then the exit code is one of the documented ones.
pub fn report_panics() {
    std::panic::set_hook(Box::new(|info| {
        let place =
            info.location().map_or("unknown place".into(), |at| format!("{}:{}", at.file(), at.line()));
        let payload = info.payload();
        let text = payload.downcast_ref::<&str>().copied();
        let what =
            text.or_else(|| payload.downcast_ref::<String>().map(String::as_str)).unwrap_or("no message");
        let rank = ranks::comm().map_or(String::new(), |comm| format!("rank {}: ", comm.rank()));
        let _ = write!(
            std::io::stderr(),
            "error: {rank}internal error at {place}: {}\nhint: this is a defect of sheaf; please report it with the \
             command and its input\n",
            terminal::part(what)
        );
        // The others would wait for this rank.
        ranks::end_job();
    }));
}

/// Writes an error to standard error.
pub fn report_error(error: &Error, exit: Exit) -> ExitCode {
    let coloured = terminal::colours(std::io::stderr().is_terminal());
    let rank = ranks::speak_up().unwrap_or_default();
    // Standard error may be closed; the exit code still reports the failure.
    let _ = write!(std::io::stderr(), "{rank}{}", terminal::spelled(&text(error, coloured)));
    exit.into()
}

/// Shows help or a usage error of the argument parser. Arguments are shown safely and as the locale can show them.
pub fn report_usage(error: &clap::Error) -> ExitCode {
    let rendered = error.render();
    let to_stderr = error.use_stderr();
    let is_terminal =
        if to_stderr { std::io::stderr().is_terminal() } else { std::io::stdout().is_terminal() };
    let plain = rendered.to_string();
    // Colour codes are escapes too: a message with arguments that hold some is shown without colours.
    let text = match terminal::lines(&plain) {
        Cow::Borrowed(_) if terminal::colours(is_terminal) => rendered.ansi().to_string(),
        safe => safe.into_owned(),
    };
    let text = terminal::spelled(&text);
    if to_stderr {
        let _ = write!(std::io::stderr(), "{text}");
        return Exit::Usage.into();
    }
    match report::print(&text) {
        Ok(()) => Exit::Success.into(),
        Err(error) => report_error(&error, Exit::Failure),
    }
}

/// An error as lines of text; what comes from files is safe to show.
pub fn text(error: &Error, coloured: bool) -> String {
    let (red, cyan, plain) = if coloured { ("\x1b[1;31m", "\x1b[1;36m", "\x1b[0m") } else { ("", "", "") };
    let [place, expected, got] = [error.place(), error.expected(), error.got()].map(terminal::part);
    let what = format!("{place}: expected {expected}, got {got}");
    let hint = error.hint_text().map(|hint| format!("{cyan}hint:{plain} {}\n", terminal::part(hint)));
    format!("{red}error:{plain} {what}\n{}", hint.unwrap_or_default())
}
