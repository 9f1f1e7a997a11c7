//! For any input, the result is an error or a solution: nothing panics.

use proptest::prelude::*;
use sheaf_admm::x_update::{
    Coefficient, Curvature, Dense, Diagonal, Equality, Objective, Penalty, Qp, Tether,
};

/// Mostly ordinary numbers, sometimes ones that must be rejected.
fn number() -> impl Strategy<Value = f64> {
    prop_oneof![
        12 => -3.0..3.0,
        1 => Just(0.0),
        1 => prop_oneof![Just(f64::NAN), Just(f64::INFINITY), Just(f64::NEG_INFINITY), Just(1e200)],
    ]
}

fn numbers(longest: usize) -> impl Strategy<Value = Vec<f64>> {
    prop::collection::vec(number(), 0..=longest)
}

fn coefficient(values: &[f64]) -> Option<Coefficient<'_, f64>> {
    match values.len() {
        0 => None,
        1 => Some(Coefficient::Scalar(values[0])),
        _ => Some(Coefficient::PerCoordinate(values)),
    }
}

/// Runs everything and checks the conditions of a success.
fn drive(objective: &Objective<'_, f64>, offsets: &[usize], rho: &Penalty<'_, f64>, v: &[f64]) {
    if objective.validate(offsets).is_err() {
        return;
    }
    let width = offsets[offsets.len() - 1];
    let mut scratch = vec![0.0; objective.scratch_len(offsets)];
    let mut x = vec![0.0; width];
    if objective.prepare(offsets, rho, &mut scratch).is_err() {
        assert!(rho.validate(offsets.len() - 1).is_err() || !matches!(objective, Objective::Diagonal(_)));
        return;
    }
    let solved = objective.prox(offsets, rho, v, &mut x, &mut scratch);
    if v.len() != width {
        assert!(solved.is_err(), "a target of the wrong length must be refused");
    } else if !matches!(objective, Objective::Qp(_)) {
        // A general QP may be infeasible; the others always have a solution.
        assert!(solved.is_ok(), "{solved:?}");
    }
    if solved.is_ok() && v.iter().all(|v| v.abs() < 1e100) && !matches!(objective, Objective::Mixed(_)) {
        let ordinary = objective.value(offsets, &x).unwrap();
        assert!(!ordinary.is_nan() || x.iter().any(|x| x.abs() > 1e90), "{x:?}");
    }
}

/// Everything a case draws.
type Drawn = (Vec<usize>, Vec<f64>, Vec<f64>, Vec<f64>, Vec<f64>, Vec<f64>, Vec<usize>);

fn drawn() -> impl Strategy<Value = Drawn> {
    let rows = prop::collection::vec(0usize..3, 0..4);
    let dims = prop::collection::vec(0usize..3, 0..4);
    // Lengths are right in about half of the cases, so that both the checks and the code behind them are reached.
    (dims, any::<bool>()).prop_flat_map(move |(dims, fit)| {
        let mut offsets = vec![0];
        dims.iter().for_each(|d| offsets.push(offsets[offsets.len() - 1] + d));
        let (n, blocks) = (offsets[dims.len()], dims.iter().map(|d| d * d).sum::<usize>());
        let exactly = move |len: usize| match fit {
            true => prop::collection::vec(-2.0..2.0, len).boxed(),
            false => numbers(len + 1).boxed(),
        };
        (Just(offsets), exactly(n), exactly(n), exactly(blocks), exactly(n), numbers(2), rows.clone())
    })
}

proptest! {
    #[test]
    fn no_input_makes_a_local_objective_panic((offsets, diag, q, quad, v, few, rows) in drawn(), rho in number()) {
        let each = vec![rho; offsets.len() - 1];
        let families = [
            Objective::Diagonal(Diagonal {
                l1: coefficient(&few),
                hi: coefficient(&v),
                ..Diagonal::new(&diag, &q)
            }),
            Objective::Tether(Tether { beta: rho, anchor: &q }),
            Objective::Dense(Dense { quad: &quad, q: &q }),
            Objective::Equality(Equality { quad: Curvature::Diagonal(&diag), q: &q, rows: &rows, a: &quad, b: &few }),
            Objective::Qp(Qp {
                in_rows: &rows,
                g: &quad,
                h: &few,
                lo: coefficient(&few),
                ..Qp::new(Curvature::Diagonal(&diag), &q)
            }),
            Objective::Mixed(vec![Objective::Tether(Tether { beta: 1.0, anchor: &q })]),
        ];
        for objective in &families {
            drive(objective, &offsets, &Penalty::Scalar(rho), &v);
            drive(objective, &offsets, &Penalty::PerAgent(&each), &v);
        }
    }

    #[test]
    fn offsets_that_are_no_offsets_are_refused(offsets in prop::collection::vec(0usize..5, 0..5)) {
        let width = offsets.last().copied().unwrap_or(0);
        let zeros = vec![0.0; width];
        let good = offsets.first() == Some(&0) && offsets.is_sorted();
        let objective = Objective::Tether(Tether { beta: 1.0, anchor: &zeros });
        prop_assert_eq!(objective.validate(&offsets).is_ok(), good);
    }
}
