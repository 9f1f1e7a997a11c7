//! Trained models, their data, and training.
//!
//! | file | holds |
//! | --- | --- |
//! | `mod` | the class `Model`: weights in and out, dispatch by task |
//! | `maze`, `sudoku`, `mnist` | what a task makes of arrays |
//! | `common` | tracing, and the local problems of the agents |
//! | `data` | generated samples and shifts |
//! | `training` | runs with a callback |

mod common;
pub mod data;
pub mod maze;
mod mnist;
mod sudoku;
pub mod training;

use std::path::Path;

use pyo3::prelude::*;
use pyo3::types::{PyBytes, PyDict};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_explore::{Script, Want};
use sheaf_learn::config::strict;
use sheaf_learn::model::evaluate::SolveOptions;
use sheaf_learn::model::settle::Settling;
use sheaf_learn::params::ParamLayout;
use sheaf_learn::task::{Experiment, Task, Weights};
use sheaf_learn::train::{Precision, WeightsFile, WeightsMeta, encode_weights, save_weights};
use sheaf_tasks::builtin::Builtin;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

use crate::arrays::{Held, array};
use crate::errors::{Raised, wrong};
use crate::run::run;

/// The weights of a task.
enum Kind {
    Maze(Box<Weights<Maze>>),
    Sudoku(Box<Weights<Sudoku>>),
    Mnist(Box<Weights<Mnist>>),
}

/// Calls the same expression for the weights of any task.
macro_rules! each {
    ($kind:expr, $weights:ident => $body:expr) => {
        match $kind {
            Kind::Maze($weights) => $body,
            Kind::Sudoku($weights) => $body,
            Kind::Mnist($weights) => $body,
        }
    };
}

/// A trained model of agents. Made by `load`.
///
/// >>> import sheaf_admm as sa
/// >>> model = sa.load("builtin:maze")
/// >>> mazes, paths = sa.maze.generate(8, seed=1)
/// >>> model.predict(mazes).shape
/// (8, 19, 19)
/// >>> model.score(mazes, paths)["solved"] >= 0.8
/// True
#[pyclass(module = "sheaf_admm", name = "Model")]
pub struct Model {
    kind: Kind,
    record: String,
}

/// Loads weights: `"builtin:maze"`, `"builtin:sudoku"`, `"builtin:mnist"`, or a file, a checkpoint included.
#[pyfunction]
pub fn load(py: Python<'_>, source: std::path::PathBuf) -> PyResult<Model> {
    run(py, None, |_| Model::open(&source))
}

/// Weights that ship with the package, or those of a file.
fn weights(source: &Path) -> Result<WeightsFile> {
    match Builtin::parse(&source.to_string_lossy())? {
        Some(shipped) => shipped.open(),
        None => WeightsFile::read(source),
    }
}

impl Model {
    fn open(source: &Path) -> Result<Self> {
        Self::of(&weights(source)?)
    }

    fn of(file: &WeightsFile) -> Result<Self> {
        let task = file.about().task.as_str();
        let kind = match task {
            Maze::NAME => Kind::Maze(Box::new(Weights::load(file)?)),
            Sudoku::NAME => Kind::Sudoku(Box::new(Weights::load(file)?)),
            Mnist::NAME => Kind::Mnist(Box::new(Weights::load(file)?)),
            other => {
                let place = format!("task of {}", file.tensors().place());
                return Err(Error::new(ErrorKind::Unsupported, place, "maze, sudoku or mnist", other));
            }
        };
        Ok(Self { kind, record: file.about().record.clone() })
    }

    fn layout(&self) -> &ParamLayout {
        each!(&self.kind, w => w.model.layout())
    }

    fn params(&self) -> &[f32] {
        each!(&self.kind, w => &w.params)
    }

    fn about(&self) -> Result<WeightsMeta> {
        let (task, config) =
            each!(&self.kind, w => (w.experiment.task.clone(), strict::to_toml(&w.experiment)?));
        Ok(WeightsMeta { task, config, record: self.record.clone() })
    }
}

/// How to solve: exactly `iterations`, by default those of the experiment, or until settled within them.
fn options<K: Task>(experiment: &Experiment<K>, iterations: Option<usize>, settle: bool) -> SolveOptions {
    let fixed = SolveOptions::fixed(iterations.unwrap_or(experiment.iterations.eval));
    SolveOptions { settling: settle.then(Settling::default), ..fixed }
}

#[pymethods]
impl Model {
    /// `"maze"`, `"sudoku"` or `"mnist"`.
    #[getter]
    fn task(&self) -> String {
        each!(&self.kind, w => w.experiment.task.clone())
    }

    /// The experiment that the model was made by, TOML.
    #[getter]
    fn config(&self) -> PyResult<String> {
        Ok(self.about().raised()?.config)
    }

    /// Number of parameters.
    #[getter]
    fn parameters(&self) -> usize {
        self.params().len()
    }

