//! Convolution and pooling against explicit loops, and their adjoints against finite differences.

use sheaf_learn::nn::conv::{Conv2d, MaxPool2, average_pool, average_pool_vjp, relu, relu_vjp};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_testkit::finite_difference::GradientCheck;

fn draw(len: usize, seed: u64) -> Vec<f64> {
    let stream = &mut Stream::new(seed, "conv test", 0, 0);
    (0..len).map(|_| stream.normal()).collect()
}

fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

fn conv(kernel: usize, input: usize, output: usize) -> (Conv2d, Vec<f64>) {
    let mut layout = ParamLayout::new();
    let conv = Conv2d::new(&mut layout, "conv", kernel, input, output).unwrap();
    (conv, draw(layout.len(), 1))
}

#[test]
fn a_convolution_is_the_sum_over_surroundings() {
    for (kernel, (h, w), (input, output)) in [(3, (4, 5), (2, 3)), (5, (3, 2), (1, 2)), (1, (2, 2), (3, 1))] {
        let (conv, params) = conv(kernel, input, output);
        let x = draw(h * w * input, 2);
        let (mut y, mut columns) = (vec![f64::NAN; h * w * output], vec![0.0; conv.columns_len((h, w))]);
        conv.forward(&params, (h, w), &x, &mut y, &mut columns);
        let bias = &params[kernel * kernel * input * output..];
        for (k, &y) in y.iter().enumerate() {
            let (r, c, o) = (k / output / w, k / output % w, k % output);
            let mut want = bias[o];
            for (dr, dc, i) in
                (0..kernel * kernel * input).map(|n| (n / input / kernel, n / input % kernel, n % input))
            {
                let at =
                    |p: usize, d: usize, len: usize| (p + d).checked_sub(kernel / 2).filter(|&p| p < len);
                if let (Some(r), Some(c)) = (at(r, dr, h), at(c, dc, w)) {
                    want +=
                        x[(r * w + c) * input + i] * params[((dr * kernel + dc) * input + i) * output + o];
                }
            }
            assert!((y - want).abs() < 1e-12, "kernel {kernel}, number {k}");
        }
    }
}

#[test]
fn the_adjoint_of_a_convolution_meets_finite_differences_and_adds() {
    let size = (5, 4);
    let (conv, params) = conv(3, 2, 3);
    let (x, d_y) = (draw(40, 3), draw(60, 4));
    let mut columns = vec![0.0; conv.columns_len(size)];
    let mut scratch = columns.clone();
    let mut value = |params: &[f64], x: &[f64]| {
        let mut y = vec![0.0; 60];
        conv.forward(params, size, x, &mut y, &mut columns);
        dot(&y, &d_y)
    };
    value(&params, &x);
    let (mut d_x, mut d_params) = (vec![1.0; 40], vec![2.0; params.len()]);
    let mut kept = vec![0.0; conv.columns_len(size)];
    conv.forward(&params, size, &x, &mut vec![0.0; 60], &mut kept);
    conv.vjp(&params, size, &kept, &d_y, Some(&mut d_x), &mut d_params, &mut scratch);
    d_x.iter_mut().for_each(|d| *d -= 1.0);
    d_params.iter_mut().for_each(|d| *d -= 2.0);
    GradientCheck::default().assert("x", &mut |x| value(&params, x), &x, &d_x);
    GradientCheck::default().assert("params", &mut |p| value(p, &x), &params, &d_params);
}

#[test]
fn pooling_takes_the_largest_of_four_and_sends_its_gradient_back() {
    for (h, w) in [(4, 6), (5, 3), (2, 2)] {
        let (x, n) = (draw(h * w * 2, 5), (h / 2) * (w / 2) * 2);
        let (mut y, mut from) = (vec![f64::NAN; n], vec![u32::MAX; n]);
        MaxPool2::forward((h, w), &x, &mut y, &mut from);
        assert_eq!(MaxPool2::size((h, w)), (h / 2, w / 2));
        for (k, &y) in y.iter().enumerate() {
            let (r, c, o) = (k / 2 / (w / 2), k / 2 % (w / 2), k % 2);
            let four =
                [(0, 0), (0, 1), (1, 0), (1, 1)].map(|(a, b)| x[((2 * r + a) * w + 2 * c + b) * 2 + o]);
            assert_eq!(y, four.into_iter().fold(f64::NEG_INFINITY, f64::max));
        }
        let (d_y, mut d_x) = (draw(n, 6), vec![0.5; h * w * 2]);
        MaxPool2::vjp(&from, &d_y, &mut d_x);
        d_x.iter_mut().for_each(|d| *d -= 0.5);
        let mut value = |x: &[f64]| {
            let (mut y, mut from) = (vec![0.0; n], vec![0; n]);
            MaxPool2::forward((h, w), x, &mut y, &mut from);
            dot(&y, &d_y)
        };
        GradientCheck::default().assert("max pool", &mut value, &x, &d_x);
    }
}

#[test]
fn equal_maxima_give_their_gradient_to_the_first() {
    let (mut y, mut from, mut d_x) = ([0.0], [0], [0.0; 4]);
    MaxPool2::forward((2, 2), &[1.0, 3.0, 3.0, 3.0], &mut y, &mut from);
    MaxPool2::vjp(&from, &[2.0], &mut d_x);
    assert_eq!((y, d_x), ([3.0], [0.0, 2.0, 0.0, 0.0]));
}

#[test]
fn average_pooling_keeps_its_own_size_and_the_mean_of_any_multiple() {
    let x = draw(7 * 7 * 3, 7);
    let mut y = vec![0.0; 7 * 7 * 3];
    average_pool((7, 7), 7, &x, &mut y);
    assert_eq!(x, y);
    let x = draw(6 * 9, 8);
    let mut y = vec![0.0; 9];
    average_pool((6, 9), 3, &x, &mut y);
    let mean = (0..2).flat_map(|r| (3..6).map(move |c| (r, c))).map(|(r, c)| x[r * 9 + c]).sum::<f64>() / 6.0;
    assert!((y[1] - mean).abs() < 1e-12);
}

#[test]
fn average_pooling_of_any_size_meets_finite_differences() {
    for (size, bins) in [((9, 9), 7), ((15, 11), 7), ((3, 5), 4), ((1, 1), 3)] {
        let (x, n) = (draw(size.0 * size.1 * 2, 9), bins * bins * 2);
        let (d_y, mut d_x) = (draw(n, 10), vec![0.25; x.len()]);
        average_pool_vjp(size, bins, &d_y, &mut d_x);
        d_x.iter_mut().for_each(|d| *d -= 0.25);
        let mut value = |x: &[f64]| {
            let mut y = vec![f64::NAN; n];
            average_pool(size, bins, x, &mut y);
            dot(&y, &d_y)
        };
        GradientCheck::default().assert("average pool", &mut value, &x, &d_x);
    }
}

#[test]
fn a_rectifier_passes_what_is_above_zero_and_its_gradient() {
    let (mut x, mut d) = ([-1.0, 0.0, 2.0], [5.0, 6.0, 7.0]);
    relu(&mut x);
    relu_vjp(&x, &mut d);
    assert_eq!((x, d), ([0.0, 0.0, 2.0], [0.0, 0.0, 7.0]));
}
