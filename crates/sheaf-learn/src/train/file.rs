//! Atomic file writes: to a temporary file, synced to disk, then renamed.

use std::fs::{self, File};
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use sheaf_admm::{Error, ErrorKind, Result};

/// An [`ErrorKind::Io`] error at `path`, with a hint if the operating system's error has a usual remedy.
pub fn io_error(path: &Path, expected: &str, error: &io::Error) -> Error {
    let out = Error::new(ErrorKind::Io, path.display().to_string(), expected, error);
    match error.kind() {
        io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => {
            out.hint("the disk is full: free some space and run again; nothing that was there before is lost")
        }
        io::ErrorKind::FileTooLarge => {
            out.hint("a limit of the shell or the disk allows no larger file; nothing that was there is lost")
        }
        io::ErrorKind::NotFound => out.hint("check the path"),
        io::ErrorKind::PermissionDenied | io::ErrorKind::ReadOnlyFilesystem => {
            out.hint("check the permissions of the file and of its directory")
        }
        _ => out,
    }
}

/// Writes `bytes` to `path` atomically: at every moment the file is either the old one or the complete new one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write_beside(path, |file| file.write_all(bytes))
}

/// The same for a writer; if it fails, the file at `path` is unchanged and the temporary file is removed.
pub(crate) fn write_beside(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<()> {
    let beside = beside(path);
    let outcome = File::create(&beside).and_then(|mut file| {
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        sync_directory(path)
    });
    outcome.map_err(|error| {
        // The first error is the one to report; this removal may fail for the same reason.
        let _ = fs::remove_file(&beside);
        io_error(path, "to write the file", &error)
    })
}

fn beside(path: &Path) -> PathBuf {
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    name.push(format!(".{}.part", std::process::id()));
    path.with_file_name(name)
}

/// Makes the rename survive a power cut. Not every system can open a directory; on those it does nothing.
fn sync_directory(path: &Path) -> io::Result<()> {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    if cfg!(unix) { File::open(parent)?.sync_all() } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::test_dir::TestDir;

    #[test]
    fn a_full_disk_leaves_the_old_file_and_says_so() {
        let dir = TestDir::new("full-disk");
        let path = dir.path().join("weights");
        write_whole(&path, b"old").unwrap();
        let error = write_beside(&path, |file| {
            file.write_all(b"half of the n")?;
            Err(io::ErrorKind::StorageFull.into())
        })
        .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.to_string().contains("weights") && error.hint_text().unwrap().contains("disk is full"));
        assert_eq!(fs::read(&path).unwrap(), b"old");
        assert_eq!(fs::read_dir(dir.path()).unwrap().count(), 1, "no part is left behind");
    }

    #[test]
    fn a_new_file_replaces_the_old_one() {
        let dir = TestDir::new("replace");
        let path = dir.path().join("weights");
        write_whole(&path, b"a longer old content").unwrap();
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
    }

    #[test]
    fn a_missing_directory_is_an_error_with_a_hint() {
        let error = write_whole(Path::new("/nonexistent/dir/weights"), b"x").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Io);
        assert!(error.hint_text().is_some());
    }
}