    /// The answers: of mazes (uint8 `[n, height, width]`, 1 wall, 2 empty, 3 start, 4 goal) the same with the path marked
    /// (5); of puzzles (uint8 `[n, 9, 9]`, 0 for blanks) boards; of pictures (float32 in [0, 1] or uint8
    /// `[n, height, width]`) classes `[n]`. One sample without its first axis gives one answer.
    ///
    /// `settle` ends a sample when it has settled, within `iterations`. `rounds` is for puzzles; `dropped`, bool
    /// `[n, agents]`, for pictures: agents that see black.
    #[pyo3(signature = (inputs, iterations = None, *, settle = false, rounds = None, dropped = None, threads = None))]
    fn predict<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        iterations: Option<usize>,
        settle: bool,
        rounds: Option<usize>,
        dropped: Option<&Bound<'py, PyAny>>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &self.kind {
            Kind::Maze(w) => {
                maze::predict(py, w, inputs, options(&w.experiment, iterations, settle), threads)
            }
            Kind::Sudoku(w) => {
                let rounds = rounds.unwrap_or(w.experiment.iterations.rounds);
                sudoku::predict(py, w, inputs, options(&w.experiment, iterations, settle), rounds, threads)
            }
            Kind::Mnist(w) => {
                mnist::predict(py, w, inputs, dropped, options(&w.experiment, iterations, settle), threads)
            }
        }
    }

    /// How many answers are right: a dictionary, the most important number first.
    #[pyo3(signature = (inputs, labels, iterations = None, *, settle = false, rounds = None, threads = None))]
    fn score<'py>(
        &self,
        py: Python<'py>,
        inputs: &Bound<'py, PyAny>,
        labels: &Bound<'py, PyAny>,
        iterations: Option<usize>,
        settle: bool,
        rounds: Option<usize>,
        threads: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        let numbers = match &self.kind {
            Kind::Maze(w) => {
                maze::score(py, w, inputs, labels, options(&w.experiment, iterations, settle), threads)?
            }
            Kind::Sudoku(w) => {
                let rounds = rounds.unwrap_or(w.experiment.iterations.rounds);
                sudoku::score(
                    py,
                    w,
                    inputs,
                    labels,
                    options(&w.experiment, iterations, settle),
                    rounds,
                    threads,
                )?
            }
            Kind::Mnist(w) => {
                mnist::score(py, w, inputs, labels, options(&w.experiment, iterations, settle), threads)?
            }
        };
        let out = PyDict::new(py);
        numbers.into_iter().try_for_each(|(name, value)| out.set_item(name, value))?;
        Ok(out)
    }

    /// Every iteration of the solve of one sample: a dictionary of arrays.
    ///
    /// `x`, `z`, `u` `[iterations, agents, d_v]`; `primal`, `dual` `[iterations, agents]`; `edge_rms` `[iterations]`;
    /// `logits` `[iterations, agents, outputs]`; `predicted` `[iterations, …]`, the answer after each.
    #[pyo3(signature = (input, iterations = None))]
    fn trace<'py>(
        &self,
        py: Python<'py>,
        input: &Bound<'py, PyAny>,
        iterations: Option<usize>,
    ) -> PyResult<Bound<'py, PyDict>> {
        match &self.kind {
            Kind::Maze(w) => maze::trace(py, w, input, iterations),
            Kind::Sudoku(w) => sudoku::trace(py, w, input, iterations),
            Kind::Mnist(w) => mnist::trace(py, w, input, iterations),
        }
    }

    /// The local problems of the agents of one sample, as the arrays of a `Layer` with a batch of one, and the layer's
    /// options: `(arrays, options)`. For models whose maps are given in full by their parameters.
    #[pyo3(signature = (input))]
    fn problem<'py>(
        &self,
        py: Python<'py>,
        input: &Bound<'py, PyAny>,
    ) -> PyResult<(Bound<'py, PyDict>, Bound<'py, PyDict>)> {
        match &self.kind {
            Kind::Maze(w) => maze::problem(py, w, input),
            Kind::Sudoku(w) => sudoku::problem(py, w, input),
            Kind::Mnist(w) => mnist::problem(py, w, input),
        }
    }

    /// What the decoder makes of states x `[agents, d_v]` of one sample: its answer.
    fn decode<'py>(
        &self,
        py: Python<'py>,
        input: &Bound<'py, PyAny>,
        x: &Bound<'py, PyAny>,
    ) -> PyResult<Bound<'py, PyAny>> {
        match &self.kind {
            Kind::Maze(w) => maze::decode(py, w, input, x),
            Kind::Sudoku(w) => sudoku::decode(py, w, input, x),
            Kind::Mnist(w) => mnist::decode(py, w, input, x),
        }
    }

    /// Runs one sample with interventions. `what` is either
    ///
    /// * a list of interventions as in docs/explore.md, which act while the agents coordinate: a dictionary of arrays over the
    ///   iterations, those of the undisturbed run as `base_…`, and `comparison`, which says what followed; `inputs` are further
    ///   samples that an intervention `{"input": 1}` continues with;
    /// * or a function that changes the local problems before the agents coordinate: it gets the arrays of `problem` and
    ///   changes them in place, or returns others; `x`, the answer `predicted`, and the arrays as `problem`.
    ///
    /// >>> import sheaf_admm as sa
    /// >>> model = sa.load("builtin:maze")
    /// >>> maze = sa.maze.generate(1, seed=1)[0][0]
    /// >>> def nothing(problem): pass
    /// >>> bool((model.intervene(maze, nothing)["predicted"] == model.predict(maze)).all())
    /// True
    /// >>> kick = {"k": 30, "do": {"noise": {"of": "z", "agents": [40], "deviation": 2, "seed": 1}}}
    /// >>> film = model.intervene(maze, [kick], 60)
    /// >>> film["predicted"].shape, bool((film["z"][28] == film["base_z"][28]).all()), bool(film["distance"][29] > 0)
    /// ((60, 19, 19), True, True)
    #[pyo3(signature = (input, what, iterations = 100, *, window = 1, inputs = None))]
    fn intervene<'py>(
        slf: &Bound<'py, Self>,
        input: &Bound<'py, PyAny>,
        what: &Bound<'py, PyAny>,
        iterations: usize,
        window: usize,
        inputs: Option<&Bound<'py, PyAny>>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let helper = slf.py().import("sheaf_admm._models")?;
        match what.is_callable() {
            true => helper.call_method1("intervene", (slf, input, what, iterations, window)),
            false => helper.call_method1("play", (slf, input, what, iterations, inputs)),
        }
    }

    /// Runs a script with and without its interventions: an `.npz` of arrays, and the comparison as JSON.
    fn _play<'py>(&self, py: Python<'py>, script: &str) -> PyResult<(Bound<'py, PyBytes>, String)> {
        let (npz, comparison) = run(py, None, |_| {
            let script = Script::parse(script, "interventions")?;
            let bytes = encode_weights(self.layout(), self.params(), &self.about()?, Precision::F32)?;
            let subject = sheaf_explore::open("weights", &WeightsFile::parse("weights", bytes)?)?;
            let outcome = subject.run(&script, &Want::everything())?;
            let comparison = serde_json::to_string(&outcome.comparison).unwrap_or_default();
            Ok((outcome.into_arrays()?.to_npz()?, comparison))
        })?;
        Ok((PyBytes::new(py, &npz), comparison))
    }

    /// The parameters by name, float32; copies.
    fn state_dict<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let out = PyDict::new(py);
        for entry in self.layout().entries() {
            let values = self.params()[entry.range.clone()].to_vec();
            out.set_item(&entry.name, array(py, &entry.shape, values)?)?;
        }
        Ok(out)
    }

    /// Replaces the parameters. Every name must be there, and no other; torch tensors are taken too.
    fn load_state_dict(&mut self, state: &Bound<'_, PyAny>) -> PyResult<()> {
        let layout = self.layout().clone();
        let mut params = vec![0.0; layout.len()];
        let numpy = state.py().import("numpy")?;
        let names: Vec<String> =
            state.call_method0("keys")?.try_iter()?.map(|k| k?.extract()).collect::<PyResult<_>>()?;
        if let Some(other) = names.iter().find(|name| !layout.entries().iter().any(|e| e.name == **name)) {
            return Err(wrong(
                ErrorKind::Malformed,
                "state_dict",
                "the parameters of this model",
                format!("`{other}`"),
            ));
        }
        for entry in layout.entries() {
            let place = format!("parameter `{}`", entry.name);
            let Ok(value) = state.get_item(&entry.name) else {
                return Err(wrong(
                    ErrorKind::Malformed,
                    &place,
                    format!("shape {:?}", entry.shape),
                    "nothing",
                ));
            };
            let value = numpy.call_method1("asarray", (value, "float32"))?;
            let held = Held::<f32>::read(&place, &value)?;
            if held.shape() != entry.shape {
                let (expected, got) = (format!("shape {:?}", entry.shape), format!("{:?}", held.shape()));
                return Err(wrong(ErrorKind::Shape, &place, expected, got));
            }
            sheaf_admm::error::check_finite(&place, held.values()?).raised()?;
            params[entry.range.clone()].copy_from_slice(held.values()?);
        }
        each!(&mut self.kind, w => w.params = params);
        Ok(())
    }

    /// Writes the weights to a file that `load` and the `sheaf` tool read.
    fn save(&self, path: std::path::PathBuf) -> PyResult<()> {
        let about = self.about().raised()?;
        save_weights(&path, self.layout(), self.params(), &about, Precision::F32).raised()
    }

    #[staticmethod]
    fn _from_bytes(bytes: Vec<u8>) -> PyResult<Self> {
        Self::of(&WeightsFile::parse("weights", bytes).raised()?).raised()
    }

    fn __reduce__<'py>(&self, py: Python<'py>) -> PyResult<(Bound<'py, PyAny>, (Bound<'py, PyBytes>,))> {
        let about = self.about().raised()?;
        let bytes = encode_weights(self.layout(), self.params(), &about, Precision::F32).raised()?;
        Ok((py.get_type::<Self>().getattr("_from_bytes")?, (PyBytes::new(py, &bytes),)))
    }

    fn __repr__(&self) -> String {
        format!("Model({}, parameters={})", self.task(), self.parameters())
    }
}
