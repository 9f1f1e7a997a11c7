//! Every layer's adjoint against central finite differences, in f64 and in a random direction through all inputs
//! and parameters at once; and the f32 layers against the same layers in f64.

use proptest::prelude::*;
use sheaf_admm::Real;
use sheaf_learn::nn::activation::*;
use sheaf_learn::nn::*;
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_testkit::finite_difference::assert_gradient;

fn normals(n: usize, seed: u64) -> Vec<f64> {
    let mut stream = Stream::new(seed, "nn test", 0, 0);
    (0..n).map(|_| stream.normal()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Checks a layer at random parameters and inputs. The loss is ⟨weights, y⟩ with random weights, so d_y = weights.
/// Gradients start at a value that is not 0, so a VJP that overwrites instead of adding fails.
fn check(
    name: &str,
    (params, x, y): (usize, usize, usize),
    forward: impl Fn(&[f64], &[f64], &mut [f64]),
    vjp: impl Fn(&[f64], &[f64], &[f64], Option<&mut [f64]>, &mut [f64]),
) {
    const START: f64 = 0.375;
    let (p, v, d_y) = (normals(params, 1), normals(x, 2), normals(y, 3));
    let (mut d_p, mut d_v) = (vec![START; params], vec![START; x]);
    vjp(&p, &v, &d_y, Some(&mut d_v), &mut d_p);
    let mut alone = vec![START; params];
    vjp(&p, &v, &d_y, None, &mut alone);
    assert_eq!(alone, d_p, "{name}: leaving out d_x changes the parameter gradient");

    let loss = |p: &[f64], v: &[f64]| {
        let mut out = vec![f64::NAN; y];
        forward(p, v, &mut out);
        dot(&out, &d_y)
    };
    // The test kit's measure: a direction along which the loss is flat by chance is judged relative to the gradient's
    // norm.
    let point = [p, v].concat();
    let gradient: Vec<f64> = d_p.iter().chain(&d_v).map(|d| d - START).collect();
    assert_gradient(name, &mut |at| loss(&at[..params], &at[params..]), &point, &gradient);
}

fn layout<L>(declare: impl FnOnce(&mut ParamLayout) -> L) -> (L, usize) {
    let mut layout = ParamLayout::new();
    // A tensor before the layer, so that its ranges do not start at 0.
    layout.add("before", &[3]);
    let layer = declare(&mut layout);
    (layer, layout.len())
}

fn elementwise(
    name: &str,
    forward: impl Fn(&[f64], &mut [f64]),
    vjp: impl Fn(&[f64], &[f64], &[f64], &mut [f64]),
) {
    let run = |x: &[f64]| {
        let mut y = vec![0.0; x.len()];
        forward(x, &mut y);
        y
    };
    check(
        name,
        (0, 301, 301),
        |_, x, y| y.copy_from_slice(&run(x)),
        |_, x, d_y, d_x, _| {
            if let Some(d_x) = d_x {
                vjp(x, &run(x), d_y, d_x);
            }
        },
    );
}

#[test]
fn activations_pull_gradients_back() {
    elementwise("gelu", gelu, |x, _, d_y, d_x| {
        let (mut slope, mut y) = (x.to_vec(), x.to_vec());
        gelu_keeping_slope(&mut slope, &mut y);
        gelu_vjp(&slope, d_y, d_x);
    });
    elementwise("silu", silu, |x, _, d_y, d_x| silu_vjp(x, d_y, d_x));
    elementwise("softplus", softplus, |x, _, d_y, d_x| softplus_vjp(x, d_y, d_x));
    elementwise("sigmoid", sigmoid, |_, y, d_y, d_x| sigmoid_vjp(y, d_y, d_x));
    elementwise("tanh", tanh, |_, y, d_y, d_x| tanh_vjp(y, d_y, d_x));
}

#[test]
fn swiglu_pulls_gradients_back_to_gate_and_up() {
    let hidden = 150;
    check(
        "swiglu",
        (0, 2 * 2 * hidden, 2 * hidden),
        |_, x, y| swiglu(x, hidden, y),
        |_, x, d_y, d_x, _| {
            if let Some(d_x) = d_x {
                swiglu_vjp(x, hidden, d_y, d_x);
            }
        },
    );
}

fn check_linear(rows: usize, input: usize, output: usize, bias: bool) {
    let (layer, len) = layout(|l| Linear::new(l, "dense", input, output, bias));
    check(
        "linear",
        (len, rows * input, rows * output),
        |p, x, y| layer.forward(p, x, y),
        |p, x, d_y, d_x, d_p| layer.vjp(p, x, d_y, d_x, d_p),
    );
}

fn check_linear_along(rows: usize, input: usize, cols: usize, output: usize, bias: bool) {
    let (layer, len) = layout(|l| Linear::new(l, "dense", input, output, bias));
    check(
        "linear along",
        (len, rows * input * cols, rows * output * cols),
        |p, x, y| layer.forward_along(p, x, cols, y),
        |p, x, d_y, d_x, d_p| layer.vjp_along(p, x, cols, d_y, d_x, d_p),
    );
}

fn check_norms(rows: usize, dim: usize) {
    let (layer, len) = layout(|l| RmsNorm::new(l, "norm", dim));
    check(
        "rms norm",
        (len, rows * dim, rows * dim),
        |p, x, y| layer.forward(p, x, y),
        |p, x, d_y, d_x, d_p| layer.vjp(p, x, d_y, d_x, d_p),
    );
    let (layer, len) = layout(|l| LayerNorm::new(l, "norm", dim));
    check(
        "layer norm",
        (len, rows * dim, rows * dim),
        |p, x, y| layer.forward(p, x, y),
        |p, x, d_y, d_x, d_p| layer.vjp(p, x, d_y, d_x, d_p),
    );
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::with_cases(24) })]

    #[test]
    fn linear_layers_of_any_shape_pull_gradients_back(
        rows in 1usize..7, input in 1usize..20, output in 1usize..40, cols in 1usize..40, bias in any::<bool>(),
    ) {
        check_linear(rows, input, output, bias);
        check_linear_along(rows, input, cols, output, bias);
    }

    #[test]
    fn norms_of_any_width_pull_gradients_back(rows in 1usize..5, dim in 3usize..80) {
        check_norms(rows, dim);
    }
}

