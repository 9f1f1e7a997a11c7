//! TensorBoard event files, scalars only, encoded by hand.
//!
//! ```text
//! record  = u64 length · u32 mask(crc(length bytes)) · payload · u32 mask(crc(payload))      little endian
//! mask(c) = rotate_right(c, 15) + 0xA282EAD8                                                 crc is CRC-32C
//! payload = Event    { 1: double wall_time, 2: int64 step, 3: string file_version | 5: Summary | 7: SessionLog }
//!           Summary  { 1: repeated Value { 1: string tag, 2: float simple_value } }
//!           SessionLog { 1: enum status (1 = start) }
//! ```
//!
//! Every session writes its own file. A resumed session begins with a session-start event at its step, so that
//! TensorBoard discards later steps of earlier files.

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{SystemTime, UNIX_EPOCH};

use crc32c::crc32c;

use super::file::io_error;
use sheaf_admm::Result;

/// Writes one event file.
#[derive(Debug)]
pub struct EventWriter {
    path: PathBuf,
    file: File,
}

impl EventWriter {
    /// Starts a new file in `dir` for a session that begins after update `step`.
    pub fn create(dir: &Path, step: u64) -> Result<Self> {
        let seconds = unix_time() as u64;
        let mut attempt = 0;
        // Two sessions in the same second must not write to the same file.
        let (path, file) = loop {
            let path = dir.join(format!("events.out.tfevents.{seconds:010}.{step:08}.{attempt}"));
            match File::create_new(&path) {
                Ok(file) => break (path, file),
                Err(e) if e.kind() == std::io::ErrorKind::AlreadyExists => attempt += 1,
                Err(e) => return Err(io_error(&path, "to create the event file", &e)),
            }
        };
        let mut writer = Self { path, file };
        writer.append(&event(unix_time(), 0, 3, b"brain.Event:2"))?;
        writer.restart(step)?;
        Ok(writer)
    }

    /// Marks everything written about steps after `step` as void.
    pub fn restart(&mut self, step: u64) -> Result<()> {
        let mut log = Vec::new();
        push_key(&mut log, 1, VARINT);
        push_varint(&mut log, 1);
        self.append(&event(unix_time(), step, 7, &log))
    }

    /// Writes the values of one step.
    pub fn scalars(&mut self, step: u64, values: &[(&str, f64)]) -> Result<()> {
        let mut summary = Vec::new();
        for (tag, value) in values {
            let mut one = Vec::new();
            push_bytes(&mut one, 1, tag.as_bytes());
            push_key(&mut one, 2, FIXED32);
            one.extend_from_slice(&(*value as f32).to_le_bytes());
            push_bytes(&mut summary, 1, &one);
        }
        self.append(&event(unix_time(), step, 5, &summary))
    }

    fn append(&mut self, payload: &[u8]) -> Result<()> {
        self.file.write_all(&record(payload)).map_err(|e| io_error(&self.path, "to append an event", &e))
    }
}

const VARINT: u64 = 0;
const FIXED64: u64 = 1;
const BYTES: u64 = 2;
const FIXED32: u64 = 5;

fn unix_time() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |d| d.as_secs_f64())
}

fn event(wall_time: f64, step: u64, field: u64, content: &[u8]) -> Vec<u8> {
    let mut out = Vec::new();
    push_key(&mut out, 1, FIXED64);
    out.extend_from_slice(&wall_time.to_le_bytes());
    if step != 0 {
        push_key(&mut out, 2, VARINT); // a zero is omitted, as in the format
        push_varint(&mut out, step);
    }
    push_bytes(&mut out, field, content);
    out
}

fn record(payload: &[u8]) -> Vec<u8> {
    let length = (payload.len() as u64).to_le_bytes();
    let mut out = Vec::with_capacity(payload.len() + 16);
    out.extend_from_slice(&length);
    out.extend_from_slice(&masked(&length).to_le_bytes());
    out.extend_from_slice(payload);
    out.extend_from_slice(&masked(payload).to_le_bytes());
    out
}

fn masked(bytes: &[u8]) -> u32 {
    crc32c(bytes).rotate_right(15).wrapping_add(0xA282_EAD8)
}

fn push_key(out: &mut Vec<u8>, field: u64, wire: u64) {
    push_varint(out, field << 3 | wire);
}

fn push_bytes(out: &mut Vec<u8>, field: u64, bytes: &[u8]) {
    push_key(out, field, BYTES);
    push_varint(out, bytes.len() as u64);
    out.extend_from_slice(bytes);
}

