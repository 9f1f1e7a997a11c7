//! The vector kernels of matrix products, for every scalar and instruction set.
//!
//! A block of the output stays in registers while its inner products are added up: a row of `b` is loaded, and every
//! number of a column of `a` is broadcast and multiplied with it.
//!
//! ```text
//! for at most 432 rows, for at most 256 of the inner dimension (so that data read again stays in cache):
//!   for at most 4 registers of columns:    b in place, or copied to the stack
//!     for as many rows as registers hold:  a in place
//! ```
//!
//! `b` is copied when its columns are not adjacent, when they do not fill whole registers (the copy is padded with
//! zeros), and when there are so many rows that the copy costs nothing and saves cache misses. The copy lives on the
//! stack: a product never allocates. `a` is read number by number, so its layout does not matter.

#![allow(unsafe_code)]

mod lanes;

use std::arch::x86_64::{__m256, __m256d, __m512, __m512d};
use std::mem::MaybeUninit;

pub(super) use self::lanes::Lanes;
use super::gemm::Product;
use crate::Real;

/// Rows that are multiplied before the next part of the inner dimension: their part of `a` stays in the second-level
/// cache. A multiple of the rows of every block.
const HEIGHT: usize = 432;
/// Inner products longer than this are split.
const DEPTH: usize = 256;
/// The same for the small copy.
const SHALLOW: usize = 32;
/// Bytes of the widest block's row: four registers.
const WIDE: usize = 256;
/// From this many rows on, a copy of `b` pays off.
const TALL: usize = 384;

