//! One consensus step of agents that are not in step.

use crate::support::{Case, check_gradients};
use sheaf_admm::ErrorKind;
use sheaf_admm::x_update::Penalty;
use sheaf_admm::z_update::{Agreement, Asynchronous, Descent, OutOfStep, Stop, When, ZUpdate};
use sheaf_testkit::TestRng;

const SOFT: Agreement<f64> = Agreement::Soft { gamma: 1.3 };

fn out_of_step(descent: Descent<f64>, warm: bool, lag: OutOfStep) -> ZUpdate<f64> {
    ZUpdate::Asynchronous(Asynchronous { descent, warm, lag })
}

#[test]
fn agents_in_step_have_the_bits_of_descent() {
    let rhos = [0.5, 1.5, 0.8, 2.0, 1.1, 0.9];
    for case in Case::all(3) {
        let (op, n) = (case.op(), case.sheaf.state_len());
        for rho in [Penalty::Scalar(0.7), Penalty::PerAgent(&rhos[..case.sheaf.agents()])] {
            for (agreement, momentum) in [(Agreement::Hard, 0.0), (SOFT, 0.0), (SOFT, 0.9)] {
                let descent = Descent { momentum, ..Descent::nesterov(agreement, 0.05, 4) };
                let lag = OutOfStep { seed: 5, ..OutOfStep::NONE };
                let [plain, other] = [ZUpdate::Descent(descent), out_of_step(descent, false, lag)];
                let mut carry = vec![0.0; other.carry_len(&op)];
                let mut scratch = vec![f64::NAN; other.scratch_len(&op).max(plain.scratch_len(&op))];
                for iteration in 0..3 {
                    let w = TestRng::new(iteration as u64).normals(n);
                    let (mut a, mut b) = (vec![f64::NAN; n], vec![f64::NAN; n]);
                    let when = When { iteration, ..When::FIRST };
                    plain.forward(&op, &rho, &w, &w, &mut [], &mut a, &mut scratch).unwrap();
                    other
                        .forward_keeping(
                            when,
                            &op,
                            &rho,
                            &w,
                            &w,
                            &mut carry,
                            &mut b,
                            &mut [],
                            &[],
                            &mut [],
                            &mut scratch,
                        )
                        .unwrap();
                    assert_eq!(a, b, "{}, {agreement:?}, iteration {iteration}", case.name);
                }
            }
        }
    }
}

#[test]
fn gradients_agree_with_differences() {
    let lags = [
        OutOfStep::NONE,
        OutOfStep { delay: 2, loss: 0.0, activity: 1.0, seed: 1 },
        OutOfStep { delay: 7, loss: 0.4, activity: 0.6, seed: 2 },
    ];
    for case in Case::all(3) {
        for lag in lags {
            for (momentum, steps) in [(0.0, 4), (0.9, 5), (0.9, 0)] {
                let stop = Stop::Steps(steps);
                check_gradients("hard", &case, 1.3, 0.07, &|_, eta| {
                    out_of_step(Descent { agreement: Agreement::Hard, eta, momentum, stop }, false, lag)
                });
                check_gradients("soft", &case, 1.3, 0.07, &|gamma, eta| {
                    let agreement = Agreement::Soft { gamma };
                    out_of_step(Descent { agreement, eta, momentum, stop }, true, lag)
                });
            }
        }
    }
}

#[test]
fn a_tolerance_a_warm_hard_start_and_impossible_lags_are_refused() {
    let case = Case::shared(0);
    let lag = OutOfStep { delay: 2, loss: 0.1, activity: 0.9, seed: 0 };
    let good = Asynchronous { descent: Descent::nesterov(SOFT, 0.1, 3), warm: true, lag };
    assert!(ZUpdate::Asynchronous(good).validate(&case.op()).is_ok());
    let kind = |a: Asynchronous<f64>| ZUpdate::Asynchronous(a).validate(&case.op()).unwrap_err().kind();
    let stop = Stop::Tolerance { absolute: 0.0, relative: 1e-3, max_steps: 4 };
    assert_eq!(
        kind(Asynchronous { descent: Descent { stop, ..good.descent }, ..good }),
        ErrorKind::Unsupported
    );
    let hard = Descent { agreement: Agreement::Hard, ..good.descent };
    assert_eq!(kind(Asynchronous { descent: hard, ..good }), ErrorKind::Unsupported);
    for lag in [
        OutOfStep { loss: 1.0, ..lag },
        OutOfStep { activity: 0.0, ..lag },
        OutOfStep { activity: f64::NAN, ..lag },
        OutOfStep { delay: 5000, ..lag },
    ] {
        assert_eq!(kind(Asynchronous { lag, ..good }), ErrorKind::OutOfRange);
    }
}
