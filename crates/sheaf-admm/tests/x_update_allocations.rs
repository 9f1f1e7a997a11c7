//! The closed-form families work in the caller's scratch: `prepare`, `prox` and `vjp` do not allocate.

use sheaf_admm::x_update::{
    Coefficient, Curvature, Dense, DenseGrad, Diagonal, DiagonalGrad, Equality, EqualityGrad, Objective,
    ObjectiveGrad, Penalty, Tether, TetherGrad,
};
use sheaf_testkit::{CountingAllocator, TestRng, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const OFFSETS: [usize; 4] = [0, 3, 5, 9];
const N: usize = 9;

/// Counts allocations of everything that runs per iteration, and of the preparation before it, after a first round.
fn count(objective: &Objective<'_, f32>, grad: &mut ObjectiveGrad<'_, f32>) -> usize {
    let mut rng = TestRng::new(3);
    let (z, u, d_x, d_w) = (rng.normals_f32(N), rng.normals_f32(N), rng.normals_f32(N), rng.normals_f32(N));
    let (mut x, mut w, mut d_z, mut d_u) = ([0.0; N], [0.0; N], [0.0; N], [0.0; N]);
    let (penalties, mut d_rho) = ([0.5, 0.7, 0.9], [0.0; 3]);
    let rho = Penalty::PerAgent(&penalties);
    objective.validate(&OFFSETS).unwrap();
    let mut scratch = vec![0.0; objective.scratch_len(&OFFSETS)];
    let s = &mut scratch[..];
    let mut round = || {
        objective.prepare(&OFFSETS, &rho, s).unwrap();
        objective.prox(&OFFSETS, &rho, &z, &mut x, s).unwrap();
        objective.vjp(&OFFSETS, &rho, &z, &x, &d_x, &mut d_z, &mut d_rho, grad, s).unwrap();
        objective.prox_fused(&OFFSETS, &rho, &z, &u, 1.0, &mut x, &mut w, s).unwrap();
        let (d_z, d_u, d_rho) = (&mut d_z, &mut d_u, &mut d_rho);
        objective.vjp_fused(&OFFSETS, &rho, &z, &u, 1.0, &x, &d_x, &d_w, d_z, d_u, d_rho, grad, s).unwrap();
    };
    // The first use of a kernel reads the variable that may lower the instruction set, which allocates once.
    round();
    let counted = allocations(round);
    assert!(d_rho.iter().all(|g| *g != 0.0), "the work must have been done");
    counted
}

#[test]
fn the_diagonal_family_allocates_nothing() {
    let (diag, q, hi) = ([1.0; N], [0.3; N], [0.8; N]);
    let (l1, lo) = (Some(Coefficient::Scalar(0.01)), Some(Coefficient::Scalar(0.0)));
    let hi = Some(Coefficient::PerCoordinate(&hi[..]));
    let objective = Objective::Diagonal(Diagonal { l1, lo, hi, ..Diagonal::new(&diag, &q) });
    let (mut a, mut b, mut c, mut e) = ([0.0; N], [0.0; N], [0.0; 1], [0.0; N]);
    let (diag, q, l1, hi) = (Some(&mut a[..]), Some(&mut b[..]), Some(&mut c[..]), Some(&mut e[..]));
    let mut grad = ObjectiveGrad::Diagonal(DiagonalGrad { diag, q, l1, hi, ..DiagonalGrad::default() });
    assert_eq!(count(&objective, &mut grad), 0);
}

#[test]
fn the_tether_allocates_nothing() {
    let objective = Objective::Tether(Tether { beta: 0.5, anchor: &[1.0; N] });
    let (mut beta, mut anchor) = (0.0, [0.0; N]);
    let mut grad = ObjectiveGrad::Tether(TetherGrad { beta: Some(&mut beta), anchor: Some(&mut anchor) });
    assert_eq!(count(&objective, &mut grad), 0);
}

/// Q = 2 I + 1·1ᵀ for stalks of size 3, 2 and 4.
fn blocks() -> Vec<f32> {
    let block = |d: usize| (0..d * d).map(move |e| if e / d == e % d { 3.0 } else { 1.0 });
    [3, 2, 4].into_iter().flat_map(block).collect()
}

#[test]
fn the_dense_family_allocates_nothing() {
    let quad = blocks();
    let objective = Objective::Dense(Dense { quad: &quad, q: &[0.1; N] });
    let (mut d_quad, mut d_q) = (vec![0.0; quad.len()], [0.0; N]);
    let mut grad = ObjectiveGrad::Dense(DenseGrad { quad: Some(&mut d_quad), q: Some(&mut d_q) });
    assert_eq!(count(&objective, &mut grad), 0);
}

#[test]
fn the_equality_family_and_mixtures_allocate_nothing() {
    let quad = blocks();
    let a = [1.0, 2.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 1.0, 1.0];
    let (rows, q, b) = ([1, 0, 2], [0.1; N], [1.0; 3]);
    let equality = Equality { quad: Curvature::Dense(&quad), q: &q, rows: &rows, a: &a, b: &b };
    let (mut d_quad, mut d_q, mut d_a, mut d_b) = (vec![0.0; quad.len()], [0.0; N], [0.0; 11], [0.0; 3]);
    let mut grad = ObjectiveGrad::Equality(EqualityGrad {
        quad: Some(&mut d_quad),
        q: Some(&mut d_q),
        a: Some(&mut d_a),
        b: Some(&mut d_b),
    });
    assert_eq!(count(&Objective::Equality(equality), &mut grad), 0);

    let mixed = Objective::Mixed(vec![
        Objective::Tether(Tether { beta: 0.5, anchor: &[1.0; 3] }),
        Objective::Dense(Dense { quad: &quad[9..13], q: &q[..2] }),
        Objective::Equality(Equality {
            quad: Curvature::Diagonal(&q[..4]),
            q: &q[..4],
            rows: &rows[2..],
            a: &a[3..],
            b: &b[1..],
        }),
    ]);
    let mut beta = 0.0;
    let tether = TetherGrad { beta: Some(&mut beta), anchor: None };
    let each = vec![ObjectiveGrad::Tether(tether), ObjectiveGrad::None, ObjectiveGrad::None];
    assert_eq!(count(&mixed, &mut ObjectiveGrad::Mixed(each)), 0);
}
