//! Compiles the solver for `f32` and `f64` once, in this crate.
//!
//! Generic code is compiled where it is first used with a concrete type. Without these references every test, example
//! and crate above would compile the solver again: in the development profile, where crates share instances, they more
//! than double the time of a build. They do not exist in release builds.

use std::hint::black_box;

use crate::Real;
use crate::admm::{Problem, Trace, Workspace};
use crate::sheaf::{SheafOp, compose_low_rank, compose_low_rank_vjp};
use crate::x_update::Objective;
use crate::z_update::ZUpdate;

/// References to everything that a solve and its reverse sweep run.
fn all<T: Real>() {
    black_box(Problem::<T>::validate as fn(&_) -> _);
    black_box(Problem::<T>::solve as fn(&_, _, &_, &mut _, &mut ()) -> _);
    black_box(Problem::<T>::solve as fn(&_, _, &_, &mut _, &mut Trace<T>) -> _);
    black_box(Problem::<T>::reverse as fn(&_, _, &_, &mut _, &mut _) -> _);
    black_box(Workspace::<T>::new as fn(&_, _) -> _);
    black_box(SheafOp::<T>::laplacian as fn(&_, &_, &mut _, &mut _, &mut _) -> _);
    black_box(SheafOp::<T>::edge_rms as fn(&_, &_, &mut _, &mut _) -> _);
    black_box(compose_low_rank::<T> as fn(&_, &_, &mut _) -> _);
    black_box(compose_low_rank_vjp::<T> as fn(&_, &_, &_, &mut _) -> _);
    black_box(Objective::<T>::value as fn(&_, &_, &_) -> _);
    black_box(Objective::<T>::prox as fn(&_, &_, &_, &_, &mut _, &mut _) -> _);
    black_box(ZUpdate::<T>::forward as fn(&_, &_, &_, &_, &_, &mut _, &mut _, &mut _) -> _);
    black_box(
        ZUpdate::<T>::vjp as fn(&_, &_, &_, &_, &_, &_, &_, &mut _, &mut _, &mut _, &mut _, &mut _) -> _,
    );
}

/// Never called.
#[doc(hidden)]
pub fn instances() {
    all::<f32>();
    all::<f64>();
}
