//! Errors of the library as Python exceptions, with the same text.

use std::any::Any;

use pyo3::prelude::*;
use sheaf_admm::{Error, ErrorKind, Result};

/// Turns a result of the library into one of Python.
pub trait Raised<T> {
    /// The value, or the exception.
    fn raised(self) -> PyResult<T>;
}

impl<T> Raised<T> for Result<T> {
    fn raised(self) -> PyResult<T> {
        self.map_err(|error| exception(&error))
    }
}

/// The exception of an error: `sheaf_admm.Error`, which is a `ValueError`.
pub fn exception(error: &Error) -> PyErr {
    let make = |py: Python<'_>| {
        let class = py.import("sheaf_admm._errors")?.getattr("Error")?;
        let kind = format!("{:?}", error.kind());
        let parts = (error.place(), error.expected(), error.got(), error.hint_text());
        Ok(PyErr::from_value(class.call1((error.to_string(), kind, parts))?))
    };
    Python::attach(|py| make(py).unwrap_or_else(|failed| failed))
}

/// The exception of a wrong argument.
pub fn wrong(
    kind: ErrorKind,
    place: &str,
    expected: impl std::fmt::Display,
    got: impl std::fmt::Display,
) -> PyErr {
    exception(&Error::new(kind, place, expected, got))
}

/// The same with a next step.
pub fn wrong_hint(
    kind: ErrorKind,
    place: &str,
    expected: impl std::fmt::Display,
    got: impl std::fmt::Display,
    hint: &str,
) -> PyErr {
    exception(&Error::new(kind, place, expected, got).hint(hint))
}

/// The exception of a panic: `sheaf_admm.InternalError`, which is a `RuntimeError`.
pub fn panicked(payload: &(dyn Any + Send)) -> PyErr {
    let text = payload.downcast_ref::<&str>().map(|s| (*s).to_string());
    let text = text.or_else(|| payload.downcast_ref::<String>().cloned()).unwrap_or_else(|| "a panic".into());
    let make = |py: Python<'_>| {
        let class = py.import("sheaf_admm._errors")?.getattr("InternalError")?;
        Ok(PyErr::from_value(class.call1((text,))?))
    };
    Python::attach(|py| make(py).unwrap_or_else(|failed| failed))
}

/// The same error with the place inside another.
pub fn within(place: &str, error: &Error) -> Error {
    let inner =
        Error::new(error.kind(), format!("{place}: {}", error.place()), error.expected(), error.got());
    match error.hint_text() {
        Some(hint) => inner.hint(hint),
        None => inner,
    }
}
