use sheaf_admm::x_update::{Coefficient, Diagonal, DiagonalGrad, Objective, ObjectiveGrad};

use crate::support::{Family, Setup, normals, offsets, uniforms};

/// Parameters: D, q, l1, l2, lo, hi; those of length 1 are scalars, empty ones are omitted.
struct Box6;

impl Family for Box6 {
    fn objective<'a>(&'a self, params: &'a [Vec<f64>]) -> Objective<'a, f64> {
        let field = |k: usize| match params[k].len() {
            0 => None,
            1 => Some(Coefficient::Scalar(params[k][0])),
            _ => Some(Coefficient::PerCoordinate(&params[k][..])),
        };
        let (l1, l2, lo, hi) = (field(2), field(3), field(4), field(5));
        Objective::Diagonal(Diagonal { diag: &params[0], q: &params[1], l1, l2, lo, hi })
    }
    fn grad<'a>(&'a self, grads: &'a mut [Vec<f64>]) -> ObjectiveGrad<'a, f64> {
        let [diag, q, l1, l2, lo, hi] = grads else { panic!("six parameters") };
        ObjectiveGrad::Diagonal(DiagonalGrad {
            diag: Some(diag),
            q: Some(q),
            l1: Some(l1),
            l2: Some(l2),
            lo: Some(lo),
            hi: Some(hi),
        })
    }
}

const DIMS: [usize; 4] = [5, 17, 33, 2];

/// A problem in which every kind of coordinate occurs: free, in the dead zone, on either bound.
fn setup(rho: Vec<f64>, scalars: bool) -> Setup<Box6> {
    let n = DIMS.iter().sum();
    let each = |seed, low, high| match scalars {
        true => vec![0.5 * (low + high)],
        false => uniforms(seed, "coefficient", n, low, high),
    };
    let params = vec![
        uniforms(1, "diag", n, 0.1, 2.0),
        normals(2, "q", n),
        each(3, 0.1, 0.6),
        each(4, 0.0, 0.5),
        each(5, -1.2, -0.8),
        each(6, 0.6, 1.0),
    ];
    let v = normals(7, "v", n).iter().map(|v| 4.0 * v).collect();
    Setup { family: Box6, offsets: offsets(&DIMS), rho, v, params }
}

fn counts(setup: &Setup<Box6>) -> [usize; 4] {
    let (x, p) = (setup.x(), &setup.params);
    let at = |k: usize, i: usize| p[k][i % p[k].len()];
    let on_lo = (0..x.len()).filter(|&i| x[i] == at(4, i)).count();
    let on_hi = (0..x.len()).filter(|&i| x[i] == at(5, i)).count();
    let dead = x.iter().filter(|&&x| x == 0.0).count();
    [on_lo, on_hi, dead, x.len() - on_lo - on_hi - dead]
}

#[test]
fn every_coordinate_satisfies_subgradient_optimality() {
    let setup = setup(vec![0.7, 1.3, 0.4, 2.0], false);
    assert!(
        counts(&setup).iter().all(|&c| c > 0),
        "the problem must show all four cases: {:?}",
        counts(&setup)
    );
    let (x, p) = (setup.x(), &setup.params);
    for (agent, &rho) in setup.rho.iter().enumerate() {
        for i in setup.offsets[agent]..setup.offsets[agent + 1] {
            let smooth = (p[0][i] + p[3][i]) * x[i] + p[1][i] + rho * (x[i] - setup.v[i]);
            // The subdifferential of the smooth part plus l1|x| is an interval; 0 must lie in it, or it must push
            // against the bound that x is on.
            let (low, high) = match x[i] {
                x if x > 0.0 => (smooth + p[2][i], smooth + p[2][i]),
                x if x < 0.0 => (smooth - p[2][i], smooth - p[2][i]),
                _ => (smooth - p[2][i], smooth + p[2][i]),
            };
            let pushed_down = x[i] == p[4][i] && high >= 0.0;
            let pushed_up = x[i] == p[5][i] && low <= 0.0;
            let stationary = low <= 1e-13 && high >= -1e-13;
            assert!(stationary || pushed_down || pushed_up, "coordinate {i}: [{low}, {high}] at {}", x[i]);
            assert!(p[4][i] <= x[i] && x[i] <= p[5][i]);
        }
    }
}

