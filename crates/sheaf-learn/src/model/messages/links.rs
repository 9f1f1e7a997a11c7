//! Which messages reach which agent.

use sheaf_admm::sheaf::Sheaf;

/// The messages that each agent receives. An agent sends one message per slot to every neighbour at that slot, or one
/// message to all if messages are shared.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Links {
    offsets: Vec<u32>, // [agents + 1], into `sources`
    sources: Vec<u32>, // [directed edges], numbers of messages: agent·types + type
    types: usize,
}

impl Links {
    /// The links of a graph. Each edge carries a message in both directions; the type of a message is the slot of its
    /// sender.
    pub fn new(sheaf: &Sheaf, types: usize) -> Self {
        let agents = sheaf.agents();
        let mut incoming = vec![Vec::new(); agents];
        let ends: Vec<_> = sheaf.edge_ends().collect();
        let directed = ends.iter().copied().chain(ends.iter().map(|&(u, v)| (v, u)));
        for ((from, slot), (to, _)) in directed {
            let kind = if types == 1 { 0 } else { slot };
            incoming[to].push((from * types + kind) as u32);
        }
        let mut links = Self { offsets: vec![0], sources: Vec::new(), types };
        for own in incoming {
            links.sources.extend(own);
            links.offsets.push(links.sources.len() as u32);
        }
        links
    }

    /// Number of agents.
    pub fn agents(&self) -> usize {
        self.offsets.len().saturating_sub(1)
    }

    /// Kinds of messages of an agent.
    pub fn types(&self) -> usize {
        self.types
    }

    /// The numbers of the messages that agent `i` receives.
    #[inline]
    pub fn of(&self, i: usize) -> &[u32] {
        &self.sources[self.offsets[i] as usize..self.offsets[i + 1] as usize]
    }

    /// Most messages that an agent receives.
    pub fn most(&self) -> usize {
        (0..self.agents()).map(|i| self.of(i).len()).max().unwrap_or(0)
    }

    /// 1/√(messages received by agent `i`, plus 1).
    #[inline]
    pub fn inverse_root_degree(&self, i: usize) -> f64 {
        1.0 / (self.of(i).len() as f64 + 1.0).sqrt()
    }
}
