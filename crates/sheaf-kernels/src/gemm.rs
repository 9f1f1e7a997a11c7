//! Matrix products, single-threaded: parallelism lives one level up, over samples, so that the order of sums does not
//! depend on the thread count.
//!
//! All matrices are row-major views with a row stride. `beta` is 0 (overwrite) or 1 (add).
//!
//! With AVX2 or AVX-512 this crate's own kernels run (`product`), because sweeps must not allocate and general
//! libraries do; `benches/product.rs` compares them. Other CPUs use the `gemm` crate (`portable`), which has kernels
//! for NEON and others and may allocate.

mod portable;

use super::aligned::AlignedVec;
use super::bf16::pairs_len;
use super::simd::{Level, level};
use crate::{Precision, Real};

/// A row-major matrix view: `rows × cols`, consecutive rows `stride` apart.
#[derive(Clone, Copy, Debug)]
pub struct Mat<'a, T> {
    data: &'a [T],
    rows: usize,
    cols: usize,
    row_stride: usize,
    col_stride: usize,
    /// The matrix as bf16 pairs, if it was packed before.
    pairs: &'a [u32],
}

impl<'a, T> Mat<'a, T> {
    /// A dense `rows × cols` view of the front of `data`.
    #[inline]
    pub fn new(data: &'a [T], rows: usize, cols: usize) -> Self {
        Self::strided(data, rows, cols, cols)
    }

    /// A view whose rows are `stride` apart.
    #[inline]
    pub fn strided(data: &'a [T], rows: usize, cols: usize, stride: usize) -> Self {
        assert!(cols <= stride || rows <= 1, "matrix view: rows overlap");
        assert!(data.len() >= last_index(rows, cols, stride), "matrix view: slice too short");
        Self { data, rows, cols, row_stride: stride, col_stride: 1, pairs: &[] }
    }

    /// The same matrix, with what [`pack_bf16`] made of it: as a right operand in bf16 it is not packed again.
    #[inline]
    pub fn packed(self, pairs: &'a [u32]) -> Self {
        assert!(
            pairs.is_empty() || pairs.len() == pairs_len(self.rows, self.cols),
            "matrix view: other pairs"
        );
        Self { pairs, ..self }
    }

    /// The matrix as bf16 pairs, or nothing.
    #[inline]
    pub(crate) fn pairs(&self) -> &'a [u32] {
        self.pairs
    }

    /// (rows, columns).
    #[inline]
    pub(crate) fn shape(&self) -> (usize, usize) {
        (self.rows, self.cols)
    }

    /// The strides (of rows, of columns).
    #[inline]
    pub(crate) fn strides(&self) -> (usize, usize) {
        (self.row_stride, self.col_stride)
    }

    /// The elements, from the first of the view on.
    #[inline]
    pub(crate) fn data(&self) -> &'a [T] {
        self.data
    }

    /// The transposed view.
    #[inline]
    pub fn t(self) -> Self {
        Self {
            data: self.data,
            rows: self.cols,
            cols: self.rows,
            row_stride: self.col_stride,
            col_stride: self.row_stride,
            pairs: &[],
        }
    }
}

/// How many elements a view spans; saturates, so that oversized views exceed every slice.
fn last_index(rows: usize, cols: usize, stride: usize) -> usize {
    if rows == 0 || cols == 0 { 0 } else { (rows - 1).saturating_mul(stride).saturating_add(cols) }
}

/// A product whose sizes have been checked: `out = out·[add] + alpha·a·b`.
#[derive(Debug)]
pub struct Product<'a, T> {
    pub(super) out: &'a mut [T],
    pub(super) stride: usize,
    pub(super) a: Mat<'a, T>,
    pub(super) b: Mat<'a, T>,
    pub(super) alpha: T,
    pub(super) add: bool,
}

impl Product<'_, f32> {
    /// The same product, without what was packed of its right operand before.
    #[inline]
    pub(super) fn unpacked(mut self) -> Self {
        self.b.pairs = &[];
        self
    }
}

