//! Figures and pictures of agents that negotiate.
//!
//! A figure is drawn once, as SVG, and converted to PNG or PDF from there: one source, the same figure in every format.
//! Fonts travel with the program, so that a figure does not depend on those of a machine.
//!
//! | module | holds |
//! | --- | --- |
//! | [`sheet`], [`colour`], [`file`](mod@file) | drawing in pixels of the page; palettes that colour-blind readers can tell apart; SVG, PNG, PDF |
//! | [`story`] | one solved sample with every iteration: what most figures show |
//! | [`evolution`], [`dynamics`], [`trajectories`], [`views`], [`class_emergence`](mod@class_emergence), [`compare`](mod@compare) | figures of one sample |
//! | [`curves`], [`sizes`](mod@sizes), [`asynchronous`](mod@asynchronous) | figures of runs and of results |
//! | [`draw`] | pictures of `sheaf solve`: terminal, PNG, GIF, SVG |
//! | [`terminal`] | what a terminal can show |

pub mod asynchronous;
mod boards;
pub mod chart;
pub mod class_emergence;
pub mod colour;
pub mod compare;
pub mod curves;
pub mod draw;
pub mod dynamics;
pub mod evolution;
pub mod file;
mod legend;
mod mazes;
mod plane;
pub mod sheet;
pub mod sizes;
pub mod story;
pub mod terminal;
mod ticks;
pub mod trajectories;
pub mod views;

pub use file::{Figure, Format};
pub use story::{Chosen, Scene, Story};
