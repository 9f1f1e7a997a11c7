//! The agents' views, each distinct view stored once.
//!
//! A view is a row of numbers: pixels, tokens, an agent's number. A batch of mazes has thousands of views, of which
//! about a hundred are distinct. What depends only on a view is computed once per distinct view, and its gradient is
//! summed over all agents that have it. Views are numbered in order of first occurrence.
//!
//! | name | shape |
//! | --- | --- |
//! | [`Views::index`] | `[samples, agents]` |
//! | [`Views::rows`] | `[distinct, view_len]` |

use std::ops::Range;

use hashbrown::HashTable;

/// Samples on one sheaf: the views of every agent and the decoder's targets.
pub trait Samples: Sync {
    /// Number of samples.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The views of all agents of sample `i`.
    fn views(&self, i: usize, out: &mut [f32]); // [agents, view_len]

    /// The decoder's targets for sample `i`. Used only in training.
    fn targets(&self, i: usize, out: &mut Targets);
}

/// The decoder's targets for a sample: labels for a loss over classes, values for a loss over numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// One class per row of logits; [`IGNORE`](crate::train::loss::IGNORE) skips a row.
    pub labels: Vec<u8>, // [agents, rows of an agent]
    /// One number per output; NaN skips an output.
    pub values: Vec<f32>, // [agents, outputs]
}

/// The distinct views of some samples, and the view of each agent. Buffers are kept from batch to batch.
#[derive(Clone, Debug, Default)]
pub struct Views {
    index: Vec<u32>,       // [samples, agents]
    rows: Vec<f32>,        // [distinct, view_len]
    table: HashTable<u32>, // numbers of views, hashed by their rows
    one: Vec<f32>,         // [agents, view_len], of the current sample
    view_len: usize,
}

impl Views {
    /// Collects the views of the samples in `range`.
    pub fn collect(&mut self, samples: &dyn Samples, range: Range<usize>, agents: usize, view_len: usize) {
        self.collect_own(samples, range, agents, 0..agents, view_len);
    }

    /// The same on a rank that owns some of the agents: all views, and the numbers of those of its own agents.
    pub fn collect_own(
        &mut self,
        samples: &dyn Samples,
        range: Range<usize>,
        agents: usize,
        own: Range<usize>,
        view_len: usize,
    ) {
        self.index.clear();
        self.rows.clear();
        self.table.clear();
        self.view_len = view_len;
        self.one.resize(agents * view_len, 0.0);
        for i in range {
            samples.views(i, &mut self.one);
            for (agent, view) in self.one.chunks_exact(view_len).enumerate() {
                let hash = hash(view);
                let same = |&number: &u32| self.rows[number as usize * view_len..][..view_len] == *view;
                let number = match self.table.find(hash, same) {
                    Some(&number) => number,
                    None => {
                        let number = (self.rows.len() / view_len) as u32;
                        self.rows.extend_from_slice(view);
                        let rows = &self.rows;
                        let rehash = |&n: &u32| self::hash(&rows[n as usize * view_len..][..view_len]);
                        self.table.insert_unique(hash, number, rehash);
                        number
                    }
                };
                if own.contains(&agent) {
                    self.index.push(number);
                }
            }
        }
        if own.len() < agents {
            // A rank keeps nothing of the size of the whole.
            self.one = Vec::new();
        }
    }

    /// The number of every agent's view, `[samples, agents]`.
    pub fn index(&self) -> &[u32] {
        &self.index
    }

    /// The distinct views, `[distinct, view_len]`.
    pub fn rows(&self) -> &[f32] {
        &self.rows
    }

    /// Number of distinct views.
    pub fn len(&self) -> usize {
        self.rows.len() / self.view_len.max(1)
    }

    /// Whether nothing has been collected.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// Equal views have equal bits: samples never hold −0 or NaN.
fn hash(view: &[f32]) -> u64 {
    view.iter().fold(0x9e37_79b9_7f4a_7c15, |h: u64, p| {
        (h.rotate_left(23) ^ u64::from(p.to_bits())).wrapping_mul(0xff51_afd7_ed55_8ccd)
    })
}
