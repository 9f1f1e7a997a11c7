//! Splitting a scratch slice into vectors.

/// The rest of a scratch slice.
#[derive(Debug)]
pub(crate) struct Scratch<'s, T>(&'s mut [T]);

impl<'s, T> Scratch<'s, T> {
    /// The whole slice.
    pub(crate) fn new(scratch: &'s mut [T]) -> Self {
        Self(scratch)
    }

    /// The next `len` numbers, with unspecified content.
    pub(crate) fn take(&mut self, len: usize) -> &'s mut [T] {
        let (front, rest) = std::mem::take(&mut self.0).split_at_mut(len);
        self.0 = rest;
        front
    }

    /// Everything that was not taken.
    pub(crate) fn rest(self) -> &'s mut [T] {
        self.0
    }
}