/// Seven bits per byte, lowest first; the top bit marks that more follow.
fn push_varint(out: &mut Vec<u8>, mut value: u64) {
    while value >= 0x80 {
        out.push(value as u8 | 0x80);
        value >>= 7;
    }
    out.push(value as u8);
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::train::test_dir::TestDir;

    /// One decoded field: its number, and its bytes (numbers: little endian).
    fn fields(mut bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
        fn varint(bytes: &mut &[u8]) -> u64 {
            let (mut value, mut shift) = (0, 0);
            loop {
                let byte = bytes[0];
                *bytes = &bytes[1..];
                value |= u64::from(byte & 0x7F) << shift;
                shift += 7;
                if byte < 0x80 {
                    return value;
                }
            }
        }
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let key = varint(&mut bytes);
            let length = match key & 7 {
                0 => {
                    out.push((key >> 3, varint(&mut bytes).to_le_bytes().to_vec()));
                    continue;
                }
                1 => 8,
                2 => varint(&mut bytes) as usize,
                5 => 4,
                other => panic!("wire type {other}"),
            };
            out.push((key >> 3, bytes[..length].to_vec()));
            bytes = &bytes[length..];
        }
        out
    }

    /// Splits a file into payloads and checks the unmasked checksums.
    fn payloads(mut bytes: &[u8]) -> Vec<Vec<u8>> {
        let unmask =
            |b: &[u8]| u32::from_le_bytes(b.try_into().unwrap()).wrapping_sub(0xA282_EAD8).rotate_left(15);
        let mut out = Vec::new();
        while !bytes.is_empty() {
            let length = u64::from_le_bytes(bytes[..8].try_into().unwrap()) as usize;
            assert_eq!(unmask(&bytes[8..12]), crc32c(&bytes[..8]));
            let payload = &bytes[12..12 + length];
            assert_eq!(unmask(&bytes[12 + length..16 + length]), crc32c(payload));
            out.push(payload.to_vec());
            bytes = &bytes[16 + length..];
        }
        out
    }

    #[test]
    fn events_decode_to_what_was_written() {
        let dir = TestDir::new("events");
        let mut writer = EventWriter::create(dir.path(), 300).unwrap();
        writer.scalars(301, &[("train/loss", 0.25), ("eval/solved", -1.5)]).unwrap();
        let name = writer.path.file_name().unwrap().to_str().unwrap().to_string();
        assert!(name.starts_with("events.out.tfevents."));
        let events = payloads(&std::fs::read(&writer.path).unwrap());
        assert_eq!(events.len(), 3);
        let [version, start, scalars] = [0, 1, 2].map(|k| fields(&events[k]));
        assert_eq!(version[1], (3, b"brain.Event:2".to_vec()));
        assert_eq!(start[1], (2, 300u64.to_le_bytes().to_vec()));
        assert_eq!((start[2].0, fields(&start[2].1)), (7, vec![(1, 1u64.to_le_bytes().to_vec())]));
        assert_eq!(scalars[1], (2, 301u64.to_le_bytes().to_vec()));
        let wall = f64::from_le_bytes(scalars[0].1.clone().try_into().unwrap());
        assert!((wall - unix_time()).abs() < 60.0);
        let values: Vec<_> = fields(&scalars[2].1).into_iter().map(|(_, v)| fields(&v)).collect();
        let value = |tag: &str, x: f32| vec![(1, tag.as_bytes().to_vec()), (2, x.to_le_bytes().to_vec())];
        assert_eq!(values, [value("train/loss", 0.25), value("eval/solved", -1.5)]);
    }

    #[test]
    fn the_file_starts_with_the_bytes_every_event_file_starts_with() {
        let dir = TestDir::new("prefix");
        let writer = EventWriter::create(dir.path(), 0).unwrap();
        let bytes = std::fs::read(&writer.path).unwrap();
        // The length 24, its masked checksum, then the key of `wall_time`: as TensorFlow's own writer does it.
        assert_eq!(bytes[..13], *b"\x18\0\0\0\0\0\0\0\xA3\x7FK\"\x09");
    }

    #[test]
    fn sessions_of_the_same_second_write_different_files() {
        let dir = TestDir::new("sessions");
        let paths: Vec<_> = (0..3).map(|_| EventWriter::create(dir.path(), 0).unwrap().path).collect();
        assert!(paths[0] != paths[1] && paths[1] != paths[2] && paths[0] != paths[2]);
    }
}
