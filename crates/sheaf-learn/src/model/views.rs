//! What agents see, and each distinct view once.
//!
//! A view is a row of numbers: pixels, tokens, an agent's number. A batch of mazes has thousands of views and about a
//! hundred distinct ones, so what is computed from a view alone is computed once per distinct view, and its gradient is
//! added up over all agents who have it. Views are numbered in the order of first sight.
//!
//! | name | shape |
//! | --- | --- |
//! | [`Views::index`] | `[samples, agents]` |
//! | [`Views::rows`] | `[distinct, view_len]` |

use std::ops::Range;

use hashbrown::HashTable;

/// Samples of one board: what every agent sees of each, and what the decoder should say.
pub trait Samples: Sync {
    /// Number of samples.
    fn len(&self) -> usize;

    /// Whether there are none.
    fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The views of all agents of sample `i`.
    fn views(&self, i: usize, out: &mut [f32]); // [agents, view_len]

    /// What the decoder should say of sample `i`. Only training asks.
    fn targets(&self, i: usize, out: &mut Targets);
}

/// What the decoder should say of a sample: labels for a loss over classes, values for one over numbers.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Targets {
    /// A class per row of logits; [`IGNORE`](crate::train::loss::IGNORE) leaves a row out.
    pub labels: Vec<u8>, // [agents, rows of an agent]
    /// A number per output; NaN leaves one out.
    pub values: Vec<f32>, // [agents, outputs]
}

/// The distinct views of some samples and which agent has which. Memory is kept from batch to batch.
#[derive(Clone, Debug, Default)]
pub struct Views {
    index: Vec<u32>,       // [samples, agents]
    rows: Vec<f32>,        // [distinct, view_len]
    table: HashTable<u32>, // numbers of views, hashed by their rows
    one: Vec<f32>,         // [agents, view_len], of the sample at hand
    view_len: usize,
}

impl Views {
    /// Collects the views of the samples in `range`.
    pub fn collect(&mut self, samples: &dyn Samples, range: Range<usize>, agents: usize, view_len: usize) {
        self.index.clear();
        self.rows.clear();
        self.table.clear();
        self.view_len = view_len;
        self.one.resize(agents * view_len, 0.0);
        for i in range {
            samples.views(i, &mut self.one);
            for view in self.one.chunks_exact(view_len) {
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
                self.index.push(number);
            }
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
