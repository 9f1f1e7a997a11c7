//! The maze model: encoder, ADMM on the grid of agents, decoder.
//!
//! | file | holds |
//! | --- | --- |
//! | `config` | the choices |
//! | `encoder` | view → objective and maps, once per distinct view |
//! | `decode` | states → logits, and back |
//! | `sample` | one maze: K iterations, loss, the reverse sweep |
//! | `batch` | many mazes on all cores, gradients summed in a fixed order |
//! | `names` | the authors' parameter names |

mod batch;
mod config;
mod decode;
mod encoder;
mod names;
mod sample;

pub use batch::{Batch, BatchGrad};
pub use config::{Checked, MapKind, MazeConfig, ObjectiveKind};
pub use encoder::{DIRECTIONS, Tables};
pub use sample::{Horizon, Sample};

use std::ops::Range;

use sheaf_admm::sheaf::{AgentGraph, Connectivity, Sheaf};
use sheaf_admm::z_update::ZUpdate;
use sheaf_admm::{Real, Result};
use sheaf_learn::nn::activation::{inverse_softplus, sigmoid_of, softplus_of};
use sheaf_learn::nn::{ConcatDense, Linear};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;

use super::CLASSES;
use super::views::ViewGrid;

/// Pixels of a view.
pub const VIEW_PIXELS: usize = 9;
/// Numbers of a one-hot view.
pub const VIEW_LEN: usize = VIEW_PIXELS * CLASSES;

/// Layers, parameter layout and choices; no numbers.
#[derive(Clone, Debug)]
pub struct MazeModel {
    config: MazeConfig,
    checked: Checked,
    layout: ParamLayout,
    encoder: encoder::Encoder,
    decoder_in: ConcatDense,
    decoder_out: Linear,
    rho: Range<usize>,
    /// Parameters every sample touches itself: the decoder and the scalars, declared last.
    per_sample: Range<usize>,
    beta: Option<Range<usize>>,
}

/// A grid of agents over mazes of one size.
#[derive(Clone, Debug)]
pub struct Board {
    /// Where the agents look.
    pub grid: ViewGrid,
    /// Whom they talk to.
    pub sheaf: Sheaf,
}

impl MazeModel {
    /// Checks the choices and declares all parameters.
    pub fn new(config: MazeConfig) -> Result<Self> {
        let checked = config.check()?;
        let mut layout = ParamLayout::new();
        let encoder = encoder::Encoder::new(&mut layout, &config, &checked, VIEW_LEN);
        let first = layout.len();
        let decoder_in = ConcatDense::new(
            &mut layout,
            "decoder/input_norm",
            "decoder/dense",
            VIEW_LEN,
            config.d_v,
            config.hidden,
        );
        let decoder_out = Linear::new(&mut layout, "decoder/out", config.hidden, VIEW_LEN, true);
        let rho = layout.add("rho", &[]);
        let beta = (checked.objective == ObjectiveKind::Tether).then(|| layout.add("beta", &[]));
        let per_sample = first..layout.len();
        Ok(Self { config, checked, layout, encoder, decoder_in, decoder_out, rho, per_sample, beta })
    }

    /// The choices.
    pub fn config(&self) -> &MazeConfig {
        &self.config
    }

    /// Names and shapes of the parameters.
    pub fn layout(&self) -> &ParamLayout {
        &self.layout
    }

    /// Starting values of a seed.
    pub fn init<T: Real>(&self, seed: u64) -> Vec<T> {
        let mut params = vec![T::ZERO; self.layout.len()];
        let stream = &mut Stream::new(seed, "maze parameters", 0, 0);
        self.encoder.init(&self.config, &mut params, stream);
        self.decoder_in.init(&mut params, stream);
        self.decoder_out.init(&mut params, stream);
        params
    }

    /// The grid of agents for mazes of this size.
    pub fn board(&self, height: usize, width: usize) -> Result<Board> {
        let grid = ViewGrid::maze(height, width)?;
        let graph = AgentGraph::grid(grid.rows(), grid.columns(), Connectivity::Eight)?;
        let sheaf = Sheaf::uniform(&graph, self.config.d_v, self.config.d_e)?;
        Ok(Board { grid, sheaf })
    }

    /// The consensus solver.
    pub fn z_update<T: Real>(&self) -> ZUpdate<T> {
        self.config.z_update(&self.checked)
    }

    /// rho = softplus(raw + softplus⁻¹(initial)) and its derivative by raw (0 when it is not learned).
    pub fn rho<T: Real>(&self, params: &[T]) -> (T, T) {
        self.positive(params[self.rho.start], self.config.rho_init, self.config.rho_learned)
    }

    /// The tether's strength, likewise; 1 at the start.
    fn beta<T: Real>(&self, params: &[T]) -> (T, T) {
        match &self.beta {
            Some(beta) => self.positive(params[beta.start], 1.0, true),
            None => (T::ONE, T::ZERO),
        }
    }

    fn positive<T: Real>(&self, raw: T, initial: f64, learned: bool) -> (T, T) {
        let at = raw + T::from_f64(inverse_softplus(initial));
        (softplus_of(at), if learned { sigmoid_of(at) } else { T::ZERO })
    }

    fn hidden(&self) -> usize {
        self.config.hidden
    }
}
