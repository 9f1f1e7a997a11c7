//! Weights that can be run: a model of some task behind one interface.

use std::time::Instant;

use serde_json::{Value, json};
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::limits::{at_most, product};
use sheaf_learn::model::evaluate::Single;
use sheaf_learn::model::{ConsensusKind, CoordinationKind};
use sheaf_learn::task::{Task, Weights};
use sheaf_learn::train::WeightsFile;
use sheaf_tasks::builtin::Builtin;
use sheaf_tasks::maze::task::Maze;
use sheaf_tasks::mnist::task::Mnist;
use sheaf_tasks::sudoku::task::Sudoku;

use crate::arrays::Arrays;
use crate::compare::Comparison;
use crate::record::{Keep, Record, Recorder};
use crate::script::{Limits, Script};
use crate::tasks::{Explorable, Field};

/// What a run should return.
#[derive(Clone, Copy, Debug)]
pub struct Want {
    /// Limits of the script.
    pub limits: Limits,
    /// Also the run without interventions.
    pub compare: bool,
    /// What to keep of every iteration.
    pub keep: Keep,
    /// The latest moment at which the run may still go on.
    pub deadline: Option<Instant>,
}

impl Want {
    /// Both runs, with all states.
    pub fn everything() -> Self {
        let keep = Keep { flow: false, states: true, agent: None };
        Self { limits: Limits::COMMAND, compare: true, keep, deadline: None }
    }
}

/// The result of an experiment.
pub struct Outcome {
    /// The samples and their agents.
    pub field: Box<dyn Field>,
    /// The run with the interventions of the script.
    pub run: Record,
    /// The run without, if it was wanted.
    pub base: Option<Record>,
    /// What followed from the interventions, if both ran.
    pub comparison: Option<Comparison>,
    /// The local problem, the view and the maps of the agent that was asked for.
    pub detail: Option<Arrays>,
    /// Iterations that were asked for.
    pub iterations: usize,
}

impl Outcome {
    /// All arrays: of the run, of the one without interventions (`base_…`), their distance, and the ends of the edges.
    pub fn into_arrays(self) -> Result<Arrays> {
        let Self { field, run, base, comparison, .. } = self;
        let (sheaf, keep) = (field.sheaf(), Keep { states: true, ..Keep::default() });
        let mut arrays = run.into_arrays(sheaf, keep)?;
        if let Some(base) = base {
            arrays.extend("base_", base.into_arrays(sheaf, keep)?);
        }
        if let Some(comparison) = comparison {
            let k = comparison.distance.len();
            arrays.floats("distance", &[k], comparison.distance)?;
            arrays.floats("distances", &[k, sheaf.agents()], comparison.distances)?;
        }
        let ends = sheaf.edge_ends().flat_map(|((u, _), (v, _))| [u as i32, v as i32]).collect();
        arrays.integers("ends", &[sheaf.edge_count(), 2], ends)?;
        Ok(arrays)
    }
}

/// Weights that can be run.
pub trait Subject: Send + Sync {
    /// Where the weights are from.
    fn name(&self) -> &str;
    /// The task.
    fn task(&self) -> &'static str;
    /// What the page needs to know.
    fn about(&self) -> Value;
    /// Runs an experiment.
    fn run(&self, script: &Script, want: &Want) -> Result<Outcome>;
}

/// The subject of a weights file.
pub fn open(name: &str, file: &WeightsFile) -> Result<Box<dyn Subject>> {
    fn load<K: Explorable>(name: &str, file: &WeightsFile) -> Result<Box<dyn Subject>> {
        Ok(Box::new(Loaded::<K> { name: name.into(), weights: Weights::load(file)? }))
    }
    match file.about().task.as_str() {
        Maze::NAME => load::<Maze>(name, file),
        Sudoku::NAME => load::<Sudoku>(name, file),
        Mnist::NAME => load::<Mnist>(name, file),
        other => {
            let expected = "weights of agents: maze, sudoku or mnist";
            Err(Error::new(ErrorKind::Unsupported, format!("task of {name}"), expected, other))
        }
    }
}

/// The built-in weights of a task.
pub fn builtin(task: &str) -> Result<Box<dyn Subject>> {
    if ![Maze::NAME, Sudoku::NAME, Mnist::NAME].contains(&task) {
        return Err(Error::new(ErrorKind::Unsupported, "task", "maze, sudoku or mnist", task));
    }
    let name = format!("builtin:{task}");
    let shipped = Builtin::parse(&name)?
        .ok_or_else(|| Error::new(ErrorKind::Unsupported, "built-in weights", "those of a task", &name))?;
    open(&name, &shipped.open()?)
}

struct Loaded<K: Task> {
    name: String,
    weights: Weights<K>,
}

impl<K: Explorable> Subject for Loaded<K> {
    fn name(&self) -> &str {
        &self.name
    }

