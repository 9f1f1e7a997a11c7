//! The core on small dense systems, with a preconditioner and without.

use super::*;
use crate::z_update::InnerReport;
use sheaf_kernels::vector::{axpy, dot};

const N: usize = 5;
type Vector = [f64; N];
type Matrix = [Vector; N];

fn times(a: &Matrix, x: &Vector) -> Vector {
    std::array::from_fn(|i| dot(&a[i], x))
}

fn transposed(a: &Matrix) -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| a[j][i]))
}

fn add_outer(d: &mut Matrix, x: &Vector, y: &Vector) {
    for (row, &x) in d.iter_mut().zip(x) {
        axpy(row, x, y);
    }
}

/// Numbers between −1 and 1 that look random.
fn noise(seed: usize) -> Vector {
    std::array::from_fn(|i| ((seed * 31 + i * 17 + 3) as f64 * 12.9898).sin())
}

/// G Gᵀ + shift.
fn gram(seed: usize, shift: f64) -> Matrix {
    let g: Matrix = std::array::from_fn(|i| noise(seed + i));
    let mut c: Matrix = std::array::from_fn(|i| std::array::from_fn(|j| dot(&g[i], &g[j])));
    (0..N).for_each(|i| c[i][i] += shift);
    c
}

fn identity() -> Matrix {
    std::array::from_fn(|i| std::array::from_fn(|j| f64::from(u8::from(i == j))))
}

/// A = ρ + M C, solved for several right sides, each from its own start.
#[derive(Clone)]
struct Dense {
    rho: f64,
    m: Matrix,
    c: Matrix,
    start: Vec<Vector>, // [samples]
    r: Vec<Vector>,     // [samples], the residual of the start
}

impl Dense {
    fn new(c: Matrix, samples: usize) -> Self {
        let (start, r) = (0..samples).map(|i| (noise(40 + i), noise(50 + i))).unzip();
        Self { rho: 0.8, m: gram(20, 0.0), c, start, r }
    }

    fn apply(&self, x: &Vector) -> Vector {
        let e = times(&self.c, x);
        let m_e = times(&self.m, &e);
        std::array::from_fn(|i| self.rho * x[i] + m_e[i])
    }
}

/// Vectors of one step, `[samples]` each.
#[derive(Clone)]
struct Kept {
    r: Vec<Vector>,
    s: Vec<Vector>,
    p: Vec<Vector>,
    e: Vec<Vector>,
    k: Vec<Vector>,
}

/// A solve that keeps everything.
struct Solve<'d> {
    of: &'d Dense,
    now: usize,
    x: Vec<Vector>,
    kept: Vec<Kept>, // [steps + 1]
}

impl<'d> Solve<'d> {
    fn new(of: &'d Dense, steps: usize) -> Self {
        let zero = vec![[0.0; N]; of.r.len()];
        let none = Kept { r: zero.clone(), s: zero.clone(), p: zero.clone(), e: zero.clone(), k: zero };
        let mut kept = vec![none; steps + 1];
        kept[0].r.clone_from(&of.r);
        Self { of, now: 0, x: of.start.clone(), kept }
    }
}

impl Steps<f64> for Solve<'_> {
    fn precondition(&mut self, t: usize) {
        self.now = t;
        let Kept { r, s, .. } = &mut self.kept[t];
        s.iter_mut().zip(r).for_each(|(s, r)| *s = times(&self.of.c, r));
    }

    fn measure(&mut self, i: usize) -> f64 {
        dot(&self.kept[self.now].r[i], &self.kept[self.now].s[i])
    }

    fn turn(&mut self, t: usize, i: usize, b: Option<f64>) -> f64 {
        let (before, kept) = self.kept.split_at_mut(t);
        let Kept { r, s, p, e, k } = &mut kept[0];
        (p[i], e[i]) = (r[i], s[i]);
        if let (Some(b), Some(before)) = (b, before.last()) {
            axpy(&mut p[i], b, &before.p[i]);
            axpy(&mut e[i], b, &before.e[i]);
        }
        k[i] = times(&self.of.m, &e[i]);
        axpy(&mut k[i], self.of.rho, &p[i]);
        dot(&e[i], &k[i])
    }

    fn advance(&mut self, t: usize, i: usize, a: f64, last: bool) {
        axpy(&mut self.x[i], a, &self.kept[t].p[i]);
        if !last {
            self.kept[t + 1].r[i] = self.kept[t].r[i];
            let k = self.kept[t].k[i];
            axpy(&mut self.kept[t + 1].r[i], -a, &k);
        }
    }
}

