//! `sheaf`: train, evaluate, trace and watch agents that negotiate.
fn main() {}
