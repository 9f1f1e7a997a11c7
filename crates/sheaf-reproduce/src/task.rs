//! The four tasks as runs see them: the parameters of an experiment, a training, and evaluations of weights.

use std::collections::HashSet;
use std::path::{Path, PathBuf};

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::config::{TrainSection, strict};
use sheaf_learn::model::evaluate::SolveOptions;
use sheaf_learn::task::{Experiment, Task, Training, Weights};
use sheaf_learn::train::{Trainable, WeightsFile};
use sheaf_tasks::baselines::cnn::experiment::{CnnExperiment, CnnTask, CnnWeights};
use sheaf_tasks::baselines::cnn::{CnnClassifier, CnnModel};
use sheaf_tasks::maze::carve::MazeShape;
use sheaf_tasks::maze::data::{MazeSet, generate_distinct, train_test_split};
use sheaf_tasks::maze::suite::{SuiteSet, TEST_COUNT, TRAIN_COUNT, evaluation_sets, training_shape};
use sheaf_tasks::maze::task::{Maze, solve, summarise};
use sheaf_tasks::mnist::data::ImageSet;
use sheaf_tasks::mnist::evaluate::{Agents, EvalOptions, EvalReport, evaluate_with};
use sheaf_tasks::mnist::shifts::Shift;
use sheaf_tasks::mnist::task::{ImageData, Mnist};
use sheaf_tasks::sudoku::source::SudokuData;
use sheaf_tasks::sudoku::task::{Sudoku, evaluate};

use crate::Scale;
use crate::record::Values;

/// Which task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TaskKind {
    /// Mazes.
    Maze,
    /// Sudoku.
    Sudoku,
    /// Agents that look at pictures.
    Mnist,
    /// The network that looks at pictures.
    Cnn,
}

/// Where data lie that are not generated.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DataPlaces {
    /// Folder with the files of MNIST.
    pub mnist: PathBuf,
    /// A CSV file of puzzles; generated ones if not given.
    pub sudoku: Option<PathBuf>,
}

/// An experiment with its keys, ready to train.
#[derive(Clone, Debug)]
pub struct Prepared {
    /// The task.
    pub task: TaskKind,
    /// The experiment with every default written out, TOML.
    pub config: String,
    /// Its training section.
    pub train: TrainSection,
    /// Parameters of the model.
    pub parameters: usize,
    /// Iterations of a training step on average, and of an evaluation.
    pub iterations: (f64, usize),
}

/// Draws of a random shift.
const DRAWS: usize = 3;
/// Seed of the sets of mazes that all runs are evaluated on.
const SUITE_SEED: u64 = 0;

impl TaskKind {
    /// All tasks.
    pub const ALL: [Self; 4] = [Self::Maze, Self::Sudoku, Self::Mnist, Self::Cnn];

