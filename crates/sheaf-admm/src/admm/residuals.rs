//! Residuals of the problem min f(x) + g(z), x = z, with multipliers ρu (Boyd et al. 2011, section 3.3).
//!
//! | residual | is | its size, for the relative goal |
//! | --- | --- | --- |
//! | primal | ‖x − z‖ | max(‖x‖, ‖z‖) |
//! | dual | ‖ρ(z − z_prev − (α − 1)(x − z_prev))‖, for α = 1 ‖ρ(z − z_prev)‖: the distance of −ρu from ∂f(x) | ‖ρu‖ |
//! | edges | ‖F z − b‖ over hard edges | the larger side of the equations, ‖b‖ |
//! | stationarity | soft: ‖∇g(z) − ρu‖; hard: ‖ρu − Fᵀλ‖ for the best λ | max(‖∇g(z)‖, ‖ρu‖) |
//!
//! The goal of a residual with n numbers is √n·absolute + relative·size. The first two compare x, not the relaxed x̃,
//! which is close to z_prev for a small α whatever x is. The last two cost a product and are measured once the first two
//! have met their goals, and at the end.
//!
//! With `Units` the residuals are those of the problem before it was scaled, and the largest number counts instead of the
//! norm: no agent may be far off because many others are not. A goal is then absolute + relative·size with the root mean
//! square for the size. What meets it meets the goal of the norm, too.

use std::fmt;
use std::ops::Range;

use super::{Problem, Tape};
use crate::Real;
use crate::linalg::norms::{extremes_of_agents, norms_of_agents};
use crate::linalg::units::Units;
use crate::x_update::Penalty;
use crate::z_update::Measured;

/// The stopping tolerances of a solve.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Tolerances<T> {
    /// Absolute tolerance, per coordinate.
    pub absolute: T,
    /// Relative tolerance, with respect to the size of what is compared.
    pub relative: T,
}

impl<T: Real> Tolerances<T> {
    /// The goal of a residual.
    pub(super) fn goal(&self, count: usize, size: T) -> T {
        T::from_f64((count as f64).sqrt()) * self.absolute + self.relative * size
    }
}

/// The residuals by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ResidualKind {
    /// ‖x − z‖.
    Primal,
    /// ρ‖Δz‖.
    Dual,
    /// ‖F z − b‖ of hard edges.
    Edges,
    /// How far z is from the minimum of the consensus step.
    Stationarity,
    /// The tolerance of the inner solve.
    Inner,
}

impl ResidualKind {
    /// All that are numbers.
    pub const ALL: [Self; 4] = [Self::Primal, Self::Dual, Self::Edges, Self::Stationarity];
}

impl fmt::Display for ResidualKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Primal => "primal",
            Self::Dual => "dual",
            Self::Edges => "edges",
            Self::Stationarity => "stationarity",
            Self::Inner => "inner tolerance",
        })
    }
}

/// Norms over all agents or edges of a sample.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Residuals<T> {
    /// ‖x − z‖.
    pub primal: T,
    /// ρ‖Δz‖, the distance of −ρu from the slope of the objectives at x.
    pub dual: T,
    /// The goal of `primal`; 0 without tolerances.
    pub primal_goal: T,
    /// The goal of `dual`; 0 without tolerances.
    pub dual_goal: T,
    /// max(‖x‖, ‖z‖).
    pub primal_size: T,
    /// ‖ρu‖.
    pub dual_size: T,
    /// ‖F z − b‖ of hard edges and its goal; `None` if it was not measured or there are none.
    pub edges: Option<(T, T)>,
    /// The stationarity of the consensus step and its goal; `None` if it was not measured, or holds by construction.
    pub stationarity: Option<(T, T)>,
    /// Whether the inner solve of the last iteration met its tolerance (true for exact solves and fixed steps).
    pub inner_met: bool,
}

impl<T: Real> Residuals<T> {
    /// A residual and its goal; `None` if it was not measured.
    pub fn get(&self, kind: ResidualKind) -> Option<(T, T)> {
        match kind {
            ResidualKind::Primal => Some((self.primal, self.primal_goal)),
            ResidualKind::Dual => Some((self.dual, self.dual_goal)),
            ResidualKind::Edges => self.edges,
            ResidualKind::Stationarity => self.stationarity,
            ResidualKind::Inner => None,
        }
    }

    /// How many times larger than its goal a residual is; `None` if it was not measured.
    pub fn ratio(&self, kind: ResidualKind) -> Option<T> {
        self.get(kind).map(|(value, goal)| if value == T::ZERO { T::ZERO } else { value / goal })
    }

    /// Whether the iterates have settled: `primal` and `dual` are below their goals.
    pub fn settled(&self) -> bool {
        below(self.primal, self.primal_goal) && below(self.dual, self.dual_goal)
    }

    /// Whether every residual that was measured is below its goal, the inner tolerance included.
    pub fn met(&self) -> bool {
        let fine = |measured: Option<(T, T)>| measured.is_none_or(|(value, goal)| below(value, goal));
        self.settled() && fine(self.edges) && fine(self.stationarity) && self.inner_met
    }

    /// The residual farthest above its goal; the inner tolerance if all others are met.
    pub fn worst(&self) -> Option<ResidualKind> {
        let above = ResidualKind::ALL.into_iter().filter_map(|kind| {
            let (value, goal) = self.get(kind)?;
            (!below(value, goal)).then_some((kind, (value / goal).to_f64()))
        });
        let worst = above.max_by(|a, b| a.1.total_cmp(&b.1)).map(|(kind, _)| kind);
        worst.or((!self.inner_met).then_some(ResidualKind::Inner))
    }

