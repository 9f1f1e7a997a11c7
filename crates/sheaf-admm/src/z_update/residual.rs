//! How far a state is from the solution of its consensus step, whatever solver made it.
//!
//! With d = ρu = ρ(w − z), the slope that the step must balance:
//!
//! | agreement | at the solution | measured |
//! | --- | --- | --- |
//! | hard | F z = 0 and d = Fᵀλ for some λ | ‖F z‖; ‖d − Fᵀλ‖ only for starts that can leave the range of Fᵀ |
//! | soft | γ Fᵀ F z = d | ‖γ Fᵀ F z − d‖ |
//! | potential | γ Fᵀ U'(F z) = d | ‖γ Fᵀ U'(F z) − d‖ |
//!
//! Every other hard solver makes z = w − R⁻¹ Fᵀ λ by construction.

use super::multipliers::{LeastSquares, least_squares};
use super::potential::EdgePotential;
use super::{Agreement, CgStart, ZUpdate};
use crate::Real;
use crate::linalg::norms::{norm, norms};
use crate::linalg::scratch::Scratch;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;

/// The norm of a residual, the size of what it compares, and how many numbers it has.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Measured<T> {
    pub value: T,
    pub size: T,
    pub count: usize,
}

/// The residuals of a consensus step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct ConsensusResidual<T> {
    /// Of F z = 0 on hard edges.
    pub edges: Option<Measured<T>>,
    /// Of the slopes.
    pub stationarity: Option<Measured<T>>,
}

impl<T: Real> ZUpdate<T> {
    /// Hard or soft, and the potential of soft edges.
    pub(crate) fn agreement(&self) -> (Agreement<T>, EdgePotential<T>) {
        let quadratic = EdgePotential::Quadratic;
        match self {
            Self::Cg(s) => (s.agreement, quadratic),
            Self::Descent(s) => (s.agreement, quadratic),
            Self::EdgeSpace(s) => (s.agreement, quadratic),
            Self::Exact(s) => (s.agreement, quadratic),
            Self::Potential(s) => (Agreement::Soft { gamma: s.gamma }, s.potential),
            Self::Gram(s) => (s.agreement, quadratic),
            Self::Orthonormal(s) => (s.agreement, quadratic),
        }
    }

    /// Whether d = ρ(w − z) may leave the range of Fᵀ in a hard solve.
    fn leaves_range(&self) -> bool {
        matches!(self, Self::Cg(s) if matches!(s.start, CgStart::Published | CgStart::Carried))
    }

    /// Whether [`residual`](Self::residual) costs more than a few products.
    pub(crate) fn residual_is_costly(&self) -> bool {
        self.leaves_range() && self.agreement().0 == Agreement::Hard
    }

    /// Length of the scratch of [`residual`](Self::residual).
    pub(crate) fn residual_scratch_len(op: &SheafOp<'_, T>) -> usize {
        let sheaf = op.sheaf();
        sheaf.row_len() + 4 * sheaf.edge_len() + 3 * sheaf.state_len()
    }

    /// The residuals of one sample. `goal` gives the goal of the stationarity from its size: a search for the best λ
    /// ends there.
    pub(crate) fn residual(
        &self,
        op: &SheafOp<'_, T>,
        rho: &Penalty<'_, T>,
        z: &[T], // [states]
        u: &[T], // [states]
        goal: impl Fn(T) -> T,
        scratch: &mut [T],
    ) -> ConsensusResidual<T> {
        let sheaf = op.sheaf();
        let mut scratch = Scratch::new(scratch);
        let (rows, r) = (scratch.take(sheaf.row_len()), scratch.take(sheaf.edge_len()));
        let (g, d) = (scratch.take(sheaf.state_len()), scratch.take(sheaf.state_len()));
        for (i, range) in sheaf.state_offsets().windows(2).enumerate() {
            for k in range[0]..range[1] {
                d[k] = rho.of(i) * u[k];
            }
        }
        op.raw().coboundary(z, r, rows);
        let (agreement, potential) = self.agreement();
        if let Agreement::Soft { gamma } = agreement {
            r.iter_mut().for_each(|r| *r = gamma * potential.slope(*r));
            op.raw().coboundary_t(r, g, rows);
            let slopes = g.iter().zip(d.iter()).map(|(&g, &d)| [g - d, g, d]);
            let [value, g, d] = norms(slopes);
            let stationarity = Some(Measured { value, size: g.max(d), count: z.len() });
            return ConsensusResidual { edges: None, stationarity };
        }
        let edges = Some(Measured { value: norm(r.iter().copied()), size: sides(op, rows), count: r.len() });
        let stationarity = self.leaves_range().then(|| {
            let size = norm(d.iter().copied());
            let mut work = LeastSquares::carve(op, rows, g, &mut scratch);
            let value = least_squares(op, d, goal(size), &mut work);
            Measured { value, size, count: z.len() }
        });
        ConsensusResidual { edges, stationarity }
    }
}

/// The larger norm of the two sides of F_u z_u = F_v z_v, over all edges; `rows` holds the projections.
fn sides<T: Real>(op: &SheafOp<'_, T>, rows: &[T]) -> T {
    let pairs = op.sheaf().edges().iter().flat_map(|e| {
        let (u, v) = (e.row_u as usize, e.row_v as usize);
        (0..e.dim as usize).map(move |k| [rows[u + k], rows[v + k]])
    });
    let [u, v] = norms(pairs);
    u.max(v)
}
