//! The Sudoku model: encoder, ADMM on 27 agents, decoder.
//!
//! | file | holds |
//! | --- | --- |
//! | `config` | the choices |
//! | `encoder`, `decoder` | nine cells → objective and maps; state → digits |
//! | `maps`, `low_rank`, `tile_maps`, `cayley` | restriction maps: shared, updated by each view, orthogonal |
//! | `consensus` | agreement on the 81 cells |
//! | `horizon` | how many iterations run, and how many are learned from |
//! | `tile` | some boards: K iterations, loss, the reverse sweep |
//! | `batch` | many boards on all cores, gradients summed in a fixed order |
//! | `trace` | everything about one board |
//! | `names` | the authors' parameter names |

mod batch;
mod cayley;
mod config;
pub mod consensus;
mod decoder;
mod encoder;
mod horizon;
pub mod low_rank;
pub mod maps;
mod names;
mod prepared;
mod tile;
pub mod tile_maps;
mod trace;

pub(crate) use batch::Workers;
pub use batch::{Batch, BatchLoss};
pub use cayley::Cayley;
pub use config::{Checked, MapKind, SudokuConfig};
pub use decoder::Decoded;
pub use encoder::Encoded;
pub use horizon::Horizon;
pub use prepared::Prepared;
pub use tile::{Seen, Tile, TileGrad, Watcher};
pub use trace::SudokuTrace;

use std::ops::Range;

use sheaf_admm::{Real, Result};
use sheaf_learn::init::soft_slice;
use sheaf_learn::nn::activation::{inverse_softplus, sigmoid_of, softplus_of};
use sheaf_learn::params::ParamLayout;
use sheaf_learn::rng::Stream;

use super::UNITS;
use super::views::SLOTS;

/// Deviation of the maps from the identity on their block, at the start.
const MAP_NOISE: f64 = 0.01;

/// Layers, parameter layout and choices; no numbers.
#[derive(Clone, Debug)]
pub struct SudokuModel {
    config: SudokuConfig,
    checked: Checked,
    layout: ParamLayout,
    encoder: encoder::Encoder,
    decoder: decoder::Decoder,
    maps: Range<usize>,
    rho: Range<usize>,
}

impl SudokuModel {
    /// Checks the choices and declares all parameters.
    pub fn new(config: SudokuConfig) -> Result<Self> {
        let checked = config.check()?;
        let mut layout = ParamLayout::new();
        let encoder = encoder::Encoder::new(&mut layout, &config, &checked);
        let decoder = decoder::Decoder::new(&mut layout, config.d_v / SLOTS, config.decoder_hidden);
        let maps = match checked.maps {
            MapKind::Orthonormal => layout.add("maps/skew", &[config.d_v, config.d_v]),
            _ => layout.add("maps", &[SLOTS, config.d_e, config.d_v]),
        };
        let rho = layout.add("rho", &[]);
        Ok(Self { config, checked, layout, encoder, decoder, maps, rho })
    }

    /// The choices.
    pub fn config(&self) -> &SudokuConfig {
        &self.config
    }

    /// Names and shapes of the parameters.
    pub fn layout(&self) -> &ParamLayout {
        &self.layout
    }

    /// Starting values of a seed.
    pub fn init<T: Real>(&self, seed: u64) -> Vec<T> {
        let mut params = vec![T::ZERO; self.layout.len()];
        let stream = &mut Stream::new(seed, "sudoku parameters", 0, 0);
        self.encoder.init(&mut params, stream);
        self.decoder.init(&mut params, stream);
        let maps = &mut params[self.maps.clone()];
        if self.checked.maps == MapKind::Orthonormal {
            // Q ≈ I − 2A with A = S − Sᵀ: the deviation of Q is 2√2 times that of S.
            let deviation = MAP_NOISE / 8f64.sqrt();
            maps.iter_mut().for_each(|s| *s = T::from_f64(deviation * stream.normal()));
        } else {
            let one = self.config.d_e * self.config.d_v;
            for (slot, map) in maps.chunks_exact_mut(one).enumerate() {
                soft_slice(map, self.config.d_v, slot, MAP_NOISE, stream);
            }
        }
        params
    }

    /// rho = softplus(raw + softplus⁻¹(initial)) and its derivative by raw (0 when it is not learned).
    pub fn rho<T: Real>(&self, params: &[T]) -> (T, T) {
        let at = params[self.rho.start] + T::from_f64(inverse_softplus(self.config.rho_init));
        (softplus_of(at), if self.config.rho_learned { sigmoid_of(at) } else { T::ZERO })
    }

    /// Boards whose products are one: more make better products, fewer stay in the cache.
    pub fn tile(&self) -> usize {
        2
    }

    /// Numbers of a board's states.
    pub fn state_len(&self) -> usize {
        UNITS * self.config.d_v
    }

    /// Numbers of a board's projections.
    fn row_len(&self) -> usize {
        UNITS * SLOTS * self.config.d_e
    }
}