    /// Its name in experiments.
    pub fn name(self) -> &'static str {
        match self {
            Self::Maze => "maze",
            Self::Sudoku => "sudoku",
            Self::Mnist => "mnist",
            Self::Cnn => "mnist-cnn",
        }
    }

    /// The task of an experiment file of that name.
    pub fn of(experiment: &str) -> Self {
        match experiment {
            "mnist-cnn" => Self::Cnn,
            name if name.starts_with("mnist") => Self::Mnist,
            name if name.starts_with("sudoku") => Self::Sudoku,
            _ => Self::Maze,
        }
    }

    /// Keys that say where data lie.
    pub fn data_keys(self, places: &DataPlaces) -> Vec<String> {
        let quoted = |path: &Path| format!("{:?}", path.display().to_string());
        match (self, &places.sudoku) {
            (Self::Mnist | Self::Cnn, _) => vec![format!("data.dir={}", quoted(&places.mnist))],
            (Self::Sudoku, Some(file)) => {
                vec![format!("data.source={}", quoted(file)), "data.count=0".into()]
            }
            _ => Vec::new(),
        }
    }

    /// Data that a user has to bring are there; if not, an error that names the option.
    pub fn check_data(self, places: &DataPlaces) -> Result<()> {
        let missing = |path: &Path, want: &str, hint: &str| {
            Err(Error::new(ErrorKind::Io, path.display().to_string(), want, "none").hint(hint))
        };
        match (self, &places.sudoku) {
            (Self::Mnist | Self::Cnn, _) if !places.mnist.is_dir() => missing(
                &places.mnist,
                "the folder with the files of MNIST",
                "`sheaf data mnist --out DIR` loads them; --mnist DIR says where they are",
            ),
            (Self::Sudoku, Some(file)) if !file.is_file() => {
                missing(file, "a file of puzzles", "--sudoku names it; puzzles are generated without it")
            }
            _ => Ok(()),
        }
    }

    /// Keys that make data and evaluations small, for quick runs.
    pub fn quick_keys(self) -> &'static [&'static str] {
        match self {
            Self::Maze => &["data.count=64", "data.test_count=8", "eval.test=8", "eval.larger=0"],
            Self::Sudoku => &["data.count=32", "data.test_count=8", "eval.test=8"],
            Self::Mnist => &["data.count=128", "eval.test=8", "eval.long=0"],
            Self::Cnn => &["data.count=128", "eval.test=8"],
        }
    }

    /// Samples of an evaluation, counted in those of the training's size, for estimates of its time.
    pub fn eval_samples(self, eval: &str, scale: Scale) -> f64 {
        match self {
            Self::Maze => suite_set(eval).map_or(0.0, |SuiteSet { shape, count, .. }| {
                let agents = (shape.height() / 2) * (shape.width() / 2);
                scale.samples(count, agents) as f64 * agents as f64 / 81.0
            }),
            Self::Sudoku => scale.samples(2_000, 81) as f64,
            Self::Mnist | Self::Cnn => {
                let drawn = eval.starts_with("drop") || eval.starts_with("noise");
                scale.samples(10_000, 81) as f64 * if drawn { DRAWS as f64 } else { 1.0 }
            }
        }
    }

    /// The experiment `text` with overridden keys, checked; `place` names it in errors.
    pub fn prepare(self, place: &str, text: &str, set: &[String]) -> Result<Prepared> {
        fn agents<K: Task>(task: TaskKind, place: &str, text: &str, set: &[String]) -> Result<Prepared> {
            let experiment: Experiment<K> = strict::parse(place, text, set)?;
            experiment.check()?;
            let iterations = &experiment.iterations;
            let most = iterations.train_max.max(iterations.train);
            Ok(Prepared {
                task,
                config: strict::to_toml(&experiment)?,
                parameters: experiment.model()?.layout().len(),
                iterations: (0.5 * (iterations.train + most) as f64, iterations.eval),
                train: experiment.train,
            })
        }
        match self {
            Self::Maze => agents::<Maze>(self, place, text, set),
            Self::Sudoku => agents::<Sudoku>(self, place, text, set),
            Self::Mnist => agents::<Mnist>(self, place, text, set),
            Self::Cnn => {
                let experiment: CnnExperiment = strict::parse(place, text, set)?;
                experiment.check()?;
                Ok(Prepared {
                    task: self,
                    config: strict::to_toml(&experiment)?,
                    parameters: CnnModel::new(experiment.model.clone())?.layout().len(),
                    iterations: (1.0, 1),
                    train: experiment.train,
                })
            }
        }
    }
}

impl Prepared {
    /// Model and data of the training.
    pub fn training(&self) -> Result<Box<dyn Trainable>> {
        fn agents<K: Task>(config: &str) -> Result<Box<dyn Trainable>> {
            let experiment: Experiment<K> = strict::parse("experiment", config, &[])?;
            Ok(Box::new(Training::new(experiment)?))
        }
        match self.task {
            TaskKind::Maze => agents::<Maze>(&self.config),
            TaskKind::Sudoku => agents::<Sudoku>(&self.config),
            TaskKind::Mnist => agents::<Mnist>(&self.config),
            TaskKind::Cnn => {
                let experiment: CnnExperiment = strict::parse("experiment", &self.config, &[])?;
                Ok(Box::new(CnnTask::new(experiment)?))
            }
        }
    }

