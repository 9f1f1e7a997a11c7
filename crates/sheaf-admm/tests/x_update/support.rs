//! Shared by the family tests: random problems, solving, and the finite-difference check of a VJP.

use sheaf_admm::x_update::{Objective, ObjectiveGrad, Penalty};
use sheaf_testkit::TestRng;

/// How a family is built from flat parameter vectors, and its gradients from vectors of the same shapes.
pub trait Family {
    fn objective<'a>(&'a self, params: &'a [Vec<f64>]) -> Objective<'a, f64>;
    fn grad<'a>(&'a self, grads: &'a mut [Vec<f64>]) -> ObjectiveGrad<'a, f64>;
    /// Keeps a direction of parameter `k` inside the set of valid parameters (symmetric matrices).
    fn direction(&self, _k: usize, _direction: &mut [f64]) {}
}

/// A problem with all inputs of a prox.
pub struct Setup<F> {
    pub family: F,
    pub offsets: Vec<usize>,
    pub rho: Vec<f64>, // [1] or [agents]
    pub v: Vec<f64>,
    pub params: Vec<Vec<f64>>,
}

pub fn penalty(rho: &[f64]) -> Penalty<'_, f64> {
    if rho.len() == 1 { Penalty::Scalar(rho[0]) } else { Penalty::PerAgent(rho) }
}

/// The generator of a seed and a name: arrays of different names use independent numbers.
fn numbers(seed: u64, name: &str) -> TestRng {
    let mix = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3);
    TestRng::new(name.bytes().fold(seed, mix))
}

/// `n` standard normal numbers.
pub fn normals(seed: u64, name: &str, n: usize) -> Vec<f64> {
    numbers(seed, name).normals(n)
}

/// `n` numbers uniform in [low, high).
pub fn uniforms(seed: u64, name: &str, n: usize, low: f64, high: f64) -> Vec<f64> {
    numbers(seed, name).ranges(n, low, high)
}

pub fn offsets(dims: &[usize]) -> Vec<usize> {
    let mut offsets = vec![0];
    dims.iter().for_each(|d| offsets.push(offsets[offsets.len() - 1] + d));
    offsets
}

pub fn dot(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| a * b).sum()
}

/// Random symmetric positive definite blocks, one d_i × d_i block per agent, eigenvalues at least 0.1.
pub fn psd_blocks(seed: u64, dims: &[usize]) -> Vec<f64> {
    let mut out = Vec::new();
    for (agent, &d) in dims.iter().enumerate() {
        let m = normals(seed, &format!("psd {agent}"), d * d);
        for i in 0..d {
            for j in 0..d {
                let gram = dot(&m[i * d..][..d], &m[j * d..][..d]) / d as f64;
                out.push(gram + if i == j { 0.1 } else { 0.0 });
            }
        }
    }
    out
}

/// Replaces every d_i × d_i block by its symmetric part.
pub fn symmetrise(dims: &[usize], blocks: &mut [f64]) {
    let mut at = 0;
    for &d in dims {
        let block = &mut blocks[at..at + d * d];
        for i in 0..d {
            for j in 0..i {
                let mean = 0.5 * (block[i * d + j] + block[j * d + i]);
                (block[i * d + j], block[j * d + i]) = (mean, mean);
            }
        }
        at += d * d;
    }
}

/// Validates, prepares and solves.
pub fn solve(objective: &Objective<'_, f64>, offsets: &[usize], rho: &[f64], v: &[f64]) -> Vec<f64> {
    objective.validate(offsets).unwrap();
    let mut scratch = vec![f64::NAN; objective.scratch_len(offsets)];
    let mut x = vec![f64::NAN; v.len()];
    objective.prepare(offsets, &penalty(rho), &mut scratch).unwrap();
    objective.prox(offsets, &penalty(rho), v, &mut x, &mut scratch).unwrap();
    x
}

impl<F: Family> Setup<F> {
    pub fn x(&self) -> Vec<f64> {
        solve(&self.family.objective(&self.params), &self.offsets, &self.rho, &self.v)
    }

    /// (d_v, d_rho, d_params), each added onto 0.5 first to show that the VJP adds.
    pub fn vjp(&self, d_x: &[f64]) -> (Vec<f64>, Vec<f64>, Vec<Vec<f64>>) {
        let objective = self.family.objective(&self.params);
        let mut scratch = vec![f64::NAN; objective.scratch_len(&self.offsets)];
        let rho = penalty(&self.rho);
        let mut x = vec![f64::NAN; self.v.len()];
        objective.prepare(&self.offsets, &rho, &mut scratch).unwrap();
        objective.prox(&self.offsets, &rho, &self.v, &mut x, &mut scratch).unwrap();
        let (mut d_v, mut d_rho) = (vec![0.5; self.v.len()], vec![0.5; self.rho.len()]);
        let mut grads: Vec<Vec<f64>> = self.params.iter().map(|p| vec![0.5; p.len()]).collect();
        let mut grad = self.family.grad(&mut grads);
        objective
            .vjp(&self.offsets, &rho, &self.v, &x, d_x, &mut d_v, &mut d_rho, &mut grad, &mut scratch)
            .unwrap();
        [&mut d_v, &mut d_rho].into_iter().chain(&mut grads).flatten().for_each(|g| *g -= 0.5);
        (d_v, d_rho, grads)
    }

