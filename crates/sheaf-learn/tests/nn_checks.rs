//! If `check` accepts sizes, the layer runs: any sizes give a typed error or an answer.

use proptest::prelude::*;
use sheaf_admm::ErrorKind;
use sheaf_learn::nn::{ConcatDense, Conv2d, Embedding, LayerNorm, Linear, Mixer, Residual, RmsNorm, SwiGlu};
use sheaf_learn::params::ParamLayout;

/// Lengths of parameters, x, y and saved: correct ones for some rows, each changed in a quarter of the cases.
type Lens = [usize; 4];

fn bent() -> impl Strategy<Value = [i8; 4]> {
    prop::array::uniform4(prop_oneof![3 => Just(0i8), 1 => -2i8..3])
}

fn bend(lens: Lens, by: [i8; 4]) -> Lens {
    std::array::from_fn(|k| lens[k].saturating_add_signed(by[k].into()))
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn layers_answer_or_their_check_refuses(
        (input, output, hidden) in (0usize..4, 0usize..4, 0usize..4),
        (rows, cols) in (0usize..4, 1usize..3),
        by in bent(),
    ) {
        let mut l = ParamLayout::new();
        let linear = Linear::new(&mut l, "linear", input, output, true);
        let rms = RmsNorm::new(&mut l, "rms", input);
        let layer = LayerNorm::new(&mut l, "layer", input);
        let block = Residual::projected(&mut l, "block", input, hidden, output);
        let gated = SwiGlu::new(&mut l, "gated", input, hidden);
        let mixer = Mixer::new(&mut l, "mixer", (input, cols), hidden, hidden);
        let zeros = |n: usize| vec![0.5f64; n];
        let whole = |x: usize, y: usize, saved: usize| bend([l.len(), x, y, saved], by);

        let [p, x, y, _] = whole(rows * input, rows * output, 0).map(zeros);
        let mut out = y.clone();
        if linear.check(&p, &x, &y).is_ok() {
            linear.forward(&p, &x, &mut out);
            linear.forward_add(&p, &x, &mut out);
            let (mut d_x, mut d_p) = (x.clone(), p.clone());
            linear.vjp(&p, &x, &y, Some(&mut d_x), &mut d_p);
        }
        let [p, x, y, mut saved] = whole(rows * input, rows * output, block.saved_len(rows)).map(zeros);
        if block.check(&p, &x, &y, &saved).is_ok() {
            let mut out = y.clone();
            block.forward(&p, &x, &mut out, &mut saved);
        }
        let [p, x, y, _] = whole(rows * input, rows * input, 0).map(zeros);
        if rms.check(&p, &x, &y).is_ok() && layer.check(&p, &x, &y).is_ok() {
            let mut out = y.clone();
            rms.forward(&p, &x, &mut out);
            layer.forward(&p, &x, &mut out);
        }
        let lines = rows * cols;
        let [p, x, y, mut saved] = whole(lines * input, lines * input, gated.saved_len(lines)).map(zeros);
        if gated.check(&p, &x, cols, &y, &saved).is_ok() {
            let mut out = y.clone();
            gated.forward(&p, &x, cols, &mut out, &mut saved);
        }
        let [p, x, y, mut saved] = whole(lines * input, lines * input, mixer.saved_len(rows)).map(zeros);
        if mixer.check(&p, &x, &y, &saved).is_ok() {
            let mut out = y.clone();
            mixer.forward(&p, &x, &mut out, &mut saved);
        }
        if by == [0; 4] && input > 0 && output > 0 && (hidden > 0 || rows == 0) {
            prop_assert!(mixer.check(&p, &x, &y, &saved).is_ok(), "sizes that fit are let through");
        }
    }
}

