//! Recipes of several stages on a toy model: each stage starts from the weights of the one before, and a recipe that is
//! stopped or killed anywhere ends with the same files.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use serde::{Deserialize, Serialize};
use sheaf_admm::{ErrorKind, Result};
use sheaf_learn::config::{Recipe, StrictConfig, TrainSection, recipe, strict};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_learn::train::{
    Init, Origin, Outcome, Plan, Prepared, Progress, Run, StepStats, TrainEvent, TrainObserver, Trainable,
    WeightsFile, stages, train, train_stages,
};

#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
#[serde(default)]
struct File {
    train: TrainSection,
}

impl StrictConfig for File {}

/// A pull towards noisy targets.
struct Toy(ParamLayout);

impl Toy {
    fn new() -> Self {
        let mut layout = ParamLayout::new();
        layout.add("p", &[6]);
        Self(layout)
    }
}

impl Trainable for Toy {
    fn layout(&self) -> &ParamLayout {
        &self.0
    }

    fn initial(&self, seed: u64) -> Vec<f32> {
        let mut stream = Stream::new(seed, "initial", 0, 0);
        (0..self.0.len()).map(|_| stream.normal() as f32).collect()
    }

    fn loss_and_grad(&mut self, p: &[f32], seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        let mut stream = Stream::new(seed, "batch", step, 0);
        let mut loss = 0.0;
        for (g, p) in grad.iter_mut().zip(p) {
            *g = p - 3.0 - 0.3 * stream.normal() as f32;
            loss += 0.5 * f64::from(*g).powi(2);
        }
        Ok(StepStats { loss, samples: 8, bad_sample: None })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        Ok(vec![("solved".into(), -params.iter().map(|p| (f64::from(*p) - 3.0).powi(2)).sum::<f64>())])
    }

    fn split(&self) -> &str {
        "validation"
    }
}

struct Dir(PathBuf);

impl Dir {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("sheaf-stages-{name}-{}", std::process::id()));
        let _ = fs::remove_dir_all(&path);
        Self(path)
    }
}

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

const TEXT: &str = "[train]\nbatch = 8\nlearning_rate = 0.1\nwarmup = 0\nema = 0.5\neval_every = 2\n\
                    checkpoint_every = 2\ncheckpoint_minutes = 0.0\nlog_every = 1\n\n\
                    [[stage]]\nname = \"first\"\ntrain.steps = 5\ntrain.average_last = 2\ntrain.average_every = 3\n\n\
                    [[stage]]\nname = \"second\"\ntrain.steps = 4\ntrain.learning_rate = 0.01\ntrain.seed = 43\n";

fn read(text: &str) -> Recipe {
    recipe::<File>("recipe.toml", text, &[], |file| file.train.options().map(|_| Toy::new().0)).unwrap()
}

fn prepared(config: &str) -> Result<Prepared> {
    let file: File = strict::parse("stage", config, &[])?;
    let (options, seed) = (file.train.options()?, file.train.seed);
    Ok(Prepared { model: Box::new(Toy::new()), config: config.into(), options, seed })
}

/// Stops after so many updates of this session, and hears which stages there are.
#[derive(Default)]
struct Listener<'a> {
    left: Option<(u64, &'a AtomicBool)>,
    stages: Vec<String>,
}

impl TrainObserver for Listener<'_> {
    fn progress(&mut self, _: &Progress) {
        if let Some((left, flag)) = &mut self.left {
            *left -= 1;
            if *left == 0 {
                flag.store(true, Ordering::Relaxed);
            }
        }
    }

    fn event(&mut self, event: &TrainEvent<'_>) {
        if let TrainEvent::Stage { name, number, count, steps } = event {
            self.stages.push(format!("{number}/{count} {name} {steps}"));
        }
    }
}

