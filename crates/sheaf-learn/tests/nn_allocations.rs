//! Layers use the caller's memory: forward and adjoint do not allocate, whichever kernel computes their products.

use sheaf_admm::Real;
use sheaf_kernels::gemm::may_allocate;
use sheaf_learn::nn::{ConcatDense, Embedding, LayerNorm, Linear, Mixer, Residual, RmsNorm, SwiGlu};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_testkit::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Few rows, many rows, and enough rows for the products to copy an operand.
const ROWS: [usize; 3] = [1, 27, 400];

fn normals<T: Real>(n: usize, seed: u64) -> Vec<T> {
    let mut stream = Stream::new(seed, "layer allocations", 0, 0);
    (0..n).map(|_| T::from_f64(stream.normal())).collect()
}

fn layout<L>(declare: impl FnOnce(&mut ParamLayout) -> L) -> (L, usize) {
    let mut layout = ParamLayout::new();
    let layer = declare(&mut layout);
    (layer, layout.len())
}

/// Runs twice; the second run must not allocate and must do the work.
fn count<T: Real>(
    name: &str,
    (params, x, y, saved, scratch): (usize, usize, usize, usize, usize),
    forward: impl Fn(&[T], &[T], &mut [T], &mut [T]),
    vjp: impl Fn(&[T], &[T], &[T], &[T], &mut [T], &mut [T], &mut [T]),
) {
    let (p, v, d_y) = (normals::<T>(params, 1), normals::<T>(x, 2), normals::<T>(y, 3));
    let zeros = |n| vec![T::ZERO; n];
    let (mut out, mut saved, mut scratch) = (zeros(y), zeros(saved), zeros(scratch));
    let (mut d_x, mut d_p) = (zeros(x), zeros(params));
    let mut round = || {
        forward(&p, &v, &mut out, &mut saved);
        vjp(&p, &v, &saved, &d_y, &mut d_x, &mut d_p, &mut scratch);
    };
    // The first use of a kernel reads the environment variable that may lower the instruction set, which allocates
    // once.
    round();
    let count = allocations(round);
    // The product of CPUs without our kernels may allocate (SHEAF_SIMD=off); nothing else does anywhere.
    assert!(count == 0 || may_allocate(), "{name}: {count} requests for memory");
    let worked = |values: &[T]| values.iter().all(|v| v.is_finite()) && values.iter().any(|v| *v != T::ZERO);
    assert!(worked(&out) && worked(&d_p), "{name}");
}

