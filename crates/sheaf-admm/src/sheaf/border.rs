//! Projections of the agents at the border of a rank's part, whose rows travel first.

use super::Sheaf;
use super::maps::{Maps, each_agent, table};
use crate::Real;
use crate::share::Share;
use sheaf_kernels::stack::BAND;

impl<T: Real> Maps<'_, T> {
    /// y_i = F_i z_i for the agents that have neighbours on other ranks.
    pub(super) fn project_border(&self, sheaf: &Sheaf, share: &Share, z: &[T], y: &mut [T]) {
        match self {
            Self::Table { stacks, index, order, .. } => {
                let bands = share.border().iter().map(|agent| agent / BAND);
                let mut next = 0;
                for band in bands {
                    if band >= next {
                        let agents = band * BAND..((band + 1) * BAND).min(sheaf.agents());
                        T::project_table(table(sheaf, index, order), agents, 0, stacks, z, y);
                        next = band + 1;
                    }
                }
            }
            Self::PerAgent(stacks) => {
                for &agent in share.border() {
                    each_agent(sheaf, agent..agent + 1, |one, place, states, rows| {
                        T::project_table(one, 0..1, 0, &stacks[place], &z[states], &mut y[rows]);
                    });
                }
            }
            _ => debug_assert!(false, "refused when the operator was made"),
        }
    }
}
