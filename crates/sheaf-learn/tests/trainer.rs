//! Runs on a toy model: resumed bit for bit, non-finite losses stop or roll back, mistakes are explained.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use sheaf_admm::{Error, ErrorKind, Result};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_learn::train::{
    AdamW, Checkpoint, Decay, Init, OnNan, Origin, Outcome, Progress, Run, RunDir, Schedule, StepStats,
    TrainEvent, TrainObserver, TrainOptions, Trainable, WeightsFile, check_resume, train,
};

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sheaf-trainer-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

/// ½ ‖p − target‖² with a noisy target per batch; records its batches; chosen batches give a non-finite value.
struct Toy {
    layout: ParamLayout,
    seen: Vec<u64>,
    poison: Vec<u64>,
    poison_loss: Option<u64>,
}

impl Toy {
    fn new(poison: &[u64]) -> Self {
        let mut layout = ParamLayout::new();
        layout.add("a/weight", &[3, 4]);
        layout.add("rho", &[]);
        Self { layout, seen: Vec::new(), poison: poison.to_vec(), poison_loss: None }
    }
}

impl Trainable for Toy {
    fn layout(&self) -> &ParamLayout {
        &self.layout
    }

    fn initial(&self, seed: u64) -> Vec<f32> {
        let mut stream = Stream::new(seed, "initial", 0, 0);
        (0..self.layout.len()).map(|_| stream.normal() as f32).collect()
    }

    fn loss_and_grad(&mut self, p: &[f32], seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        self.seen.push(step);
        let mut stream = Stream::new(seed, "batch", step, 0);
        let mut loss = 0.0;
        for (g, p) in grad.iter_mut().zip(p) {
            *g = p - 3.0 - 0.3 * stream.normal() as f32;
            loss += 0.5 * f64::from(*g).powi(2);
        }
        if self.poison.contains(&step) {
            grad[5] = f32::NAN;
            return Ok(StepStats { loss, samples: 8, bad_sample: Some(step * 8 + 3) });
        }
        let loss = if self.poison_loss == Some(step) { f64::INFINITY } else { loss };
        Ok(StepStats { loss, samples: 8, bad_sample: None })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        let distance: f64 = params.iter().map(|p| (f64::from(*p) - 3.0).powi(2)).sum();
        Ok(vec![("solved".into(), -distance), ("distance".into(), distance)])
    }
}

fn options() -> TrainOptions {
    TrainOptions {
        steps: 10,
        schedule: Schedule { peak: 0.1, warmup: 2, decay: Decay::None },
        adamw: AdamW { weight_decay: 1e-3, ..AdamW::default() },
        muon: None,
        clip: Some(1.0),
        ema: 0.9,
        mean: None,
        eval_every: 3,
        checkpoint_every: 2,
        checkpoint_minutes: 0.0,
        log_every: 3,
        keep: 3,
        best_metric: None,
        on_nan: OnNan::Stop,
        max_rollbacks: 2,
    }
}

const CONFIG: &str = "[train]\nlearning_rate = 0.1\non_nan = \"stop\"\n";

fn run<'a>(dir: &'a Dir, options: &'a TrainOptions, resume: bool) -> Run<'a> {
    let may_change = &["train.on_nan"];
    let (task, config, checkpoint, init, origin) = ("toy", CONFIG, None, None, Origin::default());
    Run { dir: &dir.0, task, config, seed: 7, options, resume, checkpoint, may_change, init, origin }
}

/// Sets the stop flag after a step and records the events.
#[derive(Default)]
struct Listener<'a> {
    stop_at: Option<(u64, &'a AtomicBool)>,
    steps: Vec<u64>,
    heard: Vec<String>,
}

