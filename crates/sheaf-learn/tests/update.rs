//! Updates outside a run equal those of the trainer; a run that an earlier version started can be resumed.

use std::sync::atomic::AtomicBool;

use sheaf_admm::{ErrorKind, Result};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::task::Update;
use sheaf_learn::train::{
    AdamW, Decay, OnNan, Origin, Run, Schedule, StepStats, TensorFile, TrainEvent, TrainObserver,
    TrainOptions, Trainable, train,
};

/// Eight parameters that are pulled to one; the gradients exceed the clipping norm at first.
#[derive(Debug)]
struct Pull(ParamLayout, Option<u64>);

impl Pull {
    fn new(bad: Option<u64>) -> Self {
        let mut layout = ParamLayout::new();
        layout.add("p", &[8]);
        Self(layout, bad)
    }
}

impl Trainable for Pull {
    fn layout(&self) -> &ParamLayout {
        &self.0
    }

    fn initial(&self, seed: u64) -> Vec<f32> {
        (0..8).map(|i| (seed + i) as f32).collect()
    }

    fn loss_and_grad(&mut self, params: &[f32], _: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        grad.iter_mut().zip(params).for_each(|(g, p)| *g = p - 1.0 + 0.01 * step as f32);
        let loss = if self.1 == Some(step) { f64::NAN } else { 1.0 };
        Ok(StepStats { loss, samples: 4, bad_sample: None })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        Ok(vec![("first".into(), params[0].into())])
    }

    fn present_config(&self, _place: &str, config: &str) -> Result<String> {
        Ok(config.replace("old_name", "name"))
    }
}

fn options(steps: u64) -> TrainOptions {
    TrainOptions {
        steps,
        schedule: Schedule { peak: 0.1, warmup: 3, decay: Decay::None },
        adamw: AdamW { weight_decay: 0.1, ..AdamW::default() },
        muon: None,
        clip: Some(0.5),
        ema: 0.9,
        mean: None,
        eval_every: 0,
        checkpoint_every: 2,
        checkpoint_minutes: 0.0,
        log_every: 5,
        keep: 2,
        best_metric: None,
        on_nan: OnNan::Stop,
        max_rollbacks: 1,
    }
}

#[derive(Default)]
struct Started(u64);

impl TrainObserver for Started {
    fn event(&mut self, event: &TrainEvent<'_>) {
        if let TrainEvent::Started { step } = event {
            self.0 = *step;
        }
    }
}

#[test]
fn updates_are_those_of_the_trainer_and_an_older_configuration_resumes() {
    let dir = std::env::temp_dir().join(format!("sheaf-update-{}", std::process::id()));
    let (few, all) = (options(4), options(6));
    let run = Run {
        dir: &dir,
        task: "pull",
        config: "old_name = 1\n",
        seed: 3,
        options: &few,
        resume: false,
        checkpoint: None,
        may_change: &[],
        init: None,
        origin: Origin::default(),
    };
    let stop = AtomicBool::new(false);
    let mut started = Started::default();
    train(&mut Pull::new(None), &run, &mut started, &stop).unwrap();
    let later = Run { config: "name = 1\n", options: &all, resume: true, ..run };
    train(&mut Pull::new(None), &later, &mut started, &stop).unwrap();
    assert_eq!(started.0, 4);
    let weights = TensorFile::read(&dir.join("final.safetensors")).unwrap();
    let trained = weights.tensor("p", &[8], &[safetensors::Dtype::F32]).unwrap();
    let mut update = Update::new(Pull::new(None), options(6), 3);
    (0..6).for_each(|_| assert_eq!(update.step().unwrap().samples, 4));
    assert_eq!(update.average(), trained);
    assert_eq!(std::fs::read_to_string(dir.join("config.toml")).unwrap(), "name = 1\n");
    std::fs::remove_dir_all(&dir).unwrap();
}

#[test]
fn a_loss_that_is_not_finite_is_an_error_and_changes_nothing() {
    let mut update = Update::new(Pull::new(Some(1)), options(6), 3);
    update.step().unwrap();
    let before = update.average().to_vec();
    assert_eq!(update.step().unwrap_err().kind(), ErrorKind::NotFinite);
    assert_eq!(update.average(), before);
}