/// Scalars that can be multiplied.
pub trait Gemm: Sized {
    /// Whether [`product_bf16`](Self::product_bf16) rounds its operands.
    const HAS_BF16: bool;
    /// Runs a product, at most at this level.
    fn product(product: Product<'_, Self>, limit: Level);
    /// Runs a product with operands rounded to bf16, at most at this level. Only `f32` has such products; `f64` runs
    /// the product as it is, and whoever lets a user choose the precision refuses the combination.
    fn product_bf16(product: Product<'_, Self>, limit: Level);
    /// See [`pack_bf16`].
    fn pack_bf16(b: Mat<'_, Self>, to: &mut AlignedVec<u32>);
}

macro_rules! gemm_of {
    ($t:ident, $kernel:ident, $has:literal, $bf16:path, $pack:path) => {
        impl Gemm for $t {
            const HAS_BF16: bool = $has;

            #[allow(unsafe_code)]
            #[inline]
            fn product(product: Product<'_, $t>, limit: Level) {
                match limit.min(level()) {
                    // SAFETY: the level is never above what was detected, so the CPU has these instructions.
                    #[cfg(target_arch = "x86_64")]
                    Level::Amx | Level::Avx512 => unsafe { super::product::avx512::$kernel(product) },
                    // SAFETY: as above.
                    #[cfg(target_arch = "x86_64")]
                    Level::Avx2 => unsafe { super::product::avx2::$kernel(product) },
                    Level::Plain => plain(product),
                    _ => portable::product(product),
                }
            }

            #[inline]
            fn product_bf16(product: Product<'_, $t>, limit: Level) {
                $bf16(product, limit)
            }

            #[inline]
            fn pack_bf16(b: Mat<'_, $t>, to: &mut AlignedVec<u32>) {
                $pack(b, to)
            }
        }
    };
}

gemm_of!(f32, product_f32, true, super::bf16::product, super::bf16::pack);
gemm_of!(f64, product_f64, false, f64::product, drop_pairs);

/// `out = beta·out + alpha·a·b`, `out` dense row-major `a.rows × b.cols`; `beta` must be 0 or 1.
#[inline]
pub fn gemm<T: Real>(out: &mut [T], a: Mat<'_, T>, b: Mat<'_, T>, alpha: T, beta: T) {
    let stride = b.cols;
    gemm_strided(out, stride, a, b, alpha, beta);
}

/// Packs a matrix that is the right operand of many bf16 products, for [`Mat::packed`]. Where there is no use for it, `to`
/// becomes empty. Allocates only when the matrix is larger than all before.
pub fn pack_bf16<T: Real>(b: Mat<'_, T>, to: &mut AlignedVec<u32>) {
    T::pack_bf16(b, to);
}

/// `f64` has no bf16 products.
fn drop_pairs(_b: Mat<'_, f64>, to: &mut AlignedVec<u32>) {
    *to = AlignedVec::default();
}

/// Whether products may allocate: only those of the `gemm` crate do, on CPUs without this crate's kernels and with
/// `SHEAF_SIMD=off`. For tests that count allocations.
pub fn may_allocate() -> bool {
    level() == Level::Portable
}

/// As [`gemm()`], with operands in this precision.
#[inline]
pub fn gemm_in<T: Real>(
    precision: Precision,
    out: &mut [T],
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    alpha: T,
    beta: T,
) {
    let stride = b.cols;
    gemm_strided_in(precision, out, stride, a, b, alpha, beta);
}

/// As [`gemm_in`], at most at this level: for benches and tests that compare levels.
pub fn gemm_at<T: Real>(
    (limit, precision): (Level, Precision),
    out: &mut [T],
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    alpha: T,
    beta: T,
) {
    let stride = b.cols;
    run((limit, precision), out, stride, a, b, alpha, beta);
}

/// As [`gemm()`], with the rows of `out` `stride` apart.
pub fn gemm_strided<T: Real>(out: &mut [T], stride: usize, a: Mat<'_, T>, b: Mat<'_, T>, alpha: T, beta: T) {
    run((level(), Precision::Full), out, stride, a, b, alpha, beta);
}

/// As [`gemm_strided`], with operands in this precision.
pub fn gemm_strided_in<T: Real>(
    precision: Precision,
    out: &mut [T],
    stride: usize,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    alpha: T,
    beta: T,
) {
    run((level(), precision), out, stride, a, b, alpha, beta);
}

fn run<T: Real>(
    (limit, precision): (Level, Precision),
    out: &mut [T],
    stride: usize,
    a: Mat<'_, T>,
    b: Mat<'_, T>,
    alpha: T,
    beta: T,
) {
    let (m, n, k) = (a.rows, b.cols, a.cols);
    assert_eq!(k, b.rows, "gemm: inner dimensions differ");
    assert!(n <= stride || m <= 1, "gemm: output rows overlap");
    assert!(out.len() >= last_index(m, n, stride), "gemm: output slice too short");
    assert!(beta == T::ZERO || beta == T::ONE, "gemm: beta is 0 or 1");
    if m == 0 || n == 0 {
        return;
    }
    let add = beta == T::ONE;
    if k > 0 {
        let product = Product { out, stride, a, b, alpha, add };
        match precision {
            Precision::Full => T::product(product, limit),
            Precision::Bf16 => T::product_bf16(product, limit),
        }
    } else if !add {
        (0..m).for_each(|i| out[i * stride..][..n].fill(T::ZERO));
    }
}

/// The plain reference: row by row, adding rows of `b` where they are contiguous, dot products elsewhere.
fn plain<T: Real>(product: Product<'_, T>) {
    let Product { out, stride, a, b, alpha, add } = product;
    for i in 0..a.rows {
        let out = &mut out[i * stride..][..b.cols];
        if !add {
            out.fill(T::ZERO);
        }
        let x = |l: usize| a.data[i * a.row_stride + l * a.col_stride];
        if b.col_stride == 1 {
            for l in 0..a.cols {
                let (x, row) = (alpha * x(l), &b.data[l * b.row_stride..][..b.cols]);
                out.iter_mut().zip(row).for_each(|(out, &b)| *out += x * b);
            }
        } else {
            for (j, out) in out.iter_mut().enumerate() {
                let sum: T = (0..a.cols).map(|l| x(l) * b.data[l * b.row_stride + j * b.col_stride]).sum();
                *out += alpha * sum;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_testkit::TestRng;

    /// Every shape a block can have, with whole and ragged rows and columns, long and short inner sums.
    const SHAPES: [(usize, usize, usize); 16] = [
        (1, 1, 1),
        (2, 3, 5),
        (7, 2, 16),
        (12, 9, 17),
        (9, 288, 48),
        (27, 288, 96),
        (10, 31, 64),
        (6, 33, 61),
        (5, 300, 130),
        (90, 27, 256),
        (433, 8, 33),
        (500, 7, 32),
        (13, 513, 3),
        (1, 40, 200),
        (200, 40, 1),
        (3, 0, 4),
    ];

    fn numbers<T: Real>(n: usize, stream: &mut TestRng) -> Vec<T> {
        (0..n).map(|_| T::from_f64(stream.normal())).collect()
    }

    /// `rows × cols` random numbers `stride` apart, as they are or transposed.
    fn view<T: Real>(data: &[T], rows: usize, cols: usize, pad: usize, transposed: bool) -> Mat<'_, T> {
        if transposed {
            Mat::strided(data, cols, rows, rows + pad).t()
        } else {
            Mat::strided(data, rows, cols, cols + pad)
        }
    }

    fn reference<T: Real>(out: &mut [T], stride: usize, a: Mat<'_, T>, b: Mat<'_, T>, alpha: T, add: bool) {
        for i in 0..a.rows {
            for j in 0..b.cols {
                let term = |l: usize| {
                    a.data[i * a.row_stride + l * a.col_stride].to_f64()
                        * b.data[l * b.row_stride + j * b.col_stride].to_f64()
                };
                let sum = alpha.to_f64() * (0..a.cols).map(term).sum::<f64>();
                let before = if add { out[i * stride + j].to_f64() } else { 0.0 };
                out[i * stride + j] = T::from_f64(before + sum);
            }
        }
    }

    fn compare<T: Real>() {
        let stream = &mut TestRng::new(7);
        for (m, k, n) in SHAPES {
            let pad = m % 3;
            let (a, b) =
                (numbers::<T>((m + pad) * (k + pad), stream), numbers::<T>((k + pad) * (n + pad), stream));
            let before = numbers::<T>(m * (n + pad), stream);
            for case in 0..16 {
                let a = view(&a, m, k, pad, case & 1 > 0);
                let b = view(&b, k, n, pad, case & 2 > 0);
                let (alpha, add) = (T::from_f64([1.0, -0.7][case >> 3]), case & 4 > 0);
                let mut want = before.clone();
                reference(&mut want, n + pad, a, b, alpha, add);
                for level in [Level::Plain, Level::Portable, Level::Avx2, Level::Avx512] {
                    let (mut got, beta) = (before.clone(), if add { T::ONE } else { T::ZERO });
                    run((level, Precision::Full), &mut got, n + pad, a, b, alpha, beta);
                    // Sums of k products near 1, in any order.
                    let limit = 4.0 * T::EPSILON.to_f64() * (k as f64 + 4.0);
                    for (g, w) in got.iter().zip(&want) {
                        let error = (*g - *w).abs().to_f64();
                        assert!(error <= limit, "{m}x{k}x{n}, case {case}, {level:?}: {g} {w}");
                    }
                }
            }
        }
    }

    #[test]
    fn every_level_gives_the_sums_and_leaves_what_lies_between_rows() {
        compare::<f32>();
        compare::<f64>();
    }

    #[test]
    fn sizes_whose_product_does_not_fit_a_number_are_refused() {
        let data = [1.0f32; 4];
        let view = |rows, cols, stride| std::panic::catch_unwind(|| Mat::strided(&data, rows, cols, stride));
        assert!(view(2, 2, 2).is_ok());
        // Each of these would wrap around to at most four numbers.
        for (rows, cols, stride) in [(1 << 63 | 1, 2, 2), ((1 << 62) + 1, 4, 4), (2, 2, usize::MAX - 1)] {
            assert!(view(rows, cols, stride).is_err(), "{rows} rows of {cols}");
        }
    }

    #[test]
    fn what_lies_in_the_output_is_not_read_when_it_is_overwritten() {
        for level in [Level::Plain, Level::Portable, Level::Avx2, Level::Avx512] {
            let mut out = [f32::NAN; 6];
            let (a, b) = (Mat::new(&[1.0, 2.0], 2, 1), Mat::new(&[3.0; 3], 1, 3));
            run((level, Precision::Full), &mut out, 3, a, b, 1.0, 0.0);
            assert_eq!(out, [3.0, 3.0, 3.0, 6.0, 6.0, 6.0]);
        }
    }
}
