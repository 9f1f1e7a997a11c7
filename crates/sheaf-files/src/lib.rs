//! Files that the `sheaf` tool reads and writes beside weights: none of them is trusted.
//!
//! | module | holds |
//! | --- | --- |
//! | [`fetch`](mod@fetch) | downloads from mirrors, checked and resumable |
//! | [`idx`] | IDX files, the format of MNIST |
//! | [`npz`] | `.npy` and `.npz` arrays |
//! | [`problem`] | problems of one's own: TOML or JSON, with matrices inline or in files |

pub mod fetch;
pub mod idx;
pub mod npz;
pub mod problem;
