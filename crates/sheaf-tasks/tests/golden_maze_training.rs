//! Three training steps against the authors' optimiser: losses, gradient norms, parameters and running average.
#![cfg(feature = "goldens")]

use sheaf_learn::model::{Batch, Horizon};
use sheaf_learn::task::Task;
use sheaf_learn::train::{AdamW, Decay, Schedule, clip_global_norm, ema_update};
use sheaf_tasks::maze::task::{Maze, MazeConfig, MazeModel, MazeSamples, board};
use sheaf_testkit::golden::Golden;

const STEPS: u64 = 3;

fn flat(model: &MazeModel, golden: &Golden, prefix: &str) -> Vec<f32> {
    let entries = model.layout().entries().iter();
    entries
        .flat_map(|e| {
            golden.f32(&format!("{prefix}{}", Maze::authors_name(model.layout(), &e.name).unwrap())).data
        })
        .collect()
}

/// ‖(a − start) − (b − start)‖ / ‖b − start‖: how far two movements from one start differ.
fn movement_error(start: &[f32], got: &[f32], want: &[f32]) -> f64 {
    let square = |a: f32, b: f32| (f64::from(a) - f64::from(b)).powi(2);
    let off: f64 = got.iter().zip(want).map(|(&g, &w)| square(g, w)).sum();
    let moved: f64 = start.iter().zip(want).map(|(&s, &w)| square(w, s)).sum();
    (off / moved).sqrt()
}

#[test]
fn three_steps_of_the_optimiser_move_the_parameters_as_published() {
    let model = Maze::model(&MazeConfig::default()).unwrap();
    let start = flat(&model, &Golden::open("maze_sheaf", "params.safetensors"), "param/");
    let inputs = Golden::open("maze_sheaf", "inputs.safetensors");
    let want = Golden::open("maze_opt3", "opt3.safetensors");
    let bytes = |name: &str| -> Vec<u8> { inputs.i32(name).data.iter().map(|&t| t as u8).collect() };
    let (tokens, labels) = (bytes("tokens"), bytes("labels"));
    let (losses, norms) = (want.f64("losses").data, want.f64("grad_norms").data);

    let board = board(&MazeConfig::default(), 19, 19).unwrap();
    let samples = MazeSamples { grid: board.layout, inputs: &tokens, labels: &labels };
    let schedule = Schedule { peak: 3e-4, warmup: 200, decay: Decay::None };
    let adamw = AdamW { weight_decay: 1e-6, ..AdamW::default() };
    let mut params = start.clone();
    let mut ema = start.clone();
    let (mut m, mut v) = (vec![0.0; start.len()], vec![0.0; start.len()]);
    let mut grad = vec![0.0; start.len()];
    let mut batch = Batch::<f32, _, _>::default();
    for step in 0..STEPS {
        let horizon = Horizon::whole(8, 4);
        let batch_loss =
            batch.loss_and_grad(&model, &params, &board.sheaf, &samples, horizon, &mut grad).unwrap();
        let k = step as usize;
        assert!(
            (batch_loss.loss - losses[k]).abs() <= 1e-5 * losses[k],
            "loss {k}: {} against {}",
            batch_loss.loss,
            losses[k]
        );
        let norm = clip_global_norm(1.0, &mut grad);
        assert!((norm - norms[k]).abs() <= 1e-3 * norms[k], "norm {k}: {norm} against {}", norms[k]);
        adamw.update(schedule.at(step), step + 1, &grad, &mut params, &mut m, &mut v).unwrap();
        ema_update(0.999, &params, &mut ema).unwrap();
    }
    // Adam divides a gradient by its own size, so entries whose gradient is rounding noise move by noise: the update is
    // compared as a whole, and entry by entry only against the longest possible step.
    let want_params = flat(&model, &want, "p1/");
    let error = movement_error(&start, &params, &want_params);
    assert!(error < 1e-2, "the parameters' movement is off by {error:.2e}");
    let longest = 2.0 * (schedule.at(1) + schedule.at(2)) as f32;
    let worst = params.iter().zip(&want_params).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= longest, "a parameter is off by {worst}, more than two whole steps {longest}");
    let want_ema = flat(&model, &want, "ema/");
    let worst = ema.iter().zip(&want_ema).map(|(a, b)| (a - b).abs()).fold(0.0, f32::max);
    assert!(worst <= 2e-7, "the running average is off by {worst}");
}
