//! Local objectives: the x-update and its adjoint.
//!
//! ```text
//! x_i = argmin f_i(x) + ρ_i/2 ‖x − v_i‖²        v = z − u
//! ```
//!
//! Each family of f has its own file and is selected by [`Objective`]; [`ObjectiveGrad`] mirrors it with the buffers
//! that gradients are added to. States are flat: agent i owns `offsets[i]..offsets[i + 1]`, so stalk sizes may differ.
//!
//! The order of calls: [`Objective::validate`] once when the parameters are set; [`Objective::prepare`] once per solve
//! and whenever ρ changes (it factorises, or computes 1/(D + l2 + ρ)); then [`Objective::prox`] every iteration and
//! [`Objective::vjp`] in the reverse sweep, on the same scratch. Only `validate` and the general QP allocate.
//!
//! | family | f | solved by |
//! | --- | --- | --- |
//! | [`Diagonal`] | ½ Σ D x² + q·x + l1‖x‖₁ + l2/2‖x‖², box | closed form |
//! | [`Tether`] | β/2 ‖x − h‖² | closed form |
//! | [`Dense`] | ½ xᵀQx + q·x | Cholesky, once per solve |
//! | [`Equality`] | ½ xᵀQx + q·x, Ax = b | Schur complement, once per solve |
//! | [`Qp`] | ½ xᵀQx + q·x, Ax = b, Gx ≤ h, box | interior point, every iteration |
//! | `Own` | one [`Proximal`] map per agent: one's own, or [`Logistic`], [`Huber`], [`Ball`], [`Simplex`], [`SecondOrderCone`], [`Quadratic`] | each its own |
//! | `Mixed` | one family per agent | each its own |

mod active_set;
mod agents;
mod ball;
mod coefficient;
mod curvature;
mod dense;
mod diagonal;
mod domain;
mod equality;
mod fused;
mod huber;
mod logistic;
mod own;
mod penalty;
mod proximal;
mod qp;
mod quadratic;
mod second_order;
mod simplex;
mod tether;

pub use ball::{Ball, Norm};
pub use coefficient::Coefficient;
pub use curvature::Curvature;
pub use dense::{Dense, DenseGrad};
pub use diagonal::{Diagonal, DiagonalGrad};
pub(crate) use domain::Extent;
pub use equality::{Equality, EqualityGrad};
pub use huber::Huber;
pub(crate) use huber::{huber, shrink};
pub use logistic::Logistic;
pub use penalty::Penalty;
pub use proximal::{ProxGrad, Proximal};
pub use qp::{Qp, QpGrad};
pub use quadratic::{Duals, Quadratic, QuadraticGrad};
pub use second_order::SecondOrderCone;
pub use simplex::Simplex;
pub use tether::{Tether, TetherGrad};

use std::sync::Arc;

use agents::Agents;

use crate::error::check_len;
use crate::{Error, ErrorKind, Real, Result};

