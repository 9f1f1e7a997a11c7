use sheaf_admm::ErrorKind;
use sheaf_admm::x_update::{
    Coefficient, Curvature, Dense, Diagonal, Equality, Objective, ObjectiveGrad, Penalty, Qp, QpGrad,
};

use crate::support::{Family, Setup, close, dot, normals, offsets, psd_blocks, solve, symmetrise, uniforms};

const DIMS: [usize; 4] = [3, 4, 6, 2];
const EQ: [usize; 4] = [1, 0, 2, 0];
const IN: [usize; 4] = [2, 3, 5, 0];

/// Parameters: Q, q, A, b, G, h, lo, hi.
struct General {
    dense: bool,
}

impl Family for General {
    fn objective<'a>(&'a self, params: &'a [Vec<f64>]) -> Objective<'a, f64> {
        let quad = if self.dense { Curvature::Dense(&params[0]) } else { Curvature::Diagonal(&params[0]) };
        let bound = |k: usize| match params[k].len() {
            1 => Coefficient::Scalar(params[k][0]),
            _ => Coefficient::PerCoordinate(&params[k][..]),
        };
        Objective::Qp(Qp {
            quad,
            q: &params[1],
            eq_rows: &EQ,
            a: &params[2],
            b: &params[3],
            in_rows: &IN,
            g: &params[4],
            h: &params[5],
            lo: Some(bound(6)),
            hi: Some(bound(7)),
        })
    }
    fn grad<'a>(&'a self, grads: &'a mut [Vec<f64>]) -> ObjectiveGrad<'a, f64> {
        let [quad, q, a, b, g, h, lo, hi] = grads else { panic!("eight parameters") };
        let (quad, q, a, b) = (Some(&mut quad[..]), Some(&mut q[..]), Some(&mut a[..]), Some(&mut b[..]));
        let (g, h, lo, hi) = (Some(&mut g[..]), Some(&mut h[..]), Some(&mut lo[..]), Some(&mut hi[..]));
        ObjectiveGrad::Qp(QpGrad { quad, q, a, b, g, h, lo, hi })
    }
    fn direction(&self, k: usize, direction: &mut [f64]) {
        if k == 0 && self.dense {
            symmetrise(&DIMS, direction);
        }
    }
}

fn entries(rows: &[usize]) -> usize {
    DIMS.iter().zip(rows).map(|(d, m)| d * m).sum()
}

/// Feasible by construction: 0.2·(1, 1, …) satisfies everything, yet v is far away, so that rows are active.
fn setup(seed: u64, rho: Vec<f64>, dense: bool, scalar_box: bool) -> Setup<General> {
    let n = DIMS.iter().sum();
    let quad = if dense { psd_blocks(seed, &DIMS) } else { uniforms(seed, "diag", n, 0.1, 2.0) };
    let (a, g) = (normals(seed, "a", entries(&EQ)), normals(seed, "g", entries(&IN)));
    let at_point = |blocks: &[f64], rows: &[usize], room: f64| {
        let (mut out, mut at) = (Vec::new(), 0);
        for (&d, &m) in DIMS.iter().zip(rows) {
            out.extend(blocks[at..at + m * d].chunks(d).map(|row| 0.2 * row.iter().sum::<f64>() + room));
            at += m * d;
        }
        out
    };
    let (b, h) = (at_point(&a, &EQ, 0.0), at_point(&g, &IN, 0.1));
    let (lo, hi) = match scalar_box {
        true => (vec![-0.4], vec![0.9]),
        false => (uniforms(seed, "lo", n, -0.6, -0.2), uniforms(seed, "hi", n, 0.7, 1.1)),
    };
    let v = normals(seed, "v", n).iter().map(|v| 2.0 * v).collect();
    let params = vec![quad, normals(seed, "q", n), a, b, g, h, lo, hi];
    Setup { family: General { dense }, offsets: offsets(&DIMS), rho, v, params }
}

#[test]
fn the_qp_vjp_matches_finite_differences() {
    for seed in 0..6 {
        setup(seed, vec![0.7], seed % 2 == 0, false).check_vjp();
        setup(seed, vec![0.7, 1.3, 0.4, 2.0], seed % 2 == 1, true).check_vjp();
    }
}

