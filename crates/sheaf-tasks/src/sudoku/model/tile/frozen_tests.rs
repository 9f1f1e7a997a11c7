//! Gradients of the last iterations against differences of a loss that starts from the states before them, held still.

use sheaf_learn::train::loss::cross_entropy_grad;
use sheaf_testkit::finite_difference::GradientCheck;
use sheaf_testkit::random::TestRng;

use super::super::{Batch, SudokuConfig};
use super::*;
use crate::sudoku::generate::{Kind, generate};

const HORIZON: Horizon = Horizon { iterations: 5, window: 2, gradient: 3 };

#[test]
fn gradients_of_the_last_iterations_are_those_of_a_solve_from_there() {
    let set = generate(Kind::Mixed, 8, 2);
    let (puzzles, solutions) = (&set.puzzles, &set.solutions);
    for maps in ["slot", "low-rank", "orthonormal"] {
        let config = SudokuConfig {
            d_v: 18,
            d_e: 2,
            channels: 6,
            mixers: 1,
            token_hidden: 4,
            channel_hidden: 5,
            decoder_hidden: 7,
            maps: maps.into(),
            rank: 2,
            cg_steps: 3,
            ..SudokuConfig::default()
        };
        let model = SudokuModel::new(config).unwrap();
        let noise = TestRng::new(9).normals(model.layout().len());
        let mut params: Vec<f64> =
            model.init::<f64>(9).iter().zip(noise).map(|(p, n)| p + 0.05 * n).collect();
        // A quarter of the states is pushed below the bound at 0, the others above: no step crosses it.
        let q = model.layout().range("encoder/q/bias").unwrap();
        params[q].iter_mut().enumerate().for_each(|(i, b)| *b += if i % 4 == 0 { 4.0 } else { -4.0 });

        let mut gradient = vec![0.0; params.len()];
        Batch::default().loss_and_grad(&model, &params, puzzles, solutions, HORIZON, &mut gradient);

        let n = puzzles.len() * model.state_len();
        let (mut p, mut tile) = (Prepared::default(), Tile::default());
        model.prepare(&params, &mut p);
        model.encode(&params, &p, puzzles, &mut tile);
        model.begin(&p, HORIZON.taped(), &mut tile);
        model.run(&p, HORIZON.iterations - HORIZON.taped(), Keep::States, &mut tile, None);
        let (w, g) = (tile.w[..n].to_vec(), tile.g[..n].to_vec());

        let mut labels = vec![0; puzzles.len() * VIEWS];
        for (solution, labels) in solutions.iter().zip(labels.chunks_exact_mut(VIEWS)) {
            gather(solution, labels);
        }
        let weight = 1.0 / (labels.len() * HORIZON.window) as f64;
        let mut exps = vec![0.0; labels.len() * CLASSES];
        let mut loss = |params: &[f64]| {
            model.prepare(params, &mut p);
            model.encode(params, &p, puzzles, &mut tile);
            model.begin(&p, HORIZON.taped(), &mut tile);
            tile.w[..n].copy_from_slice(&w);
            tile.g[..n].copy_from_slice(&g);
            model.run(&p, HORIZON.taped(), Keep::Tape, &mut tile, None);
            let first = HORIZON.taped() - HORIZON.window;
            let read = |k: usize| {
                model.decoder.forward(params, &p.decoder, &tile.x[k * n..][..n], &mut tile.decoded);
                let logits = &mut tile.decoded.logits[..labels.len() * CLASSES];
                cross_entropy_grad(logits, &labels, CLASSES, weight, &mut exps)
            };
            (first..HORIZON.taped()).map(read).sum()
        };
        let check = GradientCheck { step: 1e-5, ..GradientCheck::default() };
        check.assert(maps, &mut loss, &params, &gradient);
    }
}
