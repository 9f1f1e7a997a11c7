//! Mazes: agents with 3×3 views of a larger picture agree on one path.
//!
//! A maze is `height × width` bytes, row by row, one token per pixel:
//!
//! | token | [`UNUSED`] 0 | [`WALL`] 1 | [`EMPTY`] 2 | [`START`] 3 | [`GOAL`] 4 | [`PATH`] 5 |
//! | --- | --- | --- | --- | --- | --- | --- |
//! | in an input | – | yes | yes | one | one | – |
//! | in its label | – | yes | yes | one | one | between start and goal |
//!
//! The label is the input with the cells strictly between start and goal turned into [`PATH`]; start and goal keep
//! their own tokens there. A path of n steps (moves from a pixel to one of its four neighbours) has n − 1 such cells.
//!
//! | part | purpose |
//! | --- | --- |
//! | [`carve`], [`data`], [`suite`], [`store`] | generate mazes, disjoint train and test sets, the published sets, npz files |
//! | [`solve`], [`symmetry`] | shortest paths and the structure of a maze; the eight symmetries |
//! | [`task`] | the model: views, networks, targets, answers |
//! | [`metrics`] | whether a prediction is correct |
//! | [`ranks`] | the agents of a large maze over several processes |
//! | [`text`], [`image`] | typed or painted mazes |

pub mod carve;
pub mod data;
pub mod image;
pub mod metrics;
pub mod ranks;
mod sections;
pub mod solve;
pub mod store;
pub mod suite;
pub mod symmetry;
pub mod task;
pub mod text;

/// Token 0: never occurs, but the models have a class for it.
pub const UNUSED: u8 = 0;
/// Token 1: a wall, and everything beyond the border.
pub const WALL: u8 = 1;
/// Token 2: an open pixel.
pub const EMPTY: u8 = 2;
/// Token 3: where the path begins; open.
pub const START: u8 = 3;
/// Token 4: where the path ends; open.
pub const GOAL: u8 = 4;
/// Token 5: a pixel strictly between start and goal on the path; only in labels and predictions.
pub const PATH: u8 = 5;
/// Number of tokens a pixel can be predicted as.
pub const CLASSES: usize = 6;
