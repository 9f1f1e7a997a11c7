//! Tensor files: safetensors with a checksum, validated when read.
//!
//! ```text
//! u64 header length · JSON header {"__metadata__": {…}, NAME: {dtype, shape, data_offsets}} · bytes
//! ```
//!
//! The header is written here, not by the `safetensors` crate, because that crate keeps metadata in a hash map, whose
//! order changes from run to run: the same training should produce the same file. The crate reads and validates.
//!
//! The checksum covers every byte of the file, its own eight digits read as zeros. Files of format 1 have a checksum
//! of the tensors alone; they are read, with a [note](TensorFile::note).

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::path::Path;

use crc32c::{crc32c, crc32c_append};
use half::f16;
use safetensors::SafeTensors;
use safetensors::tensor::{Dtype, Metadata};

use super::file::read_at_most;
use crate::limits::{MAX_TENSOR_NAME, MAX_WEIGHTS_BYTES};
use crate::params::ParamLayout;
use sheaf_admm::{Error, ErrorKind, Result};

/// Storage precision of a weights file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Precision {
    /// 32 bits, as in training.
    #[default]
    F32,
    /// 16 bits: half the size, three digits.
    F16,
}

/// The bytes of a file with one group of tensors per `(prefix, values)`, named `prefix + NAME` in `layout`'s order.
pub(crate) fn encode(
    place: &str,
    mut metadata: BTreeMap<&str, String>,
    layout: &ParamLayout,
    groups: &[(&str, &[f32])], // each [layout.len()]
    precision: Precision,
) -> Result<Vec<u8>> {
    layout.check()?;
    let (width, dtype) = match precision {
        Precision::F32 => (4, "F32"),
        Precision::F16 => (2, "F16"),
    };
    let mut data = Vec::with_capacity(groups.len() * layout.len() * width);
    let mut entries = Vec::new();
    for (prefix, values) in groups {
        sheaf_admm::error::check_len(place, layout.len(), values.len())?;
        for entry in layout.entries() {
            let (name, start) = (format!("{prefix}{}", entry.name), data.len());
            push(&mut data, &values[entry.range.clone()], precision)
                .map_err(|value| too_large(place, &name, value))?;
            let info = serde_json::json!({
                "dtype": dtype, "shape": entry.shape, "data_offsets": [start, data.len()],
            });
            entries.push((name, info));
        }
    }
    metadata.insert("checksum", format!("{WHOLE}{ZEROS}"));
    let mut header = serde_json::Map::new();
    header.insert("__metadata__".into(), serde_json::json!(metadata));
    header.extend(entries);
    let mut header = serde_json::Value::Object(header).to_string();
    // Padded so that the tensors start on a multiple of eight bytes.
    while !header.len().is_multiple_of(8) {
        header.push(' ');
    }
    let mut bytes = (header.len() as u64).to_le_bytes().to_vec();
    bytes.extend_from_slice(header.as_bytes());
    bytes.append(&mut data);
    let Some(digits) = digits_of(&bytes[8..8 + header.len()]).map(|at| 8 + at) else {
        return Err(Error::new(ErrorKind::Malformed, place, "a header with one checksum", "another"));
    };
    let sum = format!("{:08x}", whole_checksum(&bytes, digits));
    bytes[digits..digits + ZEROS.len()].copy_from_slice(sum.as_bytes());
    Ok(bytes)
}

/// Marks a checksum of the whole file; eight digits follow.
const WHOLE: &str = "crc32c-file:";
/// Marks a checksum of the tensors alone, as in files of format 1.
const TENSORS: &str = "crc32c:";
/// Stands for the checksum's digits while it is computed.
const ZEROS: &str = "00000000";

/// Where the digits of a checksum of the whole file stand in a header. Quotes inside JSON strings are escaped, so this
/// text can only be the key itself; a header with the key twice has none.
fn digits_of(header: &[u8]) -> Option<usize> {
    let key = format!("\"checksum\":\"{WHOLE}");
    let mut places = (0..header.len()).filter(|&at| header[at..].starts_with(key.as_bytes()));
    let (first, second) = (places.next()?, places.next());
    let digits = first + key.len();
    (second.is_none() && header.len() >= digits + ZEROS.len()).then_some(digits)
}

