//! The lock of a run: one process at a time works in a directory.
//!
//! The lock is advisory and belongs to the open file, so that the system releases it when the process ends, however it
//! ends. The file names the process that holds it. It stays behind unlocked, because removing it would let two
//! processes lock two files of the same name.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{Read, Write};
use std::path::Path;

use super::file::io_error;
use sheaf_admm::{Error, ErrorKind, Result};

/// Name of the file in the directory.
pub(super) const NAME: &str = "lock";

/// A held lock; dropping it releases the directory.
#[derive(Debug)]
pub struct RunLock {
    _file: File,
}

impl RunLock {
    /// Locks the run in `dir`; if another process holds it, the error names that process.
    pub fn take(dir: &Path) -> Result<Self> {
        let path = dir.join(NAME);
        let failed = |e: &std::io::Error| io_error(&path, "to lock the run", e);
        if fs::symlink_metadata(&path).is_ok_and(|data| !data.is_file()) {
            let got = "a link or a folder";
            return Err(Error::new(
                ErrorKind::Unsupported,
                path.display().to_string(),
                "a file of the run",
                got,
            ));
        }
        let open = OpenOptions::new().create(true).truncate(false).read(true).write(true).open(&path);
        let mut file = open.map_err(|e| failed(&e))?;
        match file.try_lock() {
            Ok(()) => {}
            Err(TryLockError::WouldBlock) => return Err(held(dir, &mut file)),
            // File systems without locks cannot protect a run; that alone is no reason to refuse it.
            Err(TryLockError::Error(e)) if e.kind() == std::io::ErrorKind::Unsupported => {}
            Err(TryLockError::Error(e)) => return Err(failed(&e)),
        }
        let holder = format!("{}\n", std::process::id());
        file.set_len(0).and_then(|()| file.write_all(holder.as_bytes())).map_err(|e| failed(&e))?;
        Ok(Self { _file: file })
    }
}

fn held(dir: &Path, file: &mut File) -> Error {
    let mut text = String::new();
    let read = file.take(32).read_to_string(&mut text);
    let got = match text.trim().parse::<u32>() {
        Ok(pid) if read.is_ok() => format!("process {pid} at work in it"),
        _ => "another process at work in it".to_string(),
    };
    let want = "a run that no other process works on";
    Error::new(ErrorKind::Unsupported, dir.display().to_string(), want, got)
        .hint("wait until that process ends, or choose another directory")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::test_dir::TestDir;

    #[test]
    fn a_run_is_locked_once_and_the_holder_is_named() {
        let dir = TestDir::new("lock");
        let lock = RunLock::take(dir.path()).unwrap();
        let error = RunLock::take(dir.path()).unwrap_err();
        assert!(error.got().contains(&format!("process {}", std::process::id())), "{error}");
        drop(lock);
        RunLock::take(dir.path()).unwrap();
    }

    #[cfg(unix)]
    #[test]
    fn a_link_in_place_of_the_lock_is_refused_and_not_written_through() {
        let dir = TestDir::new("lock-link");
        let other = dir.path().join("other");
        fs::write(&other, "mine").unwrap();
        std::os::unix::fs::symlink(&other, dir.path().join(NAME)).unwrap();
        assert_eq!(RunLock::take(dir.path()).unwrap_err().kind(), ErrorKind::Unsupported);
        assert_eq!(fs::read_to_string(&other).unwrap(), "mine");
    }
}
