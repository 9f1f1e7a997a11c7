//! Whether a large soft system is solved by conjugate gradients or by a factor.
//!
//! Steps of conjugate gradients grow with √(κ‖L‖), up to what the graph allows: a few on random graphs, however large the
//! weights, hundreds on meshes with large weights. Graphs of the second kind have small separators, and thin factors. So a
//! stiff system is tried: if [`TRIAL`] steps with penalty 1, near which scaled problems are solved, do not reduce the residual
//! as much as one consensus step must, and a solve with the factor costs less than they do, it is factored.

use super::iterative::{Iterative, REDUCE};
use super::stacks::Stacks;
use super::system::System;
use crate::sheaf::SheafOp;
use crate::x_update::Penalty;
use crate::z_update::weights::Weights;
use crate::{Real, Result};

/// Steps of conjugate gradients that are too many.
const TRIAL: usize = 40;
/// The largest diagonal entry of L, below which no trial is made: the steps are few on any graph.
const STIFF: f64 = 100.0;

/// The factor of this system, if it is the better way; `weight(e)` is γω_e.
pub(super) fn factor<T: Real>(
    op: &SheafOp<'_, T>,
    stacks: &Stacks<'_, T>,
    system: &Iterative,
    weight: impl Fn(usize) -> T,
) -> Result<Option<System>> {
    if system.largest_diagonal(op, stacks, &weight) <= T::from_f64(STIFF) {
        return Ok(None);
    }
    let (n, one) = (op.sheaf().state_len(), Penalty::Scalar(T::ONE));
    let mut kept = vec![T::ZERO; system.room()];
    system.prepare(op, stacks, &Weights::new(&one), weight, &mut kept)?;
    // Random signs (SplitMix64): every wave length is in them.
    let sign = |k: usize| {
        let mut v = (k as u64 + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        v = (v ^ (v >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        v = (v ^ (v >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        v >> 63
    };
    let w: Vec<T> = (0..n).map(|k| if sign(k) == 0 { T::ONE } else { -T::ONE }).collect();
    let (start, mut z, mut work) = (vec![T::ZERO; n], vec![T::ZERO; n], vec![T::ZERO; system.scratch_len()]);
    let reduce = T::from_f64(REDUCE);
    if system.solve(&kept, &w, &start, reduce, false, &mut z, &mut work, TRIAL)?.converged {
        return Ok(None);
    }
    let factored = System::of_maps(op, stacks).ok();
    Ok(factored.filter(|f| 2 * f.symbolic.factor_len() <= TRIAL * system.entries()))
}

#[cfg(test)]
mod tests {
    use crate::sheaf::{AgentGraph, Maps, Sheaf, SheafOp};
    use crate::z_update::{Agreement, Exact};

    /// Agents with one number each.
    fn iterative(agents: usize, edges: &[(usize, usize)], gamma: f64) -> bool {
        let graph = AgentGraph::from_edges(agents, edges).unwrap();
        let sheaf = Sheaf::heterogeneous(&graph, &vec![1; agents], &vec![1; edges.len()]).unwrap();
        let stacks = vec![1.0; sheaf.stack_len()];
        let op = SheafOp::new(&sheaf, Maps::PerAgent(&stacks)).unwrap();
        Exact::automatic(&op, Agreement::Soft { gamma }).unwrap().is_iterative()
    }

    #[test]
    fn stiff_meshes_are_factored_and_random_graphs_are_not() {
        let side = 150;
        let agents = side * side;
        let right = (0..agents).filter(|k| k % side + 1 < side).map(|k| (k, k + 1));
        let down = (0..agents - side).map(|k| (k, k + side));
        let mesh: Vec<_> = right.chain(down).collect();
        assert!(iterative(agents, &mesh, 1.0));
        assert!(!iterative(agents, &mesh, 1e4));
        // A ring and four steps of a linear congruence: as good as random.
        let steps = [1, 7919, 3571, 9311, 5407].map(|m| (m, m / 3));
        let random: Vec<_> = steps
            .into_iter()
            .flat_map(|(m, c)| (0..agents).map(move |k| (k, (k * m + c + 1) % agents)))
            .filter(|(a, b)| a != b)
            .collect();
        assert!(iterative(agents, &random, 1e4));
    }
}
