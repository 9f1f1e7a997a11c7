//! What a layer computes, apart from its numbers.

use std::sync::OnceLock;

use pyo3::prelude::*;
use sheaf_admm::admm::{Adjoint, Mode, Options};
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::z_update::{Agreement, Cg, CgStart, Descent, Exact, Gram, Orthonormal, Stop, ZUpdate};
use sheaf_admm::{ErrorKind, Real, Result};

use crate::errors::{wrong, wrong_hint};

/// The consensus solver.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Consensus {
    Cg(CgStart),
    Descent,
    Exact,
    /// The closed form for shared maps with orthonormal rows.
    Orthonormal,
}

/// How a layer is differentiated.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum How {
    Unrolled,
    Last(usize),
    Implicit,
}

/// Where the series of the implicit adjoint stops, and the most terms it may have.
const IMPLICIT: (f64, usize) = (1e-6, 10_000);

/// The choices of a layer.
#[derive(Clone, Debug)]
pub struct Spec {
    pub iterations: usize,
    pub window: usize,
    pub consensus: Consensus,
    pub steps: usize,
    /// Solve consensus to this relative tolerance, in at most `steps` steps; 0: exactly `steps` steps.
    pub tolerance: f64,
    pub hard: bool,
    pub relax: f64,
    pub how: How,
    /// 0: that of [`IMPLICIT`].
    pub implicit_tolerance: f64,
}

impl Spec {
    /// The solver by its name.
    pub fn consensus(name: &str) -> PyResult<Consensus> {
        Ok(match name {
            "cg" => Consensus::Cg(CgStart::Published),
            "cg-warm" => Consensus::Cg(CgStart::Warm),
            "cg-zero" => Consensus::Cg(CgStart::Zero),
            "cg-carried" => Consensus::Cg(CgStart::Carried),
            "descent" => Consensus::Descent,
            "exact" => Consensus::Exact,
            "orthonormal" => Consensus::Orthonormal,
            other => {
                let known = "\"cg\", \"cg-warm\", \"cg-zero\", \"cg-carried\", \"descent\", \"exact\" or \"orthonormal\"";
                return Err(wrong(ErrorKind::Unsupported, "consensus", known, format!("{other:?}")));
            }
        })
    }

    /// The adjoint: `"unrolled"`, `"implicit"`, or a number of last iterations.
    pub fn how(adjoint: &Bound<'_, PyAny>) -> PyResult<How> {
        if let Ok(count) = adjoint.extract::<usize>() {
            let none = || wrong(ErrorKind::OutOfRange, "adjoint", "at least 1 iteration", count);
            return if count > 0 { Ok(How::Last(count)) } else { Err(none()) };
        }
        match adjoint.extract::<String>().as_deref() {
            Ok("unrolled") => Ok(How::Unrolled),
            Ok("implicit") => Ok(How::Implicit),
            _ => {
                let known = "\"unrolled\", \"implicit\" or a number of last iterations";
                Err(wrong(ErrorKind::Unsupported, "adjoint", known, adjoint))
            }
        }
    }

    /// Rejects choices without a meaning.
    pub fn check(&self) -> PyResult<()> {
        for (place, count) in [("iterations", self.iterations), ("window", self.window)] {
            if count == 0 {
                return Err(wrong(ErrorKind::OutOfRange, place, "at least 1", 0));
            }
        }
        if self.window > self.taped() || self.window > self.iterations {
            let most = self.taped().min(self.iterations);
            let expected = format!("at most {most}, the iterations that gradients reach");
            return Err(wrong(ErrorKind::OutOfRange, "window", expected, self.window));
        }
        let exact =
            matches!(self.consensus, Consensus::Exact | Consensus::Orthonormal) || self.tolerance > 0.0;
        if self.how == How::Implicit && !exact {
            return Err(wrong_hint(
                ErrorKind::Unsupported,
                "adjoint",
                "\"unrolled\" with a fixed number of consensus steps",
                "\"implicit\"",
                "take consensus=\"exact\", or a tolerance of consensus such as 1e-8",
            ));
        }
        Ok(())
    }

    /// Iterations on the tape. The implicit adjoint differentiates the last whole iteration, and reads x of one more.
    pub fn taped(&self) -> usize {
        match self.how {
            How::Unrolled => self.iterations,
            How::Last(count) => count.min(self.iterations),
            How::Implicit => (self.window + 1).min(self.iterations),
        }
    }

    pub fn adjoint<T: Real>(&self) -> Adjoint<T> {
        match self.how {
            How::Unrolled => Adjoint::Unrolled,
            How::Last(count) => Adjoint::LastSteps(count),
            How::Implicit => {
                let tolerance =
                    if self.implicit_tolerance > 0.0 { self.implicit_tolerance } else { IMPLICIT.0 };
                Adjoint::Implicit { tolerance: T::from_f64(tolerance), max_terms: IMPLICIT.1 }
            }
        }
    }

    /// A solve without gradients. Only the last x are read.
    pub fn forward<T>(&self) -> (Options<T>, Mode) {
        let options = Options::fixed(self.iterations).x_only();
        match self.window {
            1 => (options, Mode::Solve),
            window => (options.taping(window), Mode::Differentiate { iterations: window }),
        }
    }

    /// A solve to be differentiated. Inner steps are kept: the reverse sweep then replays nothing.
    pub fn recorded<T>(&self) -> (Options<T>, Mode) {
        let taped = self.taped();
        (Options::fixed(self.iterations).x_only().taping(taped), Mode::Keep { iterations: taped })
    }

    /// The consensus step. `gram`: in the space of projections, which shared maps allow.
    pub fn z_update<T: Real>(
        &self,
        sheaf: &Sheaf,
        gamma: Option<T>,
        eta: Option<T>,
        gram: bool,
        plan: &OnceLock<Exact<T>>,
    ) -> Result<ZUpdate<T>> {
        let agreement = match (self.hard, gamma) {
            (false, Some(gamma)) => Agreement::Soft { gamma },
            _ => Agreement::Hard,
        };
        let tolerance = T::from_f64(self.tolerance);
        let tight = self.tolerance > 0.0;
        Ok(match self.consensus {
            Consensus::Cg(_) if gram && tight => {
                ZUpdate::Gram(Gram::to_tolerance(agreement, tolerance, self.steps))
            }
            Consensus::Cg(_) if gram => ZUpdate::Gram(Gram::published(agreement, self.steps)),
            Consensus::Cg(_) if tight => ZUpdate::Cg(Cg::to_tolerance(agreement, tolerance, self.steps)),
            Consensus::Cg(start) => ZUpdate::Cg(Cg { start, ..Cg::published(agreement, self.steps) }),
            Consensus::Descent => {
                let mut descent = Descent::nesterov(agreement, eta.unwrap_or(T::from_f64(0.01)), self.steps);
                if tight {
                    descent.stop =
                        Stop::Tolerance { absolute: T::ZERO, relative: tolerance, max_steps: self.steps };
                }
                ZUpdate::Descent(descent)
            }
            Consensus::Orthonormal => ZUpdate::Orthonormal(Orthonormal::new(agreement)),
            Consensus::Exact => {
                let planned = plan.get_or_init(|| Exact::new(sheaf, agreement));
                let mut exact = planned.clone();
                exact.agreement = agreement;
                ZUpdate::Exact(exact)
            }
        })
    }
}
