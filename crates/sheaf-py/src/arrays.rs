//! Arrays at the border: numpy and scipy in, numpy out.
//!
//! A contiguous array of the right type is read in place; every other order of memory is copied, never misread.

use numpy::{Element, IntoPyArray, PyArrayDyn, PyArrayMethods, PyReadonlyArrayDyn, PyUntypedArrayMethods};
use pyo3::prelude::*;
use sheaf_admm::{ErrorKind, Matrix};

use crate::errors::{wrong, wrong_hint};

/// An array as the caller gave it, or a copy in C order.
pub enum Held<'py, T: Element> {
    /// Read in place.
    Borrowed(PyReadonlyArrayDyn<'py, T>),
    /// Another order of memory, copied.
    Copied(Vec<usize>, Vec<T>),
}

impl<'py, T: Element + Copy> Held<'py, T> {
    /// An array of type `T`; `name` stands in errors.
    pub fn read(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Self> {
        let Ok(array) = object.cast::<PyArrayDyn<T>>() else {
            let dtype = T::get_dtype(object.py());
            let hint = format!("convert it with numpy.asarray(…, \"{dtype}\")");
            let expected = format!("an array of {dtype}");
            return Err(wrong_hint(ErrorKind::Unsupported, name, expected, kind_of(object), &hint));
        };
        let array =
            array.try_readonly().map_err(|e| wrong(ErrorKind::Unsupported, name, "an array to read", e))?;
        if array.is_c_contiguous() {
            return Ok(Self::Borrowed(array));
        }
        // Elements in the order of the indices, whatever the order of memory is.
        Ok(Self::Copied(array.shape().to_vec(), array.as_array().iter().copied().collect()))
    }

    /// Its numbers, the last index fastest.
    pub fn values(&self) -> PyResult<&[T]> {
        match self {
            Self::Borrowed(array) => {
                array.as_slice().map_err(|e| wrong(ErrorKind::Unsupported, "array", "contiguous memory", e))
            }
            Self::Copied(_, values) => Ok(values),
        }
    }

    /// Its shape.
    pub fn shape(&self) -> &[usize] {
        match self {
            Self::Borrowed(array) => array.shape(),
            Self::Copied(shape, _) => shape,
        }
    }
}

/// The type of an object, for people.
pub fn kind_of(object: &Bound<'_, PyAny>) -> String {
    let name = object.get_type().qualname().map_or_else(|_| "an object".into(), |n| n.to_string());
    match object.getattr("dtype") {
        Ok(dtype) => format!("{name} of {dtype}"),
        Err(_) => name,
    }
}

/// A new array of this shape.
pub fn array<'py, T: Element>(
    py: Python<'py>,
    shape: &[usize],
    values: Vec<T>,
) -> PyResult<Bound<'py, PyAny>> {
    Ok(values.into_pyarray(py).reshape(shape.to_vec())?.into_any())
}

/// `numpy.ascontiguousarray` in double precision, from anything that has numbers.
fn doubles<'py>(name: &str, object: &Bound<'py, PyAny>) -> PyResult<Held<'py, f64>> {
    let numpy = object.py().import("numpy")?;
    let any = numpy.call_method1("asarray", (object,))?;
    let kind: String = any.getattr("dtype")?.getattr("kind")?.extract()?;
    if !["f", "i", "u", "b"].contains(&kind.as_str()) {
        return Err(wrong(ErrorKind::Unsupported, name, "real numbers", kind_of(&any)));
    }
    Held::read(name, &numpy.call_method1("ascontiguousarray", (any, "float64"))?)
}

/// Numbers of a vector `[len]`, or one number for all if `len` is known.
pub fn vector(name: &str, object: &Bound<'_, PyAny>, len: Option<usize>) -> PyResult<Vec<f64>> {
    // `ascontiguousarray` makes a number an array of one.
    let number = object.extract::<f64>().ok().filter(|_| object.getattr("shape").is_err());
    if let (Some(number), Some(len)) = (number, len) {
        return Ok(vec![number; len]);
    }
    let held = doubles(name, object)?;
    if held.shape().len() != 1 || number.is_some() {
        let got = if number.is_some() { "a number".into() } else { format!("shape {:?}", held.shape()) };
        return Err(wrong(ErrorKind::Shape, name, "one dimension", got));
    }
    Ok(held.values()?.to_vec())
}

/// An array of any shape, as doubles.
pub fn tensor(name: &str, object: &Bound<'_, PyAny>) -> PyResult<(Vec<usize>, Vec<f64>)> {
    let held = doubles(name, object)?;
    Ok((held.shape().to_vec(), held.values()?.to_vec()))
}

/// A matrix: an array of two dimensions, any matrix of `scipy.sparse`, or, where `diagonal` allows it, the diagonal.
pub fn matrix(name: &str, object: &Bound<'_, PyAny>, diagonal: bool) -> PyResult<Matrix> {
    if object.hasattr("tocoo")? {
        let coo = object.call_method0("tocoo")?;
        let (rows, cols): (usize, usize) = coo.getattr("shape")?.extract()?;
        let numpy = object.py().import("numpy")?;
        let indices = |name: &str| -> PyResult<Vec<i64>> {
            let found = numpy.call_method1("ascontiguousarray", (coo.getattr(name)?, "int64"))?;
            Ok(Held::<i64>::read(name, &found)?.values()?.to_vec())
        };
        let (row, col) = (indices("row")?, indices("col")?);
        let values = vector(name, &coo.getattr("data")?, None)?;
        let places = row.into_iter().zip(col).map(|(r, c)| (r as usize, c as usize));
        let entries: Vec<_> = places.zip(values).map(|((r, c), v)| (r, c, v)).collect();
        return Ok(Matrix::sparse(rows, cols, entries));
    }
    let held = doubles(name, object)?;
    match (held.shape(), diagonal) {
        (&[rows, cols], _) => Ok(Matrix::dense(rows, cols, held.values()?)),
        (&[_], true) => Ok(Matrix::diagonal(held.values()?)),
        (shape, _) => {
            let expected = if diagonal { "a matrix, or the diagonal of one" } else { "a matrix" };
            let hint = "a map with one row is written [[…]]";
            Err(wrong_hint(ErrorKind::Shape, name, expected, format!("shape {shape:?}"), hint))
        }
    }
}
