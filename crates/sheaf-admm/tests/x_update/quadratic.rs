//! The quadratic with terms: every way of its prox against an interior-point method, its VJP, its active set.

use clarabel::algebra::CscMatrix;
use clarabel::solver::{
    DefaultSettings, DefaultSolver, IPSolver, NonnegativeConeT, SolverStatus, SupportedConeT, ZeroConeT,
};
use sheaf_admm::x_update::{Proximal, Quadratic};
use sheaf_admm::{ErrorKind, Matrix};
use sheaf_testkit::{TestRng, allocations};

use crate::own::{check_vjp, prox};

/// A row of a constraint and its right-hand side.
type Row = (Vec<f64>, f64);

/// What a random quadratic has.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    d: usize,
    diagonal: bool,
    sparse: bool,
    equal: usize,
    at_most: usize,
    bounds: bool,
    l1: bool,
    tether: bool,
}

/// The parameters of a random quadratic, in the order of its gradient.
struct Draw {
    shape: Shape,
    params: Vec<f64>,
    v: Vec<f64>,
}

fn quad(shape: Shape, rng: &mut TestRng) -> Matrix {
    let d = shape.d;
    if shape.diagonal {
        return Matrix::diagonal(rng.ranges(d, 0.1, 2.0));
    }
    if shape.sparse {
        let path =
            (0..d).map(|i| (i, i, 2.5)).chain((1..d).flat_map(|i| [(i, i - 1, -1.0), (i - 1, i, -1.0)]));
        return Matrix::sparse(d, d, path.collect::<Vec<_>>());
    }
    let m = rng.normals(d * d);
    let entry = |i: usize, j: usize| (0..d).map(|k| m[i * d + k] * m[j * d + k]).sum::<f64>() / d as f64;
    Matrix::dense(d, d, (0..d * d).map(|e| entry(e / d, e % d)).collect::<Vec<_>>())
}

impl Draw {
    fn new(shape: Shape, seed: u64) -> Self {
        let (mut rng, d) = (TestRng::new(seed), shape.d);
        let mut params = quad(shape, &mut rng).values();
        params.extend(rng.normals(d));
        if shape.l1 {
            params.extend(rng.ranges(d, 0.05, 0.5));
        }
        params.push(0.2);
        params.push(if shape.tether { 0.7 } else { 0.0 });
        if shape.tether {
            params.extend(rng.normals(d));
        }
        if shape.bounds {
            params.extend(rng.ranges(d, -0.6, -0.2));
            params.extend(rng.ranges(d, 0.2, 0.6));
        }
        params.extend(rng.normals(shape.equal * d));
        params.extend(rng.ranges(shape.equal, -0.1, 0.1));
        params.extend(rng.normals(shape.at_most * d));
        params.extend(rng.ranges(shape.at_most, 0.1, 0.4));
        Self { shape, params, v: rng.normals(d) }
    }

    fn build(&self, params: &[f64]) -> Quadratic {
        let (s, d, mut rest) = (self.shape, self.shape.d, params);
        let mut take = |n: usize| {
            let (front, back) = rest.split_at(n);
            rest = back;
            front.to_vec()
        };
        let quad = quad(s, &mut TestRng::new(0));
        let quad = quad.with_values(&take(quad.stored())).unwrap();
        let mut f = Quadratic::new(quad, take(d));
        if s.l1 {
            f = f.l1(take(d));
        }
        f = f.l2(take(1)[0]);
        let beta = take(1)[0];
        if s.tether {
            f = f.tether(beta, take(d));
        }
        if s.bounds {
            let lo = take(d);
            f = f.bounds(lo, take(d));
        }
        let a = Matrix::dense(s.equal, d, take(s.equal * d));
        f = f.equal(a, take(s.equal));
        let g = Matrix::dense(s.at_most, d, take(s.at_most * d));
        f.at_most(g, take(s.at_most))
    }

