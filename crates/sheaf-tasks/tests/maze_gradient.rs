//! The gradient of the whole maze model: right by finite differences, and the same bits on any number of threads.

use sheaf_admm::admm::Adjoint;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::generate;
use sheaf_tasks::maze::model::{Batch, Horizon, MazeConfig, MazeModel};
use sheaf_testkit::finite_difference::GradientCheck;

fn small(objective: &str, maps: &str, agreement: &str, start: &str) -> MazeModel {
    MazeModel::new(MazeConfig {
        d_v: 6,
        d_e: 3,
        hidden: 12,
        rank: 2,
        objective: objective.into(),
        maps: maps.into(),
        agreement: agreement.into(),
        start: start.into(),
        relaxation: 1.3,
        ..MazeConfig::default()
    })
    .unwrap()
}

#[test]
fn the_gradient_of_every_variant_meets_finite_differences() {
    let set = generate(&MazeShape::new(7, 7, 4).unwrap(), 3, 2).unwrap();
    let horizon = Horizon { iterations: 4, window: 2 };
    for (objective, maps, agreement, start) in [
        ("l1-box", "low-rank", "soft", "h"),
        ("quadratic", "shared", "hard", "zeros"),
        ("non-negative", "low-rank", "hard", "h"),
        ("tether", "shared", "soft", "h"),
    ] {
        let model = small(objective, maps, agreement, start);
        let board = model.board(7, 7).unwrap();
        let params: Vec<f64> = model.init(5);
        // Away from the kinks at zero heads and zero low-rank factors.
        let stream = &mut sheaf_learn::rng::Stream::new(9, "noise of a test", 0, 0);
        let params: Vec<f64> = params.iter().map(|p| p + 0.05 * stream.normal()).collect();
        let mut batch = Batch::<f64>::default();
        let mut run = |params: &[f64], grad: &mut [f64]| {
            let (inputs, labels) = (&set.inputs, &set.labels);
            batch
                .loss_and_grad(&model, params, &board, inputs, labels, horizon, Adjoint::Unrolled, grad)
                .unwrap()
                .loss
        };
        let mut grad = vec![0.0; params.len()];
        run(&params, &mut grad);
        let mut spare = grad.clone();
        let name = format!("{objective}, {maps}, {agreement}, {start}");
        // Hundreds of coordinates stand near the bound at 0: short steps do not carry any of them across.
        let check = GradientCheck { step: 1e-6, ..GradientCheck::default() };
        check.assert(&name, &mut |p| run(p, &mut spare), &params, &grad);
    }
}

#[test]
fn one_two_and_three_threads_give_the_same_bits() {
    let model = MazeModel::new(MazeConfig { hidden: 32, ..MazeConfig::default() }).unwrap();
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 7, 24).unwrap();
    let board = model.board(19, 19).unwrap();
    let params: Vec<f32> = model.init(1);
    let run = |threads: usize| {
        let pool = rayon::ThreadPoolBuilder::new().num_threads(threads).build().unwrap();
        let (mut grad, mut batch) = (vec![0f32; params.len()], Batch::<f32>::default());
        let horizon = Horizon { iterations: 5, window: 4 };
        let loss = pool
            .install(|| {
                let (inputs, labels) = (&set.inputs, &set.labels);
                batch.loss_and_grad(
                    &model,
                    &params,
                    &board,
                    inputs,
                    labels,
                    horizon,
                    Adjoint::Unrolled,
                    &mut grad,
                )
            })
            .unwrap()
            .loss;
        (loss.to_bits(), grad.iter().map(|g| g.to_bits()).collect::<Vec<_>>())
    };
    let one = run(1);
    assert!(one == run(2) && one == run(3));
}
