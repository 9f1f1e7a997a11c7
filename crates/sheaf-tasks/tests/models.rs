//! Properties of the models of all tasks: gradients, threads, batches, settling; observing, tracing and solving agree.

mod common;

use common::{Case, Small, differences};
use sheaf_learn::model::evaluate::{Single, SolveOptions};
use sheaf_learn::model::settle::Settling;
use sheaf_learn::model::{Batch, Disturbance, Horizon, Worker};
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

/// Agents that are not in step.
const OUT_OF_STEP: &[&str] =
    &["model.consensus=descent", "model.asynchronous=delay=4,loss=0.2,activity=0.7,seed=1"];

const BF16: &str = "train.precision=bf16";

/// Runs a generic check for every task, in every form of its maps.
macro_rules! for_every_task {
    ($check:ident) => {
        $check::<Maze>(&[]);
        $check::<Mnist>(&[]);
        $check::<Sudoku>(&[]);
        $check::<Sudoku>(&["model.maps=low-rank", "model.d_e=3"]);
        $check::<Sudoku>(&["model.maps=orthonormal"]);
    };
}

fn gradients_meet_differences<K: Small>(keys: &[&str]) {
    let case = Case::<K>::new(keys, 2);
    let name = format!("{} {keys:?}", K::NAME);
    case.check_gradient(&name, &case.noisy(9), Horizon::whole(4, 2), &differences::<K>(), true);
}

#[test]
fn the_gradient_of_every_tensor_meets_finite_differences() {
    for_every_task!(gradients_meet_differences);
}

fn threads_change_no_bit<K: Small>(keys: &[&str]) {
    let case = Case::<K>::new(keys, 37);
    let warm_up = Case::<K>::new(keys, 9);
    let params: Vec<f32> = case.model.init(5);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        pool.install(|| {
            let (mut grad, mut batch) = (vec![0f32; params.len()], Batch::default());
            // Twice: buffers left by one batch must not affect the next.
            warm_up.run(&mut batch, &params, Horizon::whole(5, 4), &mut grad);
            let loss = case.run(&mut batch, &params, Horizon::whole(3, 2), &mut grad).loss;
            let answers = K::answers(&case, &params, &case.set, &SolveOptions::fixed(6));
            (loss.to_bits(), grad.iter().map(|g| g.to_bits()).collect::<Vec<_>>(), answers)
        })
    };
    let one = run(1);
    assert!(one == run(2) && one == run(3), "{} {keys:?}", K::NAME);
}

#[test]
fn one_two_and_three_threads_give_the_same_bits() {
    for_every_task!(threads_change_no_bit);
    threads_change_no_bit::<Maze>(OUT_OF_STEP);
    threads_change_no_bit::<Mnist>(OUT_OF_STEP);
}

#[test]
fn agents_out_of_step_draw_other_numbers_in_every_step_and_for_every_sample() {
    let (case, in_step) = (Case::<Maze>::new(OUT_OF_STEP, 3), Case::<Maze>::new(&OUT_OF_STEP[..1], 3));
    let params = case.noisy(4);
    let at = |draw| case.gradient(&params, Horizon { draw, ..Horizon::whole(4, 2) });
    assert_eq!(at(1), at(1));
    assert_ne!(at(1), at(2));
    assert_ne!(at(1), in_step.gradient(&params, Horizon::whole(4, 2)));
}

#[test]
fn disturbed_steps_draw_their_own_numbers_and_give_the_same_bits_every_time() {
    fn check<K: Small>() {
        let case = Case::<K>::new(&[], 7);
        let params = case.noisy(4);
        let usual = Horizon { gradient: 2, draw: 1, ..Horizon::whole(5, 2) };
        let at = |draw, [shift, restart, noise]: [f64; 3]| {
            let disturbance = Disturbance { shift, restart, noise, seed: 3 };
            case.gradient(&params, Horizon { draw, disturbance, ..usual })
        };
        let plain = case.gradient(&params, usual);
        assert_eq!(at(1, [0.0; 3]), plain);
        for kind in [[1.0, 0.0, 0.0], [0.0, 0.9, 0.0], [0.0, 0.0, 0.1]] {
            assert_eq!(at(1, kind), at(1, kind), "{}", K::NAME);
            assert_ne!(at(1, kind), at(2, kind), "{}", K::NAME);
            assert_ne!(at(1, kind), plain, "{}", K::NAME);
        }
    }
    check::<Maze>();
    check::<Mnist>();
    check::<Sudoku>();
}

#[test]
fn they_do_so_with_bf16_products_too() {
    threads_change_no_bit::<Maze>(&[BF16]);
    threads_change_no_bit::<Mnist>(&[BF16]);
    threads_change_no_bit::<Mnist>(&[BF16, "model.d_v=32", "model.d_e=24", "model.rank=8"]);
    threads_change_no_bit::<Sudoku>(&[BF16]);
    threads_change_no_bit::<Sudoku>(&["model.maps=low-rank", "model.d_e=3", BF16]);
    threads_change_no_bit::<Sudoku>(&["model.maps=orthonormal", BF16]);
}

