//! Every vector kernel, at every level and at lengths around its groups, against one plain loop.

use super::*;
use crate::simd::Level;
use sheaf_testkit::TestRng;

const LEVELS: [Level; 3] = [Level::Portable, Level::Avx2, Level::Avx512];
const LENGTHS: [usize; 13] = [0, 1, 7, 8, 15, 16, 17, 63, 64, 65, 100, 128, 203];

/// Six random vectors of one length.
fn drawn(n: usize) -> [Vec<f64>; 6] {
    let stream = &mut TestRng::new(n as u64);
    [(); 6].map(|()| (0..n).map(|_| stream.normal()).collect())
}

fn plain_dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// `f(i)` for every place.
fn each(n: usize, f: impl Fn(usize) -> f64) -> Vec<f64> {
    (0..n).map(f).collect()
}

#[track_caller]
fn assert_near(level: Level, got: &[f64], want: &[f64]) {
    assert_eq!(got.len(), want.len());
    for (k, (g, w)) in got.iter().zip(want).enumerate() {
        assert!((g - w).abs() <= 1e-12 * (1.0 + w.abs()), "{level:?}, {} numbers, [{k}]: {g} {w}", got.len());
    }
}

#[test]
fn sums_scalings_and_products_are_those_of_a_plain_loop() {
    for n in LENGTHS {
        let [a, b, c, ..] = drawn(n);
        for level in LEVELS {
            let run = |f: &dyn Fn(&mut [f64])| {
                let mut out = a.clone();
                f(&mut out);
                out
            };
            let mut along = f64::NAN;
            dot_at(level, &a, &b, &mut along);
            assert_near(level, &[along], &[plain_dot(&a, &b)]);
            assert_near(level, &run(&|y| axpy_at(level, y, 0.7, &b)), &each(n, |i| a[i] + 0.7 * b[i]));
            assert_near(level, &run(&|p| xpby_at(level, p, &b, 0.7)), &each(n, |i| b[i] + 0.7 * a[i]));
            assert_near(
                level,
                &run(&|out| xpby_into_at(level, out, &b, 0.7, &c)),
                &each(n, |i| b[i] + 0.7 * c[i]),
            );
            assert_near(level, &run(&|y| add_at(level, y, &b)), &each(n, |i| a[i] + b[i]));
            assert_near(level, &run(&|out| scale_into_at(level, out, -1.3, &b)), &each(n, |i| -1.3 * b[i]));
            assert_near(level, &run(&|out| sub_at(level, out, &b, &c)), &each(n, |i| b[i] - c[i]));
            assert_near(
                level,
                &run(&|q| shift_at(level, q, 1.3, 0.4, &b)),
                &each(n, |i| 1.3 * a[i] + 0.4 * b[i]),
            );
            assert_near(level, &run(&|y| multiply_at(level, y, &b)), &each(n, |i| a[i] * b[i]));
            let (mut y, want) = (a.clone(), each(n, |i| a[i] + b[i]));
            add_dot_at(level, &mut y, &b, &c, &mut along);
            assert_near(level, &y, &want);
            assert_near(level, &[along], &[plain_dot(&want, &c)]);
        }
    }
}

#[test]
fn steps_of_conjugate_gradients_are_those_of_a_plain_loop() {
    for n in LENGTHS {
        let [x, r, p, q, d_x, next] = drawn(n);
        for level in LEVELS {
            let (mut moved, mut rest, mut rr) = (x.clone(), r.clone(), f64::NAN);
            cg_at(level, &mut moved, &mut rest, &p, &q, 0.6, &mut rr);
            let want = each(n, |i| r[i] - 0.6 * q[i]);
            assert_near(level, &moved, &each(n, |i| x[i] + 0.6 * p[i]));
            assert_near(level, &rest, &want);
            assert_near(level, &[rr], &[plain_dot(&want, &want)]);

            let (mut d_r, mut d_p, mut d_a) = (r.clone(), x.clone(), f64::NAN);
            cg_back_at(level, &mut d_r, &mut d_p, &d_x, &next, &p, &q, 0.3, 1.7, &mut d_a);
            let want = each(n, |i| r[i] + x[i] + 1.7 * (next[i] - 0.3 * p[i]));
            assert_near(level, &d_r, &want);
            assert_near(level, &d_p, &each(n, |i| 0.3 * x[i]));
            assert_near(level, &[d_a], &[plain_dot(&d_x, &p) - plain_dot(&want, &q)]);

            let (mut d_p, mut d_q, mut dots) = (x.clone(), vec![f64::NAN; n], [f64::NAN; 2]);
            cg_back_update_at(level, &mut d_p, &mut d_q, &d_x, &r, &p, &q, 0.6, -0.2, &mut dots);
            let want = each(n, |i| -0.2 * p[i] - 0.6 * r[i]);
            assert_near(level, &d_p, &each(n, |i| x[i] + 0.6 * d_x[i] - 0.2 * q[i]));
            assert_near(level, &d_q, &want);
            assert_near(level, &dots, &[plain_dot(&want, &p), plain_dot(&want, &q)]);
        }
    }
}

#[test]
fn the_reverse_of_the_dual_update_is_that_of_a_plain_loop() {
    for n in LENGTHS {
        let [x, z, u, d_u, d_z, _] = drawn(n);
        for level in LEVELS {
            let (mut w, mut d_w, mut moved) = (vec![f64::NAN; n], vec![f64::NAN; n], d_z.clone());
            reverse_dual_at(level, &x, &z, &u, 1.6, &mut w, &d_u, &mut d_w, &mut moved);
            assert_near(level, &w, &each(n, |i| 1.6 * x[i] - 0.6 * z[i] + u[i]));
            assert_eq!(d_w, d_u);
            assert_near(level, &moved, &each(n, |i| d_z[i] - d_u[i]));
        }
    }
}