    /// Evaluates weights as `eval` says: a set of mazes, a shift of pictures, or the test puzzles.
    pub fn evaluate(
        &self,
        weights: &WeightsFile,
        eval: &str,
        scale: Scale,
        progress: &(dyn Fn(usize) + Sync),
    ) -> Result<Values> {
        match self.task {
            TaskKind::Maze => mazes(&Weights::load(weights)?, eval, scale, progress),
            TaskKind::Sudoku => puzzles(&Weights::load(weights)?, &self.config, scale, progress),
            TaskKind::Mnist => pictures(&Weights::load(weights)?, &self.config, eval, scale, progress),
            TaskKind::Cnn => {
                let experiment: CnnExperiment = strict::parse("experiment", &self.config, &[])?;
                let weights = CnnWeights::load(weights)?;
                let test = test_pictures(experiment.data, experiment.model.classes)?;
                let mut network = CnnClassifier::new(&weights.model, &weights.params);
                let (set, options) = shifted(&test, eval, scale, 0)?;
                Ok(accuracy(&evaluate_with(&mut network, &set, &options, progress)?))
            }
        }
    }
}

/// The set of mazes of that name.
fn suite_set(name: &str) -> Result<SuiteSet> {
    evaluation_sets()?.into_iter().find(|set| set.name == name).ok_or_else(|| {
        Error::new(ErrorKind::Unsupported, "evaluation", "a set of mazes such as `test` or `37x37`", name)
    })
}

