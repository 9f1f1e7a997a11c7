//! `sheaf train`: trains from an experiment file to weights, with a progress bar. Ctrl-C saves and exits.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::{Duration, Instant};

use serde_json::{Map, Value};
use sheaf_admm::share::Comm;
use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::config::{RESUME_MAY_CHANGE, Recipe, Stage, resume_may_change};
use sheaf_learn::limits::MAX_EXPERIMENT_BYTES;
use sheaf_learn::train::file::read_text_at_most;
use sheaf_learn::train::ranks::{Led, end, follow};
use sheaf_learn::train::{
    Init, Origin, Outcome, Plan, Prepared, Progress, Run, RunDir, TrainEvent, TrainObserver, WeightsFile,
    check_resume, stages, train, train_stages,
};

use super::{COMMIT, Ending, Job, check_set, use_threads};
use crate::args::{OnNanArg, TrainArgs};
use crate::interrupt::stop_flag;
use crate::progress::{Bar, Waiting, say};
use crate::ranks;
use crate::report::{Report, count, duration, rounded, significant};
use crate::tasks::{self, Source, Task};

/// A run to start or to continue.
#[derive(Debug)]
pub struct Train {
    experiment: PathBuf,
    out: PathBuf,
    resume: bool,
    overrides: Vec<String>,
    checkpoint: Option<PathBuf>,
    init: Option<Source>,
    threads: Option<usize>,
}

impl Train {
    /// Checks the arguments.
    pub fn check(args: TrainArgs) -> Result<Self> {
        let mut overrides = args.set;
        overrides.extend(args.seed.map(|seed| format!("train.seed={seed}")));
        overrides.extend(args.on_nan.map(|choice| {
            format!("train.on_nan={}", if choice == OnNanArg::Stop { "stop" } else { "rollback" })
        }));
        check_set(&overrides, "train.steps=1000")?;
        let experiment = args.experiment.unwrap_or_else(|| args.out.join("config.toml"));
        let init = args.init.map(|name| Source::parse(&name)).transpose()?;
        let TrainArgs { out, resume, checkpoint, threads, .. } = args;
        Ok(Self { experiment, out, resume, overrides, checkpoint, init, threads })
    }
}

impl Job for Train {
    fn is_shared(&self) -> bool {
        true
    }

    fn run(&self) -> Result<Ending> {
        let text = read_text_at_most(&self.experiment, MAX_EXPERIMENT_BYTES, "a readable experiment")?;
        let place = self.experiment.display().to_string();
        let task = task_of(&place, &text)?;
        use_threads(self.threads)?;
        // Everything that can be wrong is checked before samples are generated, which may take minutes.
        let recipe = task.recipe(&place, &text, &self.overrides)?;
        let make = |stage: &Stage| {
            let _waiting = Waiting::new("preparing the samples");
            task.prepare(&place, &stage.config, &[])
        };
        if let Some(comm) = ranks::comm().filter(|comm| comm.rank() > 0) {
            // Files are those of rank 0.
            follow(comm, &mut |stage| Ok(make(&recipe.stages[stage])?.model))?;
            return Ok(Report::new().into());
        }
        self.check_place(task, &recipe)?;
        let start = self.start(task, &recipe)?;
        let init = start.as_ref().map(|(name, weights)| Init { name, weights });
        let (dir, task_name, resume) = (&*self.out, task.name(), self.resume);
        let mut prepare = |stage: &Stage| match ranks::comm() {
            None => make(stage),
            Some(comm) => led(comm, &recipe, stage, make),
        };
        let (mut watcher, stop) = (Watcher::new(), stop_flag());
        let outcome = if recipe.staged {
            let may_change = RESUME_MAY_CHANGE;
            let plan =
                Plan { dir, task: task_name, recipe: &recipe, commit: COMMIT, resume, may_change, init };
            train_stages(&plan, &mut prepare, &mut watcher, stop)?
        } else {
            let Prepared { mut model, config, options, seed } = prepare(&recipe.stages[0])?;
            let run = Run {
                dir,
                task: task_name,
                config: &config,
                seed,
                options: &options,
                resume,
                checkpoint: self.checkpoint.as_deref(),
                may_change: &resume_may_change(&config),
                init,
                origin: Origin { commit: COMMIT, stage: None },
            };
            watcher.expect(options.steps);
            train(&mut *model, &run, &mut watcher, stop)?
        };
        if let Some(comm) = ranks::comm() {
            end(&**comm);
        }
        watcher.bar.clear();
        Ok(self.ending(task, &watcher, outcome))
    }
}

