//! Iteration counts, gradient horizons, and losses.

use std::collections::BTreeSet;

use sheaf_admm::admm::Adjoint;
use sheaf_learn::model::{CoordinationKind, Disturbance, Horizon, Iterations, Loss, ModelSection, Targets};
use sheaf_learn::train::loss::IGNORE;
use sheaf_testkit::{TestRng, assert_gradient};

#[test]
fn the_window_is_clamped_and_gradients_go_back_no_less() {
    assert_eq!((Horizon::whole(5, 9).window(), Horizon::whole(5, 0).window()), (5, 1));
    assert_eq!(Horizon::whole(0, 3).window(), 1);
    let of = |gradient| Horizon { gradient, ..Horizon::whole(10, 4) };
    assert_eq!([0, 1, 4, 7, 10, 99].map(|g| of(g).taped()), [10, 4, 4, 7, 10, 10]);
    assert_eq!(of(0).adjoint::<f64>(), Adjoint::Unrolled);
    assert_eq!(of(10).adjoint::<f64>(), Adjoint::Unrolled);
    assert_eq!(of(7).adjoint::<f64>(), Adjoint::LastSteps(7));
    let implicit = Horizon { implicit: true, ..of(0) };
    assert!(matches!(implicit.adjoint::<f64>(), Adjoint::Implicit { .. }));
}

#[test]
fn iterations_rise_along_the_ramp_and_are_then_drawn_from_the_range() {
    let ramp = Iterations { train: 20, ramp_from: 4, ramp_steps: 8, ..Iterations::default() };
    let at = |it: &Iterations, seed, step| it.horizon(seed, step, 2).iterations;
    assert_eq!([0, 1, 4, 7, 8, 1_000].map(|step| at(&ramp, 42, step)), [4, 6, 12, 18, 20, 20]);
    let drawn = Iterations { train: 20, train_max: 23, ..Iterations::default() };
    let seen: BTreeSet<usize> = (0..100).map(|step| at(&drawn, 42, step)).collect();
    assert_eq!(seen, (20..=23).collect());
    let run = |seed| (0..20).map(|step| at(&drawn, seed, step)).collect::<Vec<_>>();
    assert!(run(1) != run(2) && run(1) == run(1));
}

#[test]
fn a_share_of_the_steps_is_early_with_gradients_through_all_iterations() {
    let late = Iterations { train: 20, train_max: 300, gradient: 15, ..Iterations::default() };
    let mixed = Iterations { early_share: 0.25, early_max: 40, ..late.clone() };
    let of = |section: &Iterations| (0..400).map(|step| section.horizon(7, step, 4)).collect::<Vec<_>>();
    let early: Vec<Horizon> = of(&mixed).into_iter().filter(|h| h.gradient == 0).collect();
    assert!((70..130).contains(&early.len()), "{}", early.len());
    let seen: BTreeSet<usize> = early.iter().map(|h| h.iterations).collect();
    assert_eq!((seen.first(), seen.last()), (Some(&20), Some(&40)));
    // The other steps are what they are without early ones.
    let pairs = of(&mixed).into_iter().zip(of(&late));
    assert!(pairs.filter(|(mixed, _)| mixed.gradient > 0).all(|(mixed, late)| mixed == late));
    let whole = Iterations { early_share: 1.0, ..late };
    assert!(of(&whole).iter().all(|h| *h == Horizon { draw: h.draw, ..Horizon::whole(20, 4) }));
}

#[test]
fn the_horizon_of_a_step_says_what_the_section_says() {
    let section = Iterations { train: 9, gradient: 5, adjoint: "implicit".into(), ..Iterations::default() };
    let horizon = section.horizon(1, 2, 3);
    let disturbance = Disturbance { seed: 1, ..Disturbance::default() };
    assert_eq!(
        horizon,
        Horizon { iterations: 9, window: 3, gradient: 5, implicit: true, draw: 3, disturbance }
    );
    assert_eq!(horizon.disturbed_at(), None);
    let section = Iterations { train: 9, gradient: 5, restart: 0.5, ..Iterations::default() };
    assert_eq!(section.horizon(1, 2, 3).disturbed_at(), Some(4), "before the first iteration on the tape");
    let early = Iterations { early_share: 1.0, ..section };
    assert_eq!(early.horizon(1, 2, 3).disturbed_at(), None, "early steps learn from the start");
}