    pub(super) fn is_finite(&self) -> bool {
        (self.primal + self.dual).is_finite() && self.primal_size.is_finite() && self.dual_size.is_finite()
    }

    /// The larger of each, for a batch.
    pub(super) fn worse(self, other: Self) -> Self {
        let either = |a: Option<(T, T)>, b: Option<(T, T)>| match (a, b) {
            (Some(a), Some(b)) => Some((a.0.max(b.0), a.1.max(b.1))),
            (a, b) => a.or(b),
        };
        Self {
            primal: self.primal.max(other.primal),
            dual: self.dual.max(other.dual),
            primal_goal: self.primal_goal.max(other.primal_goal),
            dual_goal: self.dual_goal.max(other.dual_goal),
            primal_size: self.primal_size.max(other.primal_size),
            dual_size: self.dual_size.max(other.dual_size),
            edges: either(self.edges, other.edges),
            stationarity: either(self.stationarity, other.stationarity),
            inner_met: self.inner_met && other.inner_met,
        }
    }
}

/// An infinite goal is met by nothing.
fn below<T: Real>(value: T, goal: T) -> bool {
    value <= goal && goal.is_finite()
}

impl<T: Real> Problem<'_, T> {
    /// Residuals of the iterates of sample `b` after iteration `k`.
    pub(super) fn residuals<'t>(
        &self,
        b: usize,
        k: usize,
        rho: &Penalty<'_, T>,
        tolerances: Option<Tolerances<T>>,
        inner_met: bool,
        tape: &'t Tape<T>,
        units: Option<&Units<T>>,
    ) -> Residuals<T> {
        let n = self.op.sheaf().state_len();
        let own = |all: &'t [T]| &all[b * n..][..n];
        let (x, u, z, z_prev) = (own(tape.x(k)), own(tape.u(k + 1)), own(tape.z(k + 1)), own(tape.z(k)));
        let sheaf = self.op.sheaf();
        let offsets = sheaf.state_offsets();
        let over = self.relax - T::ONE;
        let values = |agents: Range<usize>| {
            agents.flat_map(move |i| {
                let rho = rho.of(i);
                (offsets[i]..offsets[i + 1]).map(move |k| {
                    let moved = z[k] - z_prev[k];
                    let slope = if over == T::ZERO { moved } else { moved - over * (x[k] - z_prev[k]) };
                    [x[k] - z[k], rho * slope, x[k], z[k], rho * u[k]]
                })
            })
        };
        let (count, [primal, dual, x_size, z_size, u_size]) = match units {
            None => (sheaf.whole_state_len(), norms_of_agents(sheaf, values)),
            Some(units) => {
                // Slopes are known up to the rounding of x times the penalty: a huge penalty hides them.
                let noise = T::from_f64(4.0) * T::EPSILON * rho.of(0);
                let in_units = |own: Range<usize>| {
                    let first = offsets[own.start];
                    values(own).enumerate().map(move |(at, [gap, moved, x, z, u])| {
                        let (unit, slope) = (units.state[first + at], units.slope(first + at));
                        let moved = moved.abs() + noise * x.abs();
                        ([unit * gap, slope * moved], [unit * x, unit * z, slope * u])
                    })
                };
                let ([primal, dual], [x, z, u]) = extremes_of_agents::<_, 2, 3, 5, _>(sheaf, in_units);
                (1, [primal, dual, x, z, u])
            }
        };
        let goal = |size: T| tolerances.map_or(T::ZERO, |t| t.goal(count, size));
        let primal_size = x_size.max(z_size);
        Residuals {
            primal,
            dual,
            primal_goal: goal(primal_size),
            dual_goal: goal(u_size),
            primal_size,
            dual_size: u_size,
            edges: None,
            stationarity: None,
            inner_met,
        }
    }

    /// Adds the residuals of the consensus step of sample `b` after iteration `k`.
    pub(super) fn measure_consensus(
        &self,
        b: usize,
        k: usize,
        rho: &Penalty<'_, T>,
        tolerances: Tolerances<T>,
        tape: &Tape<T>,
        residuals: &mut Residuals<T>,
        units: Option<&Units<T>>,
        scratch: &mut [T],
    ) {
        let n = self.op.sheaf().state_len();
        let own = b * n..(b + 1) * n;
        let (z, u) = (&tape.z(k + 1)[own.clone()], &tape.u(k + 1)[own]);
        let op = self.op.sample(b);
        let relative = |m: Measured<T>| (m.value, tolerances.goal(m.count, m.size));
        let goal = |size: T| tolerances.goal(n, size);
        let measured = self.z_update.residual(&op, rho, z, u, goal, units, scratch);
        residuals.edges = measured.edges.map(relative);
        residuals.stationarity = measured.stationarity.map(relative);
    }
}

/// Per-agent norms ‖a_i − b_i‖, written to `out` `[agents]`.
pub(super) fn agent_distances<T: Real>(offsets: &[usize], a: &[T], b: &[T], out: &mut [T]) {
    for (range, out) in offsets.windows(2).zip(out) {
        *out = (range[0]..range[1]).map(|k| (a[k] - b[k]) * (a[k] - b[k])).sum::<T>().sqrt();
    }
}
