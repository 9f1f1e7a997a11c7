//! Convolution, pooling and rectification of one picture, rows × columns × channels, channels fastest.
//!
//! | layer | forward | adjoint |
//! | --- | --- | --- |
//! | [`Conv2d`] | Y = cols(X) W + b, cols(X) the k × k surroundings of every pixel, black beyond the border | d_X += cols*(d_Y Wᵀ), d_W += cols(X)ᵀ d_Y, d_b += Σ d_Y |
//! | [`MaxPool2`] | the largest of each 2 × 2 block, a last odd row or column left out | to the largest, the first of equal ones |
//! | [`average_pool`] | means over a fixed number of bins that cover the picture | evenly over each bin |
//! | [`relu`] | max(x, 0) | where the output is above 0 |
//!
//! | name | shape |
//! | --- | --- |
//! | X, Y | `[height, width, channels]` |
//! | cols | `[height · width, k · k · channels]` |
//! | W, b | `[k · k · input, output]`, `[output]`; `name/kernel`, `name/bias` |

use crate::nn::{Init, Linear, product};
use crate::params::ParamLayout;
use crate::rng::Stream;
use sheaf_admm::{Error, ErrorKind, Real, Result};

/// Height and width of a picture.
pub type Size = (usize, usize);

/// A convolution that keeps the size of the picture.
///
/// Saves: `columns`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conv2d {
    linear: Linear,
    kernel: usize,
    channels: usize,
}

impl Conv2d {
    /// Declares `name/kernel` and `name/bias`. `kernel` must be odd, so that the window has a centre.
    pub fn new(
        layout: &mut ParamLayout,
        name: &str,
        kernel: usize,
        input: usize,
        output: usize,
    ) -> Result<Self> {
        if kernel.is_multiple_of(2) {
            let place = format!("convolution {name}: kernel");
            return Err(Error::new(ErrorKind::Shape, place, "an odd number", kernel));
        }
        let linear = Linear::new(layout, name, product([kernel, kernel, input]), output, true);
        Ok(Self { linear, kernel, channels: input })
    }

    /// Number of input channels.
    pub fn input(&self) -> usize {
        self.channels
    }

    /// Number of output channels.
    pub fn output(&self) -> usize {
        self.linear.output()
    }

    /// Normal weights of variance 2/fan_in, which preserve the scale through a rectifier; zero bias.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        let std = (2.0 / self.linear.input() as f64).sqrt();
        self.linear.init_with(params, Init::Normal(std), Init::Zeros, stream);
    }

    /// Length of `columns`, and of the scratch of the adjoint.
    pub fn columns_len(&self, (height, width): Size) -> usize {
        product([height, width, self.linear.input()])
    }

    /// Overwrites `y` and `columns`.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        size: Size,
        x: &[T],           // [height, width, input]
        y: &mut [T],       // [height, width, output]
        columns: &mut [T], // columns_len(size)
    ) {
        let columns = &mut columns[..self.columns_len(size)];
        debug_assert_eq!(x.len(), size.0 * size.1 * self.channels);
        for (pixel, row) in columns.chunks_exact_mut(self.linear.input()).enumerate() {
            for (part, from) in row.chunks_exact_mut(self.channels).zip(self.surroundings(size, pixel)) {
                match from {
                    Some(from) => part.copy_from_slice(&x[from..from + self.channels]),
                    None => part.fill(T::ZERO),
                }
            }
        }
        self.linear.forward(params, columns, y);
    }

    /// Adjoint of [`Conv2d::forward`]; `d_x` is optional.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        size: Size,
        columns: &[T],         // columns_len(size)
        d_y: &[T],             // [height, width, output]
        d_x: Option<&mut [T]>, // [height, width, input]
        d_params: &mut [T],
        scratch: &mut [T], // columns_len(size)
    ) {
        self.linear.vjp_weights(&columns[..self.columns_len(size)], d_y, d_params);
        let Some(d_x) = d_x else { return };
        let d_columns = &mut scratch[..self.columns_len(size)];
        self.linear.vjp_input(params, d_y, d_columns);
        for (pixel, row) in d_columns.chunks_exact(self.linear.input()).enumerate() {
            for (part, to) in row.chunks_exact(self.channels).zip(self.surroundings(size, pixel)) {
                if let Some(to) = to {
                    d_x[to..to + self.channels].iter_mut().zip(part).for_each(|(d, &g)| *d += g);
                }
            }
        }
    }

    /// Offset of each of the k × k pixels around a pixel, `None` beyond the border.
    #[inline]
    fn surroundings(&self, (height, width): Size, pixel: usize) -> impl Iterator<Item = Option<usize>> {
        let (row, column, k, channels) = (pixel / width, pixel % width, self.kernel, self.channels);
        (0..k * k).map(move |i| {
            let r = (row + i / k).checked_sub(k / 2).filter(|&r| r < height)?;
            let c = (column + i % k).checked_sub(k / 2).filter(|&c| c < width)?;
            Some((r * width + c) * channels)
        })
    }
}

