//! Files from mirrors: checked, resumable.
//!
//! A file is downloaded to `NAME.part`, so that an interrupted download continues where it stopped, also from another
//! mirror: all of them hold the same bytes. It is renamed only when its SHA-256 matches. Mirrors are tried in order.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::io_error;

/// A file with its length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RemoteFile<'a> {
    /// Its name, the same on every mirror and on the disk.
    pub name: &'a str,
    /// Its length.
    pub bytes: u64,
    /// Its SHA-256, hexadecimal.
    pub sha256: &'a str,
}

/// Progress of a download.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Progress<'a> {
    /// The file being downloaded.
    pub file: &'a str,
    /// Bytes downloaded so far.
    pub done: u64,
    /// Total bytes.
    pub total: u64,
}

/// The outcome for a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fetched {
    /// It existed already, with the right checksum.
    Present,
    /// It was downloaded.
    Downloaded {
        /// Bytes reused from an earlier attempt.
        resumed: u64,
    },
}

/// Downloads one file into the folder `out` unless it exists there with the right checksum. `hint` says what a user can
/// do if no mirror has it.
pub fn fetch(
    file: &RemoteFile<'_>,
    out: &Path,
    mirrors: &[String],
    hint: &str,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Fetched> {
    fs::create_dir_all(out).map_err(|e| io_error(out, "a folder to write to", &e))?;
    let path = out.join(file.name);
    if path.exists() && sha256_of(&path)? == file.sha256 {
        progress(Progress { file: file.name, done: file.bytes, total: file.bytes });
        return Ok(Fetched::Present);
    }
    let part = out.join(format!("{}.part", file.name));
    let mut failures = Vec::new();
    for mirror in mirrors {
        let address = format!("{}/{}", mirror.trim_end_matches('/'), file.name);
        // A wrong part may come from another mirror's error page: retry once from the start.
        for _ in 0..2 {
            let resumed = part_length(&part, file.bytes)?;
            match fetch_part(file, &address, &part, resumed, progress) {
                Ok(resumed) => {
                    if sha256_of(&part)? == file.sha256 {
                        fs::rename(&part, &path).map_err(|e| io_error(&path, "to write the file", &e))?;
                        return Ok(Fetched::Downloaded { resumed });
                    }
                    fs::remove_file(&part).map_err(|e| io_error(&part, "to remove a wrong file", &e))?;
                    failures.push(format!("{address}: the bytes are not those of {}", file.name));
                    if resumed == 0 {
                        break;
                    }
                }
                Err(Trouble::Mirror(reason)) => {
                    failures.push(format!("{address}: {reason}"));
                    break;
                }
                Err(Trouble::Disk(error)) => return Err(error),
            }
        }
    }
    let got = if failures.is_empty() { "no mirror was given".to_string() } else { failures.join("; ") };
    Err(Error::new(ErrorKind::Io, format!("download of {}", file.name), "one mirror that has it", got)
        .hint(hint))
}

/// The SHA-256 of a file, hexadecimal.
pub fn sha256_of(path: &Path) -> Result<String> {
    let mut file = File::open(path).map_err(|e| io_error(path, "a readable file", &e))?;
    let mut hash = Sha256::new();
    let mut block = vec![0; 1 << 16];
    loop {
        match file.read(&mut block) {
            Ok(0) => break,
            Ok(n) => hash.update(&block[..n]),
            Err(e) if e.kind() == io::ErrorKind::Interrupted => {}
            Err(e) => return Err(io_error(path, "a readable file", &e)),
        }
    }
    Ok(hash.finalize().iter().map(|byte| format!("{byte:02x}")).collect())
}

/// Length of an existing part; a part that is too long, or a link in its place, is removed.
fn part_length(part: &Path, bytes: u64) -> Result<u64> {
    match fs::symlink_metadata(part) {
        Ok(data) if data.is_file() && data.len() <= bytes => Ok(data.len()),
        Ok(_) => {
            fs::remove_file(part).map_err(|e| io_error(part, "to remove a wrong file", &e))?;
            Ok(0)
        }
        Err(_) => Ok(0),
    }
}

/// Why a download failed: a mirror error, where the next mirror may help, or a local error.
enum Trouble {
    Mirror(String),
    Disk(Error),
}

/// Downloads the missing bytes of a part; returns how many bytes were reused.
fn fetch_part(
    file: &RemoteFile<'_>,
    address: &str,
    part: &Path,
    have: u64,
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<u64, Trouble> {
    if have == file.bytes {
        return Ok(have);
    }
    let mirror = |reason: &dyn std::fmt::Display| Trouble::Mirror(reason.to_string());
    let disk = |error: io::Error| Trouble::Disk(io_error(part, "to write the file", &error));
    let agent: ureq::Agent = ureq::Agent::config_builder()
        .http_status_as_error(false)
        .timeout_connect(Some(Duration::from_secs(20)))
        .timeout_recv_response(Some(Duration::from_secs(30)))
        .timeout_recv_body(Some(Duration::from_secs(600)))
        .build()
        .into();
    let mut request = agent.get(address);
    if have > 0 {
        request = request.header("Range", format!("bytes={have}-"));
    }
    let response = request.call().map_err(|e| mirror(&e))?;
    let status = response.status().as_u16();
    let range = response.headers().get("content-range").and_then(|r| r.to_str().ok()).map(str::to_string);
    let start = match status {
        200 => 0,
        // A mirror that answers with a different range would put bytes in the wrong place.
        206 if range.is_some_and(|r| r.starts_with(&format!("bytes {have}-"))) => have,
        206 => return Err(mirror(&"answered with another range than asked for")),
        other => return Err(mirror(&format_args!("answered {other}"))),
    };
    let mut to = if start > 0 {
        OpenOptions::new().append(true).open(part).map_err(disk)?
    } else {
        // Created anew and exclusively: a link that somebody has put there is not followed.
        match fs::remove_file(part) {
            Err(e) if e.kind() != io::ErrorKind::NotFound => return Err(disk(e)),
            _ => File::create_new(part).map_err(disk)?,
        }
    };
    let mut body = response.into_body().into_reader().take(file.bytes - start + 1);
    let (mut done, mut block) = (start, vec![0; 1 << 16]);
    loop {
        progress(Progress { file: file.name, done: done.min(file.bytes), total: file.bytes });
        let n = match body.read(&mut block) {
            Ok(0) => break,
            Ok(n) => n,
            Err(e) if e.kind() == io::ErrorKind::Interrupted => continue,
            Err(e) => return Err(mirror(&format_args!("{e} after {done} of {} bytes", file.bytes))),
        };
        to.write_all(&block[..n]).map_err(disk)?;
        done += n as u64;
    }
    to.sync_all().map_err(disk)?;
    if done < file.bytes {
        return Err(mirror(&format_args!("ended after {done} of {} bytes", file.bytes)));
    }
    Ok(start)
}