impl TrainObserver for Listener<'_> {
    fn progress(&mut self, p: &Progress) {
        assert!(p.loss.is_finite() && p.samples_per_s > 0.0 && p.seconds_left >= 0.0 && p.steps == 10);
        self.steps.push(p.step);
        if let Some((step, flag)) = self.stop_at
            && step == p.step
        {
            flag.store(true, Ordering::Relaxed);
        }
    }

    fn event(&mut self, event: &TrainEvent<'_>) {
        self.heard.push(match event {
            TrainEvent::Started { step } => format!("started {step}"),
            TrainEvent::Evaluating { .. } | TrainEvent::Stage { .. } => return,
            TrainEvent::Note { text } => format!("note: {text}"),
            TrainEvent::Evaluated { step, metrics, best } => {
                assert_eq!(metrics.len(), 2);
                format!("evaluated {step} {best}")
            }
            TrainEvent::CheckpointWritten { step, path } => {
                assert!(path.is_file());
                format!("saved {step}")
            }
            TrainEvent::RolledBack { from, to, batch, sample, count } => {
                format!("rolled back {from} to {to}, batch {batch}, sample {sample:?}, {count}")
            }
        });
    }
}

fn straight(dir: &Dir, options: &TrainOptions) -> Toy {
    let mut toy = Toy::new(&[]);
    let outcome = train(&mut toy, &run(dir, options, false), &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!(outcome, Outcome::Finished { weights: dir.0.join("final.safetensors") });
    toy
}

fn state(dir: &Path, step: u64) -> Checkpoint {
    let path = dir.join(format!("checkpoints/step-{step:08}.safetensors"));
    let mut checkpoint = Checkpoint::load(&path, &Toy::new(&[]).layout).unwrap();
    checkpoint.state.counters.elapsed_seconds = 0.0;
    checkpoint
}

/// The metrics file as text, without the one value that depends on the clock.
fn metrics_text(dir: &Path) -> String {
    let text = fs::read_to_string(dir.join("metrics.jsonl")).unwrap();
    let without_seconds = |line: &str| {
        let (before, after) = line.split_once(",\"seconds\":").unwrap();
        format!("{before},{}\n", after.split_once(',').unwrap().1)
    };
    text.lines().map(without_seconds).collect()
}

fn metrics(dir: &Path) -> Vec<serde_json::Value> {
    metrics_text(dir).lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

fn explain<R: std::fmt::Debug>(result: Result<R>, kind: ErrorKind, words: &[&str]) -> Error {
    let error = result.unwrap_err();
    assert_eq!(error.kind(), kind, "{error}");
    for word in words {
        assert!(error.to_string().contains(word), "`{word}` is not in: {error}");
    }
    error
}

#[test]
fn a_run_interrupted_and_resumed_ends_in_the_same_bits() {
    let (whole, parts, options) = (Dir::new("whole"), Dir::new("parts"), options());
    straight(&whole, &options);
    let flag = AtomicBool::new(false);
    let mut listener = Listener { stop_at: Some((4, &flag)), ..Listener::default() };
    let mut first = Toy::new(&[]);
    let outcome = train(&mut first, &run(&parts, &options, false), &mut listener, &flag).unwrap();
    let checkpoint = parts.0.join("checkpoints/step-00000004.safetensors");
    assert_eq!(outcome, Outcome::Interrupted { step: 4, checkpoint });
    let mut second = Toy::new(&[]);
    train(&mut second, &run(&parts, &options, true), &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!((first.seen, second.seen), ((0..4).collect(), (4..10).collect()));
    let (a, b) = (state(&whole.0, 10), state(&parts.0, 10));
    for (x, y) in [
        (&a.state.params, &b.state.params),
        (&a.state.ema, &b.state.ema),
        (&a.state.adam_m, &b.state.adam_m),
        (&a.state.adam_v, &b.state.adam_v),
    ] {
        assert!(x.iter().zip(y).all(|(x, y)| x.to_bits() == y.to_bits()));
    }
    assert_eq!(a, b, "counters and history too");
    assert_eq!(metrics_text(&whole.0), metrics_text(&parts.0));
}

#[test]
fn a_run_killed_between_checkpoints_repeats_what_was_lost_to_the_same_bits() {
    let (whole, killed, options) = (Dir::new("unkilled"), Dir::new("killed"), options());
    straight(&whole, &options);
    straight(&killed, &options);
    // Simulates a power cut during step 8: the checkpoint of step 6 is the latest, the metrics are ahead of it.
    for step in [8, 10] {
        fs::remove_file(RunDir::resume(&killed.0).unwrap().0.checkpoint(step)).unwrap();
    }
    let lines = fs::read_to_string(killed.0.join("metrics.jsonl")).unwrap();
    fs::write(killed.0.join("metrics.jsonl"), format!("{}{{\"st", &lines)).unwrap();
    train(&mut Toy::new(&[]), &run(&killed, &options, true), &mut (), &AtomicBool::new(false)).unwrap();
    assert_eq!(state(&whole.0, 10), state(&killed.0, 10));
    assert_eq!(metrics_text(&whole.0), metrics_text(&killed.0));
}

#[test]
fn a_run_tells_logs_saves_and_leaves_its_files() {
    let (dir, options) = (Dir::new("files"), options());
    let mut listener = Listener::default();
    train(&mut Toy::new(&[]), &run(&dir, &options, false), &mut listener, &AtomicBool::new(false)).unwrap();
    assert_eq!(listener.steps, (1..=10).collect::<Vec<_>>());
    let want = "started 0,saved 0,saved 2,evaluated 3 true,saved 4,evaluated 6 true,saved 6,saved 8,\
                evaluated 9 true,evaluated 10 true,saved 10";
    assert_eq!(listener.heard.join(","), want);
    let lines = metrics(&dir.0);
    let steps: Vec<u64> = lines.iter().map(|l| l["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [3, 3, 6, 6, 9, 9, 10, 10], "a line of losses and one of evaluation");
    assert_eq!((lines[0]["samples"].as_u64(), lines[0]["lr"].as_f64()), (Some(24), Some(0.1)));
    assert!(lines[1]["eval/distance"].as_f64().unwrap() > lines[7]["eval/distance"].as_f64().unwrap());
    let kept = RunDir::resume(&dir.0).unwrap().0.checkpoints().unwrap();
    assert_eq!(kept.iter().map(|c| c.0).collect::<Vec<_>>(), [6, 8, 10]);
    assert_eq!(fs::read_to_string(dir.0.join("config.toml")).unwrap(), CONFIG);
    let events = |e: &fs::DirEntry| e.file_name().to_string_lossy().starts_with("events.out.tfevents.");
    assert_eq!(fs::read_dir(&dir.0).unwrap().flatten().filter(events).count(), 1);
    for name in ["best.safetensors", "final.safetensors"] {
        let weights = WeightsFile::read(&dir.0.join(name)).unwrap();
        let record: serde_json::Value = serde_json::from_str(&weights.about().record).unwrap();
        assert_eq!((record["step"].as_u64(), record["seed"].as_u64()), (Some(10), Some(7)));
        assert_eq!(record["history"].as_array().unwrap().len(), 5);
        assert_eq!((weights.about().task.as_str(), weights.about().config.as_str()), ("toy", CONFIG));
        let params = weights.params(&Toy::new(&[]).layout).unwrap();
        assert_eq!(params, state(&dir.0, 10).state.ema);
    }
}

#[test]
fn the_mean_of_the_losses_since_the_last_line_is_logged() {
    let (each, mean) = (Dir::new("each"), Dir::new("mean"));
    straight(&each, &TrainOptions { log_every: 1, eval_every: 0, ..options() });
    straight(&mean, &TrainOptions { log_every: 5, eval_every: 0, ..options() });
    let losses: Vec<f64> = metrics(&each.0).iter().filter_map(|l| l["loss"].as_f64()).collect();
    assert_eq!(losses.len(), 10);
    let want = losses[..5].iter().sum::<f64>() / 5.0;
    assert!((metrics(&mean.0)[0]["loss"].as_f64().unwrap() - want).abs() < 1e-12);
}

#[test]
fn resuming_a_finished_run_changes_nothing() {
    let (dir, options) = (Dir::new("finished"), options());
    straight(&dir, &options);
    let before = (state(&dir.0, 10), metrics_text(&dir.0));
    let mut toy = Toy::new(&[]);
    train(&mut toy, &run(&dir, &options, true), &mut (), &AtomicBool::new(false)).unwrap();
    assert!(toy.seen.is_empty());
    assert_eq!(before, (state(&dir.0, 10), metrics_text(&dir.0)));
}

#[test]
fn a_lost_number_stops_with_step_sample_and_last_good_checkpoint_and_can_be_taken_up() {
    let (dir, stop) = (Dir::new("nan"), options());
    let flag = AtomicBool::new(false);
    let result = train(&mut Toy::new(&[5]), &run(&dir, &stop, false), &mut (), &flag);
    explain(
        result,
        ErrorKind::NotFinite,
        &[
            "step 5",
            "batch 5",
            "sample 43",
            "step-00000004.safetensors",
            "gradient norm NaN",
            "--on-nan rollback",
        ],
    );
    let rollback = TrainOptions { on_nan: OnNan::Rollback, ..options() };
    let config = CONFIG.replace("stop", "rollback");
    let again = Run { config: &config, ..run(&dir, &rollback, true) };
    let mut toy = Toy::new(&[5]);
    train(&mut toy, &again, &mut (), &flag).unwrap();
    assert_eq!(toy.seen, [4, 5, 6, 7, 8, 9, 10, 11]);
    assert_eq!(fs::read_to_string(dir.0.join("config.toml")).unwrap(), config);
}

#[test]
fn an_infinite_loss_alone_stops_the_run() {
    let (dir, options) = (Dir::new("inf"), options());
    let mut toy = Toy { poison_loss: Some(3), ..Toy::new(&[]) };
    let result = train(&mut toy, &run(&dir, &options, false), &mut (), &AtomicBool::new(false));
    explain(result, ErrorKind::NotFinite, &["step 3 (batch 3)", "loss inf", "step-00000002"]);
}

#[test]
fn a_rollback_returns_to_the_checkpoint_and_goes_on_after_the_bad_batch() {
    let (dir, options) = (Dir::new("rollback"), TrainOptions { on_nan: OnNan::Rollback, ..options() });
    let mut listener = Listener::default();
    let mut toy = Toy::new(&[5]);
    train(&mut toy, &run(&dir, &options, false), &mut listener, &AtomicBool::new(false)).unwrap();
    assert_eq!(toy.seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11], "update 4 comes again, now with batch 6");
    assert!(listener.heard.contains(&"rolled back 5 to 4, batch 5, sample Some(43), 1".to_string()));
    let end = state(&dir.0, 10);
    assert_eq!((end.state.counters.skipped, end.state.counters.rollbacks), (2, 1));
    assert!(end.history.contains("\"rollback_from\":5,\"batch\":5,\"sample\":43"));
    let steps: Vec<u64> = metrics(&dir.0).iter().map(|l| l["step"].as_u64().unwrap()).collect();
    assert_eq!(steps, [3, 3, 6, 6, 9, 9, 10, 10], "no line twice");
}

#[test]
fn a_rollback_passes_over_a_checkpoint_that_fails_at_once() {
    let (dir, options) = (Dir::new("older"), TrainOptions { on_nan: OnNan::Rollback, ..options() });
    let mut listener = Listener::default();
    let mut toy = Toy::new(&[4]);
    train(&mut toy, &run(&dir, &options, false), &mut listener, &AtomicBool::new(false)).unwrap();
    assert!(listener.heard.contains(&"rolled back 4 to 2, batch 4, sample Some(35), 1".to_string()));
    assert_eq!(toy.seen, [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]);
}

#[test]
fn the_very_first_batch_can_be_rolled_back_and_rollbacks_are_bounded() {
    let (dir, options) = (Dir::new("bounded"), TrainOptions { on_nan: OnNan::Rollback, ..options() });
    let mut toy = Toy::new(&[0, 2, 5]);
    let result = train(&mut toy, &run(&dir, &options, false), &mut (), &AtomicBool::new(false));
    explain(result, ErrorKind::NotFinite, &["batch 5", "2 rollbacks did not help"]);
    assert_eq!(toy.seen, [0, 1, 2, 3, 4, 5]);
}

#[test]
fn a_run_with_a_rollback_resumes_to_the_same_bits_too() {
    let options = TrainOptions { on_nan: OnNan::Rollback, ..options() };
    let (whole, parts) = (Dir::new("roll-whole"), Dir::new("roll-parts"));
    let (never, flag) = (AtomicBool::new(false), AtomicBool::new(false));
    train(&mut Toy::new(&[5]), &run(&whole, &options, false), &mut (), &never).unwrap();
    let mut listener = Listener { stop_at: Some((7, &flag)), ..Listener::default() };
    train(&mut Toy::new(&[5]), &run(&parts, &options, false), &mut listener, &flag).unwrap();
    train(&mut Toy::new(&[5]), &run(&parts, &options, true), &mut (), &never).unwrap();
    assert_eq!(state(&whole.0, 10), state(&parts.0, 10));
    assert_eq!(metrics_text(&whole.0), metrics_text(&parts.0));
}

#[test]
fn mistakes_at_the_start_are_explained() {
    let (dir, options) = (Dir::new("mistakes"), options());
    let flag = AtomicBool::new(false);
    let go = |run: Run<'_>| train(&mut Toy::new(&[]), &run, &mut (), &flag);
    explain(go(run(&dir, &options, true)), ErrorKind::Unsupported, &["without --resume"]);
    go(run(&dir, &options, false)).unwrap();
    explain(go(run(&dir, &options, false)), ErrorKind::Unsupported, &["empty directory", "--resume"]);
    let config = CONFIG.replace("0.1", "0.2");
    let changed = Run { config: &config, ..run(&dir, &options, true) };
    explain(go(changed), ErrorKind::Unsupported, &["`train.learning_rate`", "0.1", "0.2", "hint: "]);
    let early = check_resume(&dir.0, None, &config, &[], &|_, stored| Ok(stored.to_string()));
    explain(early, ErrorKind::Unsupported, &["`train.learning_rate`", "0.1", "0.2"]);
    explain(go(Run { seed: 8, ..run(&dir, &options, true) }), ErrorKind::Unsupported, &["seed", "7", "8"]);
    let none = go(run(&dir, &TrainOptions { steps: 0, ..options.clone() }, true));
    explain(none, ErrorKind::NotPositive, &["steps"]);
    let metric = TrainOptions { best_metric: Some("acuracy".into()), ..options };
    let fresh = go(run(&Dir::new("metric"), &metric, false));
    explain(fresh, ErrorKind::Unsupported, &["solved, distance", "`acuracy`"]);
}

#[test]
fn a_run_starts_from_weights_and_remembers_how_they_were_made() {
    let (first, second, options) = (Dir::new("first"), Dir::new("second"), options());
    straight(&first, &options);
    let weights = WeightsFile::read(&first.0.join("final.safetensors")).unwrap();
    let from = |task| Run {
        init: Some(Init { name: "first/final.safetensors", weights: &weights }),
        task,
        ..run(&second, &options, false)
    };
    let wrong = train(&mut Toy::new(&[]), &from("maze"), &mut (), &AtomicBool::new(false));
    explain(wrong, ErrorKind::Unsupported, &["toy", "maze"]);
    let stop = AtomicBool::new(true);
    train(&mut Toy::new(&[]), &from("toy"), &mut (), &stop).unwrap();
    assert_eq!(state(&second.0, 0).state.params, state(&first.0, 10).state.ema);
    train(&mut Toy::new(&[]), &run(&second, &options, true), &mut (), &AtomicBool::new(false)).unwrap();
    let told = WeightsFile::read(&second.0.join("final.safetensors")).unwrap().about().record.clone();
    let record: serde_json::Value = serde_json::from_str(&told).unwrap();
    assert_eq!(record["history"][0]["init"], "first/final.safetensors");
    assert_eq!(record["history"][0]["record"]["step"], 10);
}
