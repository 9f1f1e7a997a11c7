//! Mazes: the agents' views; observing, tracing and evaluating a maze give the same results.

use sheaf_learn::model::evaluate::{Reader, Single, SolveOptions, Traced, WatchOptions, rms};
use sheaf_learn::model::settle::Settling;
use sheaf_learn::model::{Samples, Targets, Views};
use sheaf_learn::task::Task;
use sheaf_learn::train::loss::IGNORE;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, generate};
use sheaf_tasks::maze::task::{
    BUILTIN, Maze, MazeBoard, MazeConfig, MazeModel, MazeReader, MazeSamples, MazeWeights, board, solve,
    summarise,
};

fn small() -> (MazeConfig, MazeModel, Vec<f32>) {
    let mut config = MazeConfig { hidden: 8, ..MazeConfig::default() };
    (config.common.d_v, config.common.d_e, config.common.rank) = (4, 2, 2);
    let model = Maze::model(&config).unwrap();
    let params = model.init(3);
    (config, model, params)
}

fn mazes(size: usize, count: usize) -> MazeSet {
    generate(&MazeShape::new(size, size, 4).unwrap(), 5, count).unwrap()
}

fn samples<'a>(board: &MazeBoard, set: &'a MazeSet) -> MazeSamples<'a> {
    MazeSamples { grid: board.layout, inputs: &set.inputs, labels: &set.labels }
}

#[test]
fn what_is_watched_is_what_is_traced_and_evaluated() {
    let (config, model, params) = small();
    let set = mazes(9, 3);
    let board = board(&config, 9, 9).unwrap();
    let options = SolveOptions { first_right: true, ..SolveOptions::fixed(7) };
    let solved = solve(&config, &model, &params, &set, &options, &|_| {}).unwrap();
    let (samples, agents) = (samples(&board, &set), board.sheaf.agents());
    for (i, solved) in solved.iter().enumerate() {
        let single = Single::new(&model, &params, &board.sheaf, &samples, i).unwrap();
        let mut moments = Vec::new();
        let options = WatchOptions { solve: SolveOptions::fixed(7), every: true };
        let watched = single
            .watch(&MazeReader(samples), i, &options, &mut |m| {
                moments.push((m.iteration, m.distances, m.outputs.unwrap().to_vec()));
            })
            .unwrap();
        assert_eq!((watched.iterations, watched.settled, solved.iterations), (7, false, 7));
        assert_eq!(moments.iter().map(|m| m.0).collect::<Vec<_>>(), [1, 2, 3, 4, 5, 6, 7]);
        assert_eq!(moments[6].1, watched.distances);
        assert_eq!(moments[6].2, watched.outputs, "the last look is the answer");
        assert_eq!(solved.answer, watched.answer);
        assert_eq!(MazeReader(samples).read(i, &watched.outputs), watched.answer);

        let Traced { admm: trace, outputs, .. } = single.trace(7).unwrap();
        let distances = watched.distances.unwrap();
        assert_eq!(outputs, moments.into_iter().flat_map(|m| m.2).collect::<Vec<_>>());
        assert_eq!(trace.x.len(), 7 * board.sheaf.state_len());
        let close = |a: f32, b: f32| (a - b).abs() <= 1e-5 * b.abs();
        assert!(close(rms(&trace.primal[6 * agents..]), distances.primal));
        assert!(close(rms(&trace.dual[6 * agents..]), distances.dual));
        assert!(close(trace.edge_rms[6], distances.edge_rms));
    }
    assert_eq!(summarise(&set, &solved).mazes, 3);
}

#[test]
fn the_trained_model_settles_and_has_been_solved_on_the_way() {
    let MazeWeights { experiment, model, params } = MazeWeights::builtin(BUILTIN).unwrap();
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 5, 4).unwrap();
    let settling = Some(Settling::default());
    let options = SolveOptions { settling, first_right: true, ..SolveOptions::fixed(400) };
    for score in solve(&experiment.model, &model, &params, &set, &options, &|_| {}).unwrap() {
        assert!((10..400).contains(&score.iterations), "{score:?}");
        assert!(score.first_right.is_some_and(|first| first <= score.iterations), "{score:?}");
    }
}

#[test]
fn a_maze_settles_later_when_less_movement_is_allowed() {
    let (config, model, params) = small();
    let (set, board) = (mazes(9, 1), board(&config, 9, 9).unwrap());
    let samples = samples(&board, &set);
    let single = Single::new(&model, &params, &board.sheaf, &samples, 0).unwrap();
    let until = |fraction| {
        let settling = Some(Settling::at(fraction, 3));
        let solve = SolveOptions { settling, ..SolveOptions::fixed(2000) };
        let options = WatchOptions { solve, every: false };
        single.watch(&MazeReader(samples), 0, &options, &mut |m| assert!(m.outputs.is_none())).unwrap()
    };
    let (early, late) = (until(0.3), until(0.03));
    assert!(early.settled && late.settled);
    assert!(early.iterations < late.iterations, "{} and {}", early.iterations, late.iterations);
}

#[test]
fn agents_sit_where_the_published_model_has_them() {
    let of = |h, w| board(&MazeConfig::default(), h, w).unwrap();
    assert_eq!((of(19, 19).layout.rows(), of(19, 19).sheaf.agents()), (9, 81));
    assert_eq!(of(19, 37).layout.agents(), 9 * 18);
    assert!(board(&MazeConfig::default(), 1, 19).is_err());
}

#[test]
fn labels_beyond_the_border_do_not_count() {
    let board = board(&MazeConfig::default(), 4, 4).unwrap();
    let labels: Vec<u8> = (0..16).map(|i| 1 + i % 5).collect();
    let samples = MazeSamples { grid: board.layout, inputs: &labels, labels: &labels };
    let (mut views, mut targets) = (vec![0.0; 36], Targets::default());
    samples.views(0, &mut views);
    samples.targets(0, &mut targets);
    // The fourth agent sees rows and columns 2, 3 and the first beyond, which is wall.
    let wall = f32::from(sheaf_tasks::maze::WALL);
    assert_eq!(views[27..30], [f32::from(labels[10]), f32::from(labels[11]), wall]);
    assert_eq!(targets.labels[27..30], [labels[10], labels[11], IGNORE]);
    assert_eq!(targets.labels[33..], [IGNORE; 3]);
}

#[test]
fn a_batch_has_about_a_hundred_distinct_views() {
    let board = board(&MazeConfig::default(), 19, 19).unwrap();
    let set = generate(&MazeShape::new(19, 19, 18).unwrap(), 11, 128).unwrap();
    let mut views = Views::default();
    views.collect(&samples(&board, &set), 0..128, 81, 9);
    assert_eq!(views.index().len(), 128 * 81);
    assert!((60..140).contains(&views.len()), "{}", views.len());
}
