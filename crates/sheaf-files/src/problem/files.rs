//! Matrices in files beside a problem.

use std::path::{Component, Path, PathBuf};

use crate::npz::{Array, Npz, Values, npy};
use sheaf_admm::network::file::{FileName, Loader};
use sheaf_admm::{Error, ErrorKind, Matrix, Result};
use sheaf_learn::train::file::read_at_most;

use super::market;

/// The largest file that is read.
const MAX_BYTES: u64 = 1 << 30;

/// Reads files of one folder and the folders in it.
#[derive(Clone, Debug)]
pub struct Folder(PathBuf);

impl Folder {
    /// The folder that a problem is in.
    pub fn of(problem: &Path) -> Self {
        Self(problem.parent().unwrap_or(Path::new("")).to_path_buf())
    }
}

impl Loader for Folder {
    fn matrix(&mut self, name: &FileName) -> Result<Matrix> {
        let (path, place) = (Path::new(&name.file), format!("file {}", name.file));
        if !path.components().all(|c| matches!(c, Component::Normal(_) | Component::CurDir)) {
            return Err(Error::new(
                ErrorKind::Unsupported,
                place,
                "a file beside the problem",
                "a path that leaves its folder",
            ));
        }
        let path = self.0.join(path);
        let bytes = read_at_most(&path, MAX_BYTES, "a readable file")?;
        matrix(bytes, name, &place)
    }
}

/// The matrix in the bytes of a file, whose name tells the format; `place` names it in errors.
pub fn matrix(bytes: Vec<u8>, name: &FileName, place: &str) -> Result<Matrix> {
    let format = Path::new(&name.file).extension().and_then(|e| e.to_str());
    if let (Some("npy" | "mtx"), Some(array)) = (format, &name.array) {
        let want = "`array` only with a .npz file; this one holds a single array";
        return Err(Error::new(ErrorKind::Malformed, place, want, format_args!("`{array}`")));
    }
    match format {
        Some("npy") => dense(&npy(&bytes, place)?, place),
        Some("npz") => {
            let file = Npz::from_bytes(bytes, place)?;
            let only = file.names().next().map(str::to_string).filter(|_| file.names().count() == 1);
            let array = name.array.clone().or(only).ok_or_else(|| {
                let got = file.names().collect::<Vec<_>>().join(", ");
                Error::new(ErrorKind::Malformed, place, "one array, or its name in `array`", got)
            })?;
            dense(&file.array(&array)?, place)
        }
        Some("mtx") => market::read(&bytes, place),
        _ => Err(Error::new(ErrorKind::Unsupported, place, "a .npy, .npz or .mtx file", "another name")),
    }
}

/// An array of one or two axes; one axis is a column.
fn dense(array: &Array, place: &str) -> Result<Matrix> {
    let (rows, cols) = match array.shape() {
        [n] => (*n, 1),
        [rows, cols] => (*rows, *cols),
        other => {
            return Err(Error::new(ErrorKind::Shape, place, "one or two axes", format_args!("{other:?}")));
        }
    };
    let values: Vec<f64> = match array.values() {
        Values::F64(v) => v.clone(),
        Values::F32(v) => v.iter().map(|&v| f64::from(v)).collect(),
        Values::I32(v) => v.iter().map(|&v| f64::from(v)).collect(),
        Values::I64(v) => v.iter().map(|&v| exact(v, place)).collect::<Result<_>>()?,
        Values::U8(v) => v.iter().map(|&v| f64::from(v)).collect(),
        other => {
            return Err(Error::new(ErrorKind::Unsupported, place, "float or integer numbers", other.dtype()));
        }
    };
    Ok(Matrix::dense(rows, cols, values))
}

/// A 64-bit integer that is also a 64-bit float.
fn exact(value: i64, place: &str) -> Result<f64> {
    if value.unsigned_abs() <= 1 << f64::MANTISSA_DIGITS {
        return Ok(value as f64);
    }
    Err(Error::new(ErrorKind::OutOfRange, place, "integers of at most 2⁵³, which a float can hold", value))
}