/// Room for a copy of some columns of `b`.
#[repr(align(64))]
struct Panel<const BYTES: usize>(#[allow(dead_code)] [u8; BYTES]);

/// What a block needs to know besides its position.
struct Block<T> {
    depth: usize,
    a_row: usize,
    a_col: usize,
    b_row: usize,
    out_row: usize,
    /// Numbers of the last register of a row that belong to the output.
    last: usize,
    alpha: T,
    add: bool,
}

/// Where a run of columns of `b` lies.
#[derive(Clone, Copy)]
struct Columns<T> {
    first: *const T,
    row: usize,
    col: usize,
    width: usize,
}

/// The `i`-th of several nearly equal parts (rather than large ones and a small rest): its start and its length.
#[inline(always)]
pub(super) fn share(total: usize, parts: usize, i: usize) -> (usize, usize) {
    let start = i * total / parts;
    (start, (i + 1) * total / parts - start)
}

/// The kernels of one instruction set: for each number of registers of columns, the numbers of rows of its blocks.
macro_rules! level {
    ($(#[$doc:meta])* $name:ident, $features:literal, $f32:ident, $f64:ident,
        $vectors:literal, [$($v:literal: [$($r:literal)*])*]) => {
        $(#[$doc])*
        pub(super) mod $name {
            use super::*;

            /// Registers of columns of a block.
            const VECTORS: usize = $vectors;
            /// The most rows of a block, by its registers of columns.
            const ROWS: [usize; VECTORS + 1] = {
                let mut most = [0; VECTORS + 1];
                $($(if $r > most[$v] { most[$v] = $r; })*)*
                most
            };

            /// Runs a product of `f32`.
            ///
            /// # Safety
            /// The CPU must have the instructions of this module.
            pub(in super::super) unsafe fn product_f32(product: Product<'_, f32>) {
                // SAFETY: the caller guarantees the instructions.
                unsafe { product_of::<f32, $f32>(product) }
            }

            /// Runs a product of `f64`.
            ///
            /// # Safety
            /// The CPU must have the instructions of this module.
            pub(in super::super) unsafe fn product_f64(product: Product<'_, f64>) {
                // SAFETY: the caller guarantees the instructions.
                unsafe { product_of::<f64, $f64>(product) }
            }

            #[target_feature(enable = $features)]
            unsafe fn product_of<T: Real, L: Lanes<T>>(product: Product<'_, T>) {
                let (k, n) = product.b.shape();
                let in_place = product.b.strides().1 == 1 && n.is_multiple_of(L::LEN);
                // The buffer is as small as possible: probing pages of the stack costs as much as a small product.
                // SAFETY: the caller guarantees the CPU; the last room is large enough for any product.
                unsafe {
                    if in_place && product.a.shape().0 < TALL {
                        run::<T, L, 0>(product)
                    } else if k <= SHALLOW {
                        run::<T, L, { SHALLOW * WIDE }>(product)
                    } else {
                        run::<T, L, { DEPTH * WIDE }>(product)
                    }
                }
            }

            /// The product block by block; `b` is copied unless there is no room (`BYTES` = 0).
            ///
            /// # Safety
            /// The CPU must have the instructions. Without room, the columns of `b` must be adjacent and whole
            /// registers; otherwise there must be room for the inner dimension or for `DEPTH` of it.
            #[inline(never)]
            #[target_feature(enable = $features)]
            unsafe fn run<T: Real, L: Lanes<T>, const BYTES: usize>(product: Product<'_, T>) {
                let Product { out, stride, a, b, alpha, add } = product;
                let ((m, k), (_, n)) = (a.shape(), b.shape());
                let ((a_row, a_col), (b_row, b_col)) = (a.strides(), b.strides());
                let (a, b, out) = (a.data().as_ptr(), b.data().as_ptr(), out.as_mut_ptr());
                let mut room = MaybeUninit::<Panel<BYTES>>::uninit();
                let room = room.as_mut_ptr().cast::<T>();
                let vectors = n.div_ceil(L::LEN);
                let parts = vectors.div_ceil(VECTORS);
                let (tall, deep) = (m.div_ceil(HEIGHT), k.div_ceil(DEPTH));
                for (top, height) in (0..tall).map(|i| share(m, tall, i)) {
                    for (from, depth) in (0..deep).map(|i| share(k, deep, i)) {
                        let add = add || from > 0;
                        for (first, v) in (0..parts).map(|i| share(vectors, parts, i)) {
                            let (col, wide) = (first * L::LEN, v * L::LEN);
                            let width = wide.min(n - col);
                            // SAFETY: rows and columns are inside the three views, which were checked against their
                            // slices; a copy has room for `depth` rows of `wide` numbers.
                            unsafe {
                                let start = b.add(from * b_row + col * b_col);
                                let mut columns = Columns { first: start, row: b_row, col: b_col, width };
                                if BYTES > 0 {
                                    pack::<T, L>(columns, depth, wide, room);
                                    columns = Columns { first: room, row: wide, col: 1, width: wide };
                                }
                                let last = width - (v - 1) * L::LEN;
                                let (b_row, out_row) = (columns.row, stride);
                                let block = Block { depth, a_row, a_col, b_row, out_row, last, alpha, add };
                                let a = a.add(top * a_row + from * a_col);
                                let out = out.add(top * stride + col);
                                rows::<T, L>(&block, v, height, a, columns.first, out);
                            }
                        }
                    }
                }
            }

            /// All rows of a run of `v` registers of columns, in blocks of nearly the same height.
            ///
            /// # Safety
            /// As for [`block`], for `height` rows.
            #[target_feature(enable = $features)]
            unsafe fn rows<T: Real, L: Lanes<T>>(
                s: &Block<T>, v: usize, height: usize, a: *const T, b: *const T, out: *mut T,
            ) {
                let parts = height.div_ceil(ROWS[v]);
                for (row, count) in (0..parts).map(|i| share(height, parts, i)) {
                    // SAFETY: the caller guarantees all rows.
                    unsafe {
                        let (a, out) = (a.add(row * s.a_row), out.add(row * s.out_row));
                        match (v, count) {
                            $($(($v, $r) => block::<T, L, $r, $v>(s, a, b, out),)*)*
                            _ => debug_assert!(false, "a block of {count} rows and {v} registers"),
                        }
                    }
                }
            }

            /// R rows of V registers of the output.
            ///
            /// # Safety
            /// The CPU must have the instructions; `a` must reach R rows and `depth` columns, `b` `depth` rows of V
            /// registers, `out` R rows of V registers, of the last one only `last` numbers.
            #[target_feature(enable = $features)]
            unsafe fn block<T: Real, L: Lanes<T>, const R: usize, const V: usize>(
                s: &Block<T>, a: *const T, b: *const T, out: *mut T,
            ) {
                // SAFETY: the caller guarantees everything that is accessed; pointers step past the end only after
                // their last use.
                unsafe {
                    let mut acc = [[L::splat(T::ZERO); V]; R];
                    let (mut a, mut b) = (a, b);
                    for _ in 0..s.depth {
                        let mut line = [L::splat(T::ZERO); V];
                        for j in 0..V {
                            line[j] = L::load(b.add(j * L::LEN));
                        }
                        for i in 0..R {
                            let x = L::splat(*a.add(i * s.a_row));
                            for j in 0..V {
                                acc[i][j] = x.mul_add(line[j], acc[i][j]);
                            }
                        }
                        a = a.wrapping_add(s.a_col);
                        b = b.wrapping_add(s.b_row);
                    }
                    for i in 0..R {
                        for j in 0..V {
                            let count = if j + 1 < V { L::LEN } else { s.last };
                            acc[i][j].write(out.add(i * s.out_row + j * L::LEN), count, s.alpha, s.add);
                        }
                    }
                }
            }

            /// Copies `depth` rows of some columns of `b` into rows of `wide` numbers, whole registers; the rest of
            /// each row becomes 0.
            ///
            /// # Safety
            /// The CPU must have the instructions; `columns` must reach `depth` rows, `to` must have room.
            #[target_feature(enable = $features)]
            unsafe fn pack<T: Real, L: Lanes<T>>(columns: Columns<T>, depth: usize, wide: usize, to: *mut T) {
                let Columns { first, row, col, width } = columns;
                let adjacent = if col == 1 { width / L::LEN * L::LEN } else { width / 4 * 4 };
                let deep = if row == 1 { depth / 4 * 4 } else { 0 };
                for l in 0..depth {
                    // SAFETY: the caller guarantees `depth` rows of `width` columns and the room; `adjacent` and
                    // `deep` are at most those.
                    unsafe {
                        let (from, to) = (first.add(l * row), to.add(l * wide));
                        let mut done = 0;
                        if col == 1 {
                            while done < adjacent {
                                L::load(from.add(done)).store(to.add(done));
                                done += L::LEN;
                            }
                        } else if l < deep {
                            // Four rows at once; the next three iterations skip them.
                            while l % 4 == 0 && done < adjacent {
                                L::transpose4(from.add(done * col), col, to.add(done), wide);
                                done += 4;
                            }
                            done = adjacent;
                        }
                        for j in done..width {
                            *to.add(j) = *from.add(j * col);
                        }
                        for j in width..wide {
                            *to.add(j) = T::ZERO;
                        }
                    }
                }
            }
        }
    };
}

level!(
    /// 32 registers of 64 bytes.
    avx512, "avx512f,avx512bw,avx512dq,avx512vl,avx2,fma", __m512, __m512d, 4, [
        1: [1 2 3 4 5 6 7 8 9 10 11 12]
        2: [1 2 3 4 5 6 7 8 9 10 11 12]
        3: [1 2 3 4 5 6 7 8 9]
        4: [1 2 3 4 5 6]
    ]
);
level!(
    /// 16 registers of 32 bytes.
    avx2, "avx2,fma", __m256, __m256d, 2, [
        1: [1 2 3 4 5 6 7 8]
        2: [1 2 3 4 5 6]
    ]
);