/// Gradients of a [`Dense`] problem and of the running vectors.
struct Back<'d> {
    solve: &'d Solve<'d>,
    grad: Dense, // start holds d_x, r holds d_r
    d_p: Vec<Vector>,
    d_e: Vec<Vector>,
    d_s: Vec<Vector>,
}

impl StepsVjp<f64> for Back<'_> {
    fn advance_vjp(&mut self, t: usize, i: usize, alone: bool) -> f64 {
        let kept = &self.solve.kept[t];
        assert!(!alone || self.grad.r[i] == [0.0; N]);
        dot(&self.grad.start[i], &kept.p[i]) - dot(&self.grad.r[i], &kept.k[i])
    }

    fn turn_vjp(&mut self, t: usize, i: usize, a: f64, d_delta: f64, _alone: bool) -> f64 {
        let (of, kept) = (self.solve.of, &self.solve.kept[t]);
        let mut d_k = [0.0; N];
        axpy(&mut d_k, d_delta, &kept.e[i]);
        axpy(&mut d_k, -a, &self.grad.r[i]);
        axpy(&mut self.d_e[i], d_delta, &kept.k[i]);
        axpy(&mut self.d_e[i], 1.0, &times(&transposed(&of.m), &d_k));
        axpy(&mut self.d_p[i], a, &self.grad.start[i]);
        axpy(&mut self.d_p[i], of.rho, &d_k);
        self.grad.rho += dot(&d_k, &kept.p[i]);
        add_outer(&mut self.grad.m, &d_k, &kept.e[i]);
        let before = &self.solve.kept[t.saturating_sub(1)];
        dot(&self.d_p[i], &before.p[i]) + dot(&self.d_e[i], &before.e[i])
    }

    fn residual_vjp(&mut self, t: usize, i: usize, b: f64, d_c: f64) {
        let kept = &self.solve.kept[t];
        axpy(&mut self.grad.r[i], 1.0, &self.d_p[i]);
        axpy(&mut self.grad.r[i], d_c, &kept.s[i]);
        self.d_s[i] = self.d_e[i];
        axpy(&mut self.d_s[i], d_c, &kept.r[i]);
        self.d_p[i] = self.d_p[i].map(|d| b * d);
        self.d_e[i] = self.d_e[i].map(|d| b * d);
    }

    fn idle_vjp(&mut self, _t: usize, i: usize) {
        self.d_s[i] = [0.0; N];
    }

    fn precondition_vjp(&mut self, t: usize) {
        for (i, d_s) in self.d_s.iter().enumerate() {
            axpy(&mut self.grad.r[i], 1.0, &times(&transposed(&self.solve.of.c), d_s));
            add_outer(&mut self.grad.c, d_s, &self.solve.kept[t].r[i]);
        }
    }
}

/// The reports, and Σ x·(noise) + Σ (last residual)·(noise) if it counts.
fn value(of: &Dense, rule: Rule<f64>, goals: Option<&[f64]>, end_read: bool) -> (Vec<InnerReport>, f64) {
    let (solve, reports, _) = solved(of, rule, goals, end_read);
    let value = reports.iter().enumerate().map(|(i, report)| {
        let end = if end_read { dot(&noise(70 + i), &solve.kept[report.steps].r[i]) } else { 0.0 };
        dot(&noise(60 + i), &solve.x[i]) + end
    });
    let value = value.sum();
    (reports, value)
}

/// Without goals the last step leaves no residual; where it is read, goals that no sample can reach take their place.
fn solved<'d>(
    of: &'d Dense,
    rule: Rule<f64>,
    goals: Option<&[f64]>,
    end_read: bool,
) -> (Solve<'d>, Vec<InnerReport>, Vec<f64>) {
    let samples = of.r.len();
    let none = vec![-1.0; samples];
    let goals = goals.or(end_read.then_some(&none));
    let mut solve = Solve::new(of, rule.max_steps);
    let mut scalars = vec![0.0; Tape::<f64>::len(rule.max_steps, samples)];
    let mut numbers = vec![0.0; REPORT * samples];
    let mut reports = Reports::new(&mut numbers);
    run(rule, &mut solve, goals, &mut Tape::new(&mut scalars, samples), &mut reports);
    let reports = (0..samples).map(|sample| reports.get(sample)).collect();
    (solve, reports, scalars)
}