    fn task(&self) -> &'static str {
        K::NAME
    }

    fn about(&self) -> Value {
        let model = &self.weights.model;
        let section = model.section();
        let coordination = match model.choices().coordination {
            CoordinationKind::Admm => "admm",
            CoordinationKind::MessagePassing => "message-passing",
            CoordinationKind::None => "none",
        };
        let closed = [ConsensusKind::Exact, ConsensusKind::ClosedForm];
        let iterates = !closed.contains(&model.choices().consensus);
        json!({
            "name": self.name,
            "task": K::NAME,
            "coordination": coordination,
            "parameters": model.layout().len(),
            "iterations": self.weights.experiment.iterations.eval,
            "d_v": section.d_v,
            "d_e": section.d_e,
            "rho": f64::from(model.rho(&self.weights.params).0),
            "gamma": (!model.choices().hard).then_some(section.gamma),
            "relaxation": section.relaxation,
            "steps": iterates.then_some(section.cg_steps),
        })
    }

    fn run(&self, script: &Script, want: &Want) -> Result<Outcome> {
        if script.task != K::NAME {
            let expected = format!("\"{}\", the task of {}", K::NAME, self.name);
            return Err(Error::new(ErrorKind::Unsupported, "task", expected, format!("\"{}\"", script.task)));
        }
        script.check(&want.limits)?;
        let Weights { experiment, model, params } = &self.weights;
        let field = K::field(&experiment.model, &script.input, &script.inputs, &want.limits)?;
        let sheaf = field.sheaf();
        let iterations = script.iterations.unwrap_or(experiment.iterations.eval).min(want.limits.iterations);
        let numbers = product(&[iterations, sheaf.state_len().max(sheaf.edge_count())], u64::MAX);
        let numbers = numbers.map_or(usize::MAX, |n| n as usize);
        at_most("iterations × states", "numbers", want.limits.numbers, numbers)?;
        if let Some(agent) = want.keep.agent.filter(|&agent| agent >= sheaf.agents()) {
            let expected = format!("below {}", sheaf.agents());
            return Err(Error::new(ErrorKind::OutOfRange, "agent", expected, agent));
        }
        let samples = field.samples();
        let single = Single::of_inputs(model, params, sheaf, samples, 0..samples.len())?;
        let film = |script: &Script| -> Result<Record> {
            let mut recorder = Recorder::new(&*field, want.keep);
            let (mut failed, mut late) = (None, false);
            single.play(iterations, &script.interventions(), &mut |scene| {
                failed = recorder.note(scene).err();
                late = want.deadline.is_some_and(|deadline| Instant::now() > deadline);
                failed.is_none() && !late
            })?;
            if late {
                let expected = "a run within the time limit";
                return Err(Error::new(ErrorKind::OutOfRange, "time", expected, "a longer one")
                    .hint("take fewer iterations or a smaller input"));
            }
            failed.map_or_else(|| Ok(recorder.finish()), Err)
        };
        // Both runs at once: neither reads what the other writes.
        let (run, base) = match want.compare {
            false => (film(script), None),
            true => std::thread::scope(|scope| {
                let base = scope.spawn(|| film(&script.undisturbed()));
                (film(script), Some(base.join().unwrap_or_else(|panic| std::panic::resume_unwind(panic))))
            }),
        };
        let (run, base) = (run?, base.transpose()?);
        let comparison = base.as_ref().map(|base| Comparison::of(sheaf, base, &run, script));
        let detail = want.keep.agent.map(|agent| detail(&single, &*field, agent)).transpose()?;
        drop(single);
        Ok(Outcome { field, run, base, comparison, detail, iterations })
    }
}

/// The local problem, the view and the maps of an agent, with the input of the start.
fn detail<E: sheaf_learn::model::Encoder, D: sheaf_learn::model::Decoder>(
    single: &Single<'_, f32, E, D>,
    field: &dyn Field,
    agent: usize,
) -> Result<Arrays> {
    let (at, _) = single.setting();
    let mut arrays = Arrays::default();
    let local = single.local(0, agent)?;
    for (name, values) in
        [("h", local.h), ("diag", local.diag), ("q", local.q), ("l1", local.l1), ("hi", local.hi)]
    {
        if !values.is_empty() {
            arrays.floats(name, &[values.len()], values)?;
        }
    }
    for (name, value) in [("lo", local.lo), ("rho", local.rho)] {
        if let Some(value) = value {
            arrays.floats(name, &[1], vec![value])?;
        }
    }
    let len = at.model.encoder().view_len();
    let mut views = vec![0.0; field.sheaf().agents() * len];
    field.samples().views(0, &mut views);
    arrays.floats("view", &[len], views[agent * len..][..len].to_vec())?;
    let maps = single.maps(0, agent)?;
    if let Some(u) = field.sheaf().as_uniform().filter(|_| !maps.is_empty()) {
        arrays.floats("maps", &[u.slots, u.d_e, u.d_v], maps)?;
    }
    Ok(arrays)
}
