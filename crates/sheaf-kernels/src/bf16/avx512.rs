//! The AVX-512 BF16 kernel.
//!
//! Both operands are packed as pairs: a pair holds two numbers that are neighbours in the inner dimension, so that one
//! `vdpbf16ps` adds two products to each of sixteen sums. The rest is the `f32` kernel: a block of the output stays in
//! registers while its inner products are added up.
//!
//! ```text
//! for at most 320 of the inner dimension:
//!   for at most 512 rows:                    a, packed on the stack
//!     for at most 4 registers of columns:    b, packed on the stack
//!       for as many rows as registers hold
//! ```

#![allow(unsafe_code)]

use std::arch::x86_64::*;
use std::mem::{MaybeUninit, transmute};

use super::super::gemm::{Mat, Product};
use super::super::product::{Lanes, share};
use super::pack::{LEN, Source, interleave, stream, transpose};
use super::{DEPTH, parts};

/// Registers of columns of a block.
const VECTORS: usize = 4;
/// The most rows of a block, by its registers of columns.
const ROWS: [usize; VECTORS + 1] = [0, 12, 12, 9, 6];
/// Rows of `a` that are packed together. The columns of `b` are packed again for each of these groups.
const HEIGHT: usize = 512;
/// Room in pairs for `a` and for the columns of `b`.
const ROOM: (usize, usize) = (HEIGHT * DEPTH / 2, VECTORS * LEN * DEPTH / 2);
/// The same for small and for medium products: probing pages of the stack costs as much as a small product.
pub(super) const SMALL: (usize, usize) = (2048, 2048);
const MEDIUM: (usize, usize) = (64 * DEPTH / 2, ROOM.1);

/// Room for packed pairs.
#[repr(align(64))]
pub(super) struct Room<const PAIRS: usize>(#[allow(dead_code)] [u32; PAIRS]);

/// What a block needs to know besides its position.
struct Block {
    pairs: usize,
    /// Strides of the packed rows, in pairs.
    a_row: usize,
    a_pair: usize,
    b_pair: usize,
    out_row: usize,
    /// Numbers of the last register of a row that belong to the output.
    last: usize,
    alpha: f32,
    add: bool,
}

/// Runs a product.
///
/// # Safety
/// The CPU must have AVX-512 F, BW, DQ, VL and BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn product(product: Product<'_, f32>) {
    let ((m, k), n) = (product.a.shape(), product.b.shape().1);
    let pairs = k.min(DEPTH).div_ceil(2).next_multiple_of(LEN);
    let (rows, columns) = (m.min(HEIGHT).next_multiple_of(LEN), (VECTORS * LEN).min(n.next_multiple_of(LEN)));
    // SAFETY: the caller guarantees the CPU; the rooms are large enough.
    unsafe {
        if rows * pairs <= SMALL.0 && columns * pairs <= SMALL.1 {
            run::<{ SMALL.0 }, { SMALL.1 }>(product)
        } else if rows * pairs <= MEDIUM.0 {
            run::<{ MEDIUM.0 }, { MEDIUM.1 }>(product)
        } else {
            run::<{ ROOM.0 }, { ROOM.1 }>(product)
        }
    }
}

/// Packs a right operand as [`run`] reads it: parts of the inner dimension, in each the runs of columns.
///
/// # Safety
/// The CPU must have AVX-512 F, BW, DQ, VL and BF16.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn pack(b: Mat<'_, f32>, to: &mut [u32]) {
    let (k, n) = b.shape();
    let vectors = n.div_ceil(LEN);
    for (first, pairs) in parts(k) {
        for (start, v) in columns(vectors) {
            let (col, at) = (start * LEN, place(vectors, (first, pairs), start));
            let (rows, wide) = ((2 * first, (2 * pairs).min(k - 2 * first)), v * LEN);
            let to = &mut to[at..at + pairs * wide];
            // SAFETY: the part is inside the view; the slice has room for it.
            unsafe { pack_b(b, rows, (col, wide.min(n - col)), wide, to.as_mut_ptr()) };
        }
    }
}

/// The runs of columns: first register and number of registers.
#[inline(always)]
fn columns(vectors: usize) -> impl Iterator<Item = (usize, usize)> {
    let wide = vectors.div_ceil(VECTORS);
    (0..wide).map(move |i| share(vectors, wide, i))
}

/// Where a run of columns lies in a packed operand.
#[inline(always)]
fn place(vectors: usize, (first, pairs): (usize, usize), start: usize) -> usize {
    (first * vectors + pairs * start) * LEN
}