    /// x by an interior-point method, with t ≥ |x| for the l1 term.
    fn oracle(&self, rho: f64, v: &[f64]) -> Vec<f64> {
        let (s, d) = (self.shape, self.shape.d);
        let mut rest = &self.params[..];
        let mut take = |n: usize| {
            let (front, back) = rest.split_at(n);
            rest = back;
            front
        };
        let stored = quad(s, &mut TestRng::new(0)).stored();
        let mut h = quad(s, &mut TestRng::new(0)).with_values(take(stored)).unwrap().to_dense();
        let mut c = take(d).to_vec();
        let l1 = if s.l1 { take(d).to_vec() } else { vec![] };
        let (l2, beta) = (take(1)[0], take(1)[0]);
        let anchor = if s.tether { take(d).to_vec() } else { vec![0.0; d] };
        for j in 0..d {
            h[j * d + j] += l2 + beta + rho;
            c[j] -= beta * anchor[j] + rho * v[j];
        }
        let n = d + l1.len();
        let (mut equal, mut less): (Vec<Row>, Vec<Row>) = (vec![], vec![]);
        let unit = |j: usize, a: f64| (0..n).map(|i| if i == j { a } else { 0.0 }).collect::<Vec<f64>>();
        if s.bounds {
            let (lo, hi) = (take(d).to_vec(), take(d).to_vec());
            for j in 0..d {
                less.push((unit(j, 1.0), hi[j]));
                less.push((unit(j, -1.0), -lo[j]));
            }
        }
        for (count, into) in [(s.equal, &mut equal), (s.at_most, &mut less)] {
            let (rows, right) = (take(count * d).to_vec(), take(count).to_vec());
            for i in 0..count {
                let mut row = rows[i * d..(i + 1) * d].to_vec();
                row.resize(n, 0.0);
                into.push((row, right[i]));
            }
        }
        for j in 0..l1.len() {
            for sign in [1.0, -1.0] {
                let mut row = unit(j, sign);
                row[d + j] = -1.0;
                less.push((row, 0.0));
            }
        }
        let p: Vec<Vec<f64>> = (0..n)
            .map(|i| (0..n).map(|j| if i.max(j) < d && i <= j { h[i * d + j] } else { 0.0 }).collect())
            .collect();
        c.extend(&l1);
        let cones: Vec<SupportedConeT<f64>> = vec![ZeroConeT(equal.len()), NonnegativeConeT(less.len())];
        let (rows, right): (Vec<Vec<f64>>, Vec<f64>) = equal.into_iter().chain(less).unzip();
        let rows = if rows.is_empty() { CscMatrix::zeros((0, n)) } else { CscMatrix::from(&rows) };
        let settings = DefaultSettings {
            verbose: false,
            tol_gap_abs: 1e-11,
            tol_gap_rel: 1e-11,
            tol_feas: 1e-11,
            ..DefaultSettings::default()
        };
        let mut solver =
            DefaultSolver::new(&CscMatrix::from(&p), &c, &rows, &right, &cones, settings).unwrap();
        solver.solve();
        assert!(matches!(solver.solution.status, SolverStatus::Solved | SolverStatus::AlmostSolved));
        solver.solution.x[..d].to_vec()
    }
}

fn shapes() -> Vec<Shape> {
    let mut all = Vec::new();
    for (d, diagonal, sparse) in [(5, true, false), (5, false, false), (5, false, true), (40, false, true)] {
        for (equal, at_most) in [(0, 0), (2, 0), (0, 4), (2, 3)] {
            for bits in 0..8 {
                let (bounds, l1, tether) = (bits & 1 > 0, bits & 2 > 0, bits & 4 > 0);
                all.push(Shape { d, diagonal, sparse, equal, at_most, bounds, l1, tether });
            }
        }
    }
    all
}

#[test]
fn every_combination_of_terms_agrees_with_an_interior_point_method() {
    for (seed, shape) in shapes().into_iter().enumerate() {
        let draw = Draw::new(shape, seed as u64);
        let (x, oracle) = (prox(&draw.build(&draw.params), 0.8, &draw.v), draw.oracle(0.8, &draw.v));
        for (x, o) in x.iter().zip(&oracle) {
            assert!((x - o).abs() < 2e-7, "{shape:?}: {x} against {o}");
        }
    }
}

#[test]
fn the_gradient_of_every_combination_is_the_derivative() {
    // Seeds whose active sets do not change within the steps of the differences.
    for (seed, shape) in shapes().into_iter().enumerate().filter(|(_, s)| s.d < 10) {
        let mut draw = Draw::new(shape, 5000 + seed as u64);
        // Finite differences change entries of Q alone; the prox reads the triangle it factorises. Only symmetric
        // changes have a meaning, so Q is held fixed here and checked below.
        let (stored, params) = (quad(shape, &mut TestRng::new(0)).stored(), std::mem::take(&mut draw.params));
        let (fixed, moving) = params.split_at(stored);
        let make = |p: &[f64]| -> Box<dyn Proximal<f64>> {
            let all: Vec<f64> = fixed.iter().chain(p).copied().collect();
            Box::new(Fixed { inner: draw.build(&all), stored })
        };
        check_vjp(&format!("{shape:?}"), &make, moving, 0.8, &draw.v);
    }
}

