use sheaf_admm::ErrorKind;
use sheaf_admm::z_update::{check_eta_bounds, eta_bounded, eta_bounded_vjp, eta_softplus, eta_softplus_vjp};
use sheaf_testkit::assert_gradient;

#[test]
fn a_raw_value_of_zero_gives_the_initial_step() {
    for init in [1e-6f64, 0.01, 1.0, 30.0] {
        assert!((eta_softplus(0.0, init) - init).abs() <= 1e-14 * init.max(1.0));
        assert!((eta_softplus(0.0f32, init as f32) - init as f32).abs() <= 1e-6 * init as f32);
        assert!((eta_bounded(0.0, init, 1e-7, 50.0) / init - 1.0).abs() < 1e-12);
    }
}

#[test]
fn steps_stay_positive_and_bounded_far_out() {
    assert!(eta_softplus(-30.0, 0.01) > 0.0);
    assert!((eta_softplus(1000.0f64, 0.01) - 1000.0).abs() < 10.0);
    for raw in [-1000.0, -5.0, 5.0, 1000.0] {
        let eta = eta_bounded(raw, 0.01, 0.001, 0.5);
        assert!((0.001 * (1.0 - 1e-12)..=0.5 * (1.0 + 1e-12)).contains(&eta), "{eta}");
    }
}

#[test]
fn gradients_agree_with_differences() {
    for raw in [-3.0, -0.2, 0.0, 1.5, 6.0] {
        let mut d_raw = 10.0;
        eta_softplus_vjp(raw, 0.01, 2.0, &mut d_raw);
        assert_gradient("softplus", &mut |x| 2.0 * eta_softplus(x[0], 0.01), &[raw], &[d_raw - 10.0]);
        let mut d_raw = 10.0;
        eta_bounded_vjp(raw, 0.01, 0.001, 0.5, 2.0, &mut d_raw);
        assert_gradient(
            "bounded",
            &mut |x| 2.0 * eta_bounded(x[0], 0.01, 0.001, 0.5),
            &[raw],
            &[d_raw - 10.0],
        );
    }
}

#[test]
fn bounds_out_of_order_are_refused() {
    assert!(check_eta_bounds(0.01, 0.001, 0.5).is_ok());
    assert_eq!(check_eta_bounds(0.01, 0.0, 0.5).unwrap_err().kind(), ErrorKind::NotPositive);
    assert_eq!(check_eta_bounds(0.6, 0.001, 0.5).unwrap_err().kind(), ErrorKind::OutOfRange);
    assert_eq!(check_eta_bounds(0.001, 0.001, 0.5).unwrap_err().kind(), ErrorKind::OutOfRange);
}
