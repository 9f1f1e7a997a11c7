//! NumPy's `.npz` files: a zip archive with one `.npy` array per entry, through the crates `zip` and `npyz`.
//!
//! Reads what `numpy.savez` and `numpy.savez_compressed` write and writes what `numpy.load` reads, for little-endian
//! arrays of bytes, booleans, 32- and 64-bit integers and floats, in C or Fortran order. An entry is decoded on request, so an
//! array of an unsupported type does not affect the others. The same arrays give the same bytes.
//!
//! Input is not trusted. An array may have at most [`MAX_ARRAY_BYTES`]; its header is checked before it is parsed.
//!
//! ```
//! use sheaf_files::npz::{Array, Npz, Values, to_bytes};
//!
//! let array = Array::new(vec![2, 3], Values::U8(vec![1, 2, 3, 4, 5, 6]))?;
//! let file = to_bytes(&[("inputs", &array)])?;
//! assert_eq!(Npz::from_bytes(file, "inputs.npz")?.array("inputs")?, array);
//! # Ok::<(), sheaf_admm::Error>(())
//! ```

mod array;

use std::io::{self, BufReader, BufWriter, Cursor, Read, Write};
use std::path::Path;
use std::sync::Arc;

use npyz::{NpyFile, Order};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::MAX_SET_BYTES;
use sheaf_learn::train::file::{read_at_most, write_whole};
use zip::result::ZipError;
use zip::write::SimpleFileOptions;
use zip::{CompressionMethod, DateTime, System, ZipArchive, ZipWriter};

pub use array::{Array, Values};

/// Maximum data size of one array, 256 MiB, which is 740,000 mazes of 19 × 19: a small file must not exhaust memory.
pub const MAX_ARRAY_BYTES: u64 = MAX_SET_BYTES;
/// Maximum size of a file.
pub const MAX_FILE_BYTES: u64 = 1 << 29;

/// NumPy's own limit for the text of a header.
const MAX_HEADER: u64 = 10_000;
const DAMAGED: &str = "the file is damaged or cut off; make or copy it again";

/// An `.npz` file opened for reading.
#[derive(Clone, Debug)]
pub struct Npz {
    place: String,
    names: Vec<String>,
    archive: ZipArchive<Cursor<Arc<[u8]>>>,
}

impl Npz {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let bytes = read_at_most(path, MAX_FILE_BYTES, "a readable file")?;
        Self::from_bytes(bytes, path.display().to_string())
    }

    /// Opens the bytes of a file; `place` names it in errors.
    pub fn from_bytes(bytes: Vec<u8>, place: impl Into<String>) -> Result<Self> {
        let place = place.into();
        let (is_array, is_zip) = (bytes.starts_with(b"\x93NUMPY"), bytes.starts_with(b"PK\x03\x04"));
        let has_end = bytes.windows(4).any(|w| w == b"PK\x05\x06");
        match ZipArchive::new(Cursor::new(bytes.into())) {
            // The last of two entries would be read in silence.
            Ok(archive) if archive.has_duplicate_names() => {
                Err(Error::new(ErrorKind::Malformed, place, "each array once", "a name that occurs twice")
                    .hint("make it again: numpy.savez_compressed writes every name once"))
            }
            Ok(archive) => {
                let names = archive.file_names().flatten();
                let names = names.filter_map(|name| Some(name.strip_suffix(".npy")?.to_string())).collect();
                Ok(Self { place, names, archive })
            }
            Err(error) => {
                let (got, hint) = match (is_array, is_zip, has_end) {
                    (true, ..) => (
                        "a single .npy array".to_string(),
                        "in Python: numpy.savez_compressed(file, inputs=..., labels=...)",
                    ),
                    (_, true, false) => {
                        ("one without its end".to_string(), "the file is cut off; make or copy it again")
                    }
                    (_, true, true) => (error.to_string(), DAMAGED),
                    _ => (
                        "something else".to_string(),
                        "write one with `sheaf data`, or in Python with numpy.savez_compressed",
                    ),
                };
                Err(Error::new(ErrorKind::Malformed, place, "an .npz archive", got).hint(hint))
            }
        }
    }

    /// The name of the file in errors.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Names of the arrays in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.names.iter().map(String::as_str)
    }

    /// Decodes an array.
    pub fn array(&self, name: &str) -> Result<Array> {
        let place = format!("{}, array `{name}`", self.place);
        // The clone shares directory and bytes, but has its own read position.
        let mut archive = self.archive.clone();
        match archive.by_name(&format!("{name}.npy")) {
            Ok(mut entry) => {
                let size = entry.size();
                decode(&mut entry, size, &place)
            }
            Err(ZipError::FileNotFound) => {
                let got = self.names.join(", ");
                let got = if got.is_empty() { "no arrays".to_string() } else { got };
                let expected = format!("an array `{name}`");
                Err(Error::new(ErrorKind::Malformed, self.place.clone(), expected, got)
                    .hint(format!("in Python: numpy.savez_compressed(file, {name}=...)")))
            }
            Err(e @ (ZipError::UnsupportedArchive(_) | ZipError::CompressionMethodNotSupported(_))) => {
                Err(Error::new(ErrorKind::Unsupported, place, "a stored or deflated entry", e)
                    .hint("numpy.savez and numpy.savez_compressed write such entries"))
            }
            Err(e) => Err(Error::new(ErrorKind::Malformed, place, "a readable entry", e).hint(DAMAGED)),
        }
    }
}

/// The array of the bytes of a single `.npy` file; `place` names it in errors.
pub fn npy(bytes: &[u8], place: &str) -> Result<Array> {
    decode(&mut &bytes[..], bytes.len() as u64, place)
}

