//! All learned parameters in one flat vector with named ranges. Gradients, optimiser moments and the running average
//! share the layout, so an optimiser step is one loop and a checkpoint is one list of names.

use std::ops::Range;

use crate::limits::MAX_PARAMETERS;
use sheaf_admm::{Error, ErrorKind, Result};

/// One named tensor inside the flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamEntry {
    /// Its name, `/`-separated.
    pub name: String,
    /// Its shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Its range in the flat vector.
    pub range: Range<usize>,
}

/// Names, shapes and ranges of all parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamLayout {
    entries: Vec<ParamEntry>,
    len: usize,
    /// The first invalid declaration.
    mistake: Option<Mistake>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Mistake {
    Twice(String),
    TooLarge(String),
}

impl ParamLayout {
    /// An empty layout.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a tensor and returns its range. Names must be unique and the total size must not exceed
    /// [`MAX_PARAMETERS`]. A
    /// layer declares several tensors at once, so [`check`](Self::check) reports a mistake afterwards.
    pub fn add(&mut self, name: impl Into<String>, shape: &[usize]) -> Range<usize> {
        let name = name.into();
        let size = shape.iter().try_fold(1usize, |size, &n| size.checked_mul(n));
        let end = size.and_then(|size| self.len.checked_add(size)).filter(|&end| end <= MAX_PARAMETERS);
        if self.mistake.is_none() && self.find(&name).is_some() {
            self.mistake = Some(Mistake::Twice(name.clone()));
        } else if self.mistake.is_none() && end.is_none() {
            self.mistake = Some(Mistake::TooLarge(name.clone()));
        }
        let range = self.len..end.unwrap_or(self.len);
        self.len = range.end;
        self.entries.push(ParamEntry { name, shape: shape.to_vec(), range: range.clone() });
        range
    }

    /// Returns the first invalid declaration: a duplicate name, or a model that is too large. Training and
    /// file I/O call this before they use a layout.
    pub fn check(&self) -> Result<()> {
        match &self.mistake {
            None => Ok(()),
            Some(Mistake::Twice(name)) => {
                let place = format!("parameter `{name}`");
                Err(Error::new(ErrorKind::Malformed, place, "a name of its own", "one declared twice"))
            }
            Some(Mistake::TooLarge(name)) => {
                let place = format!("parameter `{name}`");
                let want = format!("a model of at most {MAX_PARAMETERS} parameters");
                Err(Error::new(ErrorKind::Shape, place, want, "a larger one"))
            }
        }
    }

    /// Checks that a flat vector has the length of the layout.
    pub fn check_params<T>(&self, params: &[T]) -> Result<()> {
        self.check()?;
        sheaf_admm::error::check_len("parameters", self.len, params.len())
    }

    /// Total number of parameters.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True if nothing was added.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// All tensors in order.
    pub fn entries(&self) -> &[ParamEntry] {
        &self.entries
    }

    /// The tensor of that name.
    pub fn find(&self, name: &str) -> Option<&ParamEntry> {
        self.entries.iter().find(|e| e.name == name)
    }

    /// The range of that name, or an error that lists similar names.
    pub fn range(&self, name: &str) -> Result<Range<usize>> {
        self.find(name).map(|e| e.range.clone()).ok_or_else(|| {
            Error::new(
                ErrorKind::Malformed,
                "parameter name",
                "a declared parameter",
                format_args!("`{name}`"),
            )
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranges_follow_each_other_and_are_found_by_name() {
        let mut layout = ParamLayout::new();
        assert_eq!(layout.add("w", &[2, 3]), 0..6);
        assert_eq!(layout.add("s", &[]), 6..7);
        assert_eq!(layout.range("s").unwrap(), 6..7);
        assert_eq!(layout.range("t").unwrap_err().kind(), ErrorKind::Malformed);
        layout.check_params(&[0.0f32; 7]).unwrap();
        assert_eq!(layout.check_params(&[0.0f32; 6]).unwrap_err().kind(), ErrorKind::Shape);
    }

    #[test]
    fn a_name_taken_twice_and_a_size_beyond_memory_are_told_by_name() {
        let mut twice = ParamLayout::new();
        twice.add("a", &[1]);
        twice.add("b", &[1]);
        twice.add("a", &[usize::MAX, 2]);
        let error = twice.check().unwrap_err();
        assert!(error.kind() == ErrorKind::Malformed && error.place().contains("`a`"), "{error}");
        for shape in [&[usize::MAX, usize::MAX][..], &[1 << 62], &[usize::MAX]] {
            let mut huge = ParamLayout::new();
            huge.add("first", &[3]);
            huge.add("huge", shape);
            let error = huge.check().unwrap_err();
            assert!(error.kind() == ErrorKind::Shape && error.place().contains("`huge`"), "{error}");
        }
    }
}
