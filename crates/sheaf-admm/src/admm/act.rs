//! Where an iteration can be acted upon: between its updates.
//!
//! ```text
//! before x │ x-update │ before z │ z-update │ before u │ u-update │ end
//! ```

use super::Tape;
use crate::Real;

/// A point of an iteration.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(rename_all = "snake_case"))]
pub enum Before {
    /// Before the x-update: z and u are those of the iteration before.
    X,
    /// Between x- and z-update.
    Z,
    /// Between z- and u-update: z is the new one.
    U,
    /// After the u-update, before an observer sees the iteration.
    End,
}

/// The states of all agents at a point of an iteration.
#[derive(Debug)]
pub struct States<'s, T> {
    /// Proposals; before the x-update those of the iteration before, which nothing reads.
    pub x: &'s mut [T], // [samples, states]
    /// The agreed state: the new one from [`Before::U`] on.
    pub z: &'s mut [T], // [samples, states]
    /// The duals: the new ones at [`Before::End`].
    pub u: &'s mut [T], // [samples, states]
}

/// Changes states between the updates of an iteration. `()` does nothing and costs nothing.
pub trait Actor<T> {
    /// Whether it ever acts. The calls to an actor that never does are not compiled.
    const ACTS: bool = true;

    /// Acts at a point of iteration `k`, counted from 0; returns whether it changed a state.
    fn act(&mut self, k: usize, before: Before, states: States<'_, T>) -> bool;

    /// The last iteration that it acts in, if it acts only before x-updates. Such an actor may take part in a solve that
    /// records no iteration before that one: what is differentiated then starts from the states that it left.
    fn last(&self) -> Option<usize> {
        None
    }
}

impl<T> Actor<T> for () {
    const ACTS: bool = false;

    #[inline(always)]
    fn act(&mut self, _k: usize, _before: Before, _states: States<'_, T>) -> bool {
        false
    }
}

impl<T: Real> Tape<T> {
    /// The states at a point of iteration `k`.
    pub(super) fn states_at(&mut self, k: usize, before: Before) -> States<'_, T> {
        let n = self.states;
        let z = self.z_row(k + usize::from(before >= Before::U));
        let u = self.row(k + usize::from(before == Before::End));
        let x = self.x_row(k);
        States { x: &mut self.x[x * n..][..n], z: &mut self.z[z * n..][..n], u: &mut self.u[u * n..][..n] }
    }
}
