//! The runs that some tables need: what each is, how far it is, and how long the rest will take.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Instant;

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::train::file::write_whole;

use crate::Scale;
use crate::record::{Record, Status};
use crate::tables::{self, Table, Variant};
use crate::task::{DataPlaces, Prepared};

/// What is asked for.
#[derive(Clone, Debug)]
pub struct Request {
    /// The tables, with the rows that are asked for.
    pub tables: Vec<Table>,
    /// How much of the schedules.
    pub scale: Scale,
    /// Seeds of the runs.
    pub seeds: Vec<u64>,
    /// The folder of everything.
    pub out: PathBuf,
    /// Where data lie.
    pub places: DataPlaces,
    /// Whether a run that loses its numbers goes on without the bad batch.
    pub rollback: bool,
    /// The command, for records.
    pub command: String,
    /// The commit of the program, for records.
    pub commit: String,
}

/// A run.
#[derive(Clone, Debug)]
pub struct Planned {
    /// Its name.
    pub name: String,
    /// The experiment.
    pub variant: Variant,
    /// The seed.
    pub seed: u64,
    /// Evaluations that tables need.
    pub evals: BTreeSet<String>,
    /// The experiment at this scale.
    pub prepared: Prepared,
    /// Steps of the published schedule.
    pub published_steps: u64,
}

/// How far a run is.
#[derive(Clone, Debug, PartialEq)]
pub enum State {
    /// All its results are there.
    Finished,
    /// Trained; some evaluations are missing.
    Trained,
    /// So many updates are saved.
    Started(u64),
    /// It ended with this error.
    Failed(String),
    /// Nothing is there.
    Missing,
}

/// The runs, in the order in which they are made.
#[derive(Clone, Debug)]
pub struct Plan {
    /// What was asked for.
    pub request: Request,
    /// The runs.
    pub runs: Vec<Planned>,
    /// Seconds of training per sample, where they were measured.
    pace: BTreeMap<String, f64>,
    /// Whether the pace was looked for: what is unknown then stays unknown.
    pub(crate) measured: bool,
}

/// Picks tables by name (`all` for all of them), and rows by their names, their labels or the experiments in them; unknown
/// names are errors that list the known ones.
pub fn choose(names: &[String], only: &[String]) -> Result<Vec<Table>> {
    let known = tables::all();
    for name in names.iter().filter(|name| *name != "all") {
        if !known.iter().any(|table| table.name == name) {
            let want = format!("all, {}", known.iter().map(|t| t.name).collect::<Vec<_>>().join(", "));
            return Err(Error::new(ErrorKind::Unsupported, "table", want, format!("`{name}`"))
                .hint("`sheaf reproduce --help` says what they are"));
        }
    }
    let asked = |table: &Table| names.iter().any(|name| name == "all" || name == table.name);
    let mut chosen: Vec<Table> = known.into_iter().filter(asked).collect();
    for name in only {
        let mut rows = chosen.iter().flat_map(|table| &table.rows);
        if !rows.any(|row| row.is_called(name) || row.experiments().any(|other| other == name)) {
            let of = |table: &Table| format!("{} (of {})", table.row_names(), table.name);
            let want = format!("a row: {}", chosen.iter().map(of).collect::<Vec<_>>().join("; "));
            return Err(Error::new(ErrorKind::Unsupported, "--only", want, format!("`{name}`")).hint(
                "a label of a report, like \"MPNN (PM; max)\", or an experiment, like maze, can be named too",
            ));
        }
    }
    if !only.is_empty() {
        chosen.iter_mut().for_each(|table| table.rows.iter_mut().for_each(|row| row.keep(only)));
        chosen.iter_mut().for_each(|table| table.rows.retain(|row| row.experiments().next().is_some()));
        chosen.retain(|table| !table.rows.is_empty());
    }
    Ok(chosen)
}

impl Plan {
    /// Lists the runs of a request.
    pub fn new(request: Request) -> Result<Self> {
        let mut needed: Vec<(Variant, BTreeSet<String>)> = Vec::new();
        for cell in request.tables.iter().flat_map(Table::cells) {
            match needed.iter_mut().find(|(variant, _)| variant.name == cell.variant.name) {
                Some((_, evals)) => _ = evals.insert(cell.eval.clone()),
                None => needed.push((cell.variant.clone(), BTreeSet::from([cell.eval.clone()]))),
            }
        }
        let mut runs = Vec::new();
        // Seed after seed: one seed of everything says more than all seeds of the first row.
        for &seed in &request.seeds {
            for (variant, evals) in &needed {
                runs.push(Planned::new(&request, variant, evals, seed)?);
            }
        }
        let pace = std::fs::read_to_string(request.out.join(PACE)).unwrap_or_default();
        let pace = serde_json::from_str(&pace).unwrap_or_default();
        Ok(Self { request, runs, pace, measured: false })
    }

    /// Measures the pace of every experiment of unfinished runs that is not known yet: one gradient of a small batch.
    pub fn measure(&mut self, progress: &mut dyn FnMut(&str)) {
        for run in &self.runs {
            let key = format!("{}/{}", self.request.scale.name(), run.variant.name);
            if self.pace.contains_key(&key) || self.state(run) == State::Finished {
                continue;
            }
            progress(&run.variant.name);
            // What cannot be measured, for lack of data, has no estimate; the run itself will say why.
            if let Ok(seconds) = run.measure(&self.request.places) {
                self.pace.insert(key, seconds);
            }
        }
        self.measured = true;
        let known = !self.pace.is_empty() && self.request.out.is_dir();
        if let Some(text) = known.then(|| serde_json::to_string_pretty(&self.pace).ok()).flatten() {
            // An estimate that cannot be kept is measured again.
            let _ = write_whole(&self.request.out.join(PACE), text.as_bytes());
        }
    }

