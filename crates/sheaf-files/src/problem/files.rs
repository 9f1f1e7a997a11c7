//! Matrices in files beside a problem.

use std::fs;
use std::path::{Component, Path, PathBuf};

use crate::npz::{Array, Npz, Values, npy};
use sheaf_admm::network::file::{FileName, Loader};
use sheaf_admm::{Error, ErrorKind, Matrix, Result};
use sheaf_learn::train::file::io_error;

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
        let size = fs::metadata(&path).map_err(|e| io_error(&path, "a readable file", &e))?.len();
        if size > MAX_BYTES {
            return Err(Error::new(
                ErrorKind::Unsupported,
                place,
                format_args!("at most {MAX_BYTES} bytes"),
                size,
            ));
        }
        let bytes = fs::read(&path).map_err(|e| io_error(&path, "a readable file", &e))?;
        match path.extension().and_then(|e| e.to_str()) {
            Some("npy") => dense(&npy(&bytes, &place)?, &place),
            Some("npz") => {
                let file = Npz::from_bytes(bytes, place.clone())?;
                let only = file.names().next().map(str::to_string).filter(|_| file.names().count() == 1);
                let array = name.array.clone().or(only).ok_or_else(|| {
                    let got = file.names().collect::<Vec<_>>().join(", ");
                    Error::new(ErrorKind::Malformed, place.clone(), "one array, or its name in `array`", got)
                })?;
                dense(&file.array(&array)?, &place)
            }
            Some("mtx") => market::read(&bytes, &place),
            _ => Err(Error::new(ErrorKind::Unsupported, place, "a .npy, .npz or .mtx file", "another name")),
        }
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
        Values::I64(v) => v.iter().map(|&v| v as f64).collect(),
        other => {
            return Err(Error::new(ErrorKind::Unsupported, place, "float or integer numbers", other.dtype()));
        }
    };
    Ok(Matrix::dense(rows, cols, values))
}
