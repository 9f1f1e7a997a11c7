use sheaf_admm::ErrorKind;
use sheaf_admm::x_update::{
    Coefficient, Curvature, Dense, Diagonal, Equality, Objective, ObjectiveGrad, Penalty, Qp, Tether,
    TetherGrad,
};

const OFFSETS: [usize; 3] = [0, 2, 3];

fn kind_and_place(objective: Objective<'_, f64>) -> (ErrorKind, String) {
    let error = objective.validate(&OFFSETS).unwrap_err();
    (error.kind(), error.place().to_string())
}

#[test]
fn mismatched_sizes_are_named() {
    let (kind, place) = kind_and_place(Objective::Diagonal(Diagonal::new(&[1.0; 3], &[0.0; 4])));
    assert_eq!((kind, place.as_str()), (ErrorKind::Shape, "diagonal.q"));
    let hi = Some(Coefficient::PerCoordinate(&[1.0; 2][..]));
    let (kind, place) =
        kind_and_place(Objective::Diagonal(Diagonal { hi, ..Diagonal::new(&[1.0; 3], &[0.0; 3]) }));
    assert_eq!((kind, place.as_str()), (ErrorKind::Shape, "diagonal.hi"));
    let (kind, _) = kind_and_place(Objective::Tether(Tether { beta: 1.0, anchor: &[0.0; 2] }));
    assert_eq!(kind, ErrorKind::Shape);
    let (kind, _) = kind_and_place(Objective::Mixed(vec![]));
    assert_eq!(kind, ErrorKind::Shape);
}

#[test]
fn bad_numbers_are_named_with_their_agent() {
    let (kind, place) = kind_and_place(Objective::Diagonal(Diagonal::new(&[1.0, 1.0, -0.5], &[0.0; 3])));
    assert_eq!(kind, ErrorKind::NotPositiveDefinite);
    assert!(place.contains("agent 1"), "{place}");
    let (kind, place) = kind_and_place(Objective::Diagonal(Diagonal::new(&[1.0; 3], &[0.0, f64::NAN, 0.0])));
    assert_eq!((kind, place.as_str()), (ErrorKind::NotFinite, "diagonal.q[1]"));
    let plain = Diagonal::new(&[1.0; 3], &[0.0; 3]);
    let l1 = Some(Coefficient::PerCoordinate(&[0.0, -1.0, 0.0][..]));
    assert_eq!(kind_and_place(Objective::Diagonal(Diagonal { l1, ..plain })).0, ErrorKind::NotPositive);
    let (lo, hi) = (Some(Coefficient::Scalar(2.0)), Some(Coefficient::PerCoordinate(&[3.0, 3.0, 1.0][..])));
    let (kind, place) = kind_and_place(Objective::Diagonal(Diagonal { lo, hi, ..plain }));
    assert_eq!(kind, ErrorKind::Infeasible);
    assert!(place.contains("agent 1"), "{place}");
    let lo = Some(Coefficient::Scalar(f64::NAN));
    assert_eq!(kind_and_place(Objective::Diagonal(Diagonal { lo, ..plain })).0, ErrorKind::NotFinite);
    let (kind, _) = kind_and_place(Objective::Tether(Tether { beta: -1.0, anchor: &[0.0; 3] }));
    assert_eq!(kind, ErrorKind::NotPositive);
}

#[test]
fn an_error_inside_a_mixed_objective_names_the_agent_of_the_whole_problem() {
    let (good, bad) = (Diagonal::new(&[1.0; 2], &[0.0; 2]), Diagonal::new(&[-1.0], &[0.0]));
    let (kind, place) =
        kind_and_place(Objective::Mixed(vec![Objective::Diagonal(good), Objective::Diagonal(bad)]));
    assert_eq!(kind, ErrorKind::NotPositiveDefinite);
    assert!(place.contains("agent 1"), "{place}");
}

#[test]
fn penalties_must_be_finite_positive_and_complete() {
    let objective = Objective::Diagonal(Diagonal::new(&[1.0; 3], &[0.0; 3]));
    let mut scratch = vec![0.0; objective.scratch_len(&OFFSETS)];
    let mut kind =
        |rho: Penalty<'_, f64>| objective.prepare(&OFFSETS, &rho, &mut scratch).unwrap_err().kind();
    assert_eq!(kind(Penalty::Scalar(0.0)), ErrorKind::NotPositive);
    assert_eq!(kind(Penalty::Scalar(f64::NAN)), ErrorKind::NotPositive);
    assert_eq!(kind(Penalty::PerAgent(&[1.0, -2.0])), ErrorKind::NotPositive);
    assert_eq!(kind(Penalty::PerAgent(&[1.0])), ErrorKind::Shape);
}

#[test]
fn wrong_offsets_scratch_and_states_are_errors_not_panics() {
    let objective = Objective::Diagonal(Diagonal::new(&[1.0; 3], &[0.0; 3]));
    assert_eq!(objective.validate(&[]).unwrap_err().kind(), ErrorKind::Shape);
    assert_eq!(objective.validate(&[0, 3, 2]).unwrap_err().kind(), ErrorKind::Shape);
    let rho = Penalty::Scalar(1.0);
    assert_eq!(objective.prepare(&OFFSETS, &rho, &mut [0.0; 4]).unwrap_err().kind(), ErrorKind::Shape);
    let mut scratch = vec![0.0; objective.scratch_len(&OFFSETS)];
    assert_eq!(objective.prepare(&[], &rho, &mut scratch).unwrap_err().kind(), ErrorKind::Shape);
    objective.prepare(&OFFSETS, &rho, &mut scratch).unwrap();
    let error = objective.prox(&OFFSETS, &rho, &[0.0; 2], &mut [0.0; 3], &mut scratch).unwrap_err();
    assert_eq!((error.kind(), error.place()), (ErrorKind::Shape, "x-update: v"));
}

