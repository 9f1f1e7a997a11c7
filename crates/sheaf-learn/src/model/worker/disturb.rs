//! States changed before the iterations that gradients go back through: agents take over the states of others, some connected
//! agents start over, and noise is added.
//!
//! A model that has only seen solves from the start need not return to its answer from states nearby, and then signals that
//! pass many agents fade or drift. The numbers depend only on (seed of the run, training step, sample).

use sheaf_admm::Real;
use sheaf_admm::admm::{Actor, Before, States};
use sheaf_admm::sheaf::Sheaf;
use sheaf_admm::z_update::Draw;

use crate::model::Disturbance;
use crate::rng::Stream;

/// Buffers: the agents that start over.
#[derive(Debug, Default)]
pub(super) struct Disturbed {
    over: Vec<bool>, // [agents]
    next: Vec<bool>, // [agents]
}

impl Disturbed {
    /// What disturbs the states of some samples before iteration `k`; agents that start over start at `first`, or at 0.
    pub fn actor<'d, T: Real>(
        &'d mut self,
        sheaf: &'d Sheaf,
        disturbance: Disturbance,
        draw: Draw,
        k: usize,
        first: Option<&'d [T]>, // [samples, states]
    ) -> impl Actor<T> + 'd {
        At { buffers: self, sheaf, disturbance, draw, k, first }
    }

    /// Chooses `count` agents: one at random, and those that edges connect with it, the nearest first.
    fn choose(&mut self, sheaf: &Sheaf, count: usize, stream: &mut Stream) {
        let agents = sheaf.agents();
        for side in [&mut self.over, &mut self.next] {
            side.clear();
            side.resize(agents, false);
        }
        if count == 0 {
            return;
        }
        self.over[stream.below(agents)] = true;
        let mut chosen = 1;
        while chosen < count {
            let before = chosen;
            self.next.copy_from_slice(&self.over);
            for ((u, _), (v, _)) in sheaf.edge_ends() {
                for (from, to) in [(u, v), (v, u)] {
                    if chosen < count && self.over[from] && !self.next[to] {
                        self.next[to] = true;
                        chosen += 1;
                    }
                }
            }
            self.over.copy_from_slice(&self.next);
            // The agents that can be reached are fewer.
            if chosen == before {
                break;
            }
        }
    }
}

/// Acts once, before the x-update of one iteration.
struct At<'d, T> {
    buffers: &'d mut Disturbed,
    sheaf: &'d Sheaf,
    disturbance: Disturbance,
    draw: Draw,
    k: usize,
    first: Option<&'d [T]>,
}

impl<T: Real> Actor<T> for At<'_, T> {
    fn act(&mut self, k: usize, before: Before, states: States<'_, T>) -> bool {
        if k != self.k || before != Before::X {
            return false;
        }
        let Disturbance { shift, restart, noise, seed } = self.disturbance;
        let (n, offsets) = (self.sheaf.state_len(), self.sheaf.state_offsets());
        for b in 0..states.z.len() / n {
            let sample = self.draw.sample.wrapping_add(b as u64);
            let stream = &mut Stream::new(seed, "disturbance", self.draw.step, sample);
            let count = (restart * stream.uniform() * self.sheaf.agents() as f64).round() as usize;
            let deviation = noise * stream.uniform();
            let agents = self.sheaf.agents();
            if shift > 0.0 && agents > 1 && stream.uniform() < shift {
                // Agents are in the order of rows: what is a path here becomes one where none is.
                let by = (1 + stream.below(agents - 1)) * (n / agents);
                states.z[b * n..(b + 1) * n].rotate_left(by);
                states.u[b * n..(b + 1) * n].rotate_left(by);
            }
            self.buffers.choose(self.sheaf, count, stream);
            for (own, _) in offsets.windows(2).zip(&self.buffers.over).filter(|(_, over)| **over) {
                let own = b * n + own[0]..b * n + own[1];
                states.u[own.clone()].fill(T::ZERO);
                match self.first {
                    Some(first) => states.z[own.clone()].copy_from_slice(&first[own]),
                    None => states.z[own].fill(T::ZERO),
                }
            }
            if deviation > 0.0 {
                for state in [&mut *states.z, &mut *states.u] {
                    for s in &mut state[b * n..(b + 1) * n] {
                        *s += T::from_f64(deviation * stream.normal());
                    }
                }
            }
        }
        true
    }

    fn last(&self) -> Option<usize> {
        Some(self.k)
    }
}

#[cfg(test)]
mod tests {
    use sheaf_admm::sheaf::{AgentGraph, Connectivity};

    use super::*;

    fn sheaf() -> Sheaf {
        Sheaf::uniform(&AgentGraph::grid(6, 7, Connectivity::Four).unwrap(), 2, 1).unwrap()
    }

