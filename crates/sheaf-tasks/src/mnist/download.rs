//! The four original MNIST files: from a mirror, checked and resumable, or from a folder.
//!
//! [`sheaf_files::fetch`] downloads. The caller provides the list; [`mirrors`] reads it from the environment variable
//! `SHEAF_MNIST_MIRRORS` (folder URLs, separated by commas or spaces) or falls back to [`MIRRORS`].

use std::fs;
use std::path::Path;

use sheaf_admm::Result;
pub use sheaf_files::fetch::{Fetched, Progress, RemoteFile, sha256_of};
use sheaf_learn::train::file::{io_error, read_at_most, write_whole};

use super::data::{ImageSet, Split};
use super::idx::MAX_NUMBERS;

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
    let hint = format!(
        "run again to continue where it stopped, name other mirrors in {MIRRORS_VARIABLE}, or bring the files \
         yourself and use `--from DIR`"
    );
    sheaf_files::fetch::fetch(file, out, mirrors, &hint, progress)
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
