//! Ranks as threads, and numbers that look random.

use std::sync::Arc;

use sheaf_admm::chunks::AGENTS;
use sheaf_admm::share::{Comm, threads};
use sheaf_admm::sheaf::{AgentGraph, Edge};

/// Calls `f` on so many ranks; what they return, in their order.
pub fn on_ranks<R: Send>(ranks: usize, f: impl Fn(Arc<dyn Comm>) -> R + Sync) -> Vec<R> {
    std::thread::scope(|scope| {
        let all: Vec<_> = threads(ranks).into_iter().map(|comm| scope.spawn(|| f(comm))).collect();
        all.into_iter().map(|one| one.join().expect("a rank that does not panic")).collect()
    })
}

/// Numbers between −1 and 1.
pub fn numbers(seed: u64, count: usize) -> Vec<f64> {
    let mut state = seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1;
    let mut next = || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        (state >> 11) as f64 / (1u64 << 52) as f64 - 1.0
    };
    (0..count).map(|_| next()).collect()
}

/// Whole numbers below `below`.
pub fn integers(seed: u64, count: usize, below: usize) -> Vec<usize> {
    numbers(seed, count).into_iter().map(|v| ((v + 1.0) / 2.0 * below as f64) as usize % below).collect()
}

/// A graph of several chunks: some agents without edges, some edges twice, slots with several edges, partners near and far.
pub fn graph(seed: u64) -> AgentGraph {
    let agents = 3 * AGENTS + 77;
    let slots: Vec<usize> = integers(seed, agents, 4);
    let draw = integers(seed + 1, 8 * agents, 1 << 40);
    let edge = |k: usize| {
        let d = &draw[4 * k..];
        let u = d[0] % agents;
        // Half of the edges stay in the neighbourhood.
        let v = if k.is_multiple_of(2) { d[1] % agents } else { (u + 1 + d[1] % 50) % agents };
        if u == v || slots[u] == 0 || slots[v] == 0 {
            return None;
        }
        Some(Edge {
            u: u as u32,
            slot_u: (d[2] % slots[u]) as u32,
            v: v as u32,
            slot_v: (d[3] % slots[v]) as u32,
        })
    };
    let edges = (0..2 * agents).filter_map(edge).collect();
    AgentGraph::with_slots(slots, edges).expect("a graph")
}

/// Bits of numbers, for comparison.
pub fn bits(numbers: &[f64]) -> Vec<u64> {
    numbers.iter().map(|v| v.to_bits()).collect()
}