/// The local objectives of all agents of a sample.
///
/// ```
/// use sheaf_admm::x_update::{Coefficient, Diagonal, Objective, Penalty};
///
/// // Two agents with stalks of size 2 and 1, D = 1, q = 0, x ≥ 0.
/// let offsets = [0, 2, 3];
/// let diagonal = Diagonal { lo: Some(Coefficient::Scalar(0.0)), ..Diagonal::new(&[1.0; 3], &[0.0; 3]) };
/// let objective = Objective::Diagonal(diagonal);
/// let rho = Penalty::Scalar(1.0);
/// objective.validate(&offsets)?;
///
/// let mut scratch = vec![0.0; objective.scratch_len(&offsets)];
/// let mut x = [0.0; 3];
/// objective.prepare(&offsets, &rho, &mut scratch)?;
/// objective.prox(&offsets, &rho, &[4.0, -4.0, 2.0], &mut x, &mut scratch)?;
/// assert_eq!(x, [2.0, 0.0, 1.0]);
/// # Ok::<(), sheaf_admm::Error>(())
/// ```
#[derive(Clone, Debug)]
pub enum Objective<'a, T> {
    /// Diagonal quadratic with l1, l2 and a box.
    Diagonal(Diagonal<'a, T>),
    /// A pull towards an anchor.
    Tether(Tether<'a, T>),
    /// A dense quadratic.
    Dense(Dense<'a, T>),
    /// A quadratic with linear equalities.
    Equality(Equality<'a, T>),
    /// A quadratic with equalities, inequalities and a box.
    Qp(Qp<'a, T>),
    /// One proximal map per agent.
    Own(&'a [Arc<dyn Proximal<T>>]),
    /// One objective per agent, each sized for that agent alone.
    Mixed(Vec<Objective<'a, T>>),
}

/// The gradients of an [`Objective`], added to: the same family, or `None` if none is needed.
#[derive(Debug)]
pub enum ObjectiveGrad<'a, T> {
    /// No gradients of parameters, only of v and ρ.
    None,
    /// Gradients of a [`Diagonal`].
    Diagonal(DiagonalGrad<'a, T>),
    /// Gradients of a [`Tether`].
    Tether(TetherGrad<'a, T>),
    /// Gradients of a [`Dense`].
    Dense(DenseGrad<'a, T>),
    /// Gradients of an [`Equality`].
    Equality(EqualityGrad<'a, T>),
    /// Gradients of a [`Qp`].
    Qp(QpGrad<'a, T>),
    /// Gradients of the parameters of proximal maps, agent after agent.
    Own(&'a mut [T]), // [Σ param_len]
    /// One per agent.
    Mixed(Vec<ObjectiveGrad<'a, T>>),
}

/// Scratch per coordinate of the state besides the family's own: room for the fused step.
const SPARE: usize = 3;

impl<T: Real> Objective<'_, T> {
    /// Checks sizes, finiteness, lo ≤ hi, weights ≥ 0 and convexity. Allocates; call it once.
    pub fn validate(&self, offsets: &[usize]) -> Result<()> {
        let agents = Agents::new(offsets)?;
        self.check_sizes(agents)?;
        self.validate_at(agents)
    }

    fn check_sizes(&self, agents: Agents<'_>) -> Result<()> {
        match self {
            Self::Diagonal(f) => f.check_sizes(agents),
            Self::Tether(f) => f.check_sizes(agents),
            Self::Dense(f) => f.check_sizes(agents),
            Self::Equality(f) => f.check_sizes(agents),
            Self::Qp(f) => f.check_sizes(agents),
            Self::Own(maps) => own::check_sizes(maps, agents),
            Self::Mixed(each) => {
                check_len("mixed objective, one per agent", agents.count(), each.len())?;
                each.iter().enumerate().try_for_each(|(i, f)| f.check_sizes(agents.only(i)))
            }
        }
    }

    fn validate_at(&self, agents: Agents<'_>) -> Result<()> {
        match self {
            Self::Diagonal(f) => f.validate(agents),
            Self::Tether(f) => f.validate(),
            Self::Dense(f) => f.validate(agents),
            Self::Equality(f) => f.validate(agents),
            Self::Qp(f) => f.validate(agents),
            Self::Own(maps) => own::validate(maps, agents),
            Self::Mixed(each) => each.iter().enumerate().try_for_each(|(i, f)| f.validate_at(agents.only(i))),
        }
    }

    /// Length of the scratch that `prepare`, `prox` and `vjp` share; 0 for offsets that they reject.
    pub fn scratch_len(&self, offsets: &[usize]) -> usize {
        Agents::new(offsets).map_or(0, |agents| self.whole_scratch_len(agents))
    }

    fn whole_scratch_len(&self, agents: Agents<'_>) -> usize {
        self.own_scratch_len(agents).saturating_add(agents.width().saturating_mul(SPARE))
    }

    fn own_scratch_len(&self, agents: Agents<'_>) -> usize {
        match self {
            Self::Diagonal(f) => f.scratch_len(agents),
            Self::Tether(_) | Self::Qp(_) => 0,
            Self::Dense(f) => f.scratch_len(agents),
            Self::Equality(f) => f.scratch_len(agents),
            Self::Own(maps) => own::scratch_len(maps),
            Self::Mixed(each) => {
                let owned = each.iter().zip(0..agents.count());
                owned.fold(0, |sum: usize, (f, i)| sum.saturating_add(f.own_scratch_len(agents.only(i))))
            }
        }
    }

    /// Fills the scratch with what all iterations at these penalties share.
    pub fn prepare(&self, offsets: &[usize], rho: &Penalty<'_, T>, scratch: &mut [T]) -> Result<()> {
        let agents = self.check(offsets, rho, scratch)?;
        rho.validate(agents.count())?;
        self.prepare_at(agents, rho, scratch)
    }

    fn prepare_at(&self, agents: Agents<'_>, rho: &Penalty<'_, T>, scratch: &mut [T]) -> Result<()> {
        match self {
            Self::Diagonal(f) => f.prepare(agents, rho, scratch),
            Self::Tether(_) | Self::Qp(_) => Ok(()),
            Self::Dense(f) => f.prepare(agents, rho, scratch),
            Self::Equality(f) => f.prepare(agents, rho, scratch),
            Self::Own(maps) => own::prepare(maps, agents, rho, scratch),
            Self::Mixed(each) => per_agent(each, agents, scratch, |f, agents, i, own| {
                f.prepare_at(agents.only(i), &rho.one(i), own)
            }),
        }
    }

    /// x = argmin f(x) + ρ/2 ‖x − v‖² for every agent.
    pub fn prox(
        &self,
        offsets: &[usize],
        rho: &Penalty<'_, T>,
        v: &[T],
        x: &mut [T],
        scratch: &mut [T],
    ) -> Result<()> {
        let agents = self.check(offsets, rho, scratch)?;
        check_len("x-update: v", agents.width(), v.len())?;
        check_len("x-update: x", agents.width(), x.len())?;
        self.prox_at(agents, rho, v, x, scratch)
    }

    fn prox_at(
        &self,
        agents: Agents<'_>,
        rho: &Penalty<'_, T>,
        v: &[T],
        x: &mut [T],
        scratch: &mut [T],
    ) -> Result<()> {
        match self {
            Self::Diagonal(f) => f.prox(agents, v, x, scratch),
            Self::Tether(f) => f.prox(agents, rho, v, x),
            Self::Dense(f) => f.prox(agents, rho, v, x, scratch),
            Self::Equality(f) => f.prox(agents, rho, v, x, scratch),
            Self::Qp(f) => return f.prox(agents, rho, v, x),
            Self::Own(maps) => return own::prox(maps, agents, rho, v, x, scratch),
            Self::Mixed(each) => {
                return per_agent(each, agents, scratch, |f, agents, i, own| {
                    let at = agents.range(i);
                    f.prox_at(agents.only(i), &rho.one(i), &v[at.clone()], &mut x[at], own)
                });
            }
        }
        Ok(())
    }

    /// Adds the gradients of v, ρ and the parameters, given the gradient `d_x` of `x = prox(v)`.
    ///
    /// Saves: nothing beyond `v`, `x` and the prepared scratch.
    pub fn vjp(
        &self,
        offsets: &[usize],
        rho: &Penalty<'_, T>,
        v: &[T],
        x: &[T],
        d_x: &[T],
        d_v: &mut [T],
        d_rho: &mut [T], // [1] or [agents]
        grad: &mut ObjectiveGrad<'_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        let agents = self.check(offsets, rho, scratch)?;
        let n = agents.width();
        check_len("x-update: v", n, v.len())?;
        check_len("x-update: x", n, x.len())?;
        check_len("x-update: gradient of x", n, d_x.len())?;
        check_len("x-update: gradient of v", n, d_v.len())?;
        check_len("x-update: gradient of rho", rho.grad_len(agents.count()), d_rho.len())?;
        self.vjp_at(agents, rho, v, x, d_x, d_v, d_rho, grad, scratch)
    }

    fn vjp_at(
        &self,
        agents: Agents<'_>,
        rho: &Penalty<'_, T>,
        v: &[T],
        x: &[T],
        d_x: &[T],
        d_v: &mut [T],
        d_rho: &mut [T],
        grad: &mut ObjectiveGrad<'_, T>,
        scratch: &mut [T],
    ) -> Result<()> {
        use ObjectiveGrad as G;
        match (self, grad) {
            (Self::Diagonal(f), G::None) => f.vjp(agents, rho, v, x, d_x, d_v, d_rho, None, scratch),
            (Self::Diagonal(f), G::Diagonal(g)) => {
                f.vjp(agents, rho, v, x, d_x, d_v, d_rho, Some(g), scratch)
            }
            (Self::Tether(f), G::None) => f.vjp(agents, rho, v, x, d_x, d_v, d_rho, None),
            (Self::Tether(f), G::Tether(g)) => f.vjp(agents, rho, v, x, d_x, d_v, d_rho, Some(g)),
            (Self::Dense(f), G::None) => f.vjp(agents, rho, v, x, d_x, d_v, d_rho, None, scratch),
            (Self::Dense(f), G::Dense(g)) => f.vjp(agents, rho, v, x, d_x, d_v, d_rho, Some(g), scratch),
            (Self::Equality(f), G::None) => f.vjp(agents, rho, v, x, d_x, d_v, d_rho, None, scratch),
            (Self::Equality(f), G::Equality(g)) => {
                f.vjp(agents, rho, v, x, d_x, d_v, d_rho, Some(g), scratch)
            }
            (Self::Qp(f), G::None) => f.vjp(agents, rho, v, x, d_x, d_v, d_rho, None),
            (Self::Qp(f), G::Qp(g)) => f.vjp(agents, rho, v, x, d_x, d_v, d_rho, Some(g)),
            (Self::Mixed(each), grad @ (G::None | G::Mixed(_))) => {
                per_agent(each, agents, scratch, |f, agents, i, own| {
                    let at = agents.range(i);
                    let (v, x, d_x, d_v) = (&v[at.clone()], &x[at.clone()], &d_x[at.clone()], &mut d_v[at]);
                    let (one, slot) = (rho.one(i), rho.grad_index(i));
                    let grad = match grad {
                        G::Mixed(each) if i < each.len() => &mut each[i],
                        G::Mixed(each) => return Err(missing_grad(agents.name(i), each.len())),
                        _ => &mut G::None,
                    };
                    f.vjp_at(agents.only(i), &one, v, x, d_x, d_v, &mut d_rho[slot..=slot], grad, own)
                })
            }
            (Self::Own(f), G::None) => own::vjp(f, agents, rho, v, x, d_x, d_v, d_rho, &mut [], scratch),
            (Self::Own(f), G::Own(g)) => own::vjp(f, agents, rho, v, x, d_x, d_v, d_rho, g, scratch),
            (f, grad) => Err(Error::new(
                ErrorKind::Unsupported,
                format!("gradient of the objective (agents from {})", agents.name(0)),
                format_args!("the gradient of a {} objective, or none", f.name()),
                grad.name(),
            )),
        }
    }

    /// Checks that offsets, parameters, penalties and scratch match. Cheap: it runs in every iteration.
    fn check<'o>(&self, offsets: &'o [usize], rho: &Penalty<'_, T>, scratch: &[T]) -> Result<Agents<'o>> {
        let agents = Agents::new(offsets)?;
        self.check_sizes(agents)?;
        rho.check_count(agents.count())?;
        let needed = self.whole_scratch_len(agents);
        if scratch.len() < needed {
            let expected = format_args!("at least {needed} numbers").to_string();
            return Err(Error::new(ErrorKind::Shape, "x-update scratch", expected, scratch.len())
                .hint("size it with Objective::scratch_len"));
        }
        Ok(agents)
    }

    fn name(&self) -> &'static str {
        match self {
            Self::Diagonal(_) => "diagonal",
            Self::Tether(_) => "tether",
            Self::Dense(_) => "dense",
            Self::Equality(_) => "equality",
            Self::Qp(_) => "qp",
            Self::Own(_) => "proximal map",
            Self::Mixed(_) => "mixed",
        }
    }
}

impl<T> ObjectiveGrad<'_, T> {
    fn name(&self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Diagonal(_) => "diagonal",
            Self::Tether(_) => "tether",
            Self::Dense(_) => "dense",
            Self::Equality(_) => "equality",
            Self::Qp(_) => "qp",
            Self::Own(_) => "proximal map",
            Self::Mixed(_) => "mixed",
        }
    }
}

/// Calls `each` on every agent's objective with its own part of the scratch.
fn per_agent<'o, T: Real>(
    each: &[Objective<'o, T>],
    agents: Agents<'_>,
    mut scratch: &mut [T],
    mut call: impl FnMut(&Objective<'o, T>, Agents<'_>, usize, &mut [T]) -> Result<()>,
) -> Result<()> {
    for (i, f) in each.iter().enumerate() {
        let (own, rest) = scratch.split_at_mut(f.own_scratch_len(agents.only(i)));
        call(f, agents, i, own)?;
        scratch = rest;
    }
    Ok(())
}

fn missing_grad(agent: usize, got: usize) -> Error {
    let place = format!("gradient of a mixed objective, agent {agent}");
    Error::new(ErrorKind::Shape, place, "one gradient per agent", got)
}