#[test]
fn sections_without_meaning_are_refused_by_key() {
    let usual = Iterations::default;
    for (section, place) in [
        (Iterations { train: 0, ..usual() }, "iterations.train"),
        (Iterations { eval: 0, ..usual() }, "iterations.eval"),
        (Iterations { rounds: 0, ..usual() }, "iterations.rounds"),
        (Iterations { ramp_from: 0, ..usual() }, "iterations.ramp_from"),
        (Iterations { train_max: 19, ..usual() }, "iterations.train_max"),
        (Iterations { gradient: 3, ..usual() }, "iterations.gradient"),
        (Iterations { early_share: 1.5, ..usual() }, "iterations.early_share"),
        (Iterations { early_share: 0.5, early_max: 19, ..usual() }, "iterations.early_max"),
        (Iterations { early_max: 30, ..usual() }, "iterations.early_max"),
        (Iterations { shift: -0.5, gradient: 5, ..usual() }, "iterations.shift"),
        (Iterations { shift: 0.5, ..usual() }, "iterations.shift"),
        (Iterations { restart: 1.5, gradient: 5, ..usual() }, "iterations.restart"),
        (Iterations { restart: 0.5, ..usual() }, "iterations.restart"),
        (Iterations { noise: f64::NAN, gradient: 5, ..usual() }, "iterations.noise"),
        (Iterations { noise: 0.1, ..usual() }, "iterations.noise"),
        (Iterations { tolerance: f64::NAN, ..usual() }, "iterations.tolerance"),
        (Iterations { adjoint: "none".into(), ..usual() }, "iterations.adjoint"),
        (Iterations { adjoint: "implicit".into(), gradient: 5, ..usual() }, "iterations.gradient"),
    ] {
        assert_eq!(section.check(4, CoordinationKind::Admm).unwrap_err().place(), place);
    }
    usual().check(4, CoordinationKind::Admm).unwrap();
    Iterations { gradient: 4, ..usual() }.check(4, CoordinationKind::Admm).unwrap();
}

#[test]
fn steps_of_conjugate_gradients_are_drawn_from_their_range() {
    let of = |min, max| Iterations { cg_steps_min: min, cg_steps_max: max, ..Iterations::default() };
    assert_eq!(Iterations::default().cg_steps(42, 7), None);
    let seen: BTreeSet<_> = (0..100).map(|step| of(4, 7).cg_steps(42, step).unwrap()).collect();
    assert_eq!(seen, (4..=7).collect());
    let run = |seed| (0..20).map(|step| of(4, 7).cg_steps(seed, step)).collect::<Vec<_>>();
    assert!(run(1) != run(2) && run(1) == run(1));

    let cg = ModelSection::default().check(8).unwrap();
    of(4, 7).check_cg_steps(&cg).unwrap();
    let descent = ModelSection { consensus: "descent".into(), ..ModelSection::default() }.check(8).unwrap();
    for (section, choices) in
        [(of(0, 7), &cg), (of(4, 0), &cg), (of(5, 4), &cg), (of(1, usize::MAX), &cg), (of(4, 7), &descent)]
    {
        let refused = section.check_cg_steps(choices).unwrap_err();
        assert_eq!(refused.place(), "iterations.cg_steps_max");
    }
    of(0, 0).check_cg_steps(&descent).unwrap();
}

fn check_loss(loss: Loss, outputs: usize, targets: &Targets, counted: usize) {
    assert_eq!(loss.counted(targets), counted);
    let point = TestRng::new(3).normals(outputs);
    let mut exps = vec![0.0; outputs];
    let mut gradient = point.clone();
    let value = loss.grad(&mut gradient, targets, 0.25, &mut exps);
    let mut at = |p: &[f64]| loss.grad(&mut p.to_vec(), targets, 0.25, &mut exps);
    assert_eq!(at(&point), value);
    assert_gradient(&format!("{loss:?}"), &mut at, &point, &gradient);
}

#[test]
fn losses_are_differentiated_and_leave_out_what_does_not_count() {
    let values = vec![0.5, f32::NAN, -1.0, 2.0, f32::NAN, 0.0];
    check_loss(Loss::SquaredError, 6, &Targets { values, labels: vec![] }, 4);
    let labels = vec![2, IGNORE, 0, 1];
    check_loss(Loss::CrossEntropy { classes: 3 }, 12, &Targets { labels, values: vec![] }, 3);
}

#[test]
fn the_squared_error_is_the_weighted_sum_of_squares() {
    let targets = Targets { values: vec![1.0, f32::NAN, -2.0], labels: vec![] };
    let mut outputs = [3.0, 7.0, -2.5];
    let value = Loss::SquaredError.grad(&mut outputs, &targets, 0.5, &mut []);
    assert_eq!((value, outputs), (0.5 * (4.0 + 0.25), [2.0, 0.0, -0.5]));
}

#[test]
fn only_a_model_without_coordination_may_have_no_iterations() {
    for (section, place) in [
        (Iterations { train: 0, ..Iterations::default() }, "iterations.train"),
        (Iterations { eval: 0, ..Iterations::default() }, "iterations.eval"),
    ] {
        let refused = section.check(2, CoordinationKind::Admm).unwrap_err();
        assert_eq!(refused.place(), place);
        assert!(refused.hint_text().is_some_and(|hint| hint.contains("coordination")), "{refused}");
        section.check(2, CoordinationKind::None).unwrap();
    }
}

#[test]
fn residuals_and_fixed_points_need_admm() {
    for (section, place) in [
        (Iterations { tolerance: 1e-3, ..Iterations::default() }, "iterations.tolerance"),
        (Iterations { adjoint: "implicit".into(), ..Iterations::default() }, "iterations.adjoint"),
    ] {
        section.check(2, CoordinationKind::Admm).unwrap();
        let refused = section.check(2, CoordinationKind::None).unwrap_err();
        assert_eq!(refused.place(), place);
        assert!(refused.hint_text().is_some(), "{refused}");
    }
}