#[test]
fn the_diagonal_vjp_matches_finite_differences() {
    for scalars in [false, true] {
        setup(vec![0.7], scalars).check_vjp();
        setup(vec![0.7, 1.3, 0.4, 2.0], scalars).check_vjp();
    }
}

#[test]
fn the_diagonal_vjp_holds_with_terms_left_out() {
    for absent in 2..6 {
        let mut setup = setup(vec![0.7], false);
        setup.params[absent].clear();
        setup.check_vjp();
    }
}

/// One agent, one coordinate, D = 1, q = 0, ρ = 1, hence t = v/2 and κ = l1/2.
fn single(v: f64, l1: &[f64], lo: f64, hi: f64) -> Setup<Box6> {
    let params = vec![vec![1.0], vec![0.0], l1.to_vec(), vec![0.0], vec![lo], vec![hi]];
    Setup { family: Box6, offsets: vec![0, 1], rho: vec![1.0], v: vec![v], params }
}

/// (d_v, d_l1, d_lo, d_hi) for d_x = 1.
fn slopes(setup: &Setup<Box6>) -> (f64, f64, f64, f64) {
    let (d_v, _, d) = setup.vjp(&[1.0]);
    (d_v[0], d[2].first().copied().unwrap_or(0.0), d[4][0], d[5][0])
}

#[test]
fn an_active_bound_takes_the_whole_gradient() {
    assert_eq!(slopes(&single(9.0, &[0.2], -1.0, 1.0)), (0.0, 0.0, 0.0, 1.0), "above");
    assert_eq!(slopes(&single(-9.0, &[0.2], -1.0, 1.0)), (0.0, 0.0, 1.0, 0.0), "below");
    assert_eq!(slopes(&single(1.0, &[0.2], -1.0, 1.0)), (0.5, -0.5, 0.0, 0.0), "inside");
    assert_eq!(slopes(&single(-1.0, &[0.2], -1.0, 1.0)), (0.5, 0.5, 0.0, 0.0), "inside, negative");
}

#[test]
fn a_bound_that_is_only_touched_counts_as_active() {
    assert_eq!(slopes(&single(2.0, &[], -1.0, 1.0)), (0.0, 0.0, 0.0, 1.0), "t = hi exactly");
    assert_eq!(slopes(&single(-2.0, &[], -1.0, 1.0)), (0.0, 0.0, 1.0, 0.0), "t = lo exactly");
    assert_eq!(slopes(&single(0.1, &[0.2], 0.0, 1.0)), (0.0, 0.0, 1.0, 0.0), "dead zone on lo = 0");
    assert_eq!(slopes(&single(0.3, &[], 0.5, 0.5)), (0.0, 0.0, 0.0, 1.0), "lo = hi: the upper one");
}

#[test]
fn the_dead_zone_passes_nothing_and_exists_only_with_an_l1_term() {
    assert_eq!(slopes(&single(0.1, &[0.2], -1.0, 1.0)), (0.0, 0.0, 0.0, 0.0), "inside the dead zone");
    assert_eq!(slopes(&single(0.5, &[0.5], -1.0, 1.0)), (0.0, 0.0, 0.0, 0.0), "on its edge");
    assert_eq!(
        slopes(&single(0.0, &[], -1.0, 1.0)),
        (0.5, 0.0, 0.0, 0.0),
        "no l1: zero is an ordinary point"
    );
}

#[test]
fn a_nan_in_the_target_reaches_the_answer() {
    let setup = single(f64::NAN, &[0.2], -1.0, 1.0);
    assert!(setup.x()[0].is_nan());
}

#[test]
fn the_value_is_smallest_at_the_prox() {
    let setup = setup(vec![0.7], false);
    let (objective, x) = (setup.family.objective(&setup.params), setup.x());
    let total = |x: &[f64]| {
        let gap: f64 = x.iter().zip(&setup.v).map(|(x, v)| (x - v) * (x - v)).sum();
        objective.value(&setup.offsets, x).unwrap() + 0.35 * gap
    };
    let best = total(&x);
    let (lo, hi) = (&setup.params[4], &setup.params[5]);
    for seed in 0..20 {
        let moved = normals(seed, "move", x.len());
        let y: Vec<f64> = (0..x.len()).map(|i| (x[i] + 0.05 * moved[i]).clamp(lo[i], hi[i])).collect();
        assert!(total(&y) > best, "a feasible neighbour is better");
    }
}
