//! The AMX kernel: tiles of 16 × 16 sums.
//!
//! One `tdpbf16ps` multiplies 16 rows of 16 pairs of `a` by 16 lines of 16 pairs of `b`. A block of the output is up to
//! two tiles high and two wide, so that each loaded tile is used twice.
//!
//! ```text
//! for at most 320 of the inner dimension:
//!   for at most 256 rows:                    a, packed on the stack
//!     for at most 2 tiles of columns:        b, packed on the stack
//!       for at most 2 tiles of rows
//! ```
//!
//! The compiler has no stable intrinsics for tiles, hence inline assembly. It does not use tile registers itself.

#![allow(unsafe_code)]

mod tiles;

use std::arch::asm;
use std::arch::x86_64::*;
use std::mem::MaybeUninit;

use super::super::gemm::{Mat, Product};
use super::super::product::{Lanes, share};
use super::avx512::{Room, SMALL, pack_b};
use super::pack::{LEN, Source, stream, turn};
use super::{DEPTH, TILE, tile_parts};
use tiles::{To, tiles_1x1, tiles_1x2, tiles_2x1, tiles_2x2};

/// Tiles of columns of a block.
const VECTORS: usize = 2;
/// Rows of a block.
const ROWS: usize = 2 * LEN;
/// Rows of `a` that are packed together.
const HEIGHT: usize = 256;
/// Room in pairs for `a` and for the columns of `b`.
const ROOM: (usize, usize) = (HEIGHT * DEPTH / 2, VECTORS * LEN * DEPTH / 2);

