//! The kinds of `sheaf bench`.

use clap::ValueEnum;

/// What `sheaf bench` measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub enum BenchKind {
    /// Training steps: gradient, optimiser, running average
    Train,
    /// Solving batches on all cores
    Eval,
    /// Solving one sample after the other on one core
    Solve,
    /// Solving ever larger samples, and with ever more iterations
    Scaling,
    /// The sheaf Laplacian alone, on one core
    Laplacian,
    /// Iterations and decoder of samples encoded before, on one core
    Forward,
    /// Iterations, loss and all gradients, on one core
    Reverse,
    /// Networks of agents against general solvers, each row in a process of its own
    Problems,
}