/// The largest of each 2 × 2 block.
///
/// Saves: `from`, the index in x of every entry of y.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MaxPool2;

impl MaxPool2 {
    /// Size of the pooled picture.
    pub fn size((height, width): Size) -> Size {
        (height / 2, width / 2)
    }

    /// Overwrites `y` and `from`.
    pub fn forward<T: Real>(
        (height, width): Size,
        x: &[T],          // [height, width, channels]
        y: &mut [T],      // [height / 2, width / 2, channels]
        from: &mut [u32], // like y
    ) {
        let channels = x.len() / (height * width);
        let half = width / 2;
        let pixels = y.chunks_exact_mut(channels).zip(from.chunks_exact_mut(channels));
        for (pixel, (y, from)) in pixels.take(height / 2 * half).enumerate() {
            let first = (2 * (pixel / half) * width + 2 * (pixel % half)) * channels;
            let corners = [first, first + channels, first + width * channels, first + (width + 1) * channels];
            for (c, (y, from)) in y.iter_mut().zip(from).enumerate() {
                let best = corners.into_iter().fold(
                    first,
                    |best, at| {
                        if x[at + c] > x[best + c] { at } else { best }
                    },
                );
                (*y, *from) = (x[best + c], (best + c) as u32);
            }
        }
    }

    /// Adjoint of [`MaxPool2::forward`].
    pub fn vjp<T: Real>(
        from: &[u32],
        d_y: &[T],     // like from
        d_x: &mut [T], // [height, width, channels]
    ) {
        for (&from, &d) in from.iter().zip(d_y) {
            d_x[from as usize] += d;
        }
    }
}

/// The pixels of a bin: `bins` of them cover 0..len; neighbouring bins may share a pixel.
fn bin(k: usize, len: usize, bins: usize) -> std::ops::Range<usize> {
    k * len / bins..((k + 1) * len).div_ceil(bins)
}

/// Means over `bins` × `bins` parts of a picture of any size; a picture of exactly that size is unchanged.
pub fn average_pool<T: Real>(
    (height, width): Size,
    bins: usize,
    x: &[T],     // [height, width, channels]
    y: &mut [T], // [bins, bins, channels]
) {
    let channels = x.len() / (height * width);
    for (k, y) in y.chunks_exact_mut(channels).enumerate() {
        let (rows, columns) = (bin(k / bins, height, bins), bin(k % bins, width, bins));
        let share = T::ONE / T::from_f64((rows.len() * columns.len()) as f64);
        y.fill(T::ZERO);
        for (r, c) in rows.flat_map(|r| columns.clone().map(move |c| (r, c))) {
            let pixel = &x[(r * width + c) * channels..][..channels];
            y.iter_mut().zip(pixel).for_each(|(y, &x)| *y += share * x);
        }
    }
}

/// Adjoint of [`average_pool`].
pub fn average_pool_vjp<T: Real>(
    (height, width): Size,
    bins: usize,
    d_y: &[T],     // [bins, bins, channels]
    d_x: &mut [T], // [height, width, channels]
) {
    let channels = d_x.len() / (height * width);
    for (k, d_y) in d_y.chunks_exact(channels).enumerate() {
        let (rows, columns) = (bin(k / bins, height, bins), bin(k % bins, width, bins));
        let share = T::ONE / T::from_f64((rows.len() * columns.len()) as f64);
        for (r, c) in rows.flat_map(|r| columns.clone().map(move |c| (r, c))) {
            let pixel = &mut d_x[(r * width + c) * channels..][..channels];
            pixel.iter_mut().zip(d_y).for_each(|(d, &g)| *d += share * g);
        }
    }
}

/// x = max(x, 0), in place.
///
/// Saves: the result.
pub fn relu<T: Real>(x: &mut [T]) {
    x.iter_mut().for_each(|x| *x = (*x).max(T::ZERO));
}

/// Adjoint of [`relu`], in place: entries at 0 get no gradient.
pub fn relu_vjp<T: Real>(
    y: &[T],     // the result
    d: &mut [T], // its gradient, becomes that of the input
) {
    for (d, &y) in d.iter_mut().zip(y) {
        if y <= T::ZERO {
            *d = T::ZERO;
        }
    }
}
