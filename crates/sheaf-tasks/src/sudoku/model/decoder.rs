//! From an agent's state to the digits of its nine cells: every block of the state through the same small network.
//!
//! logits = out(skip(x) + dense(gelu(dense(rms(x))))), row by row; a row is one cell of one agent.
//!
//! | name | shape |
//! | --- | --- |
//! | x | rows, d_v / 9 |
//! | hidden | rows, hidden |
//! | logits | rows, 10 |

use sheaf_admm::Real;
use sheaf_admm::linalg::aligned::AlignedVec;
use sheaf_admm::nn::{Linear, Residual};
use sheaf_admm::params::ParamLayout;
use sheaf_admm::rng::Stream;

use crate::sudoku::CLASSES;

/// The layers.
#[derive(Clone, Debug)]
pub struct Decoder {
    block: Residual,
    out: Linear,
}

/// What was decoded, and what the adjoint needs.
#[derive(Clone, Debug, Default)]
pub struct Decoded<T: Copy + Default> {
    /// Logits; the adjoint expects their gradient here.
    pub logits: AlignedVec<T>,
    hidden: AlignedVec<T>, // [rows, hidden]; its gradient in the adjoint
    saved: AlignedVec<T>,
    scratch: AlignedVec<T>,
}

impl Decoder {
    /// Declares `decoder/block` and `decoder/out`.
    pub fn new(layout: &mut ParamLayout, input: usize, hidden: usize) -> Self {
        Self {
            block: Residual::projected(layout, "decoder/block", input, hidden, hidden),
            out: Linear::new(layout, "decoder/out", hidden, CLASSES, true),
        }
    }

    /// Starting values.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.block.init(params, stream);
        self.out.init(params, stream);
    }

    /// Decodes states into `d.logits`. Saves: the rest of `d`.
    pub fn forward<T: Real>(&self, params: &[T], x: &[T], d: &mut Decoded<T>) {
        let rows = x.len() / self.block.input();
        d.logits.ensure(rows * CLASSES);
        d.hidden.ensure(rows * self.out.input());
        d.saved.ensure(self.block.saved_len(rows));
        let hidden = &mut d.hidden[..rows * self.out.input()];
        self.block.forward(params, x, hidden, &mut d.saved);
        self.out.forward(params, hidden, &mut d.logits[..rows * CLASSES]);
    }

    /// Adjoint of [`forward`](Self::forward), the gradient of the logits being in `d.logits`: adds to `d_x` and
    /// `d_params`.
    pub fn vjp<T: Real>(&self, params: &[T], x: &[T], d: &mut Decoded<T>, d_x: &mut [T], d_params: &mut [T]) {
        let rows = x.len() / self.block.input();
        d.scratch.ensure(self.block.scratch_len(rows));
        let (hidden, d_logits) = (&mut d.hidden[..rows * self.out.input()], &d.logits[..rows * CLASSES]);
        self.out.vjp_weights(hidden, d_logits, d_params);
        // The hidden layer is no longer needed: its buffer takes its gradient.
        self.out.vjp_input(params, d_logits, hidden);
        self.block.vjp(params, x, &d.saved, hidden, Some(d_x), d_params, &mut d.scratch);
    }
}