/// The checksum of a file whose own digits stand at `digits`.
fn whole_checksum(bytes: &[u8], digits: usize) -> u32 {
    let before = crc32c(&bytes[..digits]);
    crc32c_append(crc32c_append(before, ZEROS.as_bytes()), &bytes[digits + ZEROS.len()..])
}

/// Appends the values; the error is the first value that half precision cannot represent.
fn push(data: &mut Vec<u8>, values: &[f32], precision: Precision) -> Result<(), f32> {
    for &value in values {
        match precision {
            Precision::F32 => data.extend_from_slice(&value.to_le_bytes()),
            Precision::F16 => {
                let half = f16::from_f32(value);
                if value.is_finite() && !half.is_finite() {
                    return Err(value);
                }
                data.extend_from_slice(&half.to_le_bytes());
            }
        }
    }
    Ok(())
}

fn too_large(place: &str, name: &str, value: f32) -> Error {
    let place = format!("{place}: tensor `{name}`");
    Error::new(ErrorKind::OutOfRange, place, "magnitudes below 65520 for half precision", value)
        .hint("store these weights in 32 bits")
}

/// A tensor file in memory with validated header, sizes and checksum.
#[derive(Debug)]
pub struct TensorFile {
    place: String,
    bytes: Cow<'static, [u8]>,
    start: usize,
    header: Metadata,
    note: Option<&'static str>,
}

impl TensorFile {
    /// Reads the file at `path`.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = read_at_most(path, MAX_WEIGHTS_BYTES, "a readable file")?;
        Self::parse(&path.display().to_string(), bytes.into())
    }

    /// Parses `bytes`; `place` names them in errors.
    pub fn parse(place: &str, bytes: Cow<'static, [u8]>) -> Result<Self> {
        let (header_len, header) = SafeTensors::read_metadata(&bytes).map_err(|e| {
            Error::new(ErrorKind::Malformed, place, "a complete safetensors file", e)
                .hint("the file is truncated or of another kind; copy it again or choose another")
        })?;
        if let Some(name) = header.tensors().keys().find(|name| name.len() > MAX_TENSOR_NAME) {
            let want = format!("names of tensors of at most {MAX_TENSOR_NAME} bytes");
            return Err(Error::new(ErrorKind::Malformed, place, want, format_args!("{}", name.len())));
        }
        let mut file = Self { place: place.to_string(), start: 8 + header_len, header, bytes, note: None };
        file.check_sum()?;
        Ok(file)
    }

    /// Compares the checksum with the file. Files of other programs have none.
    fn check_sum(&mut self) -> Result<()> {
        let Some(stored) = self.meta("checksum") else { return Ok(()) };
        let header = &self.bytes[8..self.start];
        let (computed, whole) = match digits_of(header) {
            Some(at) if stored.starts_with(WHOLE) => {
                (format!("{WHOLE}{:08x}", whole_checksum(&self.bytes, 8 + at)), true)
            }
            _ => (format!("{TENSORS}{:08x}", crc32c(&self.bytes[self.start..])), false),
        };
        if stored != computed {
            let want = format!("a file with checksum {stored}");
            return Err(Error::new(ErrorKind::Malformed, self.place.as_str(), want, computed)
                .hint("the file was damaged after it was written; copy it again or choose another"));
        }
        if !whole {
            self.note = Some(OLD_FORMAT);
        }
        Ok(())
    }

    /// Whether the checksum covers every byte, as in files of format 2.
    pub(crate) fn is_sealed(&self) -> bool {
        self.meta("checksum").is_some_and(|sum| sum.starts_with(WHOLE))
    }

    /// What a user should know about a file that is usable, if anything.
    pub fn note(&self) -> Option<String> {
        self.note.map(|note| format!("{}: {note}", self.place))
    }

    /// The name of this file in errors.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// The metadata text under `key`.
    pub fn meta(&self, key: &str) -> Option<&str> {
        self.header.metadata().as_ref()?.get(key).map(String::as_str)
    }

    /// Names in byte order.
    pub fn names(&self) -> Vec<String> {
        self.header.offset_keys()
    }

    /// Type and shape of a tensor.
    pub fn info(&self, name: &str) -> Option<(Dtype, &[usize])> {
        self.header.info(name).map(|i| (i.dtype, i.shape.as_slice()))
    }

    /// The values of a tensor of this shape, stored as one of `types` (F32 or F16).
    pub fn tensor(&self, name: &str, shape: &[usize], types: &[Dtype]) -> Result<Vec<f32>> {
        Ok(match self.view(name, shape, types)? {
            (Dtype::F16, bytes) => {
                bytes.as_chunks::<2>().0.iter().map(|b| f16::from_le_bytes(*b).to_f32()).collect()
            }
            (_, bytes) => bytes.as_chunks::<4>().0.iter().map(|b| f32::from_le_bytes(*b)).collect(),
        })
    }

    /// Type and bytes of a tensor of this shape, stored as one of `types` (F32 or F16).
    fn view(&self, name: &str, shape: &[usize], types: &[Dtype]) -> Result<(Dtype, &[u8])> {
        let place = || format!("{}: tensor `{name}`", self.place);
        let names: Vec<String> = types.iter().map(|t| format!("{t:?}")).collect();
        let want = format!("{} of shape {shape:?}", names.join(" or "));
        let Some(info) = self.header.info(name) else {
            return Err(Error::new(ErrorKind::Malformed, place(), want, "no such tensor").hint(FOREIGN));
        };
        if info.shape != shape {
            let got = format!("shape {:?}", info.shape);
            return Err(Error::new(ErrorKind::Shape, place(), want, got).hint(FOREIGN));
        }
        let bytes = &self.bytes[self.start..][info.data_offsets.0..info.data_offsets.1];
        match info.dtype {
            known @ (Dtype::F32 | Dtype::F16) if types.contains(&known) => Ok((known, bytes)),
            other => Err(Error::new(ErrorKind::Malformed, place(), want, format_args!("{other:?}"))),
        }
    }

    /// One flat vector per prefix: every tensor of the layout must exist, and no other.
    pub fn groups(&self, layout: &ParamLayout, prefixes: &[&str], types: &[Dtype]) -> Result<Vec<Vec<f32>>> {
        layout.check()?;
        let known: std::collections::BTreeSet<String> = prefixes
            .iter()
            .flat_map(|prefix| layout.entries().iter().map(move |e| format!("{prefix}{}", e.name)))
            .collect();
        if let Some(extra) = self.names().into_iter().find(|name| !known.contains(name)) {
            let place = format!("{}: tensor `{extra}`", self.place);
            let got = "a tensor the model does not have";
            return Err(
                Error::new(ErrorKind::Malformed, place, "only the model's tensors", got).hint(FOREIGN)
            );
        }
        // Shapes first: nothing is allocated for a layout that is not that of the file.
        for prefix in prefixes {
            for entry in layout.entries() {
                self.view(&format!("{prefix}{}", entry.name), &entry.shape, types)?;
            }
        }
        let load = |prefix: &&str| {
            let mut flat = Vec::with_capacity(layout.len());
            for entry in layout.entries() {
                flat.extend(self.tensor(&format!("{prefix}{}", entry.name), &entry.shape, types)?);
            }
            Ok(flat)
        };
        prefixes.iter().map(load).collect()
    }
}

