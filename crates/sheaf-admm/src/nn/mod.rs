//! Neural pieces on one flat parameter vector.
//!
//! A layer declares its tensors in a [`ParamLayout`](crate::params::ParamLayout) and remembers only their ranges; it is
//! then applied to any parameter vector of that layout. Every layer works on a matrix of rows, as many as the input
//! slice holds:
//!
//! | call | meaning |
//! | --- | --- |
//! | `new(layout, name, …)` | declares `name/kernel`, `name/bias`, `name/scale`, … |
//! | `init(params, stream)` | writes the starting values (norms need no stream) |
//! | `forward(params, x, y[, saved])` | overwrites `y`, and `saved` with what the adjoint needs |
//! | `vjp(params, x[, saved], d_y, d_x, d_params[, scratch])` | adds into `d_x` (unless `None`) and `d_params` |
//!
//! Nothing here allocates after `new`: `saved_len` and `scratch_len` tell the caller what to bring.

pub mod activation;
pub mod concat;
pub mod conv;
pub mod embedding;
pub mod init;
pub mod linear;
pub mod mixer;
pub mod norm;
pub mod residual;
pub mod swiglu;

pub use concat::ConcatDense;
pub use conv::{Conv2d, MaxPool2};
pub use embedding::Embedding;
pub use init::Init;
pub use linear::Linear;
pub use mixer::Mixer;
pub use norm::{LayerNorm, RmsNorm};
pub use residual::Residual;
pub use swiglu::SwiGlu;
