//! MNIST and other sets of small grey pictures: agents that see nine pixels each agree on a class.
//!
//! A picture is `height × width` bytes, row by row, 0 black to 255 white; agents see them as numbers in [0, 1].
//! Nothing depends on 28 × 28 pixels or ten classes: any set of IDX files works.
//!
//! | part | purpose |
//! | --- | --- |
//! | [`idx`], [`data`] | IDX files, plain or gzipped; a set of pictures with its labels |
//! | [`download`] | the four original files from a mirror, checked and resumable; or from a folder |
//! | [`pen`], [`fit`] | digits drawn by a pen; painted pictures converted to the form of MNIST |
//! | [`task`] | the model: views, networks, targets, answers |
//! | [`metrics`] | from the agents' logits to one class |
//! | [`batches`], [`evaluate`] | pictures of a training step; accuracies |
//! | [`shifts`] | padding, patch dropout, noise: what robustness is measured under |

pub mod batches;
pub mod data;
pub mod download;
pub mod evaluate;
pub mod fit;
pub mod metrics;
pub mod pen;
mod samples;
pub mod shifts;
pub mod task;

pub use sheaf_files::idx;