fn go(dir: &Path, recipe: &Recipe, resume: bool, stop_after: Option<u64>) -> Result<(Outcome, Vec<String>)> {
    let plan = Plan { dir, task: "toy", recipe, commit: "abc", resume, may_change: &[], init: None };
    let flag = AtomicBool::new(false);
    let mut listener = Listener { left: stop_after.map(|n| (n, &flag)), stages: Vec::new() };
    let outcome = train_stages(&plan, &mut |stage| prepared(&stage.config), &mut listener, &flag)?;
    Ok((outcome, listener.stages))
}

/// Every file that must be the same, without times.
fn result(dir: &Path) -> Vec<(String, Vec<u8>)> {
    let names = [
        "config.toml",
        "final.safetensors",
        "best.safetensors",
        "stage-1/final.safetensors",
        "stage-1/best.safetensors",
        "stage-2/config.toml",
    ];
    let mut out: Vec<_> =
        names.iter().map(|name| (name.to_string(), fs::read(dir.join(name)).expect(name))).collect();
    for stage in 1..=2 {
        let name = format!("stage-{stage}/metrics.jsonl");
        let text = fs::read_to_string(dir.join(&name)).unwrap();
        let line = |line: &str| {
            let mut value: serde_json::Value = serde_json::from_str(line).unwrap();
            value.as_object_mut().unwrap().remove("seconds");
            format!("{value}\n")
        };
        out.push((name, text.lines().map(line).collect::<String>().into_bytes()));
    }
    out
}

#[test]
fn a_recipe_stopped_anywhere_and_resumed_ends_with_the_same_files() {
    let (straight, recipe) = (Dir::new("straight"), read(TEXT));
    let (outcome, heard) = go(&straight.0, &recipe, false, None).unwrap();
    assert_eq!(outcome, Outcome::Finished { weights: straight.0.join("final.safetensors") });
    assert_eq!(heard, ["1/2 first 5", "2/2 second 4"]);
    let want = result(&straight.0);
    for stop in 1..9 {
        let dir = Dir::new(&format!("stopped-{stop}"));
        let (outcome, _) = go(&dir.0, &recipe, false, Some(stop)).unwrap();
        // A flag set during the last update of a stage stops the next one before its first.
        assert!(matches!(outcome, Outcome::Interrupted { .. }), "{stop}: {outcome:?}");
        go(&dir.0, &recipe, true, None).unwrap();
        for ((name, want), (_, got)) in want.iter().zip(result(&dir.0)) {
            assert!(*want == got, "stopped after {stop}: {name} differs");
        }
    }
}

/// What a kill leaves: files of a moment, with anything after it missing.
#[test]
fn a_recipe_killed_between_two_files_ends_with_the_same_files() {
    let (straight, recipe) = (Dir::new("whole"), read(TEXT));
    go(&straight.0, &recipe, false, None).unwrap();
    let want = result(&straight.0);
    let all_of_two = ["stage-2", "best.safetensors", "final.safetensors"];
    for gone in [
        &["final.safetensors"][..],
        &["best.safetensors", "final.safetensors"],
        &["stage-2/final.safetensors", "final.safetensors", "best.safetensors"],
        &all_of_two,
        &["stage-1/final.safetensors", "stage-2", "best.safetensors", "final.safetensors"],
    ] {
        let dir = Dir::new("killed");
        go(&dir.0, &recipe, false, None).unwrap();
        for name in gone {
            let path = dir.0.join(name);
            if path.is_dir() { fs::remove_dir_all(path) } else { fs::remove_file(path) }.unwrap();
        }
        go(&dir.0, &recipe, true, None).unwrap();
        assert!(want == result(&dir.0), "without {gone:?}");
    }
    // Before the first checkpoint there is nothing to resume; the same command starts again.
    let dir = Dir::new("killed-at-once");
    go(&dir.0, &recipe, false, Some(1)).unwrap();
    fs::remove_dir_all(dir.0.join("stage-1")).unwrap();
    let error = go(&dir.0, &recipe, true, None).unwrap_err();
    assert!(error.hint_text().unwrap().contains("without --resume"), "{error}");
    go(&dir.0, &recipe, false, None).unwrap();
    assert!(want == result(&dir.0));
}