impl Train {
    /// Checks where the run is to be, and what it continues from.
    fn check_place(&self, task: &dyn Task, recipe: &Recipe) -> Result<()> {
        if recipe.staged {
            if let Some(path) = &self.checkpoint {
                let (want, got) = ("a run without stages", path.display().to_string());
                return Err(Error::new(ErrorKind::Unsupported, "--checkpoint", want, got).hint(
                    "remove the later checkpoints of the stage, and the stages after it; then --resume",
                ));
            }
            return stages::check_dir(&self.out, self.resume);
        }
        if !self.resume {
            return RunDir::check_new_run(&self.out);
        }
        let stored = |place: &str, text: &str| Ok(task.change(place, text, &[])?.0);
        let config = &recipe.stages[0].config;
        check_resume(&self.out, self.checkpoint.as_deref(), config, &resume_may_change(config), &stored)
    }

    /// The weights that a new run starts from: those of --init, else those of the experiment.
    fn start(&self, task: &dyn Task, recipe: &Recipe) -> Result<Option<(String, WeightsFile)>> {
        let config: toml::Table = recipe.stages[0].config.parse().unwrap_or_default();
        let named =
            config.get("train").and_then(|train| train.get("init")?.as_str()).filter(|s| !s.is_empty());
        let source = match (&self.init, named) {
            _ if self.resume => return Ok(None),
            (Some(source), _) => source.clone(),
            (None, Some(name)) => Source::parse(name)?,
            (None, None) => return Ok(None),
        };
        let weights = source.open()?;
        weights.need_task(task.name(), "a run can start only from weights of its own task")?;
        weights.params(&recipe.layout)?;
        Ok(Some((source.name(), weights)))
    }
}

impl Train {
    fn ending(&self, task: &dyn Task, watcher: &Watcher, outcome: Outcome) -> Ending {
        let mut report = Report::new();
        report.value("task", task.name()).value("run", self.out.display().to_string());
        let (step, steps) = (watcher.step, watcher.steps);
        report.add("step", "steps", step, format!("{} of {}", count(step as usize), count(steps as usize)));
        report.value("steps", steps);
        report.add("loss", "loss", watcher.loss, watcher.loss.map_or("none".into(), significant));
        if let Some((at, metrics)) = &watcher.last_eval {
            report.add(
                "eval",
                "evaluation",
                metrics.clone(),
                format!("{} (step {at})", metrics_text(metrics)),
            );
        }
        let rate = watcher.samples_per_s;
        report.add(
            "samples_per_s",
            "speed",
            rate.map(|r| rounded(r, 3)),
            rate.map_or("unknown".into(), |r| format!("{} samples/s", significant(r))),
        );
        report.memory();
        let out = self.out.display();
        match outcome {
            Outcome::Finished { weights } => {
                let path = weights.display().to_string();
                let best = self.out.join("best.safetensors");
                let best = best.exists().then(|| best.display().to_string());
                report.value("interrupted", false);
                report.add("weights", "weights", path.clone(), path);
                report.add("best", "best", best.clone(), best.unwrap_or_default());
                Ending::Done(report)
            }
            Outcome::Interrupted { checkpoint, .. } => {
                let path = checkpoint.display().to_string();
                report.value("interrupted", true).add("checkpoint", "checkpoint", path.clone(), path);
                report.line("continue", format!("sheaf train --resume --out {out}"));
                Ending::Interrupted(report)
            }
        }
    }
}

/// The stage of a recipe, whose batches all ranks share.
fn led(
    comm: &Arc<dyn Comm>,
    recipe: &Recipe,
    stage: &Stage,
    make: impl Fn(&Stage) -> Result<Prepared>,
) -> Result<Prepared> {
    let number = recipe.stages.iter().position(|other| std::ptr::eq(other, stage)).unwrap_or(0);
    let mut rest = None;
    let model = Led::new(Arc::clone(comm), number, || {
        let Prepared { model, config, options, seed } = make(stage)?;
        rest = Some((config, options, seed));
        Ok(model)
    })?;
    if !model.is_shared() {
        say("note: this model cannot share batches; rank 0 trains alone");
    }
    let (config, options, seed) = rest.expect("the model was made");
    Ok(Prepared { model: Box::new(model), config, options, seed })
}

