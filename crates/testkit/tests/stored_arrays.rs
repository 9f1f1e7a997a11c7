//! Golden files are read exactly, and the comparisons match their documentation.

use std::collections::HashMap;
use std::path::PathBuf;

use safetensors::tensor::{Dtype, TensorView};
use sheaf_testkit::golden::iterate_tolerance;
use sheaf_testkit::{Array, Golden, assert_close_max, assert_grad, assert_iterates};

/// Writes a small file; each test uses its own name, since tests run in parallel.
fn sample_file(test: &str) -> PathBuf {
    let floats: Vec<u8> = (0..12).flat_map(|i| (i as f32 * 0.5).to_le_bytes()).collect();
    let doubles: Vec<u8> = [0.1f64].iter().flat_map(|x| x.to_le_bytes()).collect();
    let whole: Vec<u8> = [-1i32, 7].iter().flat_map(|x| x.to_le_bytes()).collect();
    let tensors = HashMap::from([
        ("grad/x", TensorView::new(Dtype::F32, vec![2, 3, 2], &floats).unwrap()),
        ("scalar", TensorView::new(Dtype::F64, vec![], &doubles).unwrap()),
        ("edges", TensorView::new(Dtype::I32, vec![2], &whole).unwrap()),
    ]);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(format!("{test}.safetensors"));
    safetensors::serialize_to_file(tensors, None, &path).unwrap();
    path
}

#[test]
fn arrays_come_back_with_shape_and_exact_numbers() {
    let golden = Golden::read(&sample_file("exact"));
    assert_eq!(golden.names(), ["edges", "grad/x", "scalar"]);
    let x = golden.f32("grad/x");
    assert_eq!((x.shape.as_slice(), x.data[11]), ([2, 3, 2].as_slice(), 5.5));
    assert_eq!(golden.f64("scalar").scalar(), 0.1);
    assert_eq!(golden.i32("edges").data, [-1, 7]);
    assert!(golden.has("edges") && !golden.has("edge"));
    assert!((golden.largest_grad_norm() - 0.5 * 506f64.sqrt()).abs() < 1e-12);
}

#[test]
fn selecting_an_index_removes_its_axis() {
    let array = Array { shape: vec![2, 3, 2], data: (0..12).collect::<Vec<i32>>() };
    assert_eq!(array.select(1, 2), Array { shape: vec![2, 2], data: vec![4, 5, 10, 11] });
    assert_eq!(array.select(0, 1).data, [6, 7, 8, 9, 10, 11]);
    assert_eq!(array.select(2, 0).data, [0, 2, 4, 6, 8, 10]);
}

#[test]
#[should_panic(expected = "has no array `y`; it has [\"edges\", \"grad/x\", \"scalar\"]")]
fn a_missing_array_fails_and_lists_what_is_there() {
    Golden::read(&sample_file("missing_array")).f64("y");
}

#[test]
#[should_panic(expected = "asked for as another type")]
fn integers_are_not_floats() {
    Golden::read(&sample_file("types")).f64("edges");
}

#[test]
#[should_panic(expected = "hint: SHEAF_GOLDENS")]
fn a_missing_case_fails_with_a_hint() {
    Golden::open("no_such_case", "nothing");
}

#[test]
fn closeness_is_measured_against_the_largest_magnitude() {
    assert_close_max("small entry", &[10.0f32, 1.0009], &[10.0f32, 1.0], 1e-4);
}

#[test]
#[should_panic(expected = "x[1]: got")]
fn an_error_beyond_the_tolerance_names_the_worst_entry() {
    assert_close_max("x", &[10.0, 1.002], &[10.0, 1.0], 1e-4);
}

#[test]
#[should_panic(expected = "got NaN")]
fn a_nan_is_never_close() {
    assert_close_max("x", &[f64::NAN], &[1.0], 1.0);
}

#[test]
fn the_tolerance_of_iterates_grows_tenfold_from_first_to_last() {
    assert_eq!(iterate_tolerance(0, 6), 2e-5);
    assert!((iterate_tolerance(5, 6) - 2e-4).abs() < 1e-18);
    assert!((iterate_tolerance(2, 5) - 2e-5 * 10f64.sqrt()).abs() < 1e-18);
    assert_eq!(iterate_tolerance(0, 1), 2e-5);
}

#[test]
fn a_late_iterate_may_be_off_by_what_an_early_one_may_not() {
    assert_iterates("z", &[1.0, 1.0 + 1e-4], &[1.0, 1.0], 2);
    let early = std::panic::catch_unwind(|| assert_iterates("z", &[1.0 + 1e-4, 1.0], &[1.0, 1.0], 2));
    assert!(early.is_err());
}

#[test]
fn gradients_are_compared_by_norm_and_tiny_ones_more_loosely() {
    assert_grad("w", &[1.0009], &[1.0], 1.0);
    assert_grad("tiny", &[1.009e-5], &[1e-5], 1.0);
    assert!(std::panic::catch_unwind(|| assert_grad("w", &[1.002], &[1.0], 1.0)).is_err());
    assert!(std::panic::catch_unwind(|| assert_grad("w", &[1.02e-5], &[1e-5], 1.0)).is_err());
    assert!(std::panic::catch_unwind(|| assert_grad("w", &[f64::NAN], &[1.0], 1.0)).is_err());
}
