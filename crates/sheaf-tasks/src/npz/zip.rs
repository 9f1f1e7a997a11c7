//! As much of the zip format as arrays need: stored or deflated entries, a central directory, CRC-32.
//!
//! Reading goes by the central directory, so data descriptors and what the local headers leave open do not matter;
//! the 64-bit fields of large archives are understood. Writing deflates every entry and stays below 4 GiB.

use std::io::{Read, Write};

use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use flate2::{Compression, Crc};
use sheaf_admm::{Error, ErrorKind, Result};

const LOCAL: &[u8] = b"PK\x03\x04";
const CENTRAL: &[u8] = b"PK\x01\x02";
const END: &[u8] = b"PK\x05\x06";
const END_64: &[u8] = b"PK\x06\x06";
const LOCATOR_64: &[u8] = b"PK\x06\x07";

/// A file in an archive, as its directory describes it.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    pub(super) name: String,
    method: u16,
    crc: u32,
    packed: u64,
    size: u64,
    header: u64,
}

/// Little-endian numbers at a place of a file that may be too short.
struct Bytes<'a>(&'a [u8]);

impl<'a> Bytes<'a> {
    fn slice(&self, at: u64, len: u64) -> Option<&'a [u8]> {
        self.0.get(usize::try_from(at).ok()?..usize::try_from(at.checked_add(len)?).ok()?)
    }

    fn number(&self, at: u64, len: u64) -> Option<u64> {
        Some(self.slice(at, len)?.iter().rev().fold(0, |n, &b| n << 8 | u64::from(b)))
    }
}

/// The entries of an archive.
pub(super) fn directory(bytes: &[u8], place: &str) -> Result<Vec<Entry>> {
    let file = Bytes(bytes);
    if bytes.starts_with(b"\x93NUMPY") {
        return Err(Error::new(ErrorKind::Malformed, place, "an .npz archive", "a single .npy array")
            .hint("in Python: numpy.savez_compressed(file, inputs=..., labels=...)"));
    }
    let Some(end) = find_end(bytes) else {
        let got = if bytes.starts_with(LOCAL) { "one without its end" } else { "something else" };
        let hint = if bytes.starts_with(LOCAL) {
            "the file is cut off; make or copy it again"
        } else {
            "write one with `sheaf data`, or in Python with numpy.savez_compressed"
        };
        return Err(Error::new(ErrorKind::Malformed, place, "an .npz archive", got).hint(hint));
    };
    read_directory(&file, end as u64).ok_or_else(|| {
        Error::new(ErrorKind::Malformed, place, "a complete directory of the .npz archive", "a damaged one")
            .hint("make or copy the file again")
    })
}

/// Where the end record starts: the last one that is followed by exactly its own comment.
fn find_end(bytes: &[u8]) -> Option<usize> {
    let last = bytes.len().checked_sub(22)?;
    (last.saturating_sub(u16::MAX.into())..=last).rev().find(|&at| {
        let comment = u16::from_le_bytes([bytes[at + 20], bytes[at + 21]]);
        bytes[at..].starts_with(END) && at + 22 + usize::from(comment) == bytes.len()
    })
}

fn read_directory(file: &Bytes, end: u64) -> Option<Vec<Entry>> {
    let (mut count, mut at) = (file.number(end + 10, 2)?, file.number(end + 16, 4)?);
    if count == 0xffff || at == 0xffff_ffff {
        let locator = end.checked_sub(20)?;
        if file.slice(locator, 4)? == LOCATOR_64 {
            let end = file.number(locator + 8, 8)?;
            if file.slice(end, 4)? != END_64 {
                return None;
            }
            (count, at) = (file.number(end.checked_add(32)?, 8)?, file.number(end.checked_add(48)?, 8)?);
        }
    }
    let mut entries = Vec::new();
    for _ in 0..count {
        if file.slice(at, 4)? != CENTRAL {
            return None;
        }
        let lengths = [28, 30, 32].map(|o| file.number(at + o, 2));
        let [Some(name), Some(extra), Some(comment)] = lengths else { return None };
        let mut entry = Entry {
            name: String::from_utf8_lossy(file.slice(at + 46, name)?).into_owned(),
            method: file.number(at + 10, 2)? as u16,
            crc: file.number(at + 16, 4)? as u32,
            packed: file.number(at + 20, 4)?,
            size: file.number(at + 24, 4)?,
            header: file.number(at + 42, 4)?,
        };
        widen(&mut entry, &Bytes(file.slice(at + 46 + name, extra)?))?;
        entries.push(entry);
        at += 46 + name + extra + comment;
    }
    Some(entries)
}

/// Replaces the fields that did not fit in 32 bits by those of the 64-bit extra field.
fn widen(entry: &mut Entry, extra: &Bytes) -> Option<()> {
    let mut at = 0;
    while let (Some(id), Some(len)) = (extra.number(at, 2), extra.number(at + 2, 2)) {
        at += 4;
        if id == 1 {
            let mut next = at;
            for field in [&mut entry.size, &mut entry.packed, &mut entry.header] {
                if *field == 0xffff_ffff {
                    *field = extra.number(next, 8)?;
                    next += 8;
                }
            }
        }
        at += len;
    }
    Some(())
}