fn layers<T: Real>() {
    for rows in ROWS {
        for (input, output, bias) in [(27, 256, true), (256, 54, true), (10, 10, false), (32, 33, true)] {
            let name = format!("linear {input} to {output}, {rows} rows");
            let (layer, n) = layout(|l| Linear::new(l, "linear", input, output, bias));
            count::<T>(
                &name,
                (n, rows * input, rows * output, 0, 0),
                |p, x, y, _| layer.forward(p, x, y),
                |p, x, _, d_y, d_x, d_p, _| layer.vjp(p, x, d_y, Some(d_x), d_p),
            );
        }
        let (layer, n) = layout(|l| RmsNorm::new(l, "norm", 54));
        count::<T>(
            "rms norm",
            (n, rows * 54, rows * 54, 0, 0),
            |p, x, y, _| layer.forward(p, x, y),
            |p, x, _, d_y, d_x, d_p, _| layer.vjp(p, x, d_y, Some(d_x), d_p),
        );
        let (layer, n) = layout(|l| LayerNorm::new(l, "norm", 54));
        count::<T>(
            "layer norm",
            (n, rows * 54, rows * 54, 0, 0),
            |p, x, y, _| layer.forward(p, x, y),
            |p, x, _, d_y, d_x, d_p, _| layer.vjp(p, x, d_y, Some(d_x), d_p),
        );
        let (layer, n) = layout(|l| Residual::projected(l, "block", 32, 40, 24));
        count::<T>(
            "residual block",
            (n, rows * 32, rows * 24, layer.saved_len(rows), layer.scratch_len(rows)),
            |p, x, y, saved| layer.forward(p, x, y, saved),
            |p, x, saved, d_y, d_x, d_p, scratch| layer.vjp(p, x, saved, d_y, Some(d_x), d_p, scratch),
        );
        for cols in [1, 8] {
            let (layer, n) = layout(|l| SwiGlu::new(l, "gated", 9, 18));
            let lines = rows * cols;
            count::<T>(
                "gated perceptron",
                (n, lines * 9, lines * 9, layer.saved_len(lines), layer.scratch_len(lines)),
                |p, x, y, saved| layer.forward(p, x, cols, y, saved),
                |p, x, saved, d_y, d_x, d_p, scratch| {
                    layer.vjp(p, x, cols, saved, d_y, Some(d_x), d_p, scratch)
                },
            );
        }
        let (layer, n) = layout(|l| Mixer::new(l, "mixer", (9, 16), 18, 32));
        let width = rows * layer.width();
        count::<T>(
            "mixer",
            (n, width, width, layer.saved_len(rows), layer.scratch_len(rows)),
            |p, x, y, saved| layer.forward(p, x, y, saved),
            |p, x, saved, d_y, d_x, d_p, scratch| layer.vjp(p, x, saved, d_y, Some(d_x), d_p, scratch),
        );
        let (layer, n) = layout(|l| Embedding::new(l, "table", 5, 7));
        let ids: Vec<usize> = (0..rows).map(|r| r % 5).collect();
        count::<T>(
            "embedding",
            (n, 0, rows * 7, 0, 0),
            |p, _, y, _| layer.forward(p, &ids, y),
            |_, _, _, d_y, _, d_p, _| layer.vjp(&ids, d_y, d_p),
        );
    }
}

#[test]
fn layers_ask_for_no_memory_in_either_precision() {
    layers::<f32>();
    layers::<f64>();
}

#[test]
fn a_decoder_over_distinct_views_asks_for_no_memory() {
    let (views, view_len, state_len, output, rows) = (5, 54, 10, 64, 81);
    let (layer, n) = layout(|l| ConcatDense::new(l, "norm", "dense", view_len, state_len, output));
    let (params, patches, x) =
        (normals::<f32>(n, 1), normals::<f32>(views * view_len, 2), normals::<f32>(rows * state_len, 3));
    let index: Vec<u32> = (0..rows as u32).map(|r| r % views as u32).collect();
    let squares: Vec<f32> = patches.chunks(view_len).map(|v| v.iter().map(|p| p * p).sum()).collect();
    let zeros = |n: usize| vec![0.0f32; n];
    let (mut table, mut scaled_views) = (zeros(views * output), zeros(views * view_len));
    let (mut scaled, mut inv, mut out) = (zeros(rows * state_len), zeros(rows), zeros(rows * output));
    let (mut d_x, mut d_table, mut d_params) = (zeros(rows * state_len), zeros(views * output), zeros(n));
    let mut d_scaled = zeros(rows * state_len);
    assert_eq!(layer.check(&params, &table, &index, &x, &out).unwrap(), rows);
    let mut round = || {
        layer.view_table(&params, &patches, &mut table, &mut scaled_views);
        layer.forward(&params, &table, &squares, &index, &x, &mut scaled, &mut inv, &mut out);
        let (d_x, d_table, d_params) = (&mut d_x, &mut d_table, &mut d_params);
        let (scaled, d_scaled) = (&mut scaled, &mut d_scaled);
        layer.vjp(&params, &table, &index, &x, scaled, &inv, &out, d_x, d_table, d_params, d_scaled);
        layer.view_table_vjp(&params, &patches, d_table, d_params, &mut scaled_views);
    };
    round();
    let count = allocations(round);
    // As above.
    assert!(count == 0 || may_allocate(), "{count} requests for memory");
    assert!(d_params.iter().all(|d| d.is_finite() && *d != 0.0));
}
