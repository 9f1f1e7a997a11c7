//! A training step does not allocate once its buffers exist.

mod common;

use common::{Case, Small};
use sheaf_kernels::gemm::may_allocate;
use sheaf_learn::model::{Batch, Horizon};
use sheaf_learn::task::{Loaded, Training};
use sheaf_learn::train::Trainable;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;
use sheaf_testkit::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// Steps on one batch, on another, and on the first again: the last one must not allocate.
fn check<K: Small>(keys: &[&str]) {
    let case = Case::<K>::new(keys, 5);
    let other = Case::<K> { set: K::some(4, 8), ..Case::new(keys, 1) };
    let params: Vec<f32> = case.model.init(5);
    let mut grad = vec![0.0; params.len()];
    let mut batch = Batch::<f32, _, _>::default();
    // With a pool of one thread, all work runs on the counted thread.
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let count = pool.install(|| {
        let horizon = Horizon::whole(4, 2);
        for case in [&case, &other] {
            case.run(&mut batch, &params, horizon, &mut grad);
        }
        allocations(|| case.run(&mut batch, &params, horizon, &mut grad))
    });
    // The product of CPUs without our kernels may allocate.
    assert!(count == 0 || may_allocate(), "{} {keys:?}: {count}", K::NAME);
}

/// Complete steps of a run, including drawing the batch.
fn check_run<K: Small>(keys: &[&str]) {
    let keys = [K::KEYS, &["train.batch=16", "iterations.train=4", "iterations.train_max=0"], keys].concat();
    let data = Loaded { train: K::some(20, 1), test: K::some(2, 2), more: None };
    let mut task = Training::<K>::with_data(common::experiment(&keys), data).unwrap();
    let params = task.initial(3);
    let mut grad = vec![0.0; params.len()];
    let pool = rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap();
    let count = pool.install(|| {
        for step in 0..4 {
            task.loss_and_grad(&params, 3, step, &mut grad).unwrap();
        }
        allocations(|| task.loss_and_grad(&params, 3, 2, &mut grad).unwrap())
    });
    assert!(count == 0 || may_allocate(), "a run of {}: {count}", K::NAME);
}

#[test]
fn whole_steps_of_a_run_allocate_nothing_after_warm_up() {
    check_run::<Maze>(&[]);
    check_run::<Maze>(&["model.consensus=descent", "model.asynchronous=delay=4,loss=0.2,activity=0.7"]);
    let disturbed = ["iterations.gradient=3", "iterations.restart=0.9", "iterations.noise=0.1"];
    check_run::<Maze>(&[&disturbed[..], &["train.loss_window=2"]].concat());
    check_run::<Sudoku>(&disturbed);
    check_run::<Maze>(&["iterations.cg_steps_min=2", "iterations.cg_steps_max=3"]);
    check_run::<Sudoku>(&["iterations.cg_steps_min=2", "iterations.cg_steps_max=3"]);
    check_run::<Mnist>(&[]);
    check_run::<Sudoku>(&["data.relabel=true", "data.permute=true"]);
}

#[test]
fn training_steps_of_every_task_allocate_nothing_after_warm_up() {
    check::<Maze>(&[]);
    check::<Mnist>(&[]);
    check::<Sudoku>(&[]);
}

#[test]
fn nor_do_steps_with_bf16_products() {
    check::<Maze>(&["train.precision=bf16"]);
    check::<Mnist>(&["train.precision=bf16"]);
    check::<Mnist>(&["train.precision=bf16", "model.d_v=32", "model.d_e=24", "model.rank=8"]);
    check::<Sudoku>(&["train.precision=bf16"]);
    check::<Sudoku>(&["train.precision=bf16", "model.maps=orthonormal"]);
}

#[test]
fn every_form_of_maps_and_every_solver_allocates_nothing_after_warm_up() {
    for keys in [
        &["model.maps=shared"][..],
        &["model.maps=identity", "model.agreement=hard"],
        &["model.sharing=global"],
        &["model.maps=shared", "model.sharing=agent", "model.agents=9"],
        &["model.consensus=gram"],
        &["model.consensus=cg-warm"],
        &["model.consensus=descent"],
        &["model.consensus=edge"],
        &["model.consensus=exact"],
        &["model.consensus=huber"],
        &["model.penalty=per-agent", "model.objective=tether"],
        &["model.balancing=true"],
    ] {
        check::<Maze>(keys);
    }
    for keys in [
        &["model.maps=low-rank"][..],
        &["model.maps=orthonormal"],
        &["model.maps=orthonormal", "model.scales=true"],
        &["model.maps=low-rank", "model.sharing=global", "model.d_v=36", "model.d_e=4", "model.consensus=cg"],
    ] {
        check::<Sudoku>(keys);
    }
    check::<Mnist>(&["model.d_v=16", "model.d_e=12"]);
}
