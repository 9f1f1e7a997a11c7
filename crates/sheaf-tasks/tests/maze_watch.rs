//! Watching one maze, tracing it and evaluating it tell the same story.

use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, generate};
use sheaf_tasks::maze::evaluate::{EvalOptions, Settling, evaluate, evaluate_each};
use sheaf_tasks::maze::metrics::{argmax, reassemble};
use sheaf_tasks::maze::model::{Batch, MazeConfig, MazeModel, Sample, VIEW_LEN};
use sheaf_tasks::maze::watch::{WatchOptions, trace, watch};
use sheaf_tasks::maze::weights::MazeWeights;

fn small() -> (MazeModel, Vec<f32>) {
    let config = MazeConfig { d_v: 4, d_e: 2, hidden: 8, rank: 2, ..MazeConfig::default() };
    let model = MazeModel::new(config).unwrap();
    let params = model.init(3);
    (model, params)
}

fn mazes(size: usize, count: usize) -> MazeSet {
    generate(&MazeShape::new(size, size, 4).unwrap(), 5, count).unwrap()
}

#[test]
fn what_is_watched_is_what_is_traced_and_evaluated() {
    let (model, params) = small();
    let set = mazes(9, 3);
    let board = model.board(9, 9).unwrap();
    let options = WatchOptions { iterations: 7, settling: None, pictures: true };
    let eval = EvalOptions { iterations: 7, settling: None, first_solve: true };
    let each = evaluate_each(&model, &params, &set, &eval, &|_| {}).unwrap();
    for i in 0..set.len() {
        let (input, label) = (set.input(i), set.label(i));
        let mut moments = Vec::new();
        let mut see = |m: &sheaf_tasks::maze::watch::Moment<'_>| {
            moments.push((m.iteration, m.distances, m.picture.unwrap().to_vec()));
        };
        let watched = watch(&model, &params, &board, input, label, &options, &mut see).unwrap();
        assert_eq!(watched.iterations, 7);
        assert_eq!(moments.iter().map(|m| m.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(moments[6].1, watched.distances);
        assert_eq!(moments[6].2, watched.picture, "the last look is the answer");
        assert_eq!(each[i].summary.right_cells, watched.score.right_cells);
        assert_eq!(each[i].summary.solved == 1, watched.score.solved);

        let (trace, logits) = trace(&model, &params, &board, input, 7).unwrap();
        let agents = board.sheaf.agents();
        let mut picture = vec![0.0; watched.picture.len()];
        reassemble(&board.grid, &logits[6 * agents * VIEW_LEN..], &mut picture);
        assert_eq!(picture, watched.picture);
        let rms = |all: &[f32]| (all.iter().map(|v| v * v).sum::<f32>() / all.len() as f32).sqrt();
        let close = |a: f32, b: f32| (a - b).abs() <= 1e-5 * b.abs();
        assert!(close(rms(&trace.primal[6 * agents..]), watched.distances.primal));
        assert!(close(rms(&trace.dual[6 * agents..]), watched.distances.dual));
        assert!(close(trace.edge_rms[6], watched.distances.consistency));
        let mut predicted = vec![0; 81];
        argmax(&picture, &mut predicted);
        assert_eq!(predicted, watched.predicted);
    }
    let all = evaluate(&model, &params, &set, &eval, &|_| {}).unwrap();
    assert_eq!((all.summary.mazes, all.iterations), (3, 21));
}

#[test]
fn the_trained_model_settles_and_has_been_solved_on_the_way() {
    let MazeWeights { model, params, .. } = MazeWeights::builtin().unwrap();
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 5, 4).unwrap();
    let options = EvalOptions { iterations: 400, settling: Some(Settling::default()), first_solve: true };
    for told in evaluate_each(&model, &params, &set, &options, &|_| {}).unwrap() {
        assert!((10..400).contains(&told.iterations), "{told:?}");
        assert!(told.ever_solved == 1 && told.first_solve <= told.iterations, "{told:?}");
    }
}

#[test]
fn a_maze_settles_later_when_less_movement_is_allowed() {
    let (model, params) = small();
    let (set, board) = (mazes(9, 1), model.board(9, 9).unwrap());
    let until = |fraction| {
        let settling = Some(Settling { fraction, patience: 3 });
        let options = WatchOptions { iterations: 2000, settling, pictures: false };
        watch(&model, &params, &board, set.input(0), set.label(0), &options, &mut |_| {}).unwrap()
    };
    let (early, late) = (until(0.3), until(0.03));
    assert!(early.settled && late.settled);
    assert!(early.iterations < late.iterations, "{} and {}", early.iterations, late.iterations);
}

#[test]
fn a_board_decoded_in_tiles_says_the_same_as_its_parts() {
    let (model, params) = small();
    let set = mazes(73, 1);
    let board = model.board(73, 73).unwrap();
    let mut batch = Batch::default();
    batch.encode(&model, &params, &board, set.input(0)).unwrap();
    let index = batch.views().index();
    assert!(index.len() > 1024 + 100, "more agents than one tile");
    let x: Vec<f32> = (0..index.len() * 4).map(|i| ((i * 37 % 101) as f32 - 50.0) / 50.0).collect();
    let (mut whole, mut part) = (Sample::default(), Sample::default());
    model.decode_states(&params, batch.tables(), index, &x, &mut whole);
    for range in [0..50, 1000..1100, index.len() - 10..index.len()] {
        let states = &x[range.start * 4..range.end * 4];
        model.decode_states(&params, batch.tables(), &index[range.clone()], states, &mut part);
        let expected = &whole.logits(index.len())[range.start * VIEW_LEN..range.end * VIEW_LEN];
        for (a, b) in part.logits(range.len()).iter().zip(expected) {
            assert!((a - b).abs() < 1e-5, "{a} and {b} in {range:?}");
        }
    }
}
