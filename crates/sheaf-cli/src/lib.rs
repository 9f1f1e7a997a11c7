//! What the `sheaf` tool is made of.

pub mod draw;
