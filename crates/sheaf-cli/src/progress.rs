//! Progress on standard error, for what takes longer than two seconds; shorter work is not worth a bar.

use std::io::{IsTerminal, Write};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::time::{Duration, Instant};

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use sheaf_admm::Result;

/// Work shorter than this shows nothing.
const PATIENCE: Duration = Duration::from_secs(2);

/// Writes a line to standard error. A closed standard error, as in `sheaf train … 2>&1 | head`, does not stop the work.
pub fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// A bar that appears when the work turns out to be long.
#[derive(Debug)]
pub struct Bar {
    bar: ProgressBar,
    start: Instant,
    shown: AtomicBool,
}

impl Bar {
    /// A bar for `len` pieces of work called `what`.
    pub fn new(what: &'static str, len: u64) -> Self {
        Self::styled(what, len, "{prefix} {bar:32} {human_pos}/{human_len} {msg} {eta} left")
    }

    /// The same with a template of its own.
    pub fn styled(what: &'static str, len: u64, template: &str) -> Self {
        let bar = ProgressBar::with_draw_target(Some(len), ProgressDrawTarget::hidden());
        // The templates are constants; one that does not parse leaves the plain style.
        if let Ok(style) = ProgressStyle::with_template(template) {
            bar.set_style(style.progress_chars("━╸ "));
        }
        bar.set_prefix(what);
        Self { bar, start: Instant::now(), shown: AtomicBool::new(false) }
    }

    /// So many pieces more are done.
    pub fn add(&self, pieces: usize) {
        self.bar.inc(pieces as u64);
        self.show_if_long();
    }

    /// So many pieces are done in all.
    pub fn set(&self, pieces: u64, message: impl FnOnce() -> String) {
        self.show_if_long();
        if self.is_shown() {
            self.bar.set_message(message());
        }
        self.bar.set_position(pieces);
    }

    /// A line that stays, above the bar.
    pub fn say(&self, line: &str) {
        self.bar.suspend(|| say(line));
    }

    /// Whether it can be seen.
    pub fn is_shown(&self) -> bool {
        self.shown.load(Ordering::Relaxed)
    }

    /// Removes it.
    pub fn clear(&self) {
        self.bar.finish_and_clear();
    }

    fn show_if_long(&self) {
        let late = self.start.elapsed() >= PATIENCE && std::io::stderr().is_terminal();
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

/// Runs work on `len` samples under a bar, and tells how many seconds it took. The work says how many are done.
pub fn timed<T>(
    what: &'static str,
    len: usize,
    work: impl FnOnce(&(dyn Fn(usize) + Sync)) -> Result<T>,
) -> Result<(T, f64)> {
    let (bar, start) = (Bar::new(what, len as u64), Instant::now());
    let result = work(&|n| bar.add(n))?;
    Ok((result, start.elapsed().as_secs_f64()))
}

/// A spinner for work that cannot be counted; it too appears only when the work turns out to be long.
#[derive(Debug)]
pub struct Waiting {
    bar: ProgressBar,
    _done: Sender<()>,
}

impl Waiting {
    /// Waits for `what`, until it is dropped.
    pub fn new(what: &'static str) -> Self {
        let bar = ProgressBar::with_draw_target(None, ProgressDrawTarget::hidden());
        if let Ok(style) = ProgressStyle::with_template("{prefix} {spinner} {elapsed}") {
            bar.set_style(style);
        }
        bar.set_prefix(what);
        let (done, over) = channel::<()>();
        let later = bar.clone();
        std::thread::spawn(move || {
            // The other end is dropped when the work is over.
            if over.recv_timeout(PATIENCE) == Err(RecvTimeoutError::Timeout)
                && std::io::stderr().is_terminal()
            {
                later.set_draw_target(ProgressDrawTarget::stderr());
                later.enable_steady_tick(Duration::from_millis(100));
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
