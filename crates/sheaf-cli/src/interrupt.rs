//! Ctrl-C and signals to end.
//!
//! A command that can save its progress asks for a flag with [`stop_flag`]: the first signal sets it, the second exits at
//! once. Every other command exits at once. The exit code is 130 in all cases.

use std::sync::OnceLock;
use std::sync::atomic::{AtomicBool, Ordering};

use sheaf_admm::{Error, ErrorKind, Result};

use crate::errors::Exit;
use crate::progress::say;

static STOP: OnceLock<AtomicBool> = OnceLock::new();

/// Handles signals from now on.
pub fn handle() -> Result<()> {
    ctrlc::set_handler(|| match STOP.get() {
        None => exit("\ninterrupted"),
        Some(stop) if stop.swap(true, Ordering::Relaxed) => {
            exit("\nleft at once: nothing was saved since the last checkpoint, from which --resume continues")
        }
        Some(_) => say("\nsaving after this step; press Ctrl-C again to leave without"),
    })
    .map_err(|e| Error::new(ErrorKind::Unsupported, "Ctrl-C", "a handler that can be set", e))
}

/// A flag that the next signal sets.
pub fn stop_flag() -> &'static AtomicBool {
    STOP.get_or_init(|| AtomicBool::new(false))
}

fn exit(message: &str) -> ! {
    say(message);
    std::process::exit(Exit::Interrupted.code().into())
}
