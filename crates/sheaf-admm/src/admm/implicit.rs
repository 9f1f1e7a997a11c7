//! Where the implicit adjoint is refused: consensus steps without a fixed point that is the solution.

use super::{Problem, Tape};
use crate::z_update::ZUpdate;
use crate::{Error, ErrorKind, Real, Result};

impl<T: Real> Problem<'_, T> {
    /// The published hard start keeps the part of z_prev in ker F, and with it every perturbation: the series would never
    /// converge.
    pub(super) fn check_implicit(&self, tape: &Tape<T>) -> Result<()> {
        let needed = 1 + usize::from(tape.x_only);
        if tape.recorded() < needed {
            let expected = format!("at least {needed} recorded iterations");
            return Err(Error::new(ErrorKind::Unsupported, "implicit adjoint", expected, tape.recorded()));
        }
        match self.z_update {
            ZUpdate::Asynchronous(s) if !s.lag.is_in_step() => Err(Error::new(
                ErrorKind::Unsupported,
                "implicit adjoint",
                "agents in step: others have no step that repeats",
                s.lag,
            )
            .hint("use Adjoint::Unrolled or Adjoint::LastSteps")),
            ZUpdate::Cg(cg) if self.z_update.residual_is_costly(&self.op) => Err(Error::new(
                ErrorKind::Unsupported,
                "implicit adjoint",
                "a consensus step whose fixed point is the solution",
                format_args!("hard conjugate gradients with CgStart::{:?}", cg.start),
            )
            .hint("solve with ZUpdate::Exact or Cg::to_tolerance, or use Adjoint::Unrolled")),
            _ => Ok(()),
        }
    }
}