fn gradient(of: &Dense, rule: Rule<f64>, goals: Option<&[f64]>, end_read: bool) -> Dense {
    let samples = of.r.len();
    let (solve, reports, mut scalars) = solved(of, rule, goals, end_read);
    let zero = vec![[0.0; N]; samples];
    let start = (0..samples).map(|i| noise(60 + i)).collect();
    let r = (0..samples).map(|i| if end_read { noise(70 + i) } else { [0.0; N] }).collect();
    let grad = Dense { rho: 0.0, m: [[0.0; N]; N], c: [[0.0; N]; N], start, r };
    let mut back = Back { solve: &solve, grad, d_p: zero.clone(), d_e: zero.clone(), d_s: zero };
    let mut ran: Vec<f64> = reports.iter().flat_map(|report| steps_of::<f64>(report.steps)).collect();
    let tape = Tape::new(&mut scalars, samples);
    run_vjp(rule, &mut back, &tape, &Reports::new(&mut ran), end_read, &mut vec![0.0; samples]);
    back.grad
}

/// Compares every number of a gradient with a central difference.
fn assert_gradient(of: &Dense, rule: Rule<f64>, goals: Option<&[f64]>, end_read: bool) {
    fn numbers(of: &mut Dense) -> impl Iterator<Item = &mut f64> {
        let Dense { rho, m, c, start, r } = of;
        let vectors = m.iter_mut().chain(c).chain(start).chain(r);
        std::iter::once(rho).chain(vectors.flatten())
    }
    let mut grad = gradient(of, rule, goals, end_read);
    let steps = value(of, rule, goals, end_read).0;
    for (at, got) in numbers(&mut grad).enumerate() {
        let moved = |by: f64| {
            let mut of = of.clone();
            *numbers(&mut of).nth(at).unwrap() += by;
            let (ran, value) = value(&of, rule, goals, end_read);
            assert_eq!(ran, steps, "the number of steps is constant near the point");
            value
        };
        let expected = (moved(1e-6) - moved(-1e-6)) / 2e-6;
        assert!((*got - expected).abs() < 1e-6 * (1.0 + expected.abs()), "{at}: {got} for {expected}");
    }
}

#[test]
fn preconditioned_steps_solve_every_system() {
    let of = Dense::new(gram(1, 0.5), 3);
    let rule = Rule { guard: 0.0, max_steps: N };
    let (solve, reports, _) = solved(&of, rule, None, false);
    for (i, x) in solve.x.iter().enumerate() {
        assert_eq!(reports[i], InnerReport { steps: N, converged: true });
        // A x = A start + r.
        let (a_x, a_start) = (of.apply(x), of.apply(&of.start[i]));
        for j in 0..N {
            assert!((a_x[j] - a_start[j] - of.r[i][j]).abs() < 1e-9);
        }
    }
}

#[test]
fn samples_stop_one_by_one() {
    let mut of = Dense::new(gram(1, 0.5), 3);
    of.r[1] = [0.0; N];
    let goals = [1e-20, 1e-20, 1.0];
    let rule = Rule { guard: 0.0, max_steps: 40 };
    let (solve, reports, _) = solved(&of, rule, Some(&goals), false);
    assert!(reports.iter().all(|report| report.converged), "{reports:?}");
    assert_eq!(reports[1].steps, 0);
    assert_eq!(solve.x[1], of.start[1]);
    assert!(0 < reports[2].steps && reports[2].steps < reports[0].steps, "{reports:?}");
    for (i, report) in reports.iter().enumerate() {
        let alone = Dense { start: vec![of.start[i]], r: vec![of.r[i]], ..of.clone() };
        let (solve_alone, alone, _) = solved(&alone, rule, Some(&goals[i..=i]), false);
        assert_eq!((alone[0], solve_alone.x[0]), (*report, solve.x[i]), "a sample does not see the others");
    }
    let few = Rule { max_steps: 2, ..rule };
    let reports = solved(&of, few, Some(&goals), false).1;
    assert_eq!(reports[0], InnerReport { steps: 2, converged: false });
}