/// The task of an experiment.
fn task_of(place: &str, text: &str) -> Result<&'static dyn Task> {
    let table: toml::Table = text.parse().map_err(|e: toml::de::Error| {
        let before = e.span().map_or("", |span| text.get(..span.start).unwrap_or(""));
        let place = format!("{place}, line {}", 1 + before.matches('\n').count());
        Error::new(ErrorKind::Malformed, place, "valid TOML", e.message().replace('\n', "; "))
    })?;
    let Some(name) = table.get("task") else {
        let example = format!("task = \"{}\"", tasks::names()[0]);
        return Err(Error::new(ErrorKind::Malformed, place, "a key `task`", "none")
            .hint(format!("say which task it is, for example {example} on the first line")));
    };
    tasks::find(&format!("{place}, key `task`"), name.as_str().unwrap_or(&name.to_string()))
}

/// Time between lines of progress where there is no terminal for a bar.
const LOG_PAUSE: Duration = Duration::from_secs(30);

/// Reports a run on standard error.
struct Watcher {
    bar: Bar,
    last_log: Instant,
    step: u64,
    steps: u64,
    loss: Option<f64>,
    samples_per_s: Option<f64>,
    last_eval: Option<(u64, Value)>,
}

impl Watcher {
    fn new() -> Self {
        let template = "{bar:32} {human_pos}/{human_len}  {msg}";
        let bar = Bar::styled("training", 0, template);
        let (last_log, loss, samples_per_s, last_eval) = (Instant::now(), None, None, None);
        Self { bar, last_log, step: 0, steps: 0, loss, samples_per_s, last_eval }
    }

    /// A run, or a stage, of so many steps begins.
    fn expect(&mut self, steps: u64) {
        self.steps = steps;
        self.bar.set_length(steps);
    }
}

impl TrainObserver for Watcher {
    fn progress(&mut self, now: &Progress) {
        (self.step, self.loss, self.samples_per_s) = (now.step, Some(now.loss), Some(now.samples_per_s));
        let text = || {
            let (rate, left) = (significant(now.samples_per_s), duration(now.seconds_left));
            format!("loss {:.4}  {rate} samples/s  {left} left", now.loss)
        };
        self.bar.set(now.step, text);
        if !self.bar.is_shown() && self.last_log.elapsed() >= LOG_PAUSE {
            self.last_log = Instant::now();
            say(&format!("step {}/{}  {}", now.step, now.steps, text()));
        }
    }

    fn event(&mut self, event: &TrainEvent<'_>) {
        match event {
            TrainEvent::Stage { name, number, count, steps } => {
                self.expect(*steps);
                self.bar.say(&format!("stage {number} of {count}: {name}"));
            }
            TrainEvent::Started { step } => {
                self.step = *step;
                if *step > 0 {
                    self.bar.say(&format!("continuing after step {}", count(*step as usize)));
                }
            }
            TrainEvent::Evaluated { step, metrics, best } => {
                let map: Map<String, Value> =
                    metrics.iter().map(|(n, v)| (n.clone(), rounded(*v, 6))).collect();
                let metrics = Value::Object(map);
                let mark = if *best { "  (best so far)" } else { "" };
                self.bar.say(&format!("step {}: {}{mark}", count(*step as usize), metrics_text(&metrics)));
                self.last_eval = Some((*step, metrics));
            }
            TrainEvent::RolledBack { from, to, batch, sample, count } => {
                let sample = sample.map_or(String::new(), |s| format!(", sample {s}"));
                self.bar.say(&format!(
                    "step {from}: loss or gradient not finite (batch {batch}{sample}); \
                     back to step {to}, rollback {count}"
                ));
            }
            TrainEvent::Note { text } => self.bar.say(&format!("note: {text}")),
            TrainEvent::Evaluating { .. } | TrainEvent::CheckpointWritten { .. } => {}
        }
    }
}

/// Names and values on one line; fractions are shown in percent.
fn metrics_text(metrics: &Value) -> String {
    let Some(map) = metrics.as_object() else { return String::new() };
    let shown = map.iter().map(|(name, value)| match value.as_f64() {
        Some(v) if (0.0..=1.0).contains(&v) => format!("{name} {:.2} %", 100.0 * v),
        Some(v) => format!("{name} {}", significant(v)),
        None => format!("{name} {value}"),
    });
    shown.collect::<Vec<_>>().join(", ")
}
