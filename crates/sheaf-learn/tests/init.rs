//! Initial values of restriction maps.

use sheaf_learn::init::{glorot, identity, orthonormal, soft_slice};
use sheaf_learn::rng::Stream;

fn stream(seed: u64) -> Stream {
    Stream::new(seed, "map starts", 0, 0)
}

#[test]
fn orthonormal_maps_have_orthonormal_rows_or_where_there_are_more_rows_columns() {
    for (rows, cols) in [(1, 1), (5, 10), (24, 32), (10, 5), (32, 288), (7, 7)] {
        let mut map = vec![f64::NAN; rows * cols];
        orthonormal(&mut map, cols, &mut stream(3));
        let vector = |i: usize| -> Vec<f64> {
            if rows <= cols {
                map[i * cols..][..cols].to_vec()
            } else {
                (0..rows).map(|r| map[r * cols + i]).collect()
            }
        };
        for i in 0..rows.min(cols) {
            for j in 0..=i {
                let along: f64 = vector(i).iter().zip(vector(j)).map(|(a, b)| a * b).sum();
                let expected = if i == j { 1.0 } else { 0.0 };
                assert!((along - expected).abs() < 1e-13, "{rows}x{cols}: vectors {i} and {j}: {along}");
            }
        }
        let mut other = vec![f64::NAN; rows * cols];
        orthonormal(&mut other, cols, &mut stream(4));
        assert!(rows * cols == 1 || map != other, "another stream gives another map");
    }
}

#[test]
fn the_identity_has_ones_on_its_diagonal_alone() {
    let mut map = [f32::NAN; 6];
    identity(&mut map, 3);
    assert_eq!(map, [1.0, 0.0, 0.0, 0.0, 1.0, 0.0]);
    identity(&mut map, 2);
    assert_eq!(map, [1.0, 0.0, 0.0, 1.0, 0.0, 0.0]);
}

#[test]
fn glorot_maps_are_uniform_within_their_bound() {
    let (rows, cols) = (60, 90);
    let mut map = vec![f64::NAN; rows * cols];
    glorot(&mut map, cols, &mut stream(5));
    let (limit, n) = ((6.0 / (rows + cols) as f64).sqrt(), map.len() as f64);
    let largest = map.iter().fold(0.0f64, |m, f| m.max(f.abs()));
    let variance = map.iter().map(|f| f * f).sum::<f64>() / n;
    assert!(largest <= limit && largest > 0.99 * limit, "{largest} against {limit}");
    // The squares of a uniform number have standard deviation limit²·√(4/45).
    let error = (variance - limit * limit / 3.0).abs();
    assert!(error < 4.0 * limit * limit * (4.0 / 45.0 / n).sqrt(), "{variance}");
}

#[test]
fn a_soft_slice_is_the_identity_on_its_block_and_noise_elsewhere() {
    let (rows, cols, noise) = (4, 12, 0.01);
    for block in 0..3 {
        let mut map = vec![f64::NAN; rows * cols];
        soft_slice(&mut map, cols, block, noise, &mut stream(6));
        for (k, f) in map.iter().enumerate() {
            let on = k % cols == block * rows + k / cols;
            assert!((f - f64::from(u8::from(on))).abs() < 6.0 * noise, "entry {k}: {f}");
        }
        assert!(map.iter().any(|f| f.abs() > 1e-4 && f.abs() < 0.5), "there is noise");
    }
}

#[test]
fn sizes_without_sense_leave_a_map_and_no_panic() {
    for (len, cols, block) in
        [(0, 0, 0), (5, 0, 3), (5, 3, 1), (4, 9, 0), (3, usize::MAX, 7), (6, 2, usize::MAX)]
    {
        let mut map = vec![0.5f32; len];
        orthonormal(&mut map, cols, &mut stream(7));
        identity(&mut map, cols);
        glorot(&mut map, cols, &mut stream(8));
        soft_slice(&mut map, cols, block, 0.1, &mut stream(9));
        assert!(map.iter().all(|f| f.is_finite()), "{len} numbers, {cols} columns");
    }
}