/// The sums of a block, tile after tile.
#[repr(align(64))]
struct Sums(#[allow(dead_code)] [f32; 4 * LEN * LEN]);

/// The configuration of the tile registers: eight tiles of 16 rows of 64 bytes.
#[repr(C, align(64))]
struct Config([u8; 64]);

const CONFIG: Config = {
    let mut bytes = [0; 64];
    bytes[0] = 1;
    let mut tile = 0;
    while tile < 8 {
        bytes[16 + 2 * tile] = 64;
        bytes[48 + tile] = 16;
        tile += 1;
    }
    Config(bytes)
};

/// Whether the CPU has tiles and the operating system lets this process use them. Asks the system: call it once.
pub(crate) fn detect() -> bool {
    const TILE_STATE: u64 = 0x6_0000;
    let leaf = __cpuid_count(7, 0);
    let (bf16, tile) = (leaf.edx >> 22 & 1 == 1, leaf.edx >> 24 & 1 == 1);
    // SAFETY: `xgetbv` exists where the system has enabled `xsave`, as it must have for AVX.
    let enabled = is_x86_feature_detected!("avx") && unsafe { xcr0() } & TILE_STATE == TILE_STATE;
    bf16 && tile && enabled && is_x86_feature_detected!("avx512bf16") && permitted()
}

/// The state components that the system saves.
///
/// # Safety
/// The system must have enabled `xsave`.
#[target_feature(enable = "xsave")]
unsafe fn xcr0() -> u64 {
    // SAFETY: the caller guarantees it.
    unsafe { _xgetbv(0) }
}

/// Asks Linux for the tile registers of this process and its threads.
#[cfg(target_os = "linux")]
fn permitted() -> bool {
    const ARCH_PRCTL: i64 = 158;
    const REQUEST_PERMISSION: i64 = 0x1023;
    const TILE_DATA: i64 = 18;
    let result: i64;
    // SAFETY: the system call reads no memory of this process; it clobbers what is listed.
    unsafe {
        asm!(
            "syscall",
            inlateout("rax") ARCH_PRCTL => result,
            in("rdi") REQUEST_PERMISSION,
            in("rsi") TILE_DATA,
            out("rcx") _,
            out("r11") _,
            options(nostack),
        );
    }
    result == 0
}

/// How other systems grant tiles is not known here, so they go without.
#[cfg(not(target_os = "linux"))]
fn permitted() -> bool {
    false
}

/// What a block needs to know besides its position.
struct Block {
    /// Groups of sixteen pairs.
    groups: usize,
    /// Strides of the packed rows, in pairs.
    a_row: usize,
    b_pair: usize,
    out_row: usize,
    /// Numbers of the last tile of a row that belong to the output.
    last: usize,
    alpha: f32,
    add: bool,
}

/// Runs a product.
///
/// # Safety
/// The CPU must have AVX-512 F, BW, DQ, VL and BF16, and tiles ([`detect`]).
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
pub(super) unsafe fn product(product: Product<'_, f32>) {
    let ((m, k), n) = (product.a.shape(), product.b.shape().1);
    let pairs = k.min(DEPTH).div_ceil(TILE) * LEN;
    let (rows, columns) = (m.min(HEIGHT).next_multiple_of(LEN), (VECTORS * LEN).min(n.next_multiple_of(LEN)));
    // SAFETY: the caller guarantees the CPU; the rooms are large enough.
    unsafe {
        asm!("ldtilecfg [{}]", in(reg) &CONFIG, options(nostack, readonly));
        if rows * pairs <= SMALL.0 && columns * pairs <= SMALL.1 {
            run::<{ SMALL.0 }, { SMALL.1 }>(product)
        } else {
            run::<{ ROOM.0 }, { ROOM.1 }>(product)
        }
        asm!("tilerelease", options(nostack, nomem));
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
    for (from, depth) in tile_parts(k) {
        for (start, v) in columns(vectors) {
            let (at, pairs) = (place(vectors, from, depth, start), depth.div_ceil(TILE) * LEN);
            let to = &mut to[at..at + pairs * v * LEN];
            // SAFETY: the part is inside the view; the slice has room for it.
            unsafe { pack_columns(b, (from, depth), (start, v), to.as_mut_ptr()) };
        }
    }
}

/// The runs of columns: first tile and number of tiles.
#[inline(always)]
fn columns(vectors: usize) -> impl Iterator<Item = (usize, usize)> {
    (0..vectors).step_by(VECTORS).map(move |start| (start, VECTORS.min(vectors - start)))
}

/// Where a run of columns lies in a packed operand. Parts begin at whole groups of pairs.
#[inline(always)]
fn place(vectors: usize, from: usize, depth: usize, start: usize) -> usize {
    (from / 2 * vectors + depth.div_ceil(TILE) * LEN * start) * LEN
}

/// Packs a run of columns of `b`, with lines of zeros up to a whole group of pairs.
///
/// # Safety
/// As for [`pack`]; the view must have the part, `to` room.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn pack_columns(
    b: Mat<'_, f32>,
    (from, depth): (usize, usize),
    (start, v): (usize, usize),
    to: *mut u32,
) {
    let (col, wide) = (start * LEN, v * LEN);
    let (pairs, all) = (depth.div_ceil(2), depth.div_ceil(TILE) * LEN);
    // SAFETY: the caller guarantees the part and the room.
    unsafe {
        pack_b(b, (from, depth), (col, wide.min(b.shape().1 - col)), wide, to);
        to.add(pairs * wide).write_bytes(0, (all - pairs) * wide);
    }
}

/// The product block by block.
///
/// # Safety
/// The CPU must have the instructions, the tiles must be configured. There must be room for the packed parts of both
/// operands.
#[inline(never)]
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn run<const A: usize, const B: usize>(product: Product<'_, f32>) {
    let Product { out, stride, a, b, alpha, add } = product;
    let ((m, k), (_, n)) = (a.shape(), b.shape());
    let (mut room_a, mut room_b) = (MaybeUninit::<Room<A>>::uninit(), MaybeUninit::<Room<B>>::uninit());
    let (room_a, room_b) = (room_a.as_mut_ptr().cast::<u32>(), room_b.as_mut_ptr().cast::<u32>());
    let out = out.as_mut_ptr();
    let (vectors, tall) = (n.div_ceil(LEN), m.div_ceil(HEIGHT));
    for (from, depth) in tile_parts(k) {
        let groups = depth.div_ceil(TILE);
        for (top, height) in (0..tall).map(|i| share(m, tall, i)) {
            // SAFETY: the part is inside the view, which was checked against its slice; there is room for it.
            unsafe { pack_rows(a, (top, height), (from, depth), room_a) };
            for (start, v) in columns(vectors) {
                let last = LEN.min(n - (start + v - 1) * LEN);
                let (a_row, b_pair, add) = (groups * LEN, v * LEN, add || from > 0);
                let block = Block { groups, a_row, b_pair, out_row: stride, last, alpha, add };
                // SAFETY: as above, for the columns of `b`; the output was checked to hold all rows.
                unsafe {
                    let lines = if b.pairs().is_empty() {
                        pack_columns(b, (from, depth), (start, v), room_b);
                        room_b.cast_const()
                    } else {
                        b.pairs()[place(vectors, from, depth, start)..].as_ptr()
                    };
                    rows(&block, v, height, room_a, lines, out.add(top * stride + start * LEN));
                }
            }
        }
    }
}

/// Packs some rows of `a`, each as whole groups of pairs. Rows up to a whole tile are zero, so that no tile is
/// loaded from memory that was never written.
///
/// # Safety
/// The CPU must have the instructions, the view the rows and columns, `to` room.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn pack_rows(
    a: Mat<'_, f32>,
    (top, height): (usize, usize),
    (from, depth): (usize, usize),
    to: *mut u32,
) {
    let ((row, col), line) = (a.strides(), depth.div_ceil(TILE) * LEN);
    // SAFETY: the caller guarantees the part and the room.
    unsafe {
        let first = a.data().as_ptr().add(top * row + from * col);
        if col == 1 {
            stream(Source { first, stride: row, lines: height, len: depth }, to, line);
            let missing = height.next_multiple_of(LEN) - height;
            to.add(height * line).write_bytes(0, missing * line);
        } else {
            turn(Source { first, stride: col, lines: depth, len: height }, to, line);
        }
    }
}

