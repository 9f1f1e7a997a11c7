//! What ranks cannot share.

use super::sums::unsupported;
use crate::sheaf::{Maps, Sheaf};
use crate::z_update::ZUpdate;
use crate::{Real, Result};

const ONE_PROCESS: &str = "solve it in one process, on all its cores";

/// Refuses maps whose products are not cut into agents.
pub(crate) fn maps<T: Real>(sheaf: &Sheaf, maps: &Maps<'_, T>) -> Result<()> {
    match maps {
        Maps::Table { .. } | Maps::PerAgent(_) => Ok(()),
        _ if sheaf.share().is_none() => Ok(()),
        _ => Err(unsupported("maps", "a table of stacks, or stacks per agent", maps.name(), ONE_PROCESS)),
    }
}

/// Refuses consensus solvers that need more than an exchange and inner products.
pub(crate) fn solver<T: Real>(sheaf: &Sheaf, z_update: &ZUpdate<T>) -> Result<()> {
    let got = match z_update {
        _ if sheaf.share().is_none() => return Ok(()),
        ZUpdate::Cg(_) | ZUpdate::Descent(_) => return Ok(()),
        ZUpdate::EdgeSpace(_) => "multipliers of edges",
        ZUpdate::Exact(_) => "a factorisation of the whole system",
        ZUpdate::Potential(_) => "edge potentials",
        ZUpdate::Asynchronous(_) => "messages that arrive late, which one process simulates",
        ZUpdate::Gram(_) | ZUpdate::Orthonormal(_) => "a solver for maps that all agents share",
    };
    let expected =
        "conjugate gradients or descent on the states, which need only exchanges and inner products";
    Err(unsupported("consensus", expected, got, "use ZUpdate::Cg or ZUpdate::Descent, or one process"))
}

/// Refuses `what`, unless one process has the whole sheaf.
pub(crate) fn refuse(sheaf: &Sheaf, what: &str, expected: &str, hint: &str) -> Result<()> {
    match sheaf.share() {
        None => Ok(()),
        Some(_) => Err(unsupported(what, expected, "this one", hint)),
    }
}
