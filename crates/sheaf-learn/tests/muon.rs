//! Training with Muon: which parameters it moves, that an update allocates nothing, and that a resumed run has the same bits.

use std::sync::atomic::AtomicBool;

use sheaf_admm::Result;
use sheaf_kernels::gemm::may_allocate;
use sheaf_learn::config::{OptimiserKind, TrainSection};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;
use sheaf_learn::task::Update;
use sheaf_learn::train::{CheckpointFile, Origin, Run, StepStats, TrainOptions, Trainable, train};
use sheaf_testkit::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

/// ½‖W − T‖² with another noise in every batch, for a matrix of full rank and a vector.
struct Pull(ParamLayout);

impl Pull {
    fn new() -> Self {
        let mut layout = ParamLayout::new();
        layout.add("kernel", &[20, 48]);
        layout.add("bias", &[48]);
        Self(layout)
    }

    /// Where the matrix ends.
    const MATRIX: usize = 20 * 48;
}

impl Trainable for Pull {
    fn layout(&self) -> &ParamLayout {
        &self.0
    }

    fn initial(&self, _seed: u64) -> Vec<f32> {
        vec![0.0; self.0.len()]
    }

    fn loss_and_grad(&mut self, p: &[f32], seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        let mut stream = Stream::new(seed, "batch", step, 0);
        let mut loss = 0.0;
        for (i, (g, p)) in grad.iter_mut().zip(p).enumerate() {
            *g = p - 0.3 * ((i * i) as f32).sin() + 0.01 * stream.normal() as f32;
            loss += 0.5 * f64::from(*g).powi(2);
        }
        Ok(StepStats { loss, samples: 1, bad_sample: None })
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        Ok(vec![("first".into(), params[0].into())])
    }
}

fn options(steps: u64, optimiser: OptimiserKind) -> TrainOptions {
    let section = TrainSection {
        steps,
        optimiser,
        learning_rate: 0.02,
        warmup: 0,
        checkpoint_every: 2,
        ..TrainSection::default()
    };
    section.options().unwrap()
}

#[test]
fn matrices_follow_muon_and_everything_else_adamw() {
    let of = |optimiser| {
        let mut update = Update::new(Pull::new(), options(200, optimiser), 1);
        let first = update.step().unwrap().loss;
        let after = update.parameters().to_vec();
        let last = (1..200).map(|_| update.step().unwrap().loss).last().unwrap();
        assert!(last < 0.05 * first, "{optimiser:?}: {first} to {last}");
        after
    };
    let (adamw, muon) = (of(OptimiserKind::AdamW), of(OptimiserKind::Muon));
    assert_eq!(adamw[Pull::MATRIX..], muon[Pull::MATRIX..]);
    assert!(adamw[..Pull::MATRIX].iter().zip(&muon).all(|(a, m)| a != m));
}

#[test]
fn an_update_allocates_nothing_after_the_first() {
    let mut update = Update::new(Pull::new(), options(9, OptimiserKind::Muon), 1);
    update.step().unwrap();
    let count = allocations(|| assert!(update.step().is_ok()));
    // Products without our kernels may allocate.
    assert!(count == 0 || may_allocate(), "{count} requests for memory");
}

#[test]
fn a_run_that_is_resumed_ends_in_the_same_bits() {
    let root = std::env::temp_dir().join(format!("sheaf-muon-{}", std::process::id()));
    let (few, all) = (options(3, OptimiserKind::Muon), options(7, OptimiserKind::Muon));
    let [once, twice] = ["once", "twice"].map(|name| root.join(name));
    let run = |dir, options, resume| {
        let (task, config, checkpoint, may_change) = ("pull", "", None, &[][..]);
        let (init, origin, seed) = (None, Origin::default(), 5);
        let run = Run { dir, task, config, seed, options, resume, checkpoint, may_change, init, origin };
        train(&mut Pull::new(), &run, &mut (), &AtomicBool::new(false)).unwrap();
    };
    run(&once, &all, false);
    run(&twice, &few, false);
    run(&twice, &all, true);
    let [a, b] = [once, twice].map(|dir| {
        let file = CheckpointFile::read(&dir.join("checkpoints/step-00000007.safetensors")).unwrap();
        file.load(Pull::new().layout()).unwrap().state
    });
    assert_eq!((a.params, a.ema, a.adam_m), (b.params, b.ema, b.adam_m));
    std::fs::remove_dir_all(&root).unwrap();
}
