//! Mixer block over a set of cells.
//!
//! Forward: s = x + token(x), a = RMSNorm(s), t = a + channel(a), y = RMSNorm(t), where `token` is a [`SwiGlu`] over
//! the cells of each channel and `channel` one over the channels of each cell. Adjoint: the four steps in reverse; a
//! sum passes its gradient to both parts.
//!
//! | name | shape |
//! | --- | --- |
//! | x, s, a, t, y | rows, cells, channels |
//! | saved | s, a, t, then what token and channel save |
//! | scratch | two gradients of that shape, then what token or channel needs |

use crate::nn::{RmsNorm, SwiGlu, check_rows, check_saved, product};
use crate::params::ParamLayout;
use crate::rng::Stream;
use sheaf_admm::{Real, Result};
use sheaf_kernels::Precision;
use sheaf_kernels::vector::add;

/// y = RMSNorm(a + channel(a)), a = RMSNorm(x + token(x)).
///
/// Saves: `x`, kept by the caller, and `saved`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mixer {
    token: SwiGlu,
    token_norm: RmsNorm,
    channel: SwiGlu,
    channel_norm: RmsNorm,
    cells: usize,
    channels: usize,
}

impl Mixer {
    /// Declares `name/token_mlp`, `name/token_norm`, `name/channel_mlp` and `name/channel_norm`.
    pub fn new(
        layout: &mut ParamLayout,
        name: &str,
        (cells, channels): (usize, usize),
        token_hidden: usize,
        channel_hidden: usize,
    ) -> Self {
        Self {
            token: SwiGlu::new(layout, &format!("{name}/token_mlp"), cells, token_hidden),
            token_norm: RmsNorm::new(layout, &format!("{name}/token_norm"), channels),
            channel: SwiGlu::new(layout, &format!("{name}/channel_mlp"), channels, channel_hidden),
            channel_norm: RmsNorm::new(layout, &format!("{name}/channel_norm"), channels),
            cells,
            channels,
        }
    }

    /// Sets the precision of the products, forward and adjoint.
    pub fn set_precision(&mut self, precision: Precision) {
        self.token.set_precision(precision);
        self.channel.set_precision(precision);
    }

    /// LeCun-normal weights, zero biases, scales 1.
    pub fn init<T: Real>(&self, params: &mut [T], stream: &mut Stream) {
        self.token.init(params, stream);
        self.token_norm.init(params);
        self.channel.init(params, stream);
        self.channel_norm.init(params);
    }

    /// Length of one row: cells·channels.
    pub fn width(&self) -> usize {
        self.cells.saturating_mul(self.channels)
    }

    /// Length of `saved` for this many rows.
    pub fn saved_len(&self, rows: usize) -> usize {
        let of_token = self.token.saved_len(rows.saturating_mul(self.channels));
        let of_channel = self.channel.saved_len(rows.saturating_mul(self.cells));
        product([3, rows, self.width()]).saturating_add(of_token).saturating_add(of_channel)
    }

    /// Length of `scratch` for this many rows.
    pub fn scratch_len(&self, rows: usize) -> usize {
        let of_token = self.token.scratch_len(rows.saturating_mul(self.channels));
        let of_channel = self.channel.scratch_len(rows.saturating_mul(self.cells));
        product([2, rows, self.width()]).saturating_add(of_token.max(of_channel))
    }

    /// Checks the requirements of the other calls; returns the number of rows.
    pub fn check<T>(&self, params: &[T], x: &[T], y: &[T], saved: &[T]) -> Result<usize> {
        let rows = check_rows(x, self.width(), y, self.width())?;
        check_saved(self.saved_len(rows), saved)?;
        self.token.check(params, x, self.channels, y, saved)?;
        self.token_norm.check(params, x, y)?;
        self.channel.check(params, x, 1, y, saved)?;
        self.channel_norm.check(params, x, y)?;
        Ok(rows)
    }

    /// Overwrites `y`.
    pub fn forward<T: Real>(
        &self,
        params: &[T],
        x: &[T],         // [rows, cells, channels]
        y: &mut [T],     // [rows, cells, channels]
        saved: &mut [T], // saved_len(rows)
    ) {
        let rows = x.len().checked_div(self.width()).unwrap_or(0);
        let (s, rest) = saved[..self.saved_len(rows)].split_at_mut(x.len());
        let (a, rest) = rest.split_at_mut(x.len());
        let (t, rest) = rest.split_at_mut(x.len());
        let (token, channel) = rest.split_at_mut(self.token.saved_len(rows * self.channels));
        self.token.forward(params, x, self.channels, s, token);
        add(s, x);
        self.token_norm.forward(params, s, a);
        self.channel.forward(params, a, 1, t, channel);
        add(t, a);
        self.channel_norm.forward(params, t, y);
    }

    /// Adjoint of [`Mixer::forward`]; `d_x` is optional.
    pub fn vjp<T: Real>(
        &self,
        params: &[T],
        x: &[T],                   // [rows, cells, channels]
        saved: &[T],               // saved_len(rows)
        d_y: &[T],                 // [rows, cells, channels]
        mut d_x: Option<&mut [T]>, // [rows, cells, channels]
        d_params: &mut [T],
        scratch: &mut [T], // scratch_len(rows)
    ) {
        let rows = x.len().checked_div(self.width()).unwrap_or(0);
        let (s, rest) = saved[..self.saved_len(rows)].split_at(x.len());
        let (a, rest) = rest.split_at(x.len());
        let (t, rest) = rest.split_at(x.len());
        let (token, channel) = rest.split_at(self.token.saved_len(rows * self.channels));
        let (d_sum, rest) = scratch.split_at_mut(x.len());
        let (d_a, inner) = rest.split_at_mut(x.len());

        d_sum.fill(T::ZERO);
        self.channel_norm.vjp(params, t, d_y, Some(d_sum), d_params);
        d_a.copy_from_slice(d_sum);
        self.channel.vjp(params, a, 1, channel, d_sum, Some(d_a), d_params, inner);

        d_sum.fill(T::ZERO);
        self.token_norm.vjp(params, s, d_a, Some(d_sum), d_params);
        if let Some(d_x) = d_x.as_deref_mut() {
            add(d_x, d_sum);
        }
        self.token.vjp(params, x, self.channels, token, d_sum, d_x, d_params, inner);
    }
}