#[test]
fn a_gradient_of_another_family_is_refused() {
    let objective = Objective::Diagonal(Diagonal::new(&[1.0; 3], &[0.0; 3]));
    let rho = Penalty::Scalar(1.0);
    let mut scratch = vec![0.0; objective.scratch_len(&OFFSETS)];
    objective.prepare(&OFFSETS, &rho, &mut scratch).unwrap();
    let (zeros, mut d_v, mut d_rho) = ([0.0; 3], [0.0; 3], [0.0; 1]);
    let mut grad = ObjectiveGrad::Tether(TetherGrad::default());
    let error = objective
        .vjp(&OFFSETS, &rho, &zeros, &zeros, &zeros, &mut d_v, &mut d_rho, &mut grad, &mut scratch)
        .unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unsupported);
    assert!(error.expected().contains("diagonal") && error.got().contains("tether"), "{error}");
}

#[test]
fn an_indefinite_or_asymmetric_q_is_named_with_its_agent() {
    // Agent 0 has the 2 × 2 block, agent 1 the 1 × 1 block.
    let kind_of = |quad: [f64; 5]| kind_and_place(Objective::Dense(Dense { quad: &quad, q: &[0.0; 3] }));
    for (quad, agent) in [([1.0, 2.0, 2.0, 1.0, 1.0], "agent 0"), ([1.0, 0.0, 0.0, 1.0, -1.0], "agent 1")] {
        let (kind, place) = kind_of(quad);
        assert_eq!(kind, ErrorKind::NotPositiveDefinite);
        assert!(place.contains(agent), "{place}");
    }
    let (kind, place) = kind_of([1.0, 0.3, 0.0, 1.0, 1.0]);
    assert_eq!(kind, ErrorKind::NotPositiveDefinite);
    assert!(place.contains("agent 0"), "{place}");
    assert_eq!(kind_of([1.0, 0.0, 0.0, f64::NAN, 1.0]).0, ErrorKind::NotFinite);
    let curvature = Curvature::Diagonal(&[1.0, 1.0, -1.0][..]);
    let (kind, place) = kind_and_place(Objective::Qp(Qp::new(curvature, &[0.0; 3])));
    assert_eq!(kind, ErrorKind::NotPositiveDefinite);
    assert!(place.contains("agent 1"), "{place}");
}

#[test]
fn an_unvalidated_indefinite_q_stops_at_its_pivot() {
    let objective = Objective::Dense(Dense { quad: &[1.0, 3.0, 3.0, 1.0, 1.0], q: &[0.0; 3] });
    let mut scratch = vec![0.0; objective.scratch_len(&OFFSETS)];
    let error = objective.prepare(&OFFSETS, &Penalty::Scalar(0.5), &mut scratch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotPositiveDefinite);
    assert!(error.place().contains("agent 0") && error.got().contains("row 1"), "{error}");
}

#[test]
fn an_unvalidated_diagonal_without_curvature_stops_before_it_divides() {
    for (diag, agent) in
        [([1.0, -0.5, 1.0], "agent 0"), ([1.0, 1.0, -2.0], "agent 1"), ([1.0, f64::NAN, 1.0], "agent 0")]
    {
        let objective = Objective::Diagonal(Diagonal::new(&diag, &[0.0; 3]));
        let mut scratch = vec![0.0; objective.scratch_len(&OFFSETS)];
        let error = objective.prepare(&OFFSETS, &Penalty::Scalar(0.5), &mut scratch).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::NotPositiveDefinite);
        assert!(error.place().contains(agent), "{error}");
    }
    let (each, one) = (Penalty::PerAgent(&[0.5, 0.7f64]), Penalty::Scalar(0.5));
    assert!(each.of(1) == 0.7 && each.of(2).is_nan() && one.of(2) == 0.5);
}

#[test]
fn dependent_equalities_are_named_with_their_agent_and_row() {
    let equality = |rows: &'static [usize], a: &'static [f64], b: &'static [f64]| {
        let quad = Curvature::Diagonal(&[1.0; 3][..]);
        Objective::Equality(Equality { quad, q: &[0.0; 3], rows, a, b })
    };
    let dependent = equality(&[2, 0], &[1.0, 2.0, 0.1, 0.2], &[1.0, 0.1]);
    dependent.validate(&OFFSETS).unwrap();
    let mut scratch = vec![0.0; dependent.scratch_len(&OFFSETS)];
    let error = dependent.prepare(&OFFSETS, &Penalty::Scalar(0.5), &mut scratch).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotPositiveDefinite);
    assert!(error.place().contains("agent 0") && error.got().contains("row 1"), "{error}");
    let (kind, place) = kind_and_place(equality(&[0, 2], &[1.0, 2.0], &[1.0, 1.0]));
    assert_eq!(kind, ErrorKind::Shape, "two equalities on a stalk of size 1");
    assert!(place.contains("agent 1"), "{place}");
}
