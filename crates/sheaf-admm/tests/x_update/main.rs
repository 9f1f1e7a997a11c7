//! The local objectives: optimality of every prox, every VJP against finite differences, errors, allocation.

mod dense;
mod diagonal;
mod equality;
mod errors;
mod mixed;
mod qp;
mod random;
mod support;
mod tether;
