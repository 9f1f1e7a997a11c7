//! NumPy's `.npz` files: a zip archive with one `.npy` array per entry.
//!
//! Reads what `numpy.savez` and `numpy.savez_compressed` write and writes what `numpy.load` reads, for little-endian
//! arrays of bytes, booleans, 32- and 64-bit integers and floats in C order. An entry is decoded when it is asked
//! for, so an array of a foreign type does not disturb the others. Files are written beside their place and renamed,
//! so that a full disk costs nothing that was there before.
//!
//! ```
//! use sheaf_tasks::npz::{Array, Npz, Values, to_bytes};
//!
//! let array = Array::new(vec![2, 3], Values::U8(vec![1, 2, 3, 4, 5, 6]))?;
//! let file = to_bytes(&[("inputs", &array)])?;
//! assert_eq!(Npz::from_bytes(file, "inputs.npz")?.array("inputs")?, array);
//! # Ok::<(), sheaf_admm::Error>(())
//! ```

mod npy;
mod zip;

use std::fs::{self, File};
use std::io::Write;
use std::path::Path;

use sheaf_admm::{Error, ErrorKind, Result};

/// The numbers of an array.
#[derive(Clone, Debug, PartialEq)]
pub enum Values {
    /// `uint8`
    U8(Vec<u8>),
    /// `bool`
    Bool(Vec<bool>),
    /// `int32`
    I32(Vec<i32>),
    /// `int64`
    I64(Vec<i64>),
    /// `float32`
    F32(Vec<f32>),
    /// `float64`
    F64(Vec<f64>),
}

impl Values {
    /// How many there are.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::F64(v) => v.len(),
        }
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// NumPy's name of the type.
    pub fn dtype(&self) -> &'static str {
        match self {
            Self::U8(_) => "uint8",
            Self::Bool(_) => "bool",
            Self::I32(_) => "int32",
            Self::I64(_) => "int64",
            Self::F32(_) => "float32",
            Self::F64(_) => "float64",
        }
    }
}

/// Numbers with a shape, the last axis varying fastest.
#[derive(Clone, Debug, PartialEq)]
pub struct Array {
    shape: Vec<usize>,
    values: Values,
}

impl Array {
    /// An array; the shape's product must be the number of values.
    pub fn new(shape: Vec<usize>, values: Values) -> Result<Self> {
        let count = shape.iter().try_fold(1usize, |n, &d| n.checked_mul(d));
        if count != Some(values.len()) {
            let expected = format!("as many values as shape {shape:?} holds");
            return Err(Error::new(ErrorKind::Shape, "array", expected, values.len()));
        }
        Ok(Self { shape, values })
    }

    /// Lengths of the axes.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// The numbers.
    pub fn values(&self) -> &Values {
        &self.values
    }

    /// The numbers, without a copy.
    pub fn into_values(self) -> Values {
        self.values
    }
}

/// An `.npz` file opened for reading.
#[derive(Clone, Debug)]
pub struct Npz {
    place: String,
    bytes: Vec<u8>,
    entries: Vec<zip::Entry>,
}

impl Npz {
    /// Reads a file.
    pub fn read(path: &Path) -> Result<Self> {
        let place = path.display().to_string();
        let bytes = fs::read(path).map_err(|e| {
            Error::new(ErrorKind::Io, place.clone(), "a readable file", e)
                .hint("check the path and its permissions")
        })?;
        Self::from_bytes(bytes, place)
    }

    /// Takes the bytes of a file; `place` names it in errors.
    pub fn from_bytes(bytes: Vec<u8>, place: impl Into<String>) -> Result<Self> {
        let place = place.into();
        let entries = zip::directory(&bytes, &place)?;
        Ok(Self { place, bytes, entries })
    }

    /// What the file is called in errors.
    pub fn place(&self) -> &str {
        &self.place
    }

    /// Names of the arrays in the order of the file.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.entries.iter().filter_map(|e| e.name.strip_suffix(".npy"))
    }

    /// Decodes an array.
    pub fn array(&self, name: &str) -> Result<Array> {
        let entry = self.entries.iter().find(|e| e.name.strip_suffix(".npy") == Some(name));
        let Some(entry) = entry else {
            let got = self.names().collect::<Vec<_>>().join(", ");
            let got = if got.is_empty() { "no arrays".to_string() } else { got };
            return Err(Error::new(
                ErrorKind::Malformed,
                self.place.clone(),
                format_args!("an array `{name}`"),
                got,
            )
            .hint(format!("in Python: numpy.savez_compressed(file, {name}=...)")));
        };
        let place = format!("{}, array `{name}`", self.place);
        npy::decode(&zip::extract(&self.bytes, entry, &place)?, &place)
    }
}

/// The bytes of a compressed `.npz` file.
pub fn to_bytes(arrays: &[(&str, &Array)]) -> Result<Vec<u8>> {
    let mut archive = zip::Writer::default();
    for (name, array) in arrays {
        archive.add(&format!("{name}.npy"), &npy::encode(array))?;
    }
    archive.finish()
}

/// Writes a compressed `.npz` file, beside its place first.
pub fn write(path: &Path, arrays: &[(&str, &Array)]) -> Result<()> {
    let bytes = to_bytes(arrays)?;
    let mut partial = path.as_os_str().to_owned();
    partial.push(".partial");
    let partial = Path::new(&partial);
    let written = File::create(partial).and_then(|mut file| {
        file.write_all(&bytes)?;
        file.sync_all()?;
        fs::rename(partial, path)
    });
    written.map_err(|e| {
        // What could not be finished is of no use; a failure to remove it changes nothing about the error.
        let _ = fs::remove_file(partial);
        Error::new(ErrorKind::Io, path.display().to_string(), "a file that can be written", e)
            .hint("check that the folder exists, may be written to and has space left")
    })
}