/// A quadratic whose Q is not a parameter.
#[derive(Debug)]
struct Fixed {
    inner: Quadratic,
    stored: usize,
}

impl Proximal<f64> for Fixed {
    fn dim(&self) -> usize {
        self.inner.dim()
    }

    fn scratch_len(&self) -> usize {
        self.inner.scratch_len()
    }

    fn prepare(&self, rho: f64, scratch: &mut [f64]) -> sheaf_admm::Result<()> {
        self.inner.prepare(rho, scratch)
    }

    fn prox(&self, rho: f64, v: &[f64], x: &mut [f64], scratch: &mut [f64]) -> sheaf_admm::Result<()> {
        self.inner.prox(rho, v, x, scratch)
    }

    fn param_len(&self) -> usize {
        self.inner.param_len() - self.stored
    }

    fn vjp(
        &self,
        rho: f64,
        v: &[f64],
        x: &[f64],
        d_x: &[f64],
        grad: &mut sheaf_admm::x_update::ProxGrad<'_, f64>,
        scratch: &mut [f64],
    ) -> sheaf_admm::Result<()> {
        let mut all = vec![0.0; self.inner.param_len()];
        all[self.stored..].copy_from_slice(grad.params);
        let mut own = sheaf_admm::x_update::ProxGrad { v: grad.v, rho: grad.rho, params: &mut all };
        self.inner.vjp(rho, v, x, d_x, &mut own, scratch)?;
        grad.params.copy_from_slice(&all[self.stored..]);
        Ok(())
    }
}

#[test]
fn the_gradient_of_a_dense_q_is_the_derivative_along_symmetric_changes() {
    let shape = Shape { d: 4, equal: 1, at_most: 2, bounds: true, ..Shape::default() };
    let draw = Draw::new(shape, 9);
    let (f, c) = (draw.build(&draw.params), TestRng::new(1).normals(4));
    let x = prox(&f, 0.8, &draw.v);
    let mut scratch = vec![0.0; f.scratch_len()];
    f.prepare(0.8, &mut scratch).unwrap();
    let (mut d_v, mut d_rho, mut d) = (vec![0.0; 4], 0.0, vec![0.0; f.param_len()]);
    let mut grad = sheaf_admm::x_update::ProxGrad { v: &mut d_v, rho: &mut d_rho, params: &mut d };
    f.vjp(0.8, &draw.v, &x, &c, &mut grad, &mut scratch).unwrap();
    let value = |t: f64, i: usize, j: usize| {
        let mut params = draw.params.clone();
        params[i * 4 + j] += t;
        params[j * 4 + i] += t;
        prox(&draw.build(&params), 0.8, &draw.v).iter().zip(&c).map(|(x, c)| x * c).sum::<f64>()
    };
    for (i, j) in [(0, 1), (2, 3), (1, 3)] {
        let slope = (value(1e-5, i, j) - value(-1e-5, i, j)) / 2e-5;
        let claimed = d[i * 4 + j] + d[j * 4 + i];
        assert!((slope - claimed).abs() < 1e-8, "[{i}, {j}]: {slope} against {claimed}");
    }
}

#[test]
fn a_prox_starts_from_the_last_active_set_and_allocates_nothing() {
    let shape = Shape { d: 5, equal: 1, at_most: 4, bounds: true, l1: true, ..Shape::default() };
    let draw = Draw::new(shape, 2);
    let f = draw.build(&draw.params);
    let (mut x, mut scratch) = (vec![0.0; 5], vec![0.0; f.scratch_len()]);
    f.prepare(0.8, &mut scratch).unwrap();
    let mut rng = TestRng::new(8);
    let mut v = draw.v.clone();
    f.prox(0.8, &v, &mut x, &mut scratch).unwrap();
    for round in 0..50 {
        v.iter_mut().for_each(|v| *v += 0.3 * rng.normal());
        let rho = if round < 25 { 0.8 } else { 2.5 };
        let count = allocations(|| {
            f.prepare(rho, &mut scratch).unwrap();
            f.prox(rho, &v, &mut x, &mut scratch).unwrap();
        });
        assert_eq!(count, 0);
        let fresh = prox(&f, rho, &v);
        x.iter()
            .zip(&fresh)
            .for_each(|(warm, cold)| assert!((warm - cold).abs() < 1e-12, "{warm} against {cold}"));
    }
}

