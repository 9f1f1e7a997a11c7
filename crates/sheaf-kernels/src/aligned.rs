//! A vector whose first element sits on a 64-byte boundary.
//!
//! Vector loads that straddle cache lines cost up to 40 % in the stack kernels, so tables and states live in these.

use std::ops::{Deref, DerefMut};

const ALIGN: usize = 64;

/// A fixed-length, zero-initialised buffer aligned to 64 bytes.
#[derive(Debug)]
pub struct AlignedVec<T> {
    data: Vec<T>,
    offset: usize,
    len: usize,
}

impl<T: Copy + Default> AlignedVec<T> {
    /// `len` zeros.
    pub fn zeros(len: usize) -> Self {
        let data = vec![T::default(); len + ALIGN / size_of::<T>()];
        let offset = data.as_ptr().align_offset(ALIGN).min(ALIGN / size_of::<T>());
        Self { data, offset, len }
    }

    /// Grows to at least `len` elements; the content is unspecified afterwards. Never shrinks. If the allocation fails,
    /// the length does not change: callers that take sizes from users compare [`len`](slice::len) afterwards.
    pub fn ensure(&mut self, len: usize) {
        if self.len < len && fits::<T>(len) {
            *self = Self::zeros(len);
        }
    }
}

/// Whether this many elements can be allocated. For sizes that could fail, it allocates and frees at once.
fn fits<T>(len: usize) -> bool {
    let small = (1 << 24) / size_of::<T>().max(1);
    len <= small || len.checked_add(ALIGN).is_some_and(|len| Vec::<T>::new().try_reserve_exact(len).is_ok())
}

impl<T: Copy + Default> Default for AlignedVec<T> {
    /// Empty, without allocating: hot paths take buffers out of a struct and put them back.
    fn default() -> Self {
        Self { data: Vec::new(), offset: 0, len: 0 }
    }
}

impl<T: Copy + Default> Clone for AlignedVec<T> {
    fn clone(&self) -> Self {
        let mut copy = Self::zeros(self.len);
        copy.copy_from_slice(self);
        copy
    }
}

impl<T> Deref for AlignedVec<T> {
    type Target = [T];
    fn deref(&self) -> &[T] {
        &self.data[self.offset..self.offset + self.len]
    }
}

impl<T> DerefMut for AlignedVec<T> {
    fn deref_mut(&mut self) -> &mut [T] {
        &mut self.data[self.offset..self.offset + self.len]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_and_their_clones_start_on_a_cache_line() {
        for len in [0, 1, 15, 16, 17, 1000] {
            let mut a = AlignedVec::<f32>::zeros(len);
            a.fill(1.5);
            let b = a.clone();
            assert_eq!(&a[..], &b[..]);
            for start in [a.as_ptr() as usize, b.as_ptr() as usize] {
                assert!(len == 0 || start.is_multiple_of(64));
            }
        }
    }
}
