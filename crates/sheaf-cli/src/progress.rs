//! Progress on standard error, for work that takes longer than two seconds.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sheaf_admm::Result;

use crate::{ranks, terminal};

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes a line to standard error. A closed standard error, as in `sheaf train … 2>&1 | head`, does not stop the work.
pub fn say(line: &str) {
    if !ranks::is_first() {
        return;
    }
    let _ = writeln!(std::io::stderr(), "{}", terminal::spelled(&terminal::lines(line)));
}

/// A progress bar that appears once the work has taken long enough.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    start: Instant,
    shown: AtomicBool,
}

impl Bar {
    /// A bar for `len` units of work called `what`.
    pub fn new(what: &'static str, len: u64) -> Self {
        Self::styled(what, len, "{prefix} {bar:32} {human_pos}/{human_len} {msg} {eta} left")
    }

    /// The same with its own template.
    pub fn styled(what: &'static str, len: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::hidden());
        // The templates are constants; if one does not parse, the plain style is used.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_prefix(what);
        Self { bar, start: Instant::now(), shown: AtomicBool::new(false) }
    }

    /// Changes the number of units.
    pub fn set_length(&self, len: u64) {
        self.bar.set_length(len);
    }

    /// Advances by this many units.
    pub fn add(&self, pieces: usize) {
        self.bar.inc(pieces as u64);
        self.show_if_long();
    }

    /// Sets the number of completed units.
    pub fn set(&self, pieces: u64, message: impl FnOnce() -> String) {
        self.show_if_long();
        if self.is_shown() {
            self.bar.set_message(message());
        }
        self.bar.set_position(pieces);
    }

    /// Prints a line that stays above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }

    /// Whether the bar is visible.
    pub fn is_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }

    /// Removes the bar.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn show_if_long(&self) {
        let late = ranks::is_first()
            && self.start.elapsed() >= PATIENCE
            && terminal::moves(std::io::stderr().is_terminal());
        if late && !self.shown.swap(true, Ordering::Relaxed) {
            self.bar.set_draw_target(ProgressDrawTarget::stderr());
        }
    }
}

impl Drop for Bar {
    fn drop(&mut self) {
        self.clear();
    }
}

/// Runs work on `len` samples under a bar and returns the seconds it took. The work reports how many samples are done.
pub fn timed<T>(
    what: &'static str,
    len: usize,
    work: impl FnOnce(&(dyn Fn(usize) + Sync)) -> Result<T>,
) -> Result<(T, f64)> {
    let (bar, start) = (Bar::new(what, len as u64), Instant::now());
    let result = work(&|n| bar.add(n))?;
    Ok((result, start.elapsed().as_secs_f64()))
}

/// A spinner for work that cannot be counted; it also appears only once the work has taken long enough. Without a
/// terminal, one line says what is being done.
#[derive(Debug)]
pub struct Waiting {
    bar: ProgressBar,
    _done: Sender<()>,
}

impl Waiting {
    /// Shows `what` until it is dropped.
    pub fn new(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{prefix} {spinner} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        let (done, over) = channel::<()>();
        let later = bar.clone();
        std::thread::spawn(move || {
            // The other end is dropped when the work ends.
            if over.recv_timeout(PATIENCE) != Err(RecvTimeoutError::Timeout) {
                return;
            }
            if ranks::is_first() && terminal::moves(std::io::stderr().is_terminal()) {
                later.set_draw_target(ProgressDrawTarget::stderr());
                later.enable_steady_tick(Duration::from_millis(100));
            } else {
                say(&format!("{what} …"));
            }
        });
        Self { bar, _done: done }
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}