    #[test]
    fn agents_that_start_over_are_connected_and_as_many_as_asked() {
        let (sheaf, mut buffers) = (sheaf(), Disturbed::default());
        for count in [0, 1, 2, 17, 42] {
            buffers.choose(&sheaf, count, &mut Stream::new(3, "test", count as u64, 0));
            assert_eq!(buffers.over.iter().filter(|&&over| over).count(), count);
            let chosen = buffers.over.clone();
            let alone = (0..42).filter(|&i| chosen[i]).filter(|&i| {
                !sheaf.edge_ends().any(|((u, _), (v, _))| (u == i && chosen[v]) || (v == i && chosen[u]))
            });
            assert_eq!(alone.count(), usize::from(count == 1));
        }
    }

    #[test]
    fn agents_that_no_edge_reaches_are_left_alone() {
        let graph = AgentGraph::from_edges(5, &[(0, 1), (2, 3), (3, 4)]).unwrap();
        let (sheaf, mut buffers) = (Sheaf::uniform(&graph, 2, 1).unwrap(), Disturbed::default());
        buffers.choose(&sheaf, 5, &mut Stream::new(3, "test", 0, 0));
        let chosen = buffers.over.iter().filter(|&&over| over).count();
        assert!(chosen == 2 || chosen == 3);
    }

    #[test]
    fn some_agents_start_over_before_one_iteration_and_every_sample_draws_its_own() {
        let (sheaf, mut buffers) = (sheaf(), Disturbed::default());
        let n = sheaf.state_len();
        let first: Vec<f64> = (0..2 * n).map(|i| i as f64).collect();
        let disturbance = Disturbance { restart: 1.0, seed: 5, ..Disturbance::default() };
        let mut acted = |k: usize, before: Before, sample: u64, samples: usize| {
            let draw = Draw { step: 9, sample };
            let mut actor = buffers.actor(&sheaf, disturbance, draw, 4, Some(&first[..samples * n]));
            let [mut x, mut z, mut u] = [(); 3].map(|()| vec![-1.0; samples * n]);
            let changed = actor.act(k, before, States { x: &mut x, z: &mut z, u: &mut u });
            assert_eq!(changed, z.contains(&0.0) || u.contains(&0.0) || z.iter().any(|&z| z >= 0.0));
            (z, u)
        };
        for (k, before) in [(3, Before::X), (5, Before::X), (4, Before::Z), (4, Before::End)] {
            assert!(acted(k, before, 0, 1).0.iter().all(|&z| z == -1.0));
        }
        let (z, u) = acted(4, Before::X, 0, 2);
        for i in 0..2 * n {
            assert!((z[i], u[i]) == (-1.0, -1.0) || (z[i], u[i]) == (i as f64, 0.0), "{i}");
        }
        let over = |z: &[f64]| z.iter().map(|&z| z >= 0.0).collect::<Vec<_>>();
        assert_ne!(over(&z[..n]), over(&z[n..]));
        // A sample is disturbed in the same way alone and among others.
        assert_eq!(over(&acted(4, Before::X, 1, 1).0), over(&z[n..]));
    }

    #[test]
    fn agents_take_over_the_states_of_others_in_a_share_of_the_samples() {
        let (sheaf, mut buffers) = (sheaf(), Disturbed::default());
        let (n, samples) = (sheaf.state_len(), 40);
        let disturbance = Disturbance { shift: 0.5, seed: 5, ..Disturbance::default() };
        let mut actor = buffers.actor::<f64>(&sheaf, disturbance, Draw { step: 2, sample: 0 }, 1, None);
        // Two numbers an agent: its own number, and half of it more.
        let of: Vec<f64> = (0..samples * n).map(|i| (i % n) as f64 / 2.0).collect();
        let [mut x, mut z, mut u] = [(); 3].map(|()| of.clone());
        assert!(actor.act(1, Before::X, States { x: &mut x, z: &mut z, u: &mut u }));
        assert!(x == of && z == u);
        let mut moved = 0;
        for z in z.chunks_exact(n) {
            let by = z[0] as usize;
            moved += usize::from(by != 0);
            for (i, z) in z.chunks_exact(2).enumerate() {
                let from = ((i + by) % sheaf.agents()) as f64;
                assert_eq!(z, [from, from + 0.5], "whole agents, all by the same distance");
            }
        }
        assert!((10..=30).contains(&moved), "{moved} of {samples}");
    }

    #[test]
    fn noise_changes_all_states_and_has_at_most_the_given_deviation() {
        let (sheaf, mut buffers) = (sheaf(), Disturbed::default());
        let n = sheaf.state_len();
        let disturbance = Disturbance { noise: 0.5, seed: 5, ..Disturbance::default() };
        let mut actor = buffers.actor::<f64>(&sheaf, disturbance, Draw { step: 2, sample: 0 }, 1, None);
        let [mut x, mut z, mut u] = [(); 3].map(|()| vec![0.0; n]);
        assert!(actor.act(1, Before::X, States { x: &mut x, z: &mut z, u: &mut u }));
        assert!(x.iter().all(|&x| x == 0.0) && z.iter().chain(&u).all(|&s| s != 0.0));
        let squares: f64 = z.iter().chain(&u).map(|s| s * s).sum();
        assert!((squares / (2 * n) as f64).sqrt() < 0.6);
    }
}
