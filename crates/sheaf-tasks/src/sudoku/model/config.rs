//! The choices that make a Sudoku model, with the published ones as defaults.

use serde::{Deserialize, Serialize};
use sheaf_admm::{Error, ErrorKind, Result};

use crate::sudoku::views::SLOTS;
use sheaf_learn::config::word;

/// The `[model]` section of a Sudoku experiment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct SudokuConfig {
    /// Vertex stalk; nine blocks, one a cell.
    pub d_v: usize,
    /// Edge stalk.
    pub d_e: usize,
    /// Channels of a cell in the encoder.
    pub channels: usize,
    /// Mixer blocks of the encoder.
    pub mixers: usize,
    /// Hidden width of a mixer across cells.
    pub token_hidden: usize,
    /// Hidden width of a mixer across channels.
    pub channel_hidden: usize,
    /// Width of the decoder.
    pub decoder_hidden: usize,
    /// `slot` (one map for each of the nine positions), `low-rank` (the same, updated by each view) or `orthonormal`
    /// (the nine maps stacked are an orthogonal matrix, and consensus is exact).
    pub maps: String,
    /// Rank of the update of the maps.
    pub rank: usize,
    /// Factor of the update is alpha / rank.
    pub alpha: f64,
    /// Price of disagreement.
    pub gamma: f64,
    /// Conjugate-gradient steps of a consensus step; not used with orthonormal maps.
    pub cg_steps: usize,
    /// Penalty at the start.
    pub rho_init: f64,
    /// Whether the penalty is learned.
    pub rho_learned: bool,
    /// `h` (an encoder output) or `zeros`.
    pub start: String,
}

impl Default for SudokuConfig {
    fn default() -> Self {
        Self {
            d_v: 288,
            d_e: 32,
            channels: 128,
            mixers: 2,
            token_hidden: 18,
            channel_hidden: 256,
            decoder_hidden: 256,
            maps: "slot".into(),
            rank: 4,
            alpha: 1.0,
            gamma: 2.0,
            cg_steps: 5,
            rho_init: 0.25,
            rho_learned: true,
            start: "h".into(),
        }
    }
}

/// Which restriction maps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MapKind {
    /// One for each position.
    Slot,
    /// Those, updated by each view.
    LowRank,
    /// An orthogonal stack.
    Orthonormal,
}

/// The checked choices.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Checked {
    /// Of the maps.
    pub maps: MapKind,
    /// Whether z starts at h.
    pub start_at_h: bool,
}

impl SudokuConfig {
    /// Turns words into choices and refuses what makes no sense.
    pub fn check(&self) -> Result<Checked> {
        for (name, value) in [
            ("d_v", self.d_v),
            ("d_e", self.d_e),
            ("channels", self.channels),
            ("token_hidden", self.token_hidden),
            ("channel_hidden", self.channel_hidden),
            ("decoder_hidden", self.decoder_hidden),
            ("cg_steps", self.cg_steps),
        ] {
            if value == 0 {
                return Err(Error::new(ErrorKind::Malformed, format!("model.{name}"), "at least 1", value));
            }
        }
        for (name, value) in [("gamma", self.gamma), ("rho_init", self.rho_init)] {
            if !(value.is_finite() && value > 0.0) {
                let place = format!("model.{name}");
                return Err(Error::new(ErrorKind::NotPositive, place, "a finite number above 0", value));
            }
        }
        if !self.d_v.is_multiple_of(SLOTS) {
            return Err(Error::new(
                ErrorKind::Malformed,
                "model.d_v",
                "a multiple of 9, a block a cell",
                self.d_v,
            ));
        }
        let kinds =
            [("slot", MapKind::Slot), ("low-rank", MapKind::LowRank), ("orthonormal", MapKind::Orthonormal)];
        let maps = word("model.maps", &self.maps, &kinds)?;
        if maps == MapKind::LowRank && self.rank == 0 {
            return Err(Error::new(ErrorKind::Malformed, "model.rank", "at least 1", 0)
                .hint("for maps without an update set model.maps = \"slot\""));
        }
        if maps == MapKind::Orthonormal && self.d_v != SLOTS * self.d_e {
            let want = format!("{} / 9, so that the nine maps make a square matrix", self.d_v);
            return Err(Error::new(ErrorKind::Malformed, "model.d_e", want, self.d_e));
        }
        Ok(Checked { maps, start_at_h: word("model.start", &self.start, &[("h", true), ("zeros", false)])? })
    }
}