#[test]
fn scratch_that_another_quadratic_has_used_is_not_mistaken_for_ones_own() {
    let shape = Shape { d: 5, equal: 1, bounds: true, ..Shape::default() };
    let (one, other) = (Draw::new(shape, 2), Draw::new(shape, 3));
    let (f, g) = (one.build(&one.params), other.build(&other.params));
    let (mut x, mut scratch) = (vec![0.0; 5], vec![0.0; f.scratch_len()]);
    for (map, draw) in [(&f, &one), (&g, &other), (&f, &one)] {
        map.prepare(0.8, &mut scratch).unwrap();
        map.prox(0.8, &draw.v, &mut x, &mut scratch).unwrap();
        let fresh = prox(map, 0.8, &draw.v);
        x.iter().zip(&fresh).for_each(|(x, f)| assert!((x - f).abs() < 1e-13));
    }
}

#[test]
fn dependent_and_duplicate_rows_are_no_obstacle_but_a_contradiction_is_an_error() {
    let twice = [[1.0, 1.0, 0.0], [2.0, 2.0, 0.0], [1.0, 1.0, 0.0]];
    let f = Quadratic::new(Matrix::identity(3), [0.0; 3]).equal(twice, [1.0, 2.0, 1.0]);
    let x = prox(&f, 1.0, &[0.0; 3]);
    assert!((x[0] - 0.5).abs() < 1e-12 && (x[1] - 0.5).abs() < 1e-12);
    let torn = Quadratic::new(Matrix::identity(3), [0.0; 3]).equal(twice, [1.0, 2.0, 3.0]);
    let impossible =
        Quadratic::zero(2).at_most([[1.0, 1.0], [-1.0, -1.0]], [1.0, -2.0]).bounds([0.0; 2], [5.0; 2]);
    for (f, d) in [(torn, 3), (impossible, 2)] {
        let (mut x, mut scratch) = (vec![0.0; d], vec![0.0; f.scratch_len()]);
        f.prepare(1.0, &mut scratch).unwrap();
        let error = f.prox(1.0, &vec![0.3; d], &mut x, &mut scratch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Infeasible, "{error}");
    }
}

#[test]
fn mistakes_in_a_quadratic_are_errors() {
    let plain = || Quadratic::new(Matrix::identity(2), [0.0; 2]);
    let refused = [
        (Quadratic::new(Matrix::identity(3), [0.0; 2]), ErrorKind::Shape),
        (Quadratic::new([[1.0, 2.0], [0.0, 1.0]], [0.0; 2]), ErrorKind::NotPositiveDefinite),
        (Quadratic::new([[1.0, 2.0], [2.0, 1.0]], [0.0; 2]), ErrorKind::NotPositiveDefinite),
        (Quadratic::new(Matrix::diagonal([1.0, -1.0]), [0.0; 2]), ErrorKind::NotPositiveDefinite),
        (Quadratic::new(Matrix::identity(2), [f64::NAN, 0.0]), ErrorKind::NotFinite),
        (plain().l1([-1.0, 0.0]), ErrorKind::NotPositive),
        (plain().l1([1.0]), ErrorKind::Shape),
        (plain().l2(f64::NAN), ErrorKind::NotFinite),
        (plain().tether(1.0, [0.0]), ErrorKind::Shape),
        (plain().bounds([1.0, 0.0], [0.0, 0.0]), ErrorKind::Infeasible),
        (plain().bounds([f64::NAN, 0.0], [0.0, 0.0]), ErrorKind::NotFinite),
        (plain().bounds([], [0.0, 0.0]), ErrorKind::Shape),
        (plain().equal([[1.0, 0.0, 0.0]], [1.0]), ErrorKind::Shape),
        (plain().equal([[1.0, 0.0]], [1.0, 2.0]), ErrorKind::Shape),
        (plain().at_most([[f64::INFINITY, 0.0]], [1.0]), ErrorKind::NotFinite),
        (Quadratic::new(Matrix::sparse(2, 2, [(0, 5, 1.0)]), [0.0; 2]), ErrorKind::OutOfRange),
    ];
    for (f, kind) in refused {
        let error = f.validate().unwrap_err();
        assert_eq!(error.kind(), kind, "{error}");
    }
}
