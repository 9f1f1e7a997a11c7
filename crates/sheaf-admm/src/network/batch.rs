//! Many variants of one network.

use std::thread;

use super::solver::Solver;
use super::{Settings, Solution};
use crate::{Error, ErrorKind, Result};

impl Solver {
    /// Solves `count` variants of the network on `threads` threads (0: one per core) and returns their solutions in
    /// order. `change(i, solver)` makes variant i from a copy of this solver, with `update_…`; every variant starts from
    /// this solver's state, so the results do not depend on the number of threads.
    ///
    /// ```
    /// use sheaf_admm::network::{Network, Settings};
    /// use sheaf_admm::x_update::Quadratic;
    ///
    /// let mut net = Network::new();
    /// let a = net.agent(Quadratic::new([[1.0]], [0.0]))?;
    /// let b = net.agent(Quadratic::new([[1.0]], [0.0]))?;
    /// net.agree(a, [[1.0]], b, [[1.0]])?;
    /// let solver = net.solver(Settings::default())?;
    /// let all = solver.solve_batch(3, 0, |i, solver| solver.update_q(a, &[-(i as f64)]))?;
    /// assert!((all[2].x(b)[0] - 1.0).abs() < 1e-5);
    /// # Ok::<(), sheaf_admm::Error>(())
    /// ```
    pub fn solve_batch(
        &self,
        count: usize,
        threads: usize,
        change: impl Fn(usize, &mut Self) -> Result<()> + Sync,
    ) -> Result<Vec<Solution>> {
        let cores = thread::available_parallelism().map_or(1, |n| n.get());
        let threads = if threads == 0 { cores } else { threads }.min(count).max(1);
        let one = |i: usize| {
            let mut solver = self.variant();
            change(i, &mut solver)?;
            solver.solve()?;
            Ok(solver.into_solution())
        };
        let part = |t: usize| (t..count).step_by(threads).map(one).collect::<Vec<Result<Solution>>>();
        let parts: Vec<Vec<Result<Solution>>> = thread::scope(|scope| {
            let part = &part;
            let workers: Vec<_> = (0..threads).map(|t| scope.spawn(move || part(t))).collect();
            workers.into_iter().map(|w| w.join().unwrap_or_else(|_| vec![Err(panicked())])).collect()
        });
        let mut parts: Vec<_> = parts.into_iter().map(Vec::into_iter).collect();
        (0..count).map(|i| parts[i % threads].next().unwrap_or_else(|| Err(panicked()))).collect()
    }

    /// A copy with objectives of its own: both can be updated and solved apart.
    pub fn variant(&self) -> Self {
        let mut copy = self.clone();
        copy.detach();
        copy
    }

    /// The settings of this solver.
    pub fn settings(&self) -> &Settings {
        &self.settings
    }
}

fn panicked() -> Error {
    Error::new(ErrorKind::SolverFailed, "batch", "a result of every variant", "a thread that ended early")
}