    /// The folder of the training of a run.
    pub fn run_folder(&self, run: &Planned) -> PathBuf {
        self.request.out.join("runs").join(self.request.scale.name()).join(&run.name)
    }

    /// The folder of the results of a run.
    pub fn result_folder(&self, run: &Planned) -> PathBuf {
        Record::folder(&self.request.out.join("results"), self.request.scale.name(), &run.name)
    }

    /// How far a run is.
    pub fn state(&self, run: &Planned) -> State {
        let folder = self.run_folder(run);
        let record = Record::read(&self.result_folder(run)).ok().flatten().unwrap_or_default();
        let evaluated = run.evals.iter().all(|eval| record.evals.contains_key(eval));
        match record.status {
            Status::Finished if evaluated => State::Finished,
            Status::Failed => State::Failed(record.error),
            _ if folder.join("final.safetensors").is_file() => State::Trained,
            _ => newest(&folder).map_or(State::Missing, State::Started),
        }
    }

    /// Estimated seconds until a run is finished, where its pace is known.
    pub fn seconds_left(&self, run: &Planned) -> Option<f64> {
        if self.state(run) == State::Finished {
            return Some(0.0);
        }
        let pace = *self.pace.get(&format!("{}/{}", self.request.scale.name(), run.variant.name))?;
        let record = Record::read(&self.result_folder(run)).ok().flatten().unwrap_or_default();
        let missing = run.evals.iter().filter(|eval| !record.evals.contains_key(*eval));
        let evaluated: f64 =
            missing.map(|eval| run.prepared.task.eval_samples(eval, self.request.scale)).sum();
        // A solve costs about a third of a gradient with as many iterations.
        let (per_step, per_eval) = run.prepared.iterations;
        let solve = pace / 3.0 * (per_eval as f64 / per_step.max(1.0));
        let samples = self.steps_left(run) as f64 * run.prepared.train.batch as f64;
        Some(samples * pace + evaluated * solve)
    }

    /// Updates that a run still has to make; one that failed goes on from its newest checkpoint, too.
    pub fn steps_left(&self, run: &Planned) -> u64 {
        let folder = self.run_folder(run);
        if self.state(run) == State::Finished || folder.join("final.safetensors").is_file() {
            return 0;
        }
        run.prepared.train.steps.saturating_sub(newest(&folder).unwrap_or(0))
    }

    /// Bytes that the folders of unfinished runs will take.
    pub fn disk(&self) -> u64 {
        let bytes = |run: &&Planned| {
            let keep = run.prepared.train.keep_checkpoints as u64 + 1;
            // A checkpoint holds parameters, two moments and the running average.
            run.prepared.parameters as u64 * 4 * (4 * keep + 2)
        };
        self.runs.iter().filter(|run| self.state(run) != State::Finished).map(|run| bytes(&run)).sum()
    }
}

/// The file of measured paces.
const PACE: &str = "pace.json";

/// The newest checkpoint of a run folder.
pub(crate) fn newest(folder: &Path) -> Option<u64> {
    let entries = std::fs::read_dir(folder.join("checkpoints")).ok()?;
    let step = |name: &str| name.strip_prefix("step-")?.strip_suffix(".safetensors")?.parse().ok();
    entries.filter_map(|entry| step(entry.ok()?.file_name().to_str()?)).max()
}

impl Planned {
    fn new(request: &Request, variant: &Variant, evals: &BTreeSet<String>, seed: u64) -> Result<Self> {
        let (task, place) = (variant.task(), format!("experiments/{}.toml", variant.file));
        let published = task.prepare(&place, variant.text(), &variant.set)?;
        let prepared = task.prepare(&place, variant.text(), &keys(request, variant, &published, seed))?;
        Ok(Self {
            name: variant.run(seed),
            variant: variant.clone(),
            seed,
            evals: evals.clone(),
            prepared,
            published_steps: published.train.steps,
        })
    }

    /// Seconds of training per sample on this machine.
    fn measure(&self, places: &DataPlaces) -> Result<f64> {
        let task = self.variant.task();
        let small = Scale::Quick.overrides(task, 1);
        let set = [self.variant.set.clone(), task.data_keys(places), small].concat();
        let prepared = task.prepare("measurement", self.variant.text(), &set)?;
        let mut model = prepared.training()?;
        let params = model.initial(1);
        let mut grad = vec![0.0; params.len()];
        let mut seconds = f64::INFINITY;
        // The first gradient allocates; a slow one is not repeated.
        for step in 0..2 {
            let start = Instant::now();
            let samples = model.loss_and_grad(&params, 1, step, &mut grad)?.samples;
            seconds = seconds.min(start.elapsed().as_secs_f64() / samples.max(1) as f64);
            if start.elapsed().as_secs_f64() > 2.0 {
                break;
            }
        }
        Ok(seconds)
    }
}

/// All keys of a run that differ from its file.
fn keys(request: &Request, variant: &Variant, published: &Prepared, seed: u64) -> Vec<String> {
    let (task, steps) = (variant.task(), published.train.steps);
    let mut keys = variant.set.clone();
    keys.extend(task.data_keys(&request.places));
    keys.extend(request.scale.overrides(task, steps));
    keys.push(format!("train.seed={seed}"));
    if request.rollback {
        keys.push("train.on_nan=rollback".into());
    }
    keys
}