const OLD_FORMAT: &str = "an older file, whose checksum covers its numbers but not its configuration; \
                          `sheaf export` writes it anew";
const FOREIGN: &str = "the file belongs to a model with another configuration";

#[cfg(test)]
mod tests {
    use super::*;

    /// Files of earlier versions contain these checksums and these bits.
    #[test]
    fn checksums_and_halves_are_those_of_files_already_written() {
        // The check value of the polynomial, and test vectors of RFC 3720, appendix B.4.
        assert_eq!([crc32c(b"123456789"), crc32c(&[0; 32])], [0xE306_9283, 0x8A91_36AA]);
        assert_eq!([crc32c(&[0xFF; 32]), crc32c(b"")], [0x62A8_AB43, 0]);
        for (value, bits) in [
            (1.0, 0x3C00),
            (-2.0, 0xC000),
            (65519.0, 0x7BFF),
            (2f32.powi(-24), 1),
            // Ties go to even, above and below 2⁻¹⁴.
            (1.0 + 2f32.powi(-11), 0x3C00),
            (1.0 + 3.0 * 2f32.powi(-11), 0x3C02),
            (2f32.powi(-25), 0),
            (1.5 * 2f32.powi(-24), 2),
        ] {
            let mut data = Vec::new();
            push(&mut data, &[value], Precision::F16).unwrap();
            assert_eq!(data, u16::to_le_bytes(bits), "{value}");
        }
        assert_eq!(push(&mut Vec::new(), &[-65520.0], Precision::F16), Err(-65520.0));
    }
}