#[test]
fn the_qp_answer_is_feasible_and_no_feasible_direction_descends() {
    let mut active = 0;
    for seed in 0..6 {
        let setup = setup(seed, vec![0.7], true, false);
        let (x, p) = (setup.x(), &setup.params);
        let (mut quad_at, mut a_at, mut b_at, mut g_at, mut h_at) = (0, 0, 0, 0, 0);
        for (agent, &d) in DIMS.iter().enumerate() {
            let first = setup.offsets[agent];
            let own = &x[first..first + d];
            let slope: Vec<f64> = (0..d)
                .map(|i| {
                    let pull = 0.7 * (own[i] - setup.v[first + i]);
                    dot(&p[0][quad_at + i * d..][..d], own) + p[1][first + i] + pull
                })
                .collect();
            for k in 0..EQ[agent] {
                let gap = dot(&p[2][a_at + k * d..][..d], own) - p[3][b_at + k];
                assert!(gap.abs() < 1e-10, "seed {seed}, agent {agent}, equality {k}: {gap}");
            }
            for k in 0..IN[agent] {
                let room = p[5][h_at + k] - dot(&p[4][g_at + k * d..][..d], own);
                assert!(room > -1e-10, "seed {seed}, agent {agent}, inequality {k}: {room}");
                active += usize::from(room.abs() < 1e-10);
            }
            for i in 0..d {
                assert!(own[i] >= p[6][first + i] - 1e-10 && own[i] <= p[7][first + i] + 1e-10);
            }
            // By convexity x is optimal if ⟨slope, y − x⟩ ≥ 0 for every feasible y: try points on the boundary, on
            // random rays from the point that is feasible by construction.
            let rows = &p[2][a_at..a_at + EQ[agent] * d];
            for ray in 0..50 {
                let ray = feasible_ray(1000 * seed + ray, rows, d);
                let mut reach = f64::INFINITY;
                for k in 0..IN[agent] {
                    let row = &p[4][g_at + k * d..][..d];
                    reach =
                        reach.min(step_to(dot(row, &ray), p[5][h_at + k] - 0.2 * row.iter().sum::<f64>()));
                }
                for i in 0..d {
                    reach = reach.min(step_to(ray[i], p[7][first + i] - 0.2));
                    reach = reach.min(step_to(-ray[i], 0.2 - p[6][first + i]));
                }
                let along: f64 = (0..d).map(|i| slope[i] * (0.2 + reach * ray[i] - own[i])).sum();
                assert!(
                    along > -1e-9,
                    "seed {seed}, agent {agent}: descends towards a feasible point: {along}"
                );
            }
            quad_at += d * d;
            (a_at, b_at) = (a_at + EQ[agent] * d, b_at + EQ[agent]);
            (g_at, h_at) = (g_at + IN[agent] * d, h_at + IN[agent]);
        }
    }
    assert!(active >= 6, "the problems must have active inequalities, not only {active}");
}

/// A random direction that keeps the equalities.
fn feasible_ray(seed: u64, rows: &[f64], d: usize) -> Vec<f64> {
    let mut basis: Vec<Vec<f64>> = Vec::new();
    let ray = normals(seed, "ray", d);
    for row in rows.chunks(d).chain([&ray[..]]) {
        let mut e = row.to_vec();
        for b in &basis {
            let along = dot(&e, b);
            e.iter_mut().zip(b).for_each(|(e, b)| *e -= along * b);
        }
        let norm = dot(&e, &e).sqrt();
        e.iter_mut().for_each(|e| *e /= norm);
        basis.push(e);
    }
    basis.remove(basis.len() - 1)
}

/// The distance until `speed` has used up `room`.
fn step_to(speed: f64, room: f64) -> f64 {
    if speed > 0.0 { room / speed } else { f64::INFINITY }
}

#[test]
fn the_qp_agrees_with_the_diagonal_closed_form_on_boxes() {
    let offsets = offsets(&DIMS);
    let n = 15;
    let (diag, q, v) = (uniforms(1, "diag", n, 0.1, 2.0), normals(2, "q", n), normals(3, "v", n));
    let v: Vec<f64> = v.iter().map(|v| 4.0 * v).collect();
    let lo = Some(Coefficient::Scalar(-0.5));
    let bounds = uniforms(4, "hi", n, 0.2, 1.0);
    let hi = Some(Coefficient::PerCoordinate(&bounds[..]));
    let closed = Objective::Diagonal(Diagonal { lo, hi, ..Diagonal::new(&diag, &q) });
    let general = Objective::Qp(Qp { lo, hi, ..Qp::new(Curvature::Diagonal(&diag), &q) });
    let (x, y) = (solve(&closed, &offsets, &[0.7], &v), solve(&general, &offsets, &[0.7], &v));
    x.iter().zip(&y).for_each(|(&x, &y)| close(x, y, "diagonal against qp"));
    assert!(x.contains(&-0.5) && x.iter().zip(&bounds).any(|(x, b)| x == b), "bounds must be active");
    close(closed.value(&offsets, &x).unwrap(), general.value(&offsets, &y).unwrap(), "values");
}

