//! Neural network layers on one flat parameter vector.
//!
//! A layer declares its tensors in a [`ParamLayout`](crate::params::ParamLayout) and stores only their ranges; it can
//! then be applied to any parameter vector of that layout. Every layer works on a matrix of rows; the input slice
//! determines their number:
//!
//! | call | meaning |
//! | --- | --- |
//! | `new(layout, name, …)` | declares `name/kernel`, `name/bias`, `name/scale`, … |
//! | `init(params, stream)` | writes the initial values (norms need no stream) |
//! | `forward(params, x, y[, saved])` | overwrites `y`, and `saved` with what the adjoint needs |
//! | `vjp(params, x[, saved], d_y, d_x, d_params[, scratch])` | adds into `d_x` (unless `None`) and `d_params` |
//!
//! Nothing here allocates after `new`: `saved_len` and `scratch_len` give the sizes of the buffers the caller provides.
//!
//! Sizes are checked at the boundary, not in every call: `check(params, x, y, …)` returns a typed error or the number
//! of rows. The other calls rely on it; with slices of other sizes they panic, but never read beyond a slice.

pub mod activation;
pub mod cnn;
pub mod concat;
pub mod conv;
pub mod embedding;
pub mod init;
pub mod linear;
pub mod mixer;
pub mod norm;
pub mod residual;
pub mod swiglu;

pub use concat::ConcatDense;
pub use conv::{Conv2d, MaxPool2};
pub use embedding::Embedding;
pub use init::Init;
pub use linear::Linear;
pub use mixer::Mixer;
pub use norm::{LayerNorm, RmsNorm};
pub use residual::Residual;
pub use swiglu::SwiGlu;

use std::ops::Range;

use sheaf_admm::error::check_len;
use sheaf_admm::{Error, ErrorKind, Result};

/// Checks that a parameter vector covers the ranges of a layer.
pub(crate) fn check_params<'r, T>(
    params: &[T],
    ranges: impl IntoIterator<Item = &'r Range<usize>>,
) -> Result<()> {
    match ranges.into_iter().map(|range| range.end).max() {
        Some(end) if end > params.len() => {
            let expected = format!("at least {end} parameters");
            Err(Error::new(ErrorKind::Shape, "layer: parameters", expected, params.len())
                .hint("make the vector as long as the layout the layer was declared in"))
        }
        _ => Ok(()),
    }
}

/// Checks that `x` is whole rows of length `input` and `y` as many rows of length `output`; returns their number.
pub(crate) fn check_rows<T>(x: &[T], input: usize, y: &[T], output: usize) -> Result<usize> {
    let rows = x.len().checked_div(input).unwrap_or(0);
    check_len("layer: x, whole rows", rows * input, x.len())?;
    check_len("layer: y, as many rows as x", rows.saturating_mul(output), y.len())?;
    Ok(rows)
}

/// Checks that the hidden width is not 0, since the number of rows would be undefined.
pub(crate) fn check_hidden(rows: usize, width: usize) -> Result<()> {
    if rows == 0 || width > 0 {
        return Ok(());
    }
    Err(Error::new(ErrorKind::Shape, "layer: hidden width", "at least 1", width))
}

/// Checks that `saved` is large enough.
pub(crate) fn check_saved<T>(needed: usize, saved: &[T]) -> Result<()> {
    if needed <= saved.len() {
        return Ok(());
    }
    let expected = format!("at least {needed} numbers");
    Err(Error::new(ErrorKind::Shape, "layer: saved", expected, saved.len()).hint("size it with saved_len"))
}

/// The product of some sizes. On overflow it saturates at `usize::MAX`, a length no slice can have.
pub(crate) fn product<const N: usize>(sizes: [usize; N]) -> usize {
    sizes.into_iter().fold(1, usize::saturating_mul)
}
