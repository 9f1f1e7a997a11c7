//! One error type for the library: the kind of mistake, where it is, what was expected, what was found, and a hint.

use std::fmt;

/// Library result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// The kind of mistake that an [`Error`] reports. Match on this; the texts are for people.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum ErrorKind {
    /// An array or a stalk has the wrong size.
    Shape,
    /// An index names an agent, slot, edge or view that does not exist.
    OutOfRange,
    /// A number that must be positive is not (rho, gamma, a tolerance, a step size).
    NotPositive,
    /// A NaN or an infinity where a finite number is needed.
    NotFinite,
    /// A matrix that must be positive definite is not.
    NotPositiveDefinite,
    /// The constraints of a local problem exclude every point.
    Infeasible,
    /// An inner solver stopped without a solution.
    SolverFailed,
    /// A combination of options that has no meaning.
    Unsupported,
    /// A configuration or file with invalid content.
    Malformed,
    /// The operating system refused to read or write.
    Io,
}

/// A mistake, with its place, what was expected, what was found, and a next step.
#[derive(Clone, Debug, PartialEq)]
pub struct Error(Box<Parts>);

#[derive(Clone, Debug, PartialEq)]
struct Parts {
    kind: ErrorKind,
    place: String,
    expected: String,
    got: String,
    hint: Option<String>,
}

impl Error {
    /// An error of `kind` at `place`: `expected` this, `got` that.
    pub fn new(
        kind: ErrorKind,
        place: impl Into<String>,
        expected: impl fmt::Display,
        got: impl fmt::Display,
    ) -> Self {
        Self(Box::new(Parts {
            kind,
            place: place.into(),
            expected: expected.to_string(),
            got: got.to_string(),
            hint: None,
        }))
    }

    /// Adds a hint for the reader.
    pub fn hint(mut self, hint: impl Into<String>) -> Self {
        self.0.hint = Some(hint.into());
        self
    }

    /// The kind of mistake.
    pub fn kind(&self) -> ErrorKind {
        self.0.kind
    }

    /// Where it was found: a field, an agent, an edge, a file and line.
    pub fn place(&self) -> &str {
        &self.0.place
    }

    /// What was expected there.
    pub fn expected(&self) -> &str {
        &self.0.expected
    }

    /// What was found instead.
    pub fn got(&self) -> &str {
        &self.0.got
    }

    /// What to do about it, if there is a hint.
    pub fn hint_text(&self) -> Option<&str> {
        self.0.hint.as_deref()
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: expected {}, got {}", self.0.place, self.0.expected, self.0.got)?;
        if let Some(hint) = &self.0.hint {
            write!(f, "\nhint: {hint}")?;
        }
        Ok(())
    }
}

impl std::error::Error for Error {}

/// Checks that the number of items, `got`, is the one `expected`.
pub fn check_len(place: &str, expected: usize, got: usize) -> Result<()> {
    if expected == got {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::Shape, place, format_args!("{expected} numbers"), got))
    }
}

/// Refuses bf16 for scalars that have no such products.
pub fn check_precision<T: crate::Real>(place: &str, precision: crate::Precision) -> Result<()> {
    if precision == crate::Precision::Full || T::HAS_BF16 {
        return Ok(());
    }
    let expected = "full precision with f64, whose purpose is to be exact";
    Err(Error::new(ErrorKind::Unsupported, place, expected, precision.name())
        .hint("take f32, or leave the precision at its default"))
}

/// Checks that a number is finite and positive.
pub fn check_positive(place: &str, value: f64) -> Result<()> {
    if value.is_finite() && value > 0.0 {
        Ok(())
    } else {
        Err(Error::new(ErrorKind::NotPositive, place, "a finite number above 0", value))
    }
}

/// Checks that every number of a slice is finite; reports the first that is not.
pub fn check_finite<T: crate::Real>(place: &str, values: &[T]) -> Result<()> {
    match values.iter().position(|v| !v.is_finite()) {
        None => Ok(()),
        Some(i) => {
            Err(Error::new(ErrorKind::NotFinite, format!("{place}[{i}]"), "a finite number", values[i]))
        }
    }
}