#[test]
fn the_qp_without_constraints_agrees_with_the_dense_solve() {
    let offsets = offsets(&DIMS);
    let (quad, q, v) = (psd_blocks(1, &DIMS), normals(2, "q", 15), normals(3, "v", 15));
    let dense = Objective::Dense(Dense { quad: &quad, q: &q });
    let general = Objective::Qp(Qp::new(Curvature::Dense(&quad), &q));
    let (x, y) = (solve(&dense, &offsets, &[0.7], &v), solve(&general, &offsets, &[0.7], &v));
    x.iter().zip(&y).for_each(|(&x, &y)| close(x, y, "dense against qp"));
    close(dense.value(&offsets, &x).unwrap(), general.value(&offsets, &y).unwrap(), "values");
}

#[test]
fn the_qp_with_equalities_alone_agrees_with_the_schur_complement() {
    let offsets = offsets(&DIMS);
    let (quad, q, v) = (psd_blocks(1, &DIMS), normals(2, "q", 15), normals(3, "v", 15));
    let (a, b) = (normals(4, "a", entries(&EQ)), normals(5, "b", 3));
    let curvature = Curvature::Dense(&quad[..]);
    let schur = Objective::Equality(Equality { quad: curvature, q: &q, rows: &EQ, a: &a, b: &b });
    let general = Objective::Qp(Qp { eq_rows: &EQ, a: &a, b: &b, ..Qp::new(curvature, &q) });
    let (x, y) = (solve(&schur, &offsets, &[0.7], &v), solve(&general, &offsets, &[0.7], &v));
    x.iter().zip(&y).for_each(|(&x, &y)| close(x, y, "equality against qp"));
}

/// The solution of [`planar`] and the gradients of v and h.
#[derive(Debug, PartialEq)]
struct Planar {
    x: [f64; 2],
    d_v: [f64; 2],
    d_h: Vec<f64>,
}

/// One agent, two coordinates, Q = I, q = 0, ρ = 1 (hence x = v/2 without constraints), the given rows of G x ≤ h.
fn planar(v: [f64; 2], g: &[f64], h: &[f64], d_x: [f64; 2]) -> Result<Planar, ErrorKind> {
    let rows = [h.len()];
    let qp = Qp { in_rows: &rows, g, h, ..Qp::new(Curvature::Diagonal(&[1.0, 1.0]), &[0.0, 0.0]) };
    let (objective, offsets, rho) = (Objective::Qp(qp), [0, 2], Penalty::Scalar(1.0));
    objective.validate(&offsets).unwrap();
    let mut scratch = vec![0.0; objective.scratch_len(&offsets)];
    let (mut x, mut d_v, mut d_h) = ([0.0; 2], [0.0; 2], vec![0.0; h.len()]);
    objective.prox(&offsets, &rho, &v, &mut x, &mut scratch).map_err(|e| e.kind())?;
    let mut grad = ObjectiveGrad::Qp(QpGrad { h: Some(&mut d_h), ..QpGrad::default() });
    objective.vjp(&offsets, &rho, &v, &x, &d_x, &mut d_v, &mut [0.0], &mut grad, &mut scratch).unwrap();
    Ok(Planar { x, d_v, d_h })
}

#[test]
fn a_constraint_that_is_only_touched_counts_as_active() {
    // x₁ ≤ 1 is touched exactly by the free minimiser (1, 0).
    let Planar { x, d_v, d_h } = planar([2.0, 0.0], &[1.0, 0.0], &[1.0], [1.0, 1.0]).unwrap();
    close(x[0], 1.0, "x");
    close(d_v[0], 0.0, "the touched direction passes nothing");
    close(d_v[1], 0.5, "the free direction passes ρ/(Q + ρ)");
    close(d_h[0], 1.0, "the constraint takes the gradient");
}

#[test]
fn of_two_equal_constraints_one_takes_the_gradient() {
    let Planar { x, d_v, d_h } = planar([6.0, 0.0], &[1.0, 0.0, 2.0, 0.0], &[1.0, 2.0], [1.0, 1.0]).unwrap();
    close(x[0], 1.0, "x");
    close(d_v[0], 0.0, "d_v");
    // Either h₁ or h₂/2 bounds x₁; a unit of gradient is passed exactly once.
    assert!(
        (d_h[0] - 1.0).abs() + d_h[1].abs() < 1e-9 || d_h[0].abs() + (d_h[1] - 0.5).abs() < 1e-9,
        "{d_h:?}"
    );
}

