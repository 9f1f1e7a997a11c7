//! The decoder's first layer over distinct views equals the same layer on expanded rows, and so do its gradients.

use sheaf_learn::nn::{ConcatDense, Linear, RmsNorm};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_testkit::finite_difference::assert_gradient;

const VIEW: usize = 5;
const STATE: usize = 3;
const OUTPUT: usize = 4;
const INDEX: [u32; 6] = [1, 0, 2, 1, 1, 0];

fn normals(n: usize, seed: u64) -> Vec<f64> {
    let mut stream = Stream::new(seed, "concat test", 0, 0);
    (0..n).map(|_| stream.normal()).collect()
}

fn layer() -> (ConcatDense, usize) {
    let mut layout = ParamLayout::new();
    layout.add("before", &[2]);
    (ConcatDense::new(&mut layout, "norm", "dense", VIEW, STATE, OUTPUT), layout.len())
}

/// The results of the forward pass.
struct Pass {
    table: Vec<f64>,
    scaled: Vec<f64>,
    inv: Vec<f64>,
    out: Vec<f64>,
}

fn forward(layer: &ConcatDense, params: &[f64], views: &[f64], x: &[f64]) -> Pass {
    let rows = INDEX.len();
    let mut pass = Pass {
        table: vec![0.0; views.len() / VIEW * OUTPUT],
        scaled: vec![0.0; rows * STATE],
        inv: vec![0.0; rows],
        out: vec![0.0; rows * OUTPUT],
    };
    layer.view_table(params, views, &mut pass.table, &mut vec![0.0; views.len()]);
    let squares: Vec<f64> = views.chunks(VIEW).map(|v| v.iter().map(|p| p * p).sum()).collect();
    let Pass { table, scaled, inv, out } = &mut pass;
    layer.forward(params, table, &squares, &INDEX, x, scaled, inv, out);
    pass
}

#[test]
fn the_layer_is_a_norm_and_a_linear_layer_on_view_and_state_side_by_side() {
    let (layer, n) = layer();
    let (params, views, x) = (normals(n, 1), normals(3 * VIEW, 2), normals(INDEX.len() * STATE, 3));
    let mut layout = ParamLayout::new();
    layout.add("before", &[2]);
    let norm = RmsNorm::new(&mut layout, "norm", VIEW + STATE);
    let linear = Linear::new(&mut layout, "dense", VIEW + STATE, OUTPUT, true);
    assert_eq!(layout.len(), n, "the same parameters in the same order");
    let rows: Vec<f64> = INDEX
        .iter()
        .zip(x.chunks(STATE))
        .flat_map(|(&v, x)| [&views[v as usize * VIEW..][..VIEW], x].concat())
        .collect();
    let (mut normed, mut want) = (vec![0.0; rows.len()], vec![0.0; INDEX.len() * OUTPUT]);
    norm.forward(&params, &rows, &mut normed);
    linear.forward(&params, &normed, &mut want);
    let got = forward(&layer, &params, &views, &x).out;
    assert!(got.iter().zip(&want).all(|(g, w)| (g - w).abs() < 1e-13), "{got:?} {want:?}");
}

#[test]
fn its_adjoint_matches_finite_differences_and_adds() {
    const START: f64 = 0.25;
    let (layer, n) = layer();
    let (params, views, x) = (normals(n, 4), normals(3 * VIEW, 5), normals(INDEX.len() * STATE, 6));
    let d_out = normals(INDEX.len() * OUTPUT, 7);
    let mut pass = forward(&layer, &params, &views, &x);
    let (mut d_x, mut d_params) = (vec![START; x.len()], vec![START; n]);
    let (mut d_table, mut d_scaled) = (vec![0.0; pass.table.len()], vec![0.0; x.len()]);
    let (table, scaled, inv) = (&pass.table, &mut pass.scaled, &pass.inv);
    let (d_t, d_p) = (&mut d_table, &mut d_params);
    layer.vjp(&params, table, &INDEX, &x, scaled, inv, &d_out, &mut d_x, d_t, d_p, &mut d_scaled);
    layer.view_table_vjp(&params, &views, &d_table, &mut d_params, &mut vec![0.0; views.len()]);
    let gradient: Vec<f64> = d_params.iter().chain(&d_x).map(|d| d - START).collect();
    let mut loss = |at: &[f64]| {
        let out = forward(&layer, &at[..n], &views, &at[n..]).out;
        out.iter().zip(&d_out).map(|(o, d)| o * d).sum::<f64>()
    };
    assert_gradient("concat", &mut loss, &[params.clone(), x.clone()].concat(), &gradient);
}
