//! Every way to lose a number is seen, damaged checkpoints are passed over, and a checkpoint can be chosen.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;

use sheaf_admm::error::check_positive;
use sheaf_admm::{ErrorKind, Result};
use sheaf_learn::config::TrainSection;
use sheaf_learn::params::ParamLayout;
use sheaf_learn::train::{
    OnNan, Origin, Run, RunDir, StepStats, TrainEvent, TrainObserver, TrainOptions, Trainable, train,
};

/// A model whose penalty may become 0, as an error of the solver reports it.
struct Penalty {
    layout: ParamLayout,
    /// At this batch the penalty is lost.
    lost_at: Option<u64>,
    /// Evaluations fail once the batches have come this far.
    lost_in_evaluation: Option<u64>,
    seen: u64,
}

impl Penalty {
    fn new(lost_at: Option<u64>, lost_in_evaluation: Option<u64>) -> Self {
        let mut layout = ParamLayout::new();
        layout.add("rho", &[2]);
        Self { layout, lost_at, lost_in_evaluation, seen: 0 }
    }
}

impl Trainable for Penalty {
    fn layout(&self) -> &ParamLayout {
        &self.layout
    }

    fn initial(&self, _seed: u64) -> Vec<f32> {
        vec![1.0, 2.0]
    }

    fn loss_and_grad(&mut self, p: &[f32], _seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        self.seen = step;
        check_positive("rho", if self.lost_at == Some(step) { 0.0 } else { 1.0 })?;
        grad.copy_from_slice(p);
        Ok(StepStats { loss: 1.0, samples: 1, bad_sample: None })
    }

    fn evaluate(&mut self, _params: &[f32]) -> Result<Vec<(String, f64)>> {
        check_positive("rho", if self.lost_in_evaluation == Some(self.seen) { 0.0 } else { 1.0 })?;
        Ok(vec![("solved".into(), 1.0)])
    }
}

#[derive(Default)]
struct Notes(Vec<String>);

impl TrainObserver for Notes {
    fn event(&mut self, event: &TrainEvent<'_>) {
        match event {
            TrainEvent::Note { text } => self.0.push((*text).into()),
            TrainEvent::RolledBack { from, to, batch, .. } => {
                self.0.push(format!("{from} to {to}, batch {batch}"))
            }
            TrainEvent::Started { step } => self.0.push(format!("started {step}")),
            _ => {}
        }
    }
}

fn options(on_nan: OnNan) -> TrainOptions {
    let section =
        TrainSection { steps: 8, checkpoint_every: 2, eval_every: 2, warmup: 0, ..TrainSection::default() };
    TrainOptions { on_nan, ..section.options().unwrap() }
}

struct Dir(PathBuf);

impl Drop for Dir {
    fn drop(&mut self) {
        let _ = fs::remove_dir_all(&self.0);
    }
}

fn dir(name: &str) -> Dir {
    let path = std::env::temp_dir().join(format!("sheaf-lost-{name}-{}", std::process::id()));
    let _ = fs::remove_dir_all(&path);
    Dir(path)
}

fn go(
    model: &mut Penalty,
    dir: &Dir,
    options: &TrainOptions,
    resume: bool,
    from: Option<&Path>,
) -> Result<Vec<String>> {
    let run = Run {
        dir: &dir.0,
        task: "penalty",
        config: "",
        seed: 1,
        options,
        resume,
        checkpoint: from,
        may_change: &[],
        init: None,
        origin: Origin::default(),
    };
    let mut notes = Notes::default();
    train(model, &run, &mut notes, &AtomicBool::new(false)).map(|_| notes.0)
}

#[test]
fn a_number_lost_inside_the_solver_rolls_back_or_stops_with_the_last_good_checkpoint() {
    let stopped = dir("stop");
    let error =
        go(&mut Penalty::new(Some(5), None), &stopped, &options(OnNan::Stop), false, None).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NotFinite);
    let text = error.to_string();
    assert!(
        text.contains("step 5 (batch 5)") && text.contains("rho") && text.contains("step-00000004"),
        "{text}"
    );
    let back = dir("back");
    let heard = go(&mut Penalty::new(Some(5), None), &back, &options(OnNan::Rollback), false, None).unwrap();
    assert_eq!(heard, ["started 0", "5 to 4, batch 5"]);
    assert!(back.0.join("final.safetensors").exists());
}

#[test]
fn a_number_lost_in_the_evaluation_is_seen_too() {
    let back = dir("evaluation");
    let heard = go(&mut Penalty::new(None, Some(3)), &back, &options(OnNan::Rollback), false, None).unwrap();
    assert_eq!(heard, ["started 0", "4 to 2, batch 3"]);
}

#[test]
fn a_damaged_checkpoint_is_passed_over_with_a_note_and_the_run_ends_in_the_same_bits() {
    let (whole, damaged, options) = (dir("whole"), dir("damaged"), options(OnNan::Stop));
    go(&mut Penalty::new(None, None), &whole, &options, false, None).unwrap();
    go(&mut Penalty::new(None, None), &damaged, &options, false, None).unwrap();
    fs::remove_file(damaged.0.join("final.safetensors")).unwrap();
    let newest = damaged.0.join("checkpoints/step-00000008.safetensors");
    let mut bytes = fs::read(&newest).unwrap();
    bytes[100] ^= 1;
    fs::write(&newest, bytes).unwrap();
    let heard = go(&mut Penalty::new(None, None), &damaged, &options, true, None).unwrap();
    assert!(heard[0].contains("step 8 is damaged"), "{heard:?}");
    assert_eq!(heard[1], "started 6");
    assert!(newest.with_extension("safetensors.aside").exists(), "nothing is deleted");
    let last = |dir: &Dir| fs::read(dir.0.join("final.safetensors")).unwrap();
    assert!(last(&whole) == last(&damaged));
}

#[test]
fn a_chosen_checkpoint_is_resumed_from_and_later_ones_are_set_aside() {
    let (run, options) = (dir("chosen"), options(OnNan::Stop));
    go(&mut Penalty::new(None, None), &run, &options, false, None).unwrap();
    let chosen = run.0.join("checkpoints/step-00000004.safetensors");
    let heard = go(&mut Penalty::new(None, None), &run, &options, true, Some(&chosen)).unwrap();
    assert_eq!(heard, ["started 4"]);
    let (again, found) = RunDir::resume(&run.0).unwrap();
    assert_eq!(found.last(), Some(&(8, again.checkpoint(8))));
    fs::write(&chosen, "nothing").unwrap();
    drop(again);
    let error = go(&mut Penalty::new(None, None), &run, &options, true, Some(&chosen)).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Malformed, "a chosen checkpoint is not replaced by another");
}