#[test]
fn gradients_of_preconditioned_steps_match_differences() {
    let of = Dense::new(gram(1, 0.5), 2);
    for max_steps in [0, 1, 2, 4] {
        for end_read in [false, true] {
            assert_gradient(&of, Rule { guard: 1e-2, max_steps }, None, end_read);
        }
    }
}

#[test]
fn gradients_go_through_the_steps_each_sample_made() {
    let of = Dense::new(gram(1, 0.5), 3);
    let (goals, rule) = ([1e-4, 0.5, 1e3], Rule { guard: 1e-8, max_steps: 4 });
    let steps: Vec<usize> = value(&of, rule, Some(&goals), false).0.iter().map(|r| r.steps).collect();
    assert!(steps[0] > steps[1] && steps[1] > steps[2], "{steps:?}");
    assert_gradient(&of, rule, Some(&goals), false);
}

/// ρ + M as a plain map.
struct Map<'d> {
    of: &'d Dense,
    d_rho: f64,
    d_m: Matrix,
}

impl LinearMap<f64> for Map<'_> {
    fn apply(&mut self, _t: usize, p: &[f64], k: &mut [f64]) {
        k.copy_from_slice(&self.of.apply(p.try_into().unwrap()));
    }
}

impl LinearMapVjp<f64> for Map<'_> {
    fn apply_vjp(&mut self, t: usize, d_k: &[f64], out: &mut [f64]) {
        self.apply(t, d_k, out);
    }

    fn apply_aligned_vjp(&mut self, _t: usize, factor: f64, pair: &Pair<'_, f64>, out: &mut [f64]) {
        out.copy_from_slice(pair.k);
        out.iter_mut().for_each(|k| *k *= factor);
    }

    fn add_pair(&mut self, _t: usize, pair: &Pair<'_, f64>, _a_dk: &[f64]) {
        self.d_rho += pair.along_p;
        add_outer(&mut self.d_m, pair.d_k.try_into().unwrap(), pair.p.try_into().unwrap());
    }
}

#[test]
fn plain_steps_are_preconditioned_steps_with_the_identity() {
    let of = Dense::new(identity(), 1);
    for (steps, end_read) in [(1, false), (1, true), (4, false), (4, true)] {
        let rule = Rule { guard: 1e-3, max_steps: steps };
        let mut map = Map { of: &of, d_rho: 0.0, d_m: [[0.0; N]; N] };
        let (mut x, mut r) = (of.start[0], of.r[0]);
        let (mut p, mut k) = (vec![0.0; steps * N], vec![0.0; steps * N]);
        let mut scalars = vec![0.0; Tape::<f64>::len(steps, 1)];
        let (ps, ks) = (PerStep::new(&mut p, N), PerStep::new(&mut k, N));
        let mut plain = Plain::new(&mut map, &mut x, &mut r, ps, ks, end_read);
        let mut reports = [0.0; REPORT];
        run(rule, &mut plain, None, &mut Tape::new(&mut scalars, 1), &mut Reports::new(&mut reports));
        let close = |got: &[f64], expected: &[f64]| {
            got.iter().zip(expected).for_each(|(a, b)| assert!((a - b).abs() < 1e-11, "{a} for {b}"));
        };
        close(&x, &solved(&of, rule, None, false).0.x[0]);

        let (d_x, mut d_r) = (noise(60), if end_read { noise(70) } else { [0.0; N] });
        let (mut d_p, mut a_dk, mut d_k) = ([0.0; N], [0.0; N], [0.0; N]);
        let d_k = PerStep::new(&mut d_k, N);
        let (p, k) = (&p[..], &k[..]);
        let (d_p, a_dk) = (&mut d_p[..], &mut a_dk[..]);
        let mut back =
            PlainVjp { map: &mut map, p, k, d_x: &d_x, d_r: &mut d_r, d_p, a_dk, d_k, pending: None };
        let mut ran = steps_of(steps);
        let (tape, ran) = (Tape::new(&mut scalars, 1), Reports::new(&mut ran));
        run_vjp(rule, &mut back, &tape, &ran, end_read, &mut [0.0]);
        let expected = gradient(&of, rule, None, end_read);
        close(&d_r, &expected.r[0]);
        close(&[map.d_rho], &[expected.rho]);
        close(map.d_m.as_flattened(), expected.m.as_flattened());
    }
}