/// All rows of a run of `v` tiles of columns.
///
/// # Safety
/// As for [`block`], for `height` rows.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn rows(s: &Block, v: usize, height: usize, a: *const u32, b: *const u32, out: *mut f32) {
    let mut sums = MaybeUninit::<Sums>::uninit();
    let sums = sums.as_mut_ptr().cast::<f32>();
    for row in (0..height).step_by(ROWS) {
        let count = ROWS.min(height - row);
        // SAFETY: the caller guarantees all rows.
        unsafe {
            let (a, out) = (a.add(row * s.a_row), out.add(row * s.out_row));
            // Whole tiles whose sums are stored as they are need no detour.
            let whole = s.alpha == 1.0 && !s.add && s.last == LEN && count.is_multiple_of(LEN);
            let to = if whole {
                To::new(out, s.out_row, LEN, LEN * s.out_row)
            } else {
                To::new(sums, LEN, LEN * LEN, VECTORS * LEN * LEN)
            };
            match (count > LEN, v) {
                (true, 2) => tiles_2x2(s, a, b, &to),
                (true, _) => tiles_2x1(s, a, b, &to),
                (false, 2) => tiles_1x2(s, a, b, &to),
                (false, _) => tiles_1x1(s, a, b, &to),
            }
            if !whole {
                write(s, v, count, sums, out);
            }
        }
    }
}

/// Writes the stored sums of a block to the output.
///
/// # Safety
/// `sums` must hold the tiles, `out` `count` rows of `v` tiles, of the last one only `last` numbers.
#[target_feature(enable = "avx512f,avx512bw,avx512dq,avx512vl,avx512bf16,avx2,fma")]
unsafe fn write(s: &Block, v: usize, count: usize, sums: *const f32, out: *mut f32) {
    for i in 0..count {
        for j in 0..v {
            let tile = i / LEN * VECTORS + j;
            let last = if j + 1 < v { LEN } else { s.last };
            // SAFETY: the caller guarantees the sums and the room.
            unsafe {
                let sum = _mm512_loadu_ps(sums.add((tile * LEN + i % LEN) * LEN));
                sum.write(out.add(i * s.out_row + j * LEN), last, s.alpha, s.add);
            }
        }
    }
}
