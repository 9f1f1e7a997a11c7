//! All learned numbers in one flat vector with named ranges. Gradients, optimiser moments and the running average
//! share the layout, so an optimiser step is one loop and a checkpoint is one list of names.

use std::ops::Range;

use crate::{Error, ErrorKind, Result};

/// One named tensor inside the flat vector.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ParamEntry {
    /// Its name, `/`-separated.
    pub name: String,
    /// Its shape; empty for a scalar.
    pub shape: Vec<usize>,
    /// Where it lies in the flat vector.
    pub range: Range<usize>,
}

/// Names, shapes and places of all parameters.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ParamLayout {
    entries: Vec<ParamEntry>,
    len: usize,
}

impl ParamLayout {
    /// An empty layout.
    pub fn new() -> Self {
        Self::default()
    }

    /// Appends a tensor and returns its range. Names must be unique.
    pub fn add(&mut self, name: impl Into<String>, shape: &[usize]) -> Range<usize> {
        let name = name.into();
        assert!(self.find(&name).is_none(), "parameter {name} declared twice");
        let range = self.len..self.len + shape.iter().product::<usize>();
        self.len = range.end;
        self.entries.push(ParamEntry { name, shape: shape.to_vec(), range: range.clone() });
        range
    }

    /// Total count of numbers.
    pub fn len(&self) -> usize {
        self.len
    }

    /// True when nothing was added.
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

    /// The range of that name, or an error that lists what is close.
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