fn batch_is_the_mean<K: Small>(keys: &[&str]) {
    let case = Case::<K>::new(keys, 19);
    let params = case.noisy(4);
    let horizon = Horizon::whole(3, 9);
    let (loss, grad) = case.gradient(&params, horizon);
    let (mut mean_loss, mut mean) = (0.0, vec![0.0; params.len()]);
    for i in 0..19 {
        let one = Case::<K> { set: K::part(&case.set, i, 1), ..Case::new(keys, 1) };
        let (loss, grad) = one.gradient(&params, horizon);
        mean_loss += loss / 19.0;
        mean.iter_mut().zip(grad).for_each(|(m, g)| *m += g / 19.0);
    }
    assert!((loss - mean_loss).abs() < 1e-12, "{} {keys:?}: {loss} and {mean_loss}", K::NAME);
    let largest = mean.iter().fold(0.0f64, |m, g| m.max(g.abs()));
    assert!(grad.iter().zip(&mean).all(|(a, b)| (a - b).abs() <= 1e-12 * largest), "{}", K::NAME);
}

#[test]
fn a_batch_is_the_mean_of_its_samples() {
    for_every_task!(batch_is_the_mean);
}

fn alone_as_in_a_batch<K: Small>(keys: &[&str]) {
    let case = Case::<K>::new(keys, 11);
    let params: Vec<f32> = case.noisy(7).iter().map(|&p| p as f32).collect();
    let fixed = K::answers(&case, &params, &case.set, &SolveOptions::fixed(6));
    // The first fraction at which the samples end at different times.
    let settles = [0.05, 0.02, 0.01, 0.005, 0.002, 0.001].into_iter().find_map(|fraction| {
        let settling = Some(Settling::at(fraction, 2));
        let options = SolveOptions { settling, ..SolveOptions::fixed(200) };
        let settled = K::answers(&case, &params, &case.set, &options);
        settled.iter().any(|s| s.iterations != settled[0].iterations).then_some((options, settled))
    });
    let (options, settled) = settles.unwrap_or_else(|| panic!("{} {keys:?}: no fraction", K::NAME));
    for i in 0..11 {
        let alone = K::part(&case.set, i, 1);
        assert_eq!(K::answers(&case, &params, &alone, &SolveOptions::fixed(6))[0], fixed[i]);
        // A sample that settles beside others stops where it would have stopped alone, with the answer it had then.
        assert_eq!(K::answers(&case, &params, &alone, &options)[0], settled[i], "{} {keys:?}", K::NAME);
        let until = SolveOptions::fixed(settled[i].iterations);
        assert_eq!(K::answers(&case, &params, &alone, &until)[0].answer, settled[i].answer);
    }
    let never = SolveOptions { settling: Some(Settling::at(0.0, 1)), ..SolveOptions::fixed(9) };
    assert!(K::answers(&case, &params, &case.set, &never).iter().all(|s| s.iterations == 9));
}

#[test]
fn a_sample_alone_and_in_a_tile_gives_the_same_answer_after_as_many_iterations() {
    for_every_task!(alone_as_in_a_batch);
}

fn tolerances_end_samples<K: Small>(keys: &[&str]) {
    let case = Case::<K>::new(keys, 5);
    let params: Vec<f32> = case.model.init(5);
    let until = |tolerance| SolveOptions { tolerance: Some(tolerance), ..SolveOptions::fixed(300) };
    let (coarse, fine) = (
        K::answers(&case, &params, &case.set, &until(0.3)),
        K::answers(&case, &params, &case.set, &until(0.03)),
    );
    for (i, (coarse, fine)) in coarse.iter().zip(&fine).enumerate() {
        assert!(coarse.iterations < fine.iterations, "{} {keys:?}: {coarse:?} {fine:?}", K::NAME);
        let alone = K::answers(&case, &params, &K::part(&case.set, i, 1), &until(0.3));
        assert_eq!(&alone[0], coarse, "{} {keys:?}", K::NAME);
    }
}

#[test]
fn a_tolerance_ends_every_sample_for_itself() {
    for_every_task!(tolerances_end_samples);
}

fn decoding_in_parts<K: Small>(keys: &[&str]) {
    let case = Case::<K>::new(keys, 1);
    let params: Vec<f32> = case.model.init(3);
    let samples = case.samples(&case.set);
    let single = Single::<f32, _, _>::new(&case.model, &params, &case.board.sheaf, &samples, 0).unwrap();
    let (at, one) = single.setting();
    // Enough agents that they are decoded in more than one block.
    let index: Vec<u32> = one.iter().copied().cycle().take(2500).collect();
    let d_v = case.model.section().d_v;
    let x: Vec<f32> = (0..index.len() * d_v).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let (mut whole, mut part) = (Worker::default(), Worker::default());
    whole.decode(&at, &index, &x);
    let outputs = whole.outputs().len() / index.len();
    for range in [0..50, 1000..1100, index.len() - 10..index.len()] {
        part.decode(&at, &index[range.clone()], &x[range.start * d_v..range.end * d_v]);
        let expected = &whole.outputs()[range.start * outputs..range.end * outputs];
        for (a, b) in part.outputs().iter().zip(expected) {
            assert!((a - b).abs() < 1e-5, "{}: {a} and {b} in {range:?}", K::NAME);
        }
    }
}

#[test]
fn states_decoded_in_parts_say_the_same_as_all_at_once() {
    for_every_task!(decoding_in_parts);
}