fn mazes(
    weights: &Weights<Maze>,
    eval: &str,
    scale: Scale,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Values> {
    let Weights { experiment, model, params } = weights;
    let SuiteSet { shape, count, .. } = suite_set(eval)?;
    let agents = (shape.height() / 2) * (shape.width() / 2);
    let set = held_out(eval, &shape, scale.samples(count, agents))?;
    let options = SolveOptions {
        first_right: eval.starts_with("sweep"),
        ..SolveOptions::fixed(experiment.iterations.eval)
    };
    let solved = solve(&experiment.model, model, params, &set, &options, progress)?;
    let summary = summarise(&set, &solved);
    let mut values = Values::from([
        ("samples".into(), set.len() as f64),
        ("iterations".into(), experiment.iterations.eval as f64),
        ("solved".into(), summary.solved_rate()),
        ("cell_accuracy".into(), summary.cell_accuracy()),
    ]);
    let firsts: Vec<usize> = solved.iter().filter_map(|s| s.first_right).collect();
    if !firsts.is_empty() {
        values.insert("first_solve".into(), firsts.iter().sum::<usize>() as f64 / firsts.len() as f64);
    }
    Ok(values)
}

/// Mazes of a set, none of which is trained on. The test set is drawn before the training set, which avoids it.
fn held_out(eval: &str, shape: &MazeShape, count: usize) -> Result<MazeSet> {
    let mut taken = HashSet::new();
    let training = training_shape()?;
    if eval != "test" && (shape.height(), shape.width()) == (training.height(), training.width()) {
        taken = train_test_split(&training, SUITE_SEED, TRAIN_COUNT, TEST_COUNT)?.0.keys();
    }
    generate_distinct(shape, SUITE_SEED, count, &mut taken)
}

fn puzzles(
    weights: &Weights<Sudoku>,
    config: &str,
    scale: Scale,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Values> {
    let Weights { experiment, model, params } = weights;
    let own: Experiment<Sudoku> = strict::parse("experiment", config, &[])?;
    let (_, test) = test_data(own.data).load()?;
    let set = test.first(scale.samples(test.len(), 81));
    let (iterations, options) = (experiment.iterations.eval, SolveOptions::fixed(experiment.iterations.eval));
    let summary = evaluate(&experiment.model, model, params, &set, &options, 1, progress)?.summary;
    Ok(Values::from([
        ("samples".into(), set.len() as f64),
        ("iterations".into(), iterations as f64),
        ("solved".into(), summary.solved_rate()),
        ("valid".into(), summary.valid_rate()),
        ("cell_accuracy".into(), summary.cell_accuracy()),
        ("blank_accuracy".into(), summary.blank_accuracy()),
    ]))
}

/// The data of an experiment with its test puzzles in place of the validation puzzles that the run evaluated. Neither
/// depends on how many puzzles are trained on.
fn test_data(data: SudokuData) -> SudokuData {
    let count = data.count.min(1);
    SudokuData { count, generated: 0, validation_count: 0, validation_kind: String::new(), ..data }
}

/// The test pictures of an experiment, in place of the validation pictures that the run evaluated.
fn test_pictures(data: ImageData, classes: usize) -> Result<ImageSet> {
    Ok(ImageData { validation_count: 0, ..data }.read(classes)?.test)
}

fn pictures(
    weights: &Weights<Mnist>,
    config: &str,
    eval: &str,
    scale: Scale,
    progress: &(dyn Fn(usize) + Sync),
) -> Result<Values> {
    let Weights { experiment, model, params } = weights;
    let iterations = experiment.iterations.eval;
    // Weights do not keep folders: the experiment of the run says where the pictures lie.
    let own: Experiment<Mnist> = strict::parse("experiment", config, &[])?;
    let test = test_pictures(own.data, own.model.classes)?;
    let (set, options) = shifted(&test, eval, scale, iterations)?;
    let mut agents = Agents::new(&experiment.model, model, params, SolveOptions::fixed(iterations));
    let mut values = accuracy(&evaluate_with(&mut agents, &set, &options, progress)?);
    values.insert("iterations".into(), iterations as f64);
    Ok(values)
}

/// The pictures of an evaluation, and how they are shifted.
fn shifted(test: &ImageSet, eval: &str, scale: Scale, iterations: usize) -> Result<(ImageSet, EvalOptions)> {
    let shift: Shift = eval.parse()?;
    let (height, width) = shift.size(test.height, test.width);
    let count = scale.samples(test.len(), height.div_ceil(3) * width.div_ceil(3));
    Ok((test.first(count), EvalOptions { iterations, shift, draws: DRAWS, seed: 0 }))
}

fn accuracy(report: &EvalReport) -> Values {
    Values::from([
        ("samples".into(), report.images as f64),
        ("draws".into(), report.correct.len() as f64),
        ("accuracy".into(), report.accuracy()),
        ("spread".into(), report.spread()),
    ])
}

#[cfg(test)]
mod tests {
    use super::*;
    use sheaf_tasks::sudoku::generate;

    #[test]
    fn puzzles_of_an_evaluation_are_those_of_the_test_and_not_of_the_run() {
        let set = ["data.count=2", "data.test_count=3", "data.validation_count=4"].map(String::from);
        for file in ["sudoku", "sudoku-wide"] {
            let path = format!("{}/../../experiments/{file}.toml", env!("CARGO_MANIFEST_DIR"));
            let text = std::fs::read_to_string(path).unwrap();
            let of_run: Experiment<Sudoku> = strict::parse(file, &text, &set).unwrap();
            let (train, validation) = of_run.data.load().unwrap();
            let SudokuData { kind, seed, .. } = of_run.data;
            let (_, test) = test_data(of_run.data).load().unwrap();
            assert_eq!((train.len(), validation.len(), test.len()), (2, 4, 3));
            assert_eq!(test.keys(), generate::train_test_split(kind, seed, 0, 3).1.keys());
            assert!(test.keys().is_disjoint(&validation.keys()) && test.keys().is_disjoint(&train.keys()));
        }
    }

    #[test]
    fn pictures_of_an_evaluation_are_those_of_the_test_and_not_of_the_run() {
        let dir = std::env::temp_dir().join(format!("sheaf-reproduce-pictures-{}", std::process::id()));
        std::fs::create_dir_all(&dir).unwrap();
        for (split, labels) in [("train", vec![1, 2, 3, 4, 5]), ("t10k", vec![7, 8])] {
            let count = labels.len() as u8;
            let pixels = vec![9; 4 * labels.len()];
            let pictures = [vec![0, 0, 8, 3, 0, 0, 0, count, 0, 0, 0, 2, 0, 0, 0, 2], pixels].concat();
            std::fs::write(dir.join(format!("{split}-images-idx3-ubyte")), pictures).unwrap();
            let labels = [vec![0, 0, 8, 1, 0, 0, 0, count], labels].concat();
            std::fs::write(dir.join(format!("{split}-labels-idx1-ubyte")), labels).unwrap();
        }
        let data = || ImageData { dir: dir.clone(), count: 0, validation_count: 2 };
        assert_eq!(data().read(10).unwrap().test.labels, [4, 5]);
        assert_eq!(test_pictures(data(), 10).unwrap().labels, [7, 8]);
        std::fs::remove_dir_all(dir).unwrap();
    }
}
