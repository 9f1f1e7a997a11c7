//! Repository chores: `cargo xtask ci` runs everything CI checks.
fn main() {}
