//! Where each agent's numbers lie in the flat state of a sample.

use std::ops::Range;

use crate::{Error, ErrorKind, Result};

/// A run of consecutive agents. Ranges are relative to the first of them, so that a family reads the slice of its
/// own agents from 0; numbers in messages count from the first agent of the whole problem.
#[derive(Clone, Copy, Debug)]
pub(super) struct Agents<'a> {
    offsets: &'a [usize], // [agents + 1]
    first: usize,
}

impl<'a> Agents<'a> {
    /// All agents of a problem. Offsets that go backwards or are missing are an error.
    #[inline]
    pub fn new(offsets: &'a [usize]) -> Result<Self> {
        let ordered = offsets.windows(2).all(|w| w[0] <= w[1]);
        if offsets.first() != Some(&0) || !ordered {
            return Err(Error::new(
                ErrorKind::Shape,
                "offsets",
                "agents + 1 offsets that start at 0 and never decrease",
                format_args!("{offsets:?}"),
            ));
        }
        Ok(Self { offsets, first: 0 })
    }

    /// The run that holds agent `i` alone.
    pub fn only(&self, i: usize) -> Self {
        Self { offsets: &self.offsets[i..i + 2], first: self.first + i }
    }

    /// Number of agents.
    #[inline]
    pub fn count(&self) -> usize {
        self.offsets.len() - 1
    }

    /// Number of coordinates of all agents together.
    #[inline]
    pub fn width(&self) -> usize {
        self.offsets[self.count()] - self.offsets[0]
    }

    /// The coordinates of agent `i`.
    #[inline]
    pub fn range(&self, i: usize) -> Range<usize> {
        self.offsets[i] - self.offsets[0]..self.offsets[i + 1] - self.offsets[0]
    }

    /// The stalk size of agent `i`.
    #[inline]
    pub fn dim(&self, i: usize) -> usize {
        self.offsets[i + 1] - self.offsets[i]
    }

    /// Every agent's stalk size, in order.
    pub fn dims(&self) -> impl Iterator<Item = usize> + 'a {
        self.offsets.windows(2).map(|w| w[1] - w[0])
    }

    /// The largest stalk size.
    pub fn max_dim(&self) -> usize {
        self.dims().max().unwrap_or(0)
    }

    /// The number of agent `i` in the whole problem, for messages.
    pub fn name(&self, i: usize) -> usize {
        self.first + i
    }

    /// The agent that owns a coordinate, as named in messages.
    pub fn owner(&self, coordinate: usize) -> usize {
        self.first + self.offsets.partition_point(|o| o - self.offsets[0] <= coordinate) - 1
    }

    /// The boundaries over which gradients of a penalty are summed: the whole run, or agent by agent.
    pub fn offsets(&self) -> &'a [usize] {
        self.offsets
    }
}
