//! The model of pictures: encoder, ADMM on the grid of agents, a linear reading of every agent's x.
//!
//! | file | holds |
//! | --- | --- |
//! | `config` | the choices |
//! | `encoder` | view → objective and maps, once per distinct view |
//! | `tables` | all distinct views of a batch, on all cores |
//! | `sample` | one picture: K iterations, loss, the reverse sweep |
//! | `batch` | many pictures on all cores, gradients summed in a fixed order |
//! | `names` | the authors' parameter names |

mod batch;
mod config;
mod encoder;
mod names;
mod sample;
mod tables;

pub use batch::{Batch, BatchLoss};
pub use config::{Checked, MnistConfig};
pub use sample::{Horizon, Sample};
pub use tables::Tables;

use std::ops::Range;

use sheaf_admm::sheaf::{AgentGraph, PackedLowRank, Sheaf};
use sheaf_admm::z_update::ZUpdate;
use sheaf_admm::{Real, Result};
use sheaf_kernels::low_rank::LowRankShape;
use sheaf_learn::init;
use sheaf_learn::nn::Linear;
use sheaf_learn::nn::activation::{inverse_softplus, sigmoid_of, softplus_of};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;

use super::views::ViewGrid;

/// Layers, parameter layout and choices; no numbers.
#[derive(Clone, Debug)]
pub struct MnistModel {
    config: MnistConfig,
    checked: Checked,
    layout: ParamLayout,
    encoder: encoder::Encoder,
    base: Range<usize>, // [d_e, d_v]
    decoder: Linear,
    rho: Range<usize>,
    /// Parameters every picture touches itself: the base, the decoder and rho, declared last.
    per_sample: Range<usize>,
    /// The decoder with its places counted from the start of that range.
    own_decoder: Linear,
}

/// A grid of agents over pictures of one size.
#[derive(Clone, Debug)]
pub struct Board {
    /// Where the agents look.
    pub grid: ViewGrid,
    /// Whom they talk to.
    pub sheaf: Sheaf,
    /// Sizes of their maps.
    pub shape: LowRankShape,
}

impl MnistModel {
    /// Checks the choices and declares all parameters.
    pub fn new(config: MnistConfig) -> Result<Self> {
        let checked = config.check()?;
        let mut layout = ParamLayout::new();
        let encoder = encoder::Encoder::new(&mut layout, &config, &checked);
        let first = layout.len();
        let (base, decoder, rho) = declare_own(&mut layout, &config);
        let per_sample = first..layout.len();
        let (_, own_decoder, _) = declare_own(&mut ParamLayout::new(), &config);
        let model = Self { config, checked, layout, encoder, base, decoder, rho, per_sample, own_decoder };
        // Sizes the kernels do not take are better told now than at the first picture.
        model.board(model.config.patch, model.config.patch)?;
        Ok(model)
    }

    /// The choices.
    pub fn config(&self) -> &MnistConfig {
        &self.config
    }

    /// Names and shapes of the parameters.
    pub fn layout(&self) -> &ParamLayout {
        &self.layout
    }

    /// Classes it tells apart.
    pub fn classes(&self) -> usize {
        self.config.classes
    }

    /// Starting values of a seed.
    pub fn init<T: Real>(&self, seed: u64) -> Vec<T> {
        let mut params = vec![T::ZERO; self.layout.len()];
        let stream = &mut Stream::new(seed, "mnist parameters", 0, 0);
        self.encoder.init(&mut params, stream);
        let base = &mut params[self.base.clone()];
        if self.checked.trains_base {
            init::orthonormal(base, self.config.d_v, stream);
        } else {
            init::identity(base, self.config.d_v);
        }
        self.decoder.init(&mut params, stream);
        params
    }

    /// The grid of agents for pictures of this size.
    pub fn board(&self, height: usize, width: usize) -> Result<Board> {
        let grid = ViewGrid::new(height, width, self.config.patch, self.config.stride)?;
        let graph = AgentGraph::grid(grid.rows(), grid.columns(), self.checked.connectivity)?;
        let sheaf = Sheaf::uniform(&graph, self.config.d_v, self.config.d_e)?;
        let shape = PackedLowRank::<f32>::shape(&sheaf, self.checked.rank)?;
        Ok(Board { grid, sheaf, shape })
    }

    /// The consensus solver.
    pub fn z_update<T: Real>(&self) -> ZUpdate<T> {
        self.config.z_update(&self.checked)
    }

    /// rho = softplus(raw + softplus⁻¹(initial)) and its derivative by raw (0 when it is not learned).
    pub fn rho<T: Real>(&self, params: &[T]) -> (T, T) {
        let at = params[self.rho.start] + T::from_f64(inverse_softplus(self.config.rho_init));
        (softplus_of(at), if self.config.rho_learned { sigmoid_of(at) } else { T::ZERO })
    }
}

/// Base, decoder and rho, one after the other.
fn declare_own(layout: &mut ParamLayout, config: &MnistConfig) -> (Range<usize>, Linear, Range<usize>) {
    let base = layout.add("maps/base", &[config.d_e, config.d_v]);
    let decoder = Linear::new(layout, "decoder/out", config.d_v, config.classes, true);
    (base, decoder, layout.add("rho", &[]))
}
