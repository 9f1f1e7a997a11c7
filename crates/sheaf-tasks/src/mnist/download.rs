//! The four original MNIST files: from a mirror, checked and resumable, or from a folder.
//!
//! A file is downloaded to `NAME.part`, so that an interrupted download continues where it stopped, also from another
//! mirror: all of them hold the same bytes. It is renamed only when its SHA-256 matches.
//!
//! Mirrors are tried in order. The caller provides the list; [`mirrors`] reads it from the environment variable
//! `SHEAF_MNIST_MIRRORS` (folder URLs, separated by commas or spaces) or falls back to [`MIRRORS`].

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::Path;
use std::time::Duration;

use sha2::{Digest, Sha256};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::{io_error, read_at_most, write_whole};

use super::data::{ImageSet, Split};
use super::idx::MAX_NUMBERS;

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

/// The original files.
pub const FILES: [RemoteFile<'static>; 4] = [
    RemoteFile {
        name: "train-images-idx3-ubyte.gz",
        bytes: 9_912_422,
        sha256: "440fcabf73cc546fa21475e81ea370265605f56be210a4024d2ca8f203523609",
    },
    RemoteFile {
        name: "train-labels-idx1-ubyte.gz",
        bytes: 28_881,
        sha256: "3552534a0a558bbed6aed32b30c495cca23d567ec52cac8be1a0730e8010255c",
    },
    RemoteFile {
        name: "t10k-images-idx3-ubyte.gz",
        bytes: 1_648_877,
        sha256: "8d422c7b0a1c1c79245a5bcf07fe86e33eeafee792b84584aec276f5a2dbc4e6",
    },
    RemoteFile {
        name: "t10k-labels-idx1-ubyte.gz",
        bytes: 4_542,
        sha256: "f7ae60f92e00ec6debd23a6088c31dbd2371eca3ffa0defaefb259924204aec6",
    },
];

/// Long-standing mirrors of the files.
pub const MIRRORS: [&str; 2] =
    ["https://storage.googleapis.com/cvdf-datasets/mnist", "https://ossci-datasets.s3.amazonaws.com/mnist"];

/// The environment variable that replaces [`MIRRORS`].
pub const MIRRORS_VARIABLE: &str = "SHEAF_MNIST_MIRRORS";

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

/// The mirrors to use: those of `SHEAF_MNIST_MIRRORS`, else [`MIRRORS`].
pub fn mirrors() -> Vec<String> {
    match std::env::var(MIRRORS_VARIABLE) {
        Ok(list) if !list.trim().is_empty() => parse_mirrors(&list),
        _ => MIRRORS.iter().map(|m| m.to_string()).collect(),
    }
}

/// Splits URLs at commas or spaces.
pub fn parse_mirrors(list: &str) -> Vec<String> {
    let parts = list.split(|c: char| c == ',' || c.is_whitespace());
    parts.filter(|part| !part.is_empty()).map(str::to_string).collect()
}

/// Downloads the original MNIST files that `out` does not have yet.
pub fn download(
    out: &Path,
    mirrors: &[String],
    progress: &mut dyn FnMut(Progress<'_>),
) -> Result<Vec<Fetched>> {
    FILES.iter().map(|file| fetch(file, out, mirrors, progress)).collect()
}

/// Downloads one file unless it exists with the right checksum.
pub fn fetch(
    file: &RemoteFile<'_>,
    out: &Path,
    mirrors: &[String],
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
        .hint(format!(
            "run again to continue where it stopped, name other mirrors in {MIRRORS_VARIABLE}, or bring the files \
             yourself and use `--from DIR`"
        )))
}

/// Copies the files of both splits from a folder, if `out` lacks them, after reading them completely. Returns whether
/// they are the original MNIST files, byte for byte; any other IDX set is accepted.
pub fn from_dir(from: &Path, out: &Path) -> Result<bool> {
    for split in [Split::Train, Split::Test] {
        ImageSet::read(from, split)?;
    }
    fs::create_dir_all(out).map_err(|e| io_error(out, "a folder to write to", &e))?;
    let entries = fs::read_dir(from).map_err(|e| io_error(from, "a folder with IDX files", &e))?;
    for entry in entries {
        let path = entry.map_err(|e| io_error(from, "a folder with IDX files", &e))?.path();
        let Some(name) = path.file_name().and_then(|n| n.to_str()).filter(|n| n.contains("-ubyte")) else {
            continue;
        };
        let (to, plain) = (out.join(name), name.strip_suffix(".gz").unwrap_or(name));
        if !(plain.ends_with("-ubyte") && path.is_file()) || same_file(&path, &to) {
            continue;
        }
        write_whole(&to, &read_at_most(&path, MAX_NUMBERS, "a readable file")?)?;
    }
    for split in [Split::Train, Split::Test] {
        ImageSet::read(out, split)?;
    }
    for file in &FILES {
        let path = out.join(file.name);
        if !path.exists() || sha256_of(&path)? != file.sha256 {
            return Ok(false);
        }
    }
    Ok(true)
}

fn same_file(a: &Path, b: &Path) -> bool {
    matches!((a.canonicalize(), b.canonicalize()), (Ok(a), Ok(b)) if a == b)
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