#[test]
fn swiglu_layers_pull_gradients_back_along_both_axes() {
    for (rows, width, cols) in [(5, 7, 1), (2, 9, 6)] {
        let (layer, len) = layout(|l| SwiGlu::new(l, "mlp", width, 4));
        let room = || vec![f64::NAN; layer.saved_len(rows * cols)];
        check(
            "swiglu layer",
            (len, rows * width * cols, rows * width * cols),
            |p, x, y| layer.forward(p, x, cols, y, &mut room()),
            |p, x, d_y, d_x, d_p| {
                let (mut saved, mut y) = (room(), x.to_vec());
                layer.forward(p, x, cols, &mut y, &mut saved);
                let mut scratch = vec![f64::NAN; layer.scratch_len(rows * cols)];
                layer.vjp(p, x, cols, &saved, d_y, d_x, d_p, &mut scratch);
            },
        );
    }
}

#[test]
fn mixer_blocks_pull_gradients_back() {
    let (rows, cells, channels) = (3, 9, 8);
    let (layer, len) = layout(|l| Mixer::new(l, "mixer", (cells, channels), 18, 16));
    let room = || vec![f64::NAN; layer.saved_len(rows)];
    check(
        "mixer",
        (len, rows * layer.width(), rows * layer.width()),
        |p, x, y| layer.forward(p, x, y, &mut room()),
        |p, x, d_y, d_x, d_p| {
            let (mut saved, mut y) = (room(), x.to_vec());
            layer.forward(p, x, &mut y, &mut saved);
            let mut scratch = vec![f64::NAN; layer.scratch_len(rows)];
            layer.vjp(p, x, &saved, d_y, d_x, d_p, &mut scratch);
        },
    );
}

#[test]
fn residual_blocks_pull_gradients_back_with_either_skip() {
    let rows = 4;
    for (layer, len) in
        [layout(|l| Residual::new(l, "block", 6, 11)), layout(|l| Residual::projected(l, "block", 6, 11, 7))]
    {
        let room = || vec![f64::NAN; layer.saved_len(rows)];
        check(
            "residual",
            (len, rows * layer.input(), rows * layer.output()),
            |p, x, y| layer.forward(p, x, y, &mut room()),
            |p, x, d_y, d_x, d_p| {
                let (mut saved, mut y) = (room(), vec![0.0; d_y.len()]);
                layer.forward(p, x, &mut y, &mut saved);
                let mut scratch = vec![f64::NAN; layer.scratch_len(rows)];
                layer.vjp(p, x, &saved, d_y, d_x, d_p, &mut scratch);
            },
        );
    }
}

#[test]
fn embeddings_pull_gradients_back_to_shared_rows() {
    let ids = [2, 0, 2, 4, 2];
    let (layer, len) = layout(|l| Embedding::new(l, "place", 5, 3));
    check(
        "embedding",
        (len, 0, ids.len() * 3),
        |p, _, y| {
            layer.forward(p, &ids, y);
            // Adding the same rows again doubles them.
            layer.forward_add(p, &ids, y);
        },
        |_, _, d_y, _, d_p| {
            layer.vjp(&ids, d_y, d_p);
            layer.vjp(&ids, d_y, d_p);
        },
    );
}

