//! One `.npy` array: a magic word, a version, a Python dictionary as text, then the numbers.
//!
//! | version | bytes of the dictionary's length |
//! | --- | --- |
//! | 1 | 2 |
//! | 2, 3 | 4 |

use sheaf_admm::{Error, ErrorKind, Result};

use super::{Array, Values};

const MAGIC: &[u8] = b"\x93NUMPY";

/// The array of an entry.
pub(super) fn decode(bytes: &[u8], place: &str) -> Result<Array> {
    let wrong = |expected: &str, got: String| Error::new(ErrorKind::Malformed, place, expected, got);
    let Some(rest) = bytes.strip_prefix(MAGIC) else {
        return Err(wrong("the first bytes of a .npy array", format!("{:?}", &bytes[..bytes.len().min(6)])));
    };
    let cut = || wrong("a complete .npy header", format!("{} bytes", bytes.len()));
    let (version, rest) = rest.split_at_checked(2).ok_or_else(cut)?;
    let (length, rest) = match version[0] {
        1 => rest.split_first_chunk().map(|(n, rest)| (u16::from_le_bytes(*n) as usize, rest)),
        2 | 3 => rest.split_first_chunk().map(|(n, rest)| (u32::from_le_bytes(*n) as usize, rest)),
        v => return Err(wrong(".npy version 1, 2 or 3", format!("version {v}"))),
    }
    .ok_or_else(cut)?;
    let (header, data) = rest.split_at_checked(length).ok_or_else(cut)?;
    let header = Header::parse(&String::from_utf8_lossy(header), place)?;
    let values = header.values(data, place)?;
    Array::new(header.shape, values)
}

/// The bytes of an array, version 1, the numbers aligned to 64 bytes.
pub(super) fn encode(array: &Array) -> Vec<u8> {
    let descr = match array.values {
        Values::U8(_) => "|u1",
        Values::Bool(_) => "|b1",
        Values::I32(_) => "<i4",
        Values::I64(_) => "<i8",
        Values::F32(_) => "<f4",
        Values::F64(_) => "<f8",
    };
    let axes: String = array.shape.iter().map(|n| format!("{n}, ")).collect();
    let axes = if array.shape.len() == 1 { axes.trim_end() } else { axes.trim_end_matches(", ") };
    let mut header = format!("{{'descr': '{descr}', 'fortran_order': False, 'shape': ({axes}), }}");
    let before = MAGIC.len() + 4;
    let padding = 63 - (before + header.len()) % 64;
    header.extend(std::iter::repeat_n(' ', padding));
    header.push('\n');
    let mut bytes = Vec::with_capacity(before + header.len() + 8 * array.values.len());
    bytes.extend_from_slice(MAGIC);
    bytes.extend_from_slice(&[1, 0]);
    bytes.extend_from_slice(&(header.len() as u16).to_le_bytes());
    bytes.extend_from_slice(header.as_bytes());
    match &array.values {
        Values::U8(v) => bytes.extend_from_slice(v),
        Values::Bool(v) => bytes.extend(v.iter().map(|&b| u8::from(b))),
        Values::I32(v) => bytes.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Values::I64(v) => bytes.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Values::F32(v) => bytes.extend(v.iter().flat_map(|x| x.to_le_bytes())),
        Values::F64(v) => bytes.extend(v.iter().flat_map(|x| x.to_le_bytes())),
    }
    bytes
}

struct Header {
    descr: String,
    shape: Vec<usize>,
}

impl Header {
    fn parse(text: &str, place: &str) -> Result<Self> {
        let field = |name: &str| {
            let after = text
                .split_once(&format!("'{name}'"))
                .and_then(|(_, rest)| rest.trim_start().strip_prefix(':'));
            after.map(str::trim_start).ok_or_else(|| {
                Error::new(
                    ErrorKind::Malformed,
                    place,
                    format_args!("a header with '{name}'"),
                    format_args!("{text:?}"),
                )
            })
        };
        let wrong =
            |expected: &str| Error::new(ErrorKind::Malformed, place, expected, format_args!("{text:?}"));
        let descr = field("descr")?;
        let Some(descr) = descr.strip_prefix('\'').and_then(|d| d.split_once('\'')).map(|(d, _)| d) else {
            return Err(Error::new(
                ErrorKind::Unsupported,
                place,
                "a plain array of numbers",
                "a structured type",
            ));
        };
        let inside = field("shape")?.strip_prefix('(').and_then(|s| s.split_once(')')).map(|(s, _)| s);
        let axes = inside.ok_or_else(|| wrong("a shape in parentheses"))?.split(',').map(str::trim);
        let shape: Option<Vec<usize>> = axes.filter(|a| !a.is_empty()).map(|a| a.parse().ok()).collect();
        let shape = shape.ok_or_else(|| wrong("a shape of whole numbers"))?;
        // With at most one axis longer than 1 both orders are the same.
        if field("fortran_order")?.starts_with("True") && shape.iter().filter(|&&n| n != 1).count() > 1 {
            return Err(Error::new(
                ErrorKind::Unsupported,
                place,
                "an array in C order",
                "one in Fortran order",
            )
            .hint("in Python: numpy.ascontiguousarray(array) before saving"));
        }
        Ok(Self { descr: descr.to_string(), shape })
    }

    fn values(&self, data: &[u8], place: &str) -> Result<Values> {
        match self.descr.trim_start_matches(['|', '<', '=']) {
            "u1" => Ok(Values::U8(self.check(data, 1, place)?.to_vec())),
            "b1" => Ok(Values::Bool(self.check(data, 1, place)?.iter().map(|&b| b != 0).collect())),
            "i4" => Ok(Values::I32(words(self.check(data, 4, place)?, i32::from_le_bytes))),
            "i8" => Ok(Values::I64(words(self.check(data, 8, place)?, i64::from_le_bytes))),
            "f4" => Ok(Values::F32(words(self.check(data, 4, place)?, f32::from_le_bytes))),
            "f8" => Ok(Values::F64(words(self.check(data, 8, place)?, f64::from_le_bytes))),
            _ => Err(Error::new(
                ErrorKind::Unsupported,
                place,
                "little-endian uint8, bool, int32, int64, float32 or float64",
                format_args!("'{}'", self.descr),
            )
            .hint("in Python: array.astype(numpy.uint8) or another of these types before saving")),
        }
    }

    /// The data, if they are exactly as long as shape and type say.
    fn check<'a>(&self, data: &'a [u8], size: usize, place: &str) -> Result<&'a [u8]> {
        let shape = &self.shape;
        let expected = shape.iter().try_fold(size, |n, &d| n.checked_mul(d));
        if expected != Some(data.len()) {
            return Err(Error::new(
                ErrorKind::Malformed,
                place,
                format_args!("the bytes of {shape:?} numbers of {size} bytes"),
                format_args!("{} bytes", data.len()),
            )
            .hint("the file is damaged or cut off; make or copy it again"));
        }
        Ok(data)
    }
}

fn words<T, const N: usize>(data: &[u8], convert: fn([u8; N]) -> T) -> Vec<T> {
    data.as_chunks::<N>().0.iter().map(|&b| convert(b)).collect()
}