#[test]
fn an_infeasible_agent_is_named() {
    assert_eq!(planar([0.0; 2], &[1.0, 0.0, -1.0, 0.0], &[-1.0, -1.0], [0.0; 2]), Err(ErrorKind::Infeasible));
    let (g, h) = ([1.0, -1.0], [-1.0, -1.0]);
    let qp = Qp { in_rows: &[0, 2], g: &g, h: &h, ..Qp::new(Curvature::Diagonal(&[1.0; 2]), &[0.0; 2]) };
    let (objective, offsets) = (Objective::Qp(qp), [0, 1, 2]);
    let mut scratch = vec![0.0; objective.scratch_len(&offsets)];
    let error =
        objective.prox(&offsets, &Penalty::Scalar(1.0), &[0.0; 2], &mut [0.0; 2], &mut scratch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Infeasible);
    assert!(error.place().contains("agent 1"), "{error}");
}

#[test]
fn contradicting_equalities_are_infeasible_and_repeated_ones_are_not() {
    let run = |b: &[f64]| {
        let a = [1.0, 1.0, 2.0, 2.0];
        let qp = Qp { eq_rows: &[2], a: &a, b, ..Qp::new(Curvature::Diagonal(&[1.0, 1.0]), &[0.0, 0.0]) };
        let objective = Objective::Qp(qp);
        let (mut x, mut scratch) = ([0.0; 2], vec![0.0; objective.scratch_len(&[0, 2])]);
        objective.prox(&[0, 2], &Penalty::Scalar(1.0), &[3.0, 1.0], &mut x, &mut scratch).map(|()| x)
    };
    assert_eq!(run(&[1.0, 3.0]).unwrap_err().kind(), ErrorKind::Infeasible);
    let x = run(&[1.0, 2.0]).unwrap();
    close(x[0], 1.0, "x₁");
    close(x[1], 0.0, "x₂");
}

#[test]
fn a_nan_in_the_target_is_an_error_that_names_the_agent() {
    let general = Objective::Qp(Qp::new(Curvature::Diagonal(&[1.0; 2]), &[0.0; 2]));
    let mut scratch = vec![0.0; general.scratch_len(&[0, 1, 2])];
    let error = general
        .prox(&[0, 1, 2], &Penalty::Scalar(1.0), &[0.0, f64::NAN], &mut [0.0; 2], &mut scratch)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFinite);
    assert!(error.place().contains("agent 1"), "{error}");
}

#[test]
fn the_qp_in_f32_agrees_with_f64_forwards_and_backwards() {
    let wide = setup(2, vec![0.7], true, false);
    let x = wide.x();
    let c = normals(9, "c", x.len());
    let (d_v, _, d) = wide.vjp(&c);

    let round = |values: &[f64]| values.iter().map(|&v| v as f32).collect::<Vec<f32>>();
    let p: Vec<Vec<f32>> = wide.params.iter().map(|p| round(p)).collect();
    let objective = Objective::Qp(Qp {
        eq_rows: &EQ,
        a: &p[2],
        b: &p[3],
        in_rows: &IN,
        g: &p[4],
        h: &p[5],
        lo: Some(Coefficient::PerCoordinate(&p[6])),
        hi: Some(Coefficient::PerCoordinate(&p[7])),
        ..Qp::new(Curvature::Dense(&p[0]), &p[1])
    });
    let (rho, v, c) = (Penalty::Scalar(0.7f32), round(&wide.v), round(&c));
    objective.validate(&wide.offsets).unwrap();
    let mut scratch = vec![0.0; objective.scratch_len(&wide.offsets)];
    let (mut y, mut d_w, mut d_h) = (vec![0.0f32; x.len()], vec![0.0f32; x.len()], vec![0.0f32; p[5].len()]);
    objective.prox(&wide.offsets, &rho, &v, &mut y, &mut scratch).unwrap();
    let mut grad = ObjectiveGrad::Qp(QpGrad { h: Some(&mut d_h), ..QpGrad::default() });
    objective.vjp(&wide.offsets, &rho, &v, &y, &c, &mut d_w, &mut [0.0], &mut grad, &mut scratch).unwrap();
    let near = |a: &[f64], b: &[f32]| a.iter().zip(b).all(|(&a, &b)| (a - f64::from(b)).abs() < 1e-5);
    assert!(near(&x, &y), "x: {x:?} against {y:?}");
    assert!(near(&d_v, &d_w), "d_v: {d_v:?} against {d_w:?}");
    assert!(near(&d[5], &d_h) && d_h.iter().any(|&g| g != 0.0), "d_h: {:?} against {d_h:?}", d[5]);
}
