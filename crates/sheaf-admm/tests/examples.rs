//! Every example runs, and each checks itself against an oracle.

// Each example is a program of its own and declares the module of the oracle itself.
#![allow(clippy::duplicate_mod)]

#[path = "../examples/asynchronous.rs"]
mod asynchronous;
#[path = "../examples/dc_power_flow.rs"]
mod dc_power_flow;
#[path = "../examples/flocking.rs"]
mod flocking;
#[path = "../examples/formation_mpc.rs"]
mod formation_mpc;
#[path = "../examples/logistic_regression.rs"]
mod logistic_regression;
#[path = "../examples/network_lasso.rs"]
mod network_lasso;
#[path = "../examples/opinion_dynamics.rs"]
mod opinion_dynamics;
#[path = "../examples/sensor_localisation.rs"]
mod sensor_localisation;

#[test]
fn agents_out_of_step_converge_and_delays_cost_no_more_than_their_bound() {
    asynchronous::main().unwrap();
}

#[test]
fn the_dc_power_flow_agrees_with_an_interior_point_method_on_cost_and_prices() {
    dc_power_flow::main().unwrap();
}

#[test]
fn the_flock_moves_with_the_velocity_of_the_closed_form() {
    flocking::main().unwrap();
}

#[test]
fn the_formation_arrives_and_its_first_plan_agrees_with_an_interior_point_method() {
    formation_mpc::main().unwrap();
}

#[test]
fn the_distributed_logistic_regression_finds_the_central_model() {
    logistic_regression::main().unwrap();
}

#[test]
fn the_network_lasso_agrees_with_an_interior_point_method() {
    network_lasso::main().unwrap();
}

#[test]
fn opinions_settle_at_the_harmonic_extension() {
    opinion_dynamics::main().unwrap();
}

#[test]
fn huber_edges_locate_sensors_in_spite_of_outliers() {
    sensor_localisation::main().unwrap();
}
