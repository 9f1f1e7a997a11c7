//! Products of the shapes of the three tasks: these kernels, the `gemm` crate and the plain loops.
//!
//! `cargo bench -p sheaf-kernels --bench product`. Each row is one shape (rows × inner × columns); each column of the
//! output is one level. Levels that the CPU lacks repeat the best level it has.

use divan::Bencher;
use divan::counter::ItemsCount;
use sheaf_kernels::Precision;
use sheaf_kernels::gemm::{Mat, gemm_at};
use sheaf_kernels::simd::Level;

fn main() {
    divan::main();
}

/// Which of the operands are stored transposed.
#[derive(Clone, Copy, PartialEq, Debug)]
enum Layout {
    Plain,
    LeftTransposed,
    RightTransposed,
}
use Layout::{LeftTransposed, Plain, RightTransposed};

type Shape = (usize, usize, usize, Layout);

const SHAPES: [Shape; 10] = [
    (4, 9, 9, Plain),
    (9, 32, 27, RightTransposed),
    // Sudoku: the mixer over cells; stacked maps on a tile of states and their gradient.
    (36, 9, 128, LeftTransposed),
    (54, 288, 288, Plain),
    (216, 288, 288, Plain),
    (288, 216, 288, LeftTransposed),
    // An encoder layer on 128 boards of 81 cells, its gradient and its adjoint.
    (128 * 81, 64, 256, Plain),
    (128 * 81, 256, 64, RightTransposed),
    (256, 10_368, 54, LeftTransposed),
    (1024, 1024, 1024, Plain),
];

fn bench(bencher: Bencher, how: (Level, Precision), (m, k, n, layout): Shape) {
    let fill = |n: usize| (0..n).map(|i| (i * 37 % 101) as f32 / 101.0 - 0.5).collect::<Vec<f32>>();
    let (a, b, mut out) = (fill(m * k), fill(k * n), vec![0.0; m * n]);
    let a = if layout == LeftTransposed { Mat::new(&a, k, m).t() } else { Mat::new(&a, m, k) };
    let b = if layout == RightTransposed { Mat::new(&b, n, k).t() } else { Mat::new(&b, k, n) };
    // Two operations for each multiply-add: the throughput is in FLOP/s.
    bencher.counter(ItemsCount::new(2 * m * n * k)).bench_local(|| {
        gemm_at(how, divan::black_box(&mut out), a, b, 1.0, 0.0);
    });
}

#[divan::bench(args = SHAPES)]
fn ours(bencher: Bencher, shape: Shape) {
    bench(bencher, (Level::Avx512, Precision::Full), shape);
}

#[divan::bench(args = SHAPES)]
fn ours_avx2(bencher: Bencher, shape: Shape) {
    bench(bencher, (Level::Avx2, Precision::Full), shape);
}

#[divan::bench(args = SHAPES)]
fn portable(bencher: Bencher, shape: Shape) {
    bench(bencher, (Level::Portable, Precision::Full), shape);
}

#[divan::bench(args = SHAPES)]
fn plain(bencher: Bencher, shape: Shape) {
    bench(bencher, (Level::Plain, Precision::Full), shape);
}

#[divan::bench(args = SHAPES)]
fn bf16(bencher: Bencher, shape: Shape) {
    bench(bencher, (Level::Avx512, Precision::Bf16), shape);
}

#[divan::bench(args = SHAPES)]
fn bf16_tiles(bencher: Bencher, shape: Shape) {
    bench(bencher, (Level::Amx, Precision::Bf16), shape);
}

#[divan::bench(args = SHAPES)]
fn bf16_twin(bencher: Bencher, shape: Shape) {
    bench(bencher, (Level::Avx2, Precision::Bf16), shape);
}
