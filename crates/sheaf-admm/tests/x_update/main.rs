//! The local objectives: optimality of every prox, every VJP against finite differences, errors, allocation.

mod diagonal;
mod errors;
mod support;
mod tether;
