//! Compiles the models of all tasks for `f32` and `f64` once, in this crate.
//!
//! As in the solver: in the development profile, tests and the tool then link these instances instead of compiling
//! them again. They do not exist in release builds.

use std::hint::black_box;

use sheaf_admm::Real;
use sheaf_learn::model::evaluate::Single;
use sheaf_learn::model::{Batch, HotPaths};
use sheaf_learn::task::{Task, Training};
use sheaf_learn::train::Trainable;

use crate::maze::task::Maze;
use crate::mnist::task::Mnist;
use crate::sudoku::task::Sudoku;

/// Never called.
pub fn instances() {
    task::<Maze>();
    task::<Mnist>();
    task::<Sudoku>();
}

fn task<K: Task>() {
    model::<K, f32>();
    model::<K, f64>();
    black_box(<Training<K> as Trainable>::loss_and_grad as fn(&mut _, &_, _, _, &mut _) -> _);
    black_box(<Training<K> as Trainable>::evaluate as fn(&mut _, &_) -> _);
}

fn model<K: Task, T: Real>() {
    black_box(
        Batch::<T, K::Encoder, K::Decoder>::loss_and_grad
            as fn(&mut _, &_, &_, &_, &'static _, _, &mut _) -> _,
    );
    black_box(Single::<T, K::Encoder, K::Decoder>::new as fn(_, _, _, &'static _, _) -> _);
    black_box(Single::<T, K::Encoder, K::Decoder>::trace as fn(&_, _) -> _);
    black_box(HotPaths::<T, K::Encoder, K::Decoder>::encode as fn(&mut _, &_, &_, &_, &'static _, _) -> _);
}
