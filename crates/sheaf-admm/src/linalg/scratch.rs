//! Cutting a scratch slice into vectors.

/// What is left of a scratch slice.
#[derive(Debug)]
pub(crate) struct Scratch<'s, T>(&'s mut [T]);

impl<'s, T> Scratch<'s, T> {
    /// All of it.
    pub(crate) fn new(scratch: &'s mut [T]) -> Self {
        Self(scratch)
    }

    /// The next `len` numbers, whatever they hold.
    pub(crate) fn take(&mut self, len: usize) -> &'s mut [T] {
        let (front, rest) = std::mem::take(&mut self.0).split_at_mut(len);
        self.0 = rest;
        front
    }

    /// All that was not taken.
    pub(crate) fn rest(self) -> &'s mut [T] {
        self.0
    }
}
