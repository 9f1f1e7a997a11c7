//! Training over several ranks: rank 0 trains, the others help with its gradients.
//!
//! Rank 0 runs the trainer as in one process: it alone has the optimiser, evaluates, and writes checkpoints and metrics. Before
//! each gradient it tells the others which batch is next and sends them the parameters; then all compute the batch together
//! ([`Trainable::share_batches`]). Everything that a gradient depends on comes with the call, so any number of ranks can
//! resume any checkpoint.
//!
//! | message of rank 0 | means |
//! | --- | --- |
//! | prepare k | make model and data of stage k |
//! | gradient (seed, step), then the parameters | compute this batch |
//! | wait | the next message may take any time: rank 0 evaluates |
//! | end | training is over |

use std::sync::Arc;

use sheaf_admm::share::Comm;
use sheaf_admm::{Error, ErrorKind, Real, Result};

use super::{StepStats, Trainable};
use crate::params::ParamLayout;

const PREPARE: u64 = 1;
const GRADIENT: u64 = 2;
const WAIT: u64 = 3;
const END: u64 = 4;

/// A message: its kind and two numbers.
type Call = [u64; 3];

fn tell(comm: &dyn Comm, call: Call) {
    let bytes: Vec<u8> = call.iter().flat_map(|number| number.to_ne_bytes()).collect();
    (0..comm.ranks()).filter(|&rank| rank != comm.rank()).for_each(|rank| comm.send(rank, &bytes));
}

fn hear(comm: &dyn Comm, patient: bool) -> Call {
    let mut bytes = [0; 24];
    match patient {
        true => comm.await_bytes(0, &mut bytes),
        false => comm.receive(0, &mut bytes),
    }
    let number = |k: usize| u64::from_ne_bytes(std::array::from_fn(|i| bytes[8 * k + i]));
    std::array::from_fn(number)
}

/// Sends the parameters of rank 0 to all.
fn pass(comm: &dyn Comm, params: &mut [f32], bytes: &mut Vec<u8>) {
    bytes.resize(params.len() * f32::BYTES, 0);
    if comm.rank() == 0 {
        f32::to_bytes(params, bytes);
    }
    comm.broadcast(0, bytes);
    f32::from_bytes(bytes, params);
}

/// Model and data of rank 0, which other ranks help.
pub struct Led {
    model: Box<dyn Trainable>,
    comm: Arc<dyn Comm>,
    /// Whether batches are shared: a model may be unable to.
    shared: bool,
    params: Vec<f32>,
    bytes: Vec<u8>,
}

impl Led {
    /// The model of stage `stage`, which `make` makes here and on every other rank.
    pub fn new(
        comm: Arc<dyn Comm>,
        stage: usize,
        make: impl FnOnce() -> Result<Box<dyn Trainable>>,
    ) -> Result<Self> {
        tell(&*comm, [PREPARE, stage as u64, 0]);
        let mut model = make()?;
        let shared = model.share_batches(Arc::clone(&comm));
        Ok(Self { model, comm, shared, params: Vec::new(), bytes: Vec::new() })
    }

    /// Whether the other ranks can help.
    pub fn is_shared(&self) -> bool {
        self.shared
    }
}

/// Lets the other ranks go.
pub fn end(comm: &dyn Comm) {
    tell(comm, [END, 0, 0]);
}

impl Trainable for Led {
    fn layout(&self) -> &ParamLayout {
        self.model.layout()
    }

    fn initial(&self, seed: u64) -> Vec<f32> {
        self.model.initial(seed)
    }

    fn loss_and_grad(&mut self, params: &[f32], seed: u64, step: u64, grad: &mut [f32]) -> Result<StepStats> {
        if self.shared {
            tell(&*self.comm, [GRADIENT, seed, step]);
            self.params.clear();
            self.params.extend_from_slice(params);
            pass(&*self.comm, &mut self.params, &mut self.bytes);
        }
        self.model.loss_and_grad(params, seed, step, grad)
    }

    fn evaluate(&mut self, params: &[f32]) -> Result<Vec<(String, f64)>> {
        tell(&*self.comm, [WAIT, 0, 0]);
        self.model.evaluate(params)
    }

    fn split(&self) -> &str {
        self.model.split()
    }

    fn present_config(&self, place: &str, config: &str) -> Result<String> {
        self.model.present_config(place, config)
    }
}

/// What the other ranks do: compute batches until rank 0 ends the training. `make` makes the model of a stage.
pub fn follow(comm: &Arc<dyn Comm>, make: &mut dyn FnMut(usize) -> Result<Box<dyn Trainable>>) -> Result<()> {
    let mut model: Option<Box<dyn Trainable>> = None;
    let (mut params, mut grad, mut bytes) = (Vec::new(), Vec::new(), Vec::new());
    // Rank 0 may take any time before the first stage, too.
    let mut patient = true;
    loop {
        let [kind, a, b] = hear(&**comm, patient);
        patient = kind != GRADIENT;
        match (kind, &mut model) {
            (END, _) => return Ok(()),
            (WAIT, _) => {}
            (PREPARE, held) => {
                let mut made = make(a as usize)?;
                made.share_batches(Arc::clone(comm));
                for numbers in [&mut params, &mut grad] {
                    numbers.clear();
                    numbers.resize(made.layout().len(), 0.0);
                }
                *held = Some(made);
            }
            (GRADIENT, Some(model)) => {
                pass(&**comm, &mut params, &mut bytes);
                model.loss_and_grad(&params, a, b, &mut grad)?;
            }
            (kind, _) => {
                let expected = "a call that follows the one before";
                return Err(Error::new(ErrorKind::Malformed, "call of rank 0", expected, kind));
            }
        }
    }
}