#[test]
fn a_layer_along_the_middle_axis_is_the_layer_on_the_transposed_matrix() {
    let (rows, input, cols, output) = (2, 9, 16, 5);
    let (layer, len) = layout(|l| Linear::new(l, "dense", input, output, true));
    let (params, x) = (normals(len, 1), normals(rows * input * cols, 2));
    let mut y = vec![0.0; rows * output * cols];
    layer.forward_along(&params, &x, cols, &mut y);
    for r in 0..rows {
        for c in 0..cols {
            let column: Vec<f64> = (0..input).map(|i| x[(r * input + i) * cols + c]).collect();
            let mut out = vec![0.0; output];
            layer.forward(&params, &column, &mut out);
            for (j, expected) in out.iter().enumerate() {
                assert!((y[(r * output + j) * cols + c] - expected).abs() < 1e-13);
            }
        }
    }
}

#[test]
fn forward_add_adds_what_forward_writes() {
    let (layer, len) = layout(|l| Linear::new(l, "dense", 6, 4, true));
    let (params, x, start) = (normals(len, 1), normals(18, 2), normals(12, 3));
    let (mut y, mut added) = (vec![f64::NAN; 12], start.clone());
    layer.forward(&params, &x, &mut y);
    layer.forward_add(&params, &x, &mut added);
    for i in 0..12 {
        assert!((added[i] - start[i] - y[i]).abs() < 1e-13);
    }
}

#[test]
fn layer_norm_lets_no_gradient_through_a_variance_held_at_zero() {
    let dim = 10;
    let (layer, len) = layout(|l| LayerNorm::new(l, "norm", dim));
    let mut params = vec![0.0f64; len];
    layer.init(&mut params);
    let steepest = 1.0 / norm::EPSILON.sqrt();
    let mut held = 0;
    for row in 0..50 {
        // The squares are 10¹⁶, known to ±1: mean(x²) − mean(x)² is rounding alone, and often not positive,
        // although the row varies enough that a term through the variance would dwarf the others.
        let x: Vec<f64> = (0..dim).map(|i| 1e8 + row as f64 + 0.01 * i as f64).collect();
        let mut y = vec![f64::NAN; dim];
        layer.forward(&params, &x, &mut y);
        if (y[9] - y[0]) / (x[9] - x[0]) < 0.999 * steepest {
            continue;
        }
        held += 1;
        let (d_y, mut d_x, mut d_params) = (normals(dim, row), vec![0.0; dim], vec![0.0; len]);
        layer.vjp(&params, &x, &d_y, Some(&mut d_x), &mut d_params);
        let mean = d_y.iter().sum::<f64>() / dim as f64;
        for (d_x, d_y) in d_x.iter().zip(&d_y) {
            let expected = steepest * (d_y - mean);
            assert!((d_x - expected).abs() < 1e-9 * steepest, "{d_x} {expected}");
        }
    }
    assert!(held > 0, "no row had its variance held");
}

fn norm_there_and_back<T: Real>(v: &[T]) -> Vec<T> {
    let dim = 256;
    let (norms, len) = layout(|l| (RmsNorm::new(l, "rms", dim), LayerNorm::new(l, "layer", dim)));
    let (params, rest) = v.split_at(len);
    let (x, d_y) = rest.split_at(rest.len() / 2);
    let (mut rms, mut out) = (x.to_vec(), x.to_vec());
    norms.0.forward(params, x, &mut rms);
    norms.1.forward(params, &rms, &mut out);
    let (mut d_rms, mut d_x) = (vec![T::ZERO; x.len()], vec![T::ZERO; x.len()]);
    let mut d_params = vec![T::ZERO; len];
    norms.1.vjp(params, &rms, d_y, Some(&mut d_rms), &mut d_params);
    norms.0.vjp(params, x, &d_rms, Some(&mut d_x), &mut d_params);
    [out, d_x, d_params].concat()
}

#[test]
fn norms_in_single_precision_follow_double_precision() {
    let single: Vec<f32> = normals(3 + 3 * 256 + 2 * 4 * 256, 9).iter().map(|&v| v as f32).collect();
    let double: Vec<f64> = single.iter().map(|&v| v as f64).collect();
    let (a, b) = (norm_there_and_back(&single), norm_there_and_back(&double));
    let largest = b.iter().fold(0.0f64, |m, v| m.max(v.abs()));
    let error = a.iter().zip(&b).fold(0.0f64, |m, (&a, &b)| m.max((a as f64 - b).abs())) / largest;
    assert!(error < 2e-6, "{error:e}");
}