#[test]
fn a_stage_is_the_run_that_starts_from_the_weights_before_it() {
    let (dir, alone, recipe) = (Dir::new("chain"), Dir::new("alone"), read(TEXT));
    go(&dir.0, &recipe, false, None).unwrap();
    let weights = WeightsFile::read(&dir.0.join("stage-1/final.safetensors")).unwrap();
    let Prepared { mut model, config, options, seed } = prepared(&recipe.stages[1].config).unwrap();
    let run = Run {
        dir: &alone.0,
        task: "toy",
        config: &config,
        seed,
        options: &options,
        resume: false,
        checkpoint: None,
        may_change: &[],
        init: Some(Init { name: "a", weights: &weights }),
        origin: Origin::default(),
    };
    train(&mut *model, &run, &mut (), &AtomicBool::new(false)).unwrap();
    let params = |path: PathBuf| WeightsFile::read(&path).unwrap().params(&Toy::new().0).unwrap();
    assert_eq!(params(alone.0.join("final.safetensors")), params(dir.0.join("final.safetensors")));
    // The first stage is the mean of the parameters after updates 2 and 5.
    let mut update =
        sheaf_learn::task::Update::new(Toy::new(), prepared(&recipe.stages[0].config).unwrap().options, 42);
    let mut members = Vec::new();
    for step in 1..=5 {
        update.step().unwrap();
        if step == 2 || step == 5 {
            members.push(update.parameters().to_vec());
        }
    }
    for (k, mean) in weights.params(&Toy::new().0).unwrap().into_iter().enumerate() {
        assert!((mean - 0.5 * (members[0][k] + members[1][k])).abs() < 1e-6);
    }
    assert!(stages::hours(&dir.0).unwrap() >= 0.0);
}

#[test]
fn the_record_of_the_weights_tells_the_recipe_the_program_and_the_split() {
    let (dir, recipe) = (Dir::new("record"), read(TEXT));
    go(&dir.0, &recipe, false, None).unwrap();
    let text = WeightsFile::read(&dir.0.join("final.safetensors")).unwrap().about().record.clone();
    let record: serde_json::Value = serde_json::from_str(&text).unwrap();
    let (from, started) = (&record["history"][0], &record["history"][1]);
    assert_eq!(
        (&from["init"], &from["record"]["weights"]),
        (&"stage 1: first".into(), &"mean of 2 checkpoints".into())
    );
    assert_eq!(
        (&started["stage"], &started["stages"], &started["commit"]),
        (&2.into(), &2.into(), &"abc".into())
    );
    assert_eq!(started["evaluated_on"], "validation");
    assert_eq!(read(started["recipe"].as_str().unwrap()), recipe);
}

#[test]
fn another_recipe_or_a_directory_in_use_is_refused() {
    let (dir, recipe) = (Dir::new("refused"), read(TEXT));
    assert_eq!(go(&dir.0, &recipe, true, None).unwrap_err().kind(), ErrorKind::Unsupported);
    go(&dir.0, &recipe, false, Some(2)).unwrap();
    let again = go(&dir.0, &recipe, false, None).unwrap_err();
    assert!(again.hint_text().unwrap().contains("--resume"), "{again}");
    let other = read(&TEXT.replace("train.steps = 4", "train.steps = 3"));
    let changed = go(&dir.0, &other, true, None).unwrap_err();
    assert!(changed.to_string().contains("stage"), "{changed}");
    let foreign = Dir::new("foreign");
    fs::create_dir_all(&foreign.0).unwrap();
    fs::write(foreign.0.join("config.toml"), "mine").unwrap();
    assert!(go(&foreign.0, &recipe, false, None).is_err());
    assert_eq!(fs::read_to_string(foreign.0.join("config.toml")).unwrap(), "mine");
}
