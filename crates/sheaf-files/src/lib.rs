//! Files that the `sheaf` tool reads and writes beside weights: none of them is trusted.
//!
//! | module | holds |
//! | --- | --- |
//! | [`npz`] | `.npy` and `.npz` arrays |
//! | [`problem`] | problems of one's own: TOML or JSON, with matrices inline or in files |

pub mod npz;
pub mod problem;
