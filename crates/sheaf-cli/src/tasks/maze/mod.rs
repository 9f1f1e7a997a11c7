//! Mazes, as the commands use them.

pub mod data;
mod eval;
pub mod solve;
mod story;

use std::path::Path;
use std::sync::Arc;

use sheaf_admm::Result;
use sheaf_admm::share::Comm;
use sheaf_learn::model::evaluate::{Reader, SolveOptions};
use sheaf_learn::task::{Loaded, Task as _, Weights};
use sheaf_tasks::maze::CLASSES;
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, generate};
use sheaf_tasks::maze::metrics::Judge;
use sheaf_tasks::maze::ranks;
use sheaf_tasks::maze::task::{
    self, Maze, MazeBoard, MazeConfig, MazeExperiment, MazeModel, MazeReader, MazeSamples, MazeWeights,
};

use super::{BENCH_SEED, EvalRequest, Learned, TraceArrays};
use crate::report::Report;
use data::default_min_path;

impl Learned for Maze {
    fn board_over(comm: Option<&Arc<dyn Comm>>, config: &MazeConfig, set: &MazeSet) -> Result<MazeBoard> {
        ranks::board_over(comm, config, set.height, set.width)
    }

    const BUILTIN: &'static [u8] = task::BUILTIN;
    const SIZES: &'static [usize] = &[19, 37, 73, 145, 289, 501, 1001];
    const BENCH_BUILTIN: bool = true;

    type Solve = solve::SolveArgs;
    type Draw = data::DataArgs;
    type Options = eval::Options;

    fn read(path: &Path) -> Result<MazeSet> {
        MazeSet::read(path)
    }

    fn evaluate_file(weights: &MazeWeights, request: &EvalRequest, report: &mut Report) -> Result<()> {
        eval::evaluate(weights, request, report)
    }

    fn output_shape(_config: &MazeConfig) -> Vec<usize> {
        vec![3, 3, CLASSES]
    }

    fn traced(
        weights: &Weights<Self>,
        set: &MazeSet,
        index: usize,
        outputs: &[f32],
        trace: &mut TraceArrays,
    ) -> Result<()> {
        let grid = Self::board(&weights.experiment.model, set)?.layout;
        let reader = MazeReader(MazeSamples { grid, inputs: &set.inputs, labels: &set.labels });
        let last = outputs.len() - grid.agents() * grid.view_pixels() * CLASSES;
        let (input, label, predicted) =
            (set.input(index), set.label(index), reader.read(index, &outputs[last..]));
        let score = Judge::default().score(input, label, &predicted, set.width);
        trace.report.solved(score.solved).value("valid", score.valid);
        for (name, tokens) in [("input", input), ("label", label), ("predicted", &predicted)] {
            trace.bytes.push((name, vec![set.height, set.width], tokens.to_vec()));
        }
        Ok(())
    }

    fn bench_set(_config: &MazeConfig, size: usize, count: usize) -> Result<MazeSet> {
        generate(&MazeShape::new(size, size, default_min_path(size, size))?, BENCH_SEED, count)
    }

    fn bench_data(experiment: &mut MazeExperiment, size: usize) -> Result<Loaded<MazeSet>> {
        let (data, batch) = (&mut experiment.data, experiment.train.batch);
        (data.size, data.min_path) = (size, default_min_path(size, size));
        (data.count, data.test_count) = ((2 * batch).max(256), 1);
        data.symmetries = batch.is_multiple_of(8);
        experiment.eval.larger = 0;
        Self::load(experiment)
    }

    fn answer(
        config: &MazeConfig,
        model: &MazeModel,
        params: &[f32],
        set: &MazeSet,
        options: &SolveOptions,
    ) -> Result<()> {
        let solved = task::solve(config, model, params, set, options, &|_| {})?;
        std::hint::black_box(task::summarise(set, &solved));
        Ok(())
    }
}