    /// Central differences of ⟨c, x⟩ along random directions of v, ρ and every parameter, one after another.
    pub fn check_vjp(mut self) {
        let c = normals(77, "cotangent", self.v.len());
        let (d_v, d_rho, d_params) = self.vjp(&c);
        let direction = normals(78, "v", self.v.len());
        self.check_one("v", &c, &d_v, &direction, |s, t| axpy(&mut s.v, t, &direction));
        let direction = normals(79, "rho", self.rho.len());
        self.check_one("rho", &c, &d_rho, &direction, |s, t| axpy(&mut s.rho, t, &direction));
        for k in 0..d_params.len() {
            let mut direction = normals(80 + k as u64, "param", self.params[k].len());
            self.family.direction(k, &mut direction);
            let name = format!("parameter {k}");
            self.check_one(&name, &c, &d_params[k], &direction, |s, t| {
                axpy(&mut s.params[k], t, &direction);
            });
        }
        self.check_fused(&c);
    }

    /// The error is relative to the largest of both slopes and a tenth of the gradient's norm: a direction may be
    /// almost orthogonal to the gradient. Where the gradient is zero, the difference must be rounding.
    fn check_one(
        &mut self,
        name: &str,
        c: &[f64],
        gradient: &[f64],
        direction: &[f64],
        shift: impl Fn(&mut Self, f64),
    ) {
        let adjoint = dot(gradient, direction);
        const STEP: f64 = 1e-5;
        shift(self, STEP);
        let up = dot(c, &self.x());
        shift(self, -2.0 * STEP);
        let down = dot(c, &self.x());
        shift(self, STEP);
        let slope = (up - down) / (2.0 * STEP);
        let floor = 0.1 * dot(gradient, gradient).sqrt();
        if floor == 0.0 {
            return assert!(slope.abs() <= 1e-9, "{name}: finite differences {slope}, no gradient");
        }
        let error = (slope - adjoint).abs() / slope.abs().max(adjoint.abs()).max(floor);
        assert!(error <= 1e-6, "{name}: finite differences {slope}, adjoint {adjoint}, relative {error:e}");
    }

    /// The fused step and its reverse equal their parts: v = z − u, x = prox(v), w = relax·x + (1 − relax)·z + u.
    fn check_fused(&self, c: &[f64]) {
        let n = self.v.len();
        let (relax, rho) = (1.6, penalty(&self.rho));
        let u = normals(90, "u", n);
        let z: Vec<f64> = self.v.iter().zip(&u).map(|(v, u)| v + u).collect();
        let objective = self.family.objective(&self.params);
        let mut scratch = vec![f64::NAN; objective.scratch_len(&self.offsets)];
        objective.prepare(&self.offsets, &rho, &mut scratch).unwrap();
        let (mut x, mut w) = (vec![f64::NAN; n], vec![f64::NAN; n]);
        objective.prox_fused(&self.offsets, &rho, &z, &u, relax, &mut x, &mut w, &mut scratch).unwrap();
        let plain = self.x();
        for i in 0..n {
            close(x[i], plain[i], "x of the fused step");
            close(w[i], relax * plain[i] + (1.0 - relax) * z[i] + u[i], "w of the fused step");
        }
        let (d_x, d_w) = (c, normals(91, "d_w", n));
        let total: Vec<f64> = d_x.iter().zip(&d_w).map(|(x, w)| x + relax * w).collect();
        let (d_v, plain_rho, plain_grads) = self.vjp(&total);
        let (mut d_z, mut d_u, mut d_rho) = (vec![0.25; n], vec![0.25; n], vec![0.0; self.rho.len()]);
        let mut grads: Vec<Vec<f64>> = self.params.iter().map(|p| vec![0.0; p.len()]).collect();
        let mut grad = self.family.grad(&mut grads);
        objective
            .vjp_fused(
                &self.offsets,
                &rho,
                &z,
                &u,
                relax,
                &x,
                d_x,
                &d_w,
                &mut d_z,
                &mut d_u,
                &mut d_rho,
                &mut grad,
                &mut scratch,
            )
            .unwrap();
        for i in 0..n {
            close(d_z[i] - 0.25, (1.0 - relax) * d_w[i] + d_v[i], "d_z of the fused step");
            close(d_u[i] - 0.25, d_w[i] - d_v[i], "d_u of the fused step");
        }
        let pairs =
            d_rho.iter().zip(&plain_rho).chain(grads.iter().flatten().zip(plain_grads.iter().flatten()));
        pairs.for_each(|(&fused, &plain)| close(fused, plain, "a parameter's gradient in the fused step"));
    }
}

fn axpy(into: &mut [f64], t: f64, direction: &[f64]) {
    into.iter_mut().zip(direction).for_each(|(x, d)| *x += t * d);
}

pub fn close(a: f64, b: f64, what: &str) {
    assert!((a - b).abs() <= 1e-9 * (1.0 + a.abs().max(b.abs())), "{what}: {a} against {b}");
}