/// The unpacked bytes of an entry, checked against its size and checksum.
pub(super) fn extract(bytes: &[u8], entry: &Entry, place: &str) -> Result<Vec<u8>> {
    let damaged = |expected: &str, got: &str| {
        Error::new(ErrorKind::Malformed, place, expected, got)
            .hint("the file is damaged or cut off; make or copy it again")
    };
    let file = Bytes(bytes);
    let packed = (|| {
        let header = file.slice(entry.header, 30)?;
        let local = Bytes(header);
        let skip = 30 + local.number(26, 2)? + local.number(28, 2)?;
        if !header.starts_with(LOCAL) {
            return None;
        }
        file.slice(entry.header.checked_add(skip)?, entry.packed)
    })();
    let packed = packed.ok_or_else(|| damaged("all bytes of the entry", "an end of file before them"))?;
    let mut unpacked = Vec::new();
    match entry.method {
        0 => unpacked.extend_from_slice(packed),
        8 => {
            // One byte more than announced is enough to know that there are too many.
            DeflateDecoder::new(packed)
                .take(entry.size.saturating_add(1))
                .read_to_end(&mut unpacked)
                .map_err(|e| damaged("deflated data", &e.to_string()))?;
        }
        method => {
            return Err(Error::new(
                ErrorKind::Unsupported,
                place,
                "a stored or deflated entry",
                format_args!("compression method {method}"),
            )
            .hint("numpy.savez and numpy.savez_compressed write such entries"));
        }
    }
    if unpacked.len() as u64 != entry.size {
        return Err(damaged("as many bytes as the directory says", &unpacked.len().to_string()));
    }
    let mut crc = Crc::new();
    crc.update(&unpacked);
    if crc.sum() != entry.crc {
        return Err(damaged("data with the checksum of the directory", "another checksum"));
    }
    Ok(unpacked)
}

/// An archive being written in memory.
#[derive(Default)]
pub(super) struct Writer {
    bytes: Vec<u8>,
    directory: Vec<u8>,
    count: u16,
}

impl Writer {
    /// Adds a deflated entry.
    pub(super) fn add(&mut self, name: &str, content: &[u8]) -> Result<()> {
        let mut encoder = DeflateEncoder::new(Vec::new(), Compression::default());
        let packed = encoder.write_all(content).and_then(|()| encoder.finish());
        let packed = packed.map_err(|e| Error::new(ErrorKind::Io, name, "data that can be deflated", e))?;
        let mut crc = Crc::new();
        crc.update(content);
        let header = small(name, self.bytes.len())?;
        // Version 2.0, no flags, deflate, midnight on the first day the format knows: the same data, the same file.
        let mut common = vec![20, 0, 0, 0, 8, 0, 0, 0, 0x21, 0];
        common.extend_from_slice(&crc.sum().to_le_bytes());
        common.extend_from_slice(&small(name, packed.len())?.to_le_bytes());
        common.extend_from_slice(&small(name, content.len())?.to_le_bytes());
        common.extend_from_slice(&(name.len() as u16).to_le_bytes());
        common.extend_from_slice(&[0; 2]);
        self.bytes.extend_from_slice(LOCAL);
        self.bytes.extend_from_slice(&common);
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.extend_from_slice(&packed);
        self.directory.extend_from_slice(CENTRAL);
        self.directory.extend_from_slice(&[20, 0]);
        self.directory.extend_from_slice(&common);
        // No comment, first disk, no attributes.
        self.directory.extend_from_slice(&[0; 10]);
        self.directory.extend_from_slice(&header.to_le_bytes());
        self.directory.extend_from_slice(name.as_bytes());
        self.count += 1;
        Ok(())
    }

    /// Appends the directory.
    pub(super) fn finish(mut self) -> Result<Vec<u8>> {
        let start = small("directory", self.bytes.len())?;
        self.bytes.extend_from_slice(&self.directory);
        self.bytes.extend_from_slice(END);
        self.bytes.extend_from_slice(&[0; 4]);
        self.bytes.extend_from_slice(&self.count.to_le_bytes());
        self.bytes.extend_from_slice(&self.count.to_le_bytes());
        self.bytes.extend_from_slice(&small("directory", self.directory.len())?.to_le_bytes());
        self.bytes.extend_from_slice(&start.to_le_bytes());
        self.bytes.extend_from_slice(&[0; 2]);
        Ok(self.bytes)
    }
}

/// A length that fits the 32-bit fields.
fn small(place: &str, length: usize) -> Result<u32> {
    u32::try_from(length).ok().filter(|&n| n < u32::MAX).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, place, "less than 4 GiB in one .npz file", length)
            .hint("write several smaller files")
    })
}
