//! The local objectives: optimality of every prox, every VJP against finite differences, errors, allocation.

mod dense;
mod diagonal;
mod equality;
mod errors;
mod qp;
mod support;
mod tether;
