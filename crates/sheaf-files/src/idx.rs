//! IDX files, the format of MNIST and its relatives, plain or gzipped.
//!
//! | bytes | content |
//! | --- | --- |
//! | 2 | zero |
//! | 1 | type of a number; 8 is an unsigned byte, the only one read here |
//! | 1 | count of dimensions |
//! | 4 each | dimensions, most significant byte first |
//! | the rest | the numbers, last dimension fastest, nothing after them |

use std::fs::File;
use std::io::{BufReader, Read};
use std::path::Path;

use flate2::read::MultiGzDecoder;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::{check_memory, product};
use sheaf_learn::train::file::io_error;

/// First bytes of a gzip stream.
const GZIP: [u8; 2] = [0x1f, 0x8b];
/// The type code of unsigned bytes.
const UNSIGNED_BYTE: u8 = 8;

/// Most numbers in a file, 1 GiB: twice the largest published set of this kind.
pub const MAX_NUMBERS: u64 = 1 << 30;

/// The content of an IDX file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Idx {
    /// Its shape.
    pub shape: Vec<usize>,
    /// Its numbers.
    pub bytes: Vec<u8>,
}

impl Idx {
    /// Reads a file with this many dimensions.
    pub fn read(path: &Path, dimensions: usize) -> Result<Self> {
        let place = path.display().to_string();
        let file = File::open(path).map_err(|e| io_error(path, "a readable IDX file", &e))?;
        Self::from_reader(BufReader::new(file), dimensions, &place)
    }

    /// Parses bytes in memory; `place` names them in errors.
    pub fn from_bytes(bytes: &[u8], dimensions: usize, place: &str) -> Result<Self> {
        Self::from_reader(bytes, dimensions, place)
    }

    fn from_reader(mut raw: impl Read, dimensions: usize, place: &str) -> Result<Self> {
        let mut head = [0; 2];
        fill(&mut raw, &mut head, "its first two bytes", place)?;
        let whole = head.as_slice().chain(raw);
        if head == GZIP {
            Self::decode(MultiGzDecoder::new(whole), dimensions, place)
        } else {
            Self::decode(whole, dimensions, place)
        }
    }

    fn decode(mut from: impl Read, dimensions: usize, place: &str) -> Result<Self> {
        let mut head = [0; 4];
        fill(&mut from, &mut head, "a header of 4 bytes", place)?;
        check_head(head, dimensions, place)?;
        let mut shape = Vec::with_capacity(dimensions);
        for axis in 0..dimensions {
            let mut size = [0; 4];
            fill(&mut from, &mut size, &format!("the size of dimension {axis}"), place)?;
            shape.push(u32::from_be_bytes(size) as usize);
        }
        let count = product(&shape, MAX_NUMBERS).ok_or_else(|| {
            let want = format!("at most {MAX_NUMBERS} numbers");
            malformed(place, want, format_args!("dimensions {shape:?}"))
                .hint("the file is damaged, or the set must be split")
        })? as usize;
        check_memory(place, "numbers", count as u64)?;
        // The header states the size, but memory is allocated only as bytes arrive.
        let mut bytes = Vec::new();
        let read = from.by_ref().take(count as u64 + 1).read_to_end(&mut bytes);
        if let Err(error) = read {
            return Err(broken(place, &format!("{count} numbers of shape {shape:?}"), &error, bytes.len()));
        }
        match bytes.len() {
            n if n == count => Ok(Self { shape, bytes }),
            n if n < count => Err(malformed(
                place,
                format_args!("{count} numbers of shape {shape:?}"),
                format_args!("{n}, then the end of the file"),
            )
            .hint("the file is cut short; fetch it again")),
            _ => Err(malformed(place, format_args!("the end of the file after {count} numbers"), "more")),
        }
    }
}

fn check_head(head: [u8; 4], dimensions: usize, place: &str) -> Result<()> {
    let [zero, also_zero, kind, axes] = head;
    if zero != 0 || also_zero != 0 || !(UNSIGNED_BYTE..=0x0e).contains(&kind) || axes == 0 {
        return Err(malformed(
            place,
            "an IDX file, which begins with two zero bytes, a type and a count of dimensions",
            format_args!("{head:02x?}"),
        )
        .hint(
            "give the files as they were published, gzipped or not, not a page or an archive around them",
        ));
    }
    if kind != UNSIGNED_BYTE {
        return Err(malformed(place, "unsigned bytes (type 08)", format_args!("type {kind:02x}")));
    }
    if axes as usize != dimensions {
        let what = match dimensions {
            1 => "1 dimension, as labels have".to_string(),
            3 => "3 dimensions, as pictures have".to_string(),
            n => format!("{n} dimensions"),
        };
        return Err(malformed(place, what, format_args!("{axes}"))
            .hint("files of pictures are called …-images-idx3-ubyte, files of labels …-labels-idx1-ubyte"));
    }
    Ok(())
}

fn fill(from: &mut impl Read, to: &mut [u8], what: &str, place: &str) -> Result<()> {
    let mut got = 0;
    while got < to.len() {
        match from.read(&mut to[got..]) {
            Ok(0) => {
                return Err(malformed(place, what, "the end of the file")
                    .hint("the file is cut short or empty; fetch it again"));
            }
            Ok(n) => got += n,
            Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(broken(place, what, &error, got)),
        }
    }
    Ok(())
}

fn malformed(place: &str, expected: impl std::fmt::Display, got: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::Malformed, place, expected, got)
}

fn broken(place: &str, expected: &str, error: &std::io::Error, after: usize) -> Error {
    malformed(place, expected, format_args!("{error} after {after} bytes"))
        .hint("the file is cut short or damaged; fetch it again")
}
