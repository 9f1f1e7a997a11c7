//! Files: read up to a limit, written atomically (to a temporary file, synced to disk, then renamed).

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};

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

/// Reads a file of at most `limit` bytes. A longer one, or an endless one such as a device, is refused by its size.
pub fn read_at_most(path: &Path, limit: u64, want: &str) -> Result<Vec<u8>> {
    let failed = |e: &io::Error| io_error(path, want, e);
    let file = File::open(path).map_err(|e| failed(&e))?;
    let data = file.metadata().map_err(|e| failed(&e))?;
    if data.is_file() && data.len() > limit {
        return Err(too_long(path, limit, format_args!("{} bytes", data.len())));
    }
    read_all(file, path, limit, want)
}

/// Reads to the end of a stream of at most `limit` bytes; `path` names it in errors.
pub fn read_all(from: impl Read, path: &Path, limit: u64, want: &str) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    from.take(limit + 1).read_to_end(&mut bytes).map_err(|e| io_error(path, want, &e))?;
    if bytes.len() as u64 > limit {
        return Err(too_long(path, limit, format_args!("more")));
    }
    Ok(bytes)
}

/// The same for text.
pub fn read_text_at_most(path: &Path, limit: u64, want: &str) -> Result<String> {
    String::from_utf8(read_at_most(path, limit, want)?).map_err(|e| {
        let got = format!("bytes that are no UTF-8 text, from byte {} on", e.utf8_error().valid_up_to());
        Error::new(ErrorKind::Malformed, path.display().to_string(), want, got)
            .hint("save the file as UTF-8 text")
    })
}

fn too_long(path: &Path, limit: u64, got: impl std::fmt::Display) -> Error {
    let want = format!("a file of at most {limit} bytes");
    Error::new(ErrorKind::OutOfRange, path.display().to_string(), want, got)
        .hint("choose another file, or split it into several")
}

/// Writes `bytes` to `path` atomically: at every moment the file is either the old one or the complete new one.
pub fn write_whole(path: &Path, bytes: &[u8]) -> Result<()> {
    write_beside(path, |file| file.write_all(bytes)).map(drop)
}

/// The same for a writer; if it fails, the file at `path` is unchanged and the temporary file is removed. Returns the
/// file, open for writing at its end.
///
/// The temporary file is created exclusively, so that nobody can place a link there that the write would follow. A
/// file that is replaced passes its mode on.
pub(crate) fn write_beside(path: &Path, write: impl FnOnce(&mut File) -> io::Result<()>) -> Result<File> {
    remove_stale(path);
    let beside = beside(path);
    let created = File::create_new(&beside).map_err(|e| io_error(&beside, "to create the file", &e))?;
    let outcome = (|mut file: File| {
        if let Ok(replaced) = fs::symlink_metadata(path)
            && replaced.is_file()
        {
            file.set_permissions(replaced.permissions())?;
        }
        write(&mut file)?;
        file.sync_all()?;
        fs::rename(&beside, path)?;
        sync_directory(path)?;
        Ok(file)
    })(created);
    outcome.map_err(|error| {
        // The first error is the one to report; this removal may fail for the same reason.
        let _ = fs::remove_file(&beside);
        io_error(path, "to write the file", &error)
    })
}

fn beside(path: &Path) -> PathBuf {
    static WRITES: AtomicU64 = AtomicU64::new(0);
    let mut name = path.file_name().unwrap_or_default().to_os_string();
    let count = WRITES.fetch_add(1, Ordering::Relaxed);
    name.push(format!(".{}-{count}.part", std::process::id()));
    path.with_file_name(name)
}

/// Removes the temporary files that dead processes have left beside `path`. Only Linux tells which processes live.
fn remove_stale(path: &Path) {
    let parent = path.parent().filter(|p| !p.as_os_str().is_empty()).unwrap_or(Path::new("."));
    let (Some(name), true) = (path.file_name().and_then(|n| n.to_str()), Path::new("/proc/self").exists())
    else {
        return;
    };
    let writer = |entry: &fs::DirEntry| -> Option<u32> {
        let found = entry.file_name();
        let middle = found.to_str()?.strip_prefix(name)?.strip_prefix('.')?.strip_suffix(".part")?;
        middle.split('-').next()?.parse().ok()
    };
    for entry in fs::read_dir(parent).into_iter().flatten().flatten() {
        if writer(&entry).is_some_and(|pid| !Path::new(&format!("/proc/{pid}")).exists()) {
            // Somebody else may have removed it meanwhile.
            let _ = fs::remove_file(entry.path());
        }
    }
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

    #[test]
    fn files_beyond_their_limit_and_endless_ones_are_refused() {
        let dir = TestDir::new("limit");
        let path = dir.path().join("five");
        fs::write(&path, b"12345").unwrap();
        assert_eq!(read_at_most(&path, 5, "a file").unwrap(), b"12345");
        let error = read_at_most(&path, 4, "a file").unwrap_err();
        assert!(error.to_string().contains("at most 4 bytes, got 5 bytes"), "{error}");
        assert_eq!(read_all(io::repeat(7), &path, 9, "a stream").unwrap_err().kind(), ErrorKind::OutOfRange);
        fs::write(&path, [0xff]).unwrap();
        assert_eq!(read_text_at_most(&path, 9, "a text").unwrap_err().kind(), ErrorKind::Malformed);
    }

    #[cfg(unix)]
    #[test]
    fn a_replaced_file_keeps_its_mode_and_a_planted_link_is_not_followed() {
        use std::os::unix::fs::PermissionsExt;
        let dir = TestDir::new("mode");
        let (path, secret) = (dir.path().join("weights"), dir.path().join("secret"));
        write_whole(&path, b"old").unwrap();
        fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
        fs::write(&secret, b"untouched").unwrap();
        // Every temporary name that the next writes could take is a link already.
        for count in 0..10_000 {
            let name = format!("weights.{}-{count}.part", std::process::id());
            std::os::unix::fs::symlink(&secret, dir.path().join(name)).unwrap();
        }
        assert_eq!(write_whole(&path, b"new").unwrap_err().kind(), ErrorKind::Io);
        assert_eq!(
            (fs::read(&path).unwrap(), fs::read(&secret).unwrap()),
            (b"old".to_vec(), b"untouched".to_vec())
        );
        for entry in fs::read_dir(dir.path()).unwrap().flatten().filter(|e| e.path().is_symlink()) {
            fs::remove_file(entry.path()).unwrap();
        }
        write_whole(&path, b"new").unwrap();
        assert_eq!(fs::read(&path).unwrap(), b"new");
        assert_eq!(fs::metadata(&path).unwrap().permissions().mode() & 0o777, 0o600);
    }

    #[cfg(target_os = "linux")]
    #[test]
    fn temporary_files_of_dead_processes_are_removed() {
        let dir = TestDir::new("stale");
        let path = dir.path().join("weights");
        // Process numbers end below 2²², so this one cannot live; process 1 does.
        for name in
            ["weights.4194305-0.part", "weights.1-0.part", "other.4194305-0.part", "weights.note.part"]
        {
            fs::write(dir.path().join(name), b"half").unwrap();
        }
        write_whole(&path, b"new").unwrap();
        let mut left: Vec<_> = fs::read_dir(dir.path()).unwrap().map(|e| e.unwrap().file_name()).collect();
        left.sort();
        assert_eq!(left, ["other.4194305-0.part", "weights", "weights.1-0.part", "weights.note.part"]);
    }
}