/// The product block by block.
///
/// # Safety
/// The CPU must have the instructions. There must be room for the packed parts of both operands.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn run<const A: usize, const B: usize>(product: Product<'_, f32>) {
    let Product { out, stride, a, b, alpha, add } = product;
    let ((m, k), (_, n)) = (a.shape(), b.shape());
    let (mut room_a, mut room_b) = (MaybeUninit::<Room<A>>::uninit(), MaybeUninit::<Room<B>>::uninit());
    let (room_a, room_b) = (room_a.as_mut_ptr().cast::<u32>(), room_b.as_mut_ptr().cast::<u32>());
    let out = out.as_mut_ptr();
    let (vectors, tall) = (n.div_ceil(LEN), m.div_ceil(HEIGHT));
    for (first, pairs) in parts(k) {
        let (from, depth) = (2 * first, (2 * pairs).min(k - 2 * first));
        for (top, height) in (0..tall).map(|i| share(m, tall, i)) {
            // SAFETY: the part is inside the view, which was checked against its slice; there is room for it.
            let (a_row, a_pair) = unsafe { pack_a(a, (top, height), (from, depth), room_a) };
            for (start, v) in columns(vectors) {
                let col = start * LEN;
                let width = (v * LEN).min(n - col);
                let last = width - (v - 1) * LEN;
                let add = add || first > 0;
                let block =
                    Block { pairs, a_row, a_pair, b_pair: v * LEN, out_row: stride, last, alpha, add };
                // SAFETY: as above, for the columns of `b`; the output was checked to hold all rows.
                unsafe {
                    let lines = if b.pairs().is_empty() {
                        pack_b(b, (from, depth), (col, width), v * LEN, room_b);
                        room_b.cast_const()
                    } else {
                        b.pairs()[place(vectors, (first, pairs), start)..].as_ptr()
                    };
                    rows(&block, v, height, room_a, lines, out.add(top * stride + col));
                }
            }
        }
    }
}

/// Packs some rows of `a`; returns the strides of rows and of pairs.
///
/// # Safety
/// The CPU must have the instructions, the view the rows and columns, `to` room.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn pack_a(
    a: Mat<'_, f32>,
    (top, height): (usize, usize),
    (from, depth): (usize, usize),
    to: *mut u32,
) -> (usize, usize) {
    let (row, col) = a.strides();
    // SAFETY: the caller guarantees the part and the room.
    unsafe {
        let first = a.data().as_ptr().add(top * row + from * col);
        if col == 1 {
            let line = depth.div_ceil(2).next_multiple_of(LEN);
            stream(Source { first, stride: row, lines: height, len: depth }, to, line);
            (line, 1)
        } else {
            let line = height.next_multiple_of(LEN);
            interleave(Source { first, stride: col, lines: depth, len: height }, to, line);
            (1, line)
        }
    }
}

/// Packs some columns of `b` into lines of `wide` pairs.
///
/// # Safety
/// As for [`pack_a`].
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn pack_b(
    b: Mat<'_, f32>,
    (from, depth): (usize, usize),
    (col, width): (usize, usize),
    wide: usize,
    to: *mut u32,
) {
    let (row, step) = b.strides();
    // SAFETY: the caller guarantees the part and the room.
    unsafe {
        let first = b.data().as_ptr().add(from * row + col * step);
        if step == 1 {
            interleave(Source { first, stride: row, lines: depth, len: width }, to, wide);
        } else {
            transpose(Source { first, stride: step, lines: width, len: depth }, to, wide);
        }
    }
}

/// All rows of a run of `v` registers of columns, in blocks of nearly the same height.
///
/// # Safety
/// As for [`block`], for `height` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn rows(s: &Block, v: usize, height: usize, a: *const u32, b: *const u32, out: *mut f32) {
    let parts = height.div_ceil(ROWS[v]);
    macro_rules! blocks {
        ($count:expr, $a:expr, $out:expr, [$($v:literal: [$($r:literal)*])*]) => {
            match (v, $count) {
                $($(($v, $r) => block::<$r, $v>(s, $a, b, $out),)*)*
                _ => debug_assert!(false, "a block of {} rows and {v} registers", $count),
            }
        };
    }
    for (row, count) in (0..parts).map(|i| share(height, parts, i)) {
        // SAFETY: the caller guarantees all rows.
        unsafe {
            let (a, out) = (a.add(row * s.a_row), out.add(row * s.out_row));
            blocks!(count, a, out, [
                1: [1 2 3 4 5 6 7 8 9 10 11 12]
                2: [1 2 3 4 5 6 7 8 9 10 11 12]
                3: [1 2 3 4 5 6 7 8 9]
                4: [1 2 3 4 5 6]
            ]);
        }
    }
}

/// R rows of V registers of the output.
///
/// # Safety
/// The CPU must have the instructions; `a` must reach R rows of `pairs` pairs, `b` `pairs` lines of V registers, `out`
/// R rows of V registers, of the last one only `last` numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn block<const R: usize, const V: usize>(s: &Block, a: *const u32, b: *const u32, out: *mut f32) {
    // SAFETY: the caller guarantees everything that is accessed; pointers step past the end only after their last use.
    unsafe {
        let mut acc = [[_mm512_setzero_ps(); V]; R];
        let (mut a, mut b) = (a, b);
        for _ in 0..s.pairs {
            let mut line = [_mm512_setzero_si512(); V];
            for j in 0..V {
                line[j] = _mm512_loadu_si512(b.add(j * LEN).cast());
            }
            for i in 0..R {
                let x: __m512bh = transmute(_mm512_set1_epi32(*a.add(i * s.a_row) as i32));
                for j in 0..V {
                    acc[i][j] = _mm512_dpbf16_ps(acc[i][j], transmute::<__m512i, __m512bh>(line[j]), x);
                }
            }
            a = a.wrapping_add(s.a_pair);
            b = b.wrapping_add(s.b_pair);
        }
        for i in 0..R {
            for j in 0..V {
                let last = if j + 1 < V { LEN } else { s.last };
                acc[i][j].write(out.add(i * s.out_row + j * LEN), last, s.alpha, s.add);
            }
        }
    }
}