/// Mostly small, sometimes larger than the address space.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![6 => 0usize..4, 1 => Just(usize::MAX), 1 => Just(usize::MAX / 2 + 1), 1 => Just(1 << 33)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn layers_of_any_size_are_declared_and_the_absurd_ones_refused(
        (input, output, hidden, rows) in (size(), size(), size(), size()),
    ) {
        let mut l = ParamLayout::new();
        let linear = Linear::new(&mut l, "linear", input, output, true);
        let norm = LayerNorm::new(&mut l, "norm", input);
        let block = Residual::projected(&mut l, "block", input, hidden, output);
        let gated = SwiGlu::new(&mut l, "gated", input, hidden);
        let mixer = Mixer::new(&mut l, "mixer", (input, output), hidden, hidden);
        let concat = ConcatDense::new(&mut l, "scale", "dense", input, hidden, output);
        let table = Embedding::new(&mut l, "table", input, output);
        let conv = Conv2d::new(&mut l, "conv", hidden, input, output);
        prop_assert_eq!(conv.is_err(), hidden % 2 == 0);
        let lens = [
            block.saved_len(rows),
            block.scratch_len(rows),
            gated.saved_len(rows),
            gated.scratch_len(rows),
            mixer.saved_len(rows),
            mixer.scratch_len(rows),
            conv.map_or(usize::MAX, |conv| conv.columns_len((rows, hidden))),
        ];
        // A length that wrapped around would fall below one of its factors.
        let sizes = [input, output, hidden, rows];
        if sizes.iter().all(|&size| size > 0) {
            prop_assert!(lens.iter().all(|&len| len >= rows.max(hidden)), "{lens:?}");
        }
        // Empty input is valid for every size that memory can hold, and for no other.
        let empty: [f64; 0] = [];
        let params = if l.check().is_ok() && l.len() < 1000 { vec![0.5; l.len()] } else { Vec::new() };
        if linear.check(&params, &empty, &empty).is_ok() {
            linear.forward(&params, &empty, &mut []);
        }
        if block.check(&params, &empty, &empty, &empty).is_ok() && norm.check(&params, &empty, &empty).is_ok() {
            block.forward(&params, &empty, &mut [], &mut []);
            norm.forward(&params, &empty, &mut []);
        }
        if gated.check(&params, &empty, 1, &empty, &empty).is_ok() {
            gated.forward(&params, &empty, 1, &mut [], &mut []);
        }
        if mixer.check(&params, &empty, &empty, &empty).is_ok() {
            mixer.forward(&params, &empty, &mut [], &mut []);
        }
        if concat.check(&params, &empty, &[], &empty, &empty).is_ok() {
            let rest = [&mut [][..], &mut [], &mut []];
            let [scaled, inv, out] = rest;
            concat.forward(&params, &empty, &empty, &[], &empty, scaled, inv, out);
        }
        if table.check(&params, &[], &empty).is_ok() {
            table.forward(&params, &[], &mut []);
        }
        let absurd = [input, output].into_iter().any(|n| n > 4) && input > 0 && output > 0;
        prop_assert!(!absurd || linear.check(&params, &empty, &empty).is_err());
    }
}

#[test]
fn errors_name_what_does_not_fit() {
    let mut l = ParamLayout::new();
    let linear = Linear::new(&mut l, "linear", 2, 3, true);
    let table = Embedding::new(&mut l, "table", 4, 2);
    let concat = ConcatDense::new(&mut l, "norm", "dense", 3, 2, 4);
    let (p, x, y) = (vec![0.0; l.len()], [0.0; 4], [0.0; 6]);
    assert_eq!(linear.check(&p, &x, &y).unwrap(), 2);
    let of = |error: sheaf_admm::Error| (error.kind(), error.place().to_string());
    assert_eq!(of(linear.check(&p[..8], &x, &y).unwrap_err()).1, "layer: parameters");
    assert_eq!(of(linear.check(&p, &x[..3], &y).unwrap_err()).1, "layer: x, whole rows");
    assert_eq!(of(linear.check(&p, &x, &y[..5]).unwrap_err()).1, "layer: y, as many rows as x");
    assert_eq!(table.check(&p, &[0, 3], &x).unwrap(), 2);
    let missing = of(table.check(&p, &[0, 4], &x).unwrap_err());
    assert_eq!(missing, (ErrorKind::OutOfRange, "embedding: id 1".to_string()));
    assert_eq!(of(table.check(&p, &[0], &x).unwrap_err()).0, ErrorKind::Shape);
    let (views, out) = ([0.0; 8], [0.0; 8]);
    assert_eq!(concat.check(&p, &views, &[1, 0], &x, &out).unwrap(), 2);
    let missing = of(concat.check(&p, &views, &[1, 2], &x, &out).unwrap_err());
    assert_eq!(missing, (ErrorKind::OutOfRange, "layer: view of row 1".to_string()));
    assert_eq!(of(concat.check(&p, &views, &[1], &x, &out).unwrap_err()).0, ErrorKind::Shape);
}
