//! Table lookup.
//!
//! Forward: `y_r = table[id_r]`. Adjoint: `d_table[id_r] += d_y_r`; rows that share an id add up in row order.
//!
//! | name | shape | |
//! | --- | --- | --- |
//! | table | count, dim | `name/embedding` |
//! | ids | rows | each below count |
//! | y | rows, dim | |

use std::ops::Range;

use crate::nn::{Init, check_params, product};
use crate::params::ParamLayout;
use crate::rng::Stream;
use sheaf_admm::error::check_len;
use sheaf_admm::{Error, ErrorKind, Real, Result};
use sheaf_kernels::vector::add;

/// `y_r = table[id_r]`.
///
/// Saves: `ids`, kept by the caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Embedding {
    table: Range<usize>,
    count: usize,
    dim: usize,
}

impl Embedding {
    /// Declares `name/embedding`.
    pub fn new(layout: &mut ParamLayout, name: &str, count: usize, dim: usize) -> Self {
        Self { table: layout.add(format!("{name}/embedding"), &[count, dim]), count, dim }
    }

    /// Rows of the table.
    pub fn count(&self) -> usize {
        self.count
    }

    /// Width of a row.
    pub fn dim(&self) -> usize {
        self.dim
    }

    /// Normal with standard deviation 1/sqrt(dim).
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        let init = Init::Normal(1.0 / (self.dim as f64).sqrt());
        init.fill(&mut params[self.table.clone()], self.count, self.dim, stream);
    }

    /// Checks the requirements of the other calls, including that every id is below the count; returns the number of
    /// rows.
    pub fn check<T>(&self, params: &[T], ids: &[usize], y: &[T]) -> Result<usize> {
        check_params(params, [&self.table])?;
        check_len("embedding: table", product([self.count, self.dim]), self.table.len())?;
        check_len("embedding: y", ids.len().saturating_mul(self.dim), y.len())?;
        match ids.iter().position(|&id| id >= self.count) {
            None => Ok(ids.len()),
            Some(row) => {
                let (place, expected) = (format!("embedding: id {row}"), format!("below {}", self.count));
                Err(Error::new(ErrorKind::OutOfRange, place, expected, ids[row]))
            }
        }
    }

    /// `y_r = table[id_r]`.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        ids: &[usize], // [rows]
        y: &mut [T],   // [rows, dim]
    ) {
        debug_assert_eq!(y.len(), ids.len() * self.dim);
        let table = &params[self.table.clone()];
        for (&id, y) in ids.iter().zip(y.chunks_exact_mut(self.dim.max(1))) {
            y.copy_from_slice(&table[id * self.dim..][..self.dim]);
        }
    }

    /// `y_r += table[id_r]`.
    pub fn forward_add<T: Real>(
        &self,
        params: &[T],
        ids: &[usize], // [rows]
        y: &mut [T],   // [rows, dim]
    ) {
        debug_assert_eq!(y.len(), ids.len() * self.dim);
        let table = &params[self.table.clone()];
        for (&id, y) in ids.iter().zip(y.chunks_exact_mut(self.dim.max(1))) {
            add(y, &table[id * self.dim..][..self.dim]);
        }
    }

    /// Adjoint of [`Embedding::forward`] and [`Embedding::forward_add`].
    pub fn vjp<T: Real>(
        &self,
        ids: &[usize], // [rows]
        d_y: &[T],     // [rows, dim]
        d_params: &mut [T],
    ) {
        debug_assert_eq!(d_y.len(), ids.len() * self.dim);
        let d_table = &mut d_params[self.table.clone()];
        for (&id, d_y) in ids.iter().zip(d_y.chunks_exact(self.dim.max(1))) {
            add(&mut d_table[id * self.dim..][..self.dim], d_y);
        }
    }
}
