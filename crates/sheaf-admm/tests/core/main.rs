//! The core as a whole: sheaf, consensus, ADMM, and the adjoint of each, in f64.

mod admm_case;
mod admm_vjp;
mod arbitrary;
mod bands;
mod cg_vjp;
mod compose;
mod consensus;
mod errors;
mod fixtures;
mod hostile;
mod kernels;
mod linear;
mod memory;
mod mistakes;
mod mixed_vjp;
mod net;
mod point;
mod reports;
mod tape;
mod truth;
mod whole_qp;