/// The array of an entry of `size` bytes.
fn decode(entry: &mut impl Read, size: u64, place: &str) -> Result<Array> {
    let malformed =
        |expected: &str, got: String| Error::new(ErrorKind::Malformed, place, expected, got).hint(DAMAGED);
    let broken = |e: io::Error| malformed("a .npy array", e.to_string());
    let unsupported = |expected: &str, got: &str, hint: &str| {
        Error::new(ErrorKind::Unsupported, place, expected, got).hint(format!("in Python: {hint}"))
    };
    let mut start = Vec::new();
    entry.by_ref().take(MAX_HEADER + 12).read_to_end(&mut start).map_err(broken)?;
    let Some((text, data_at)) = header_text(&start) else {
        let expected = format!("a .npy header of at most {MAX_HEADER} bytes");
        return Err(malformed(&expected, format!("{:?}", start[..start.len().min(12)].escape_ascii())));
    };
    if text.contains(&b'[') {
        let hint = "save each field as an array of its own";
        return Err(unsupported("a plain array of numbers", "a structured type", hint));
    }
    if !is_flat(text) {
        return Err(malformed("a header with one type and one shape", text.escape_ascii().to_string()));
    }
    // npyz reads number by number; the buffer reads larger blocks from the decompressor.
    let mut reader = BufReader::with_capacity(1 << 16, start.as_slice().chain(entry));
    let file = NpyFile::new(&mut reader).map_err(broken)?;
    let shape: Vec<usize> = file.shape().iter().map(|&n| n as usize).collect();
    let fortran = file.order() == Order::Fortran;
    let descr = file.dtype().descr();
    let Some(width) = Values::width(&descr) else {
        let expected = "little-endian uint8, bool, int32, int64, float32 or float64";
        let hint = "array.astype with one of these types before saving";
        return Err(unsupported(expected, &descr, hint));
    };
    let bytes = shape.iter().try_fold(width, |n, &d| n.checked_mul(d as u64)).unwrap_or(u64::MAX);
    if bytes > MAX_ARRAY_BYTES {
        let expected = format!("an array of at most {MAX_ARRAY_BYTES} bytes");
        return Err(Error::new(ErrorKind::Unsupported, place, expected, format!("{shape:?}, {descr}"))
            .hint("split it into several files"));
    }
    if data_at as u64 + bytes != size {
        let expected = format!("the bytes of {shape:?} numbers of {width} bytes");
        return Err(malformed(&expected, format!("{} bytes", size.saturating_sub(data_at as u64))));
    }
    let values = Values::read(file).map_err(broken)?;
    // Reading to the end checks the checksum.
    match reader.read(&mut [0]).map_err(broken)? {
        // NumPy saves a transposed array as it lies in memory.
        0 if fortran => Array::new(shape.clone(), values.in_c_order(&shape)),
        0 => Array::new(shape, values),
        _ => Err(malformed("as many bytes as the directory says", "more".into())),
    }
}

/// The text of a header, and where the data begin.
fn header_text(start: &[u8]) -> Option<(&[u8], usize)> {
    let (length, at) = match start.get(6)? {
        1 => (u16::from_le_bytes(*start.get(8..)?.first_chunk()?) as usize, 10usize),
        _ => (u32::from_le_bytes(*start.get(8..)?.first_chunk()?) as usize, 12),
    };
    Some((start.get(at..at.checked_add(length)?)?, at + length))
}

/// Whether a header may be parsed. The parser of npyz takes exponential time on nested lists and dictionaries,
/// overflows the stack on nested tuples, and multiplies the axes without a check; 19 digits together cannot overflow
/// its 64 bits.
fn is_flat(text: &[u8]) -> bool {
    let count = |is: fn(&u8) -> bool| text.iter().filter(|b| is(b)).count();
    let known = |b: &u8| b.is_ascii_alphanumeric() || b"'\"{}(),:_|<>= \n".contains(b);
    text.iter().all(known) && count(|&b| b == b'{' || b == b'(') <= 2 && count(u8::is_ascii_digit) <= 19
}

/// The bytes of a compressed `.npz` file.
pub fn to_bytes(arrays: &[(&str, &Array)]) -> Result<Vec<u8>> {
    // Date and system are fixed: the same data give the same file.
    let options = SimpleFileOptions::default()
        .compression_method(CompressionMethod::Deflated)
        .last_modified_time(DateTime::default())
        .system(System::Unix);
    let mut archive = ZipWriter::new(Cursor::new(Vec::new()));
    for (name, array) in arrays {
        let wrong = |e: &dyn std::fmt::Display| {
            Error::new(ErrorKind::Unsupported, *name, "an array that fits an .npz file", e)
                .hint("each name once; large arrays in several smaller files")
        };
        archive.start_file(format!("{name}.npy"), options).map_err(|e| wrong(&e))?;
        let shape: Vec<u64> = array.shape().iter().map(|&n| n as u64).collect();
        let mut out = BufWriter::new(&mut archive);
        array.values().write(&shape, &mut out).and_then(|()| out.flush()).map_err(|e| wrong(&e))?;
    }
    let bytes =
        archive.finish().map_err(|e| Error::new(ErrorKind::Unsupported, "archive", "an .npz file", e))?;
    Ok(bytes.into_inner())
}

/// Writes a compressed `.npz` file; an existing file at `path` stays until the new one is complete.
pub fn write(path: &Path, arrays: &[(&str, &Array)]) -> Result<()> {
    write_whole(path, &to_bytes(arrays)?)
}
