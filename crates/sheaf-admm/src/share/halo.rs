//! The rows that neighbours on other ranks need, and those that they have.

use std::ops::Range;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Comm, Message};
use crate::Real;
use sheaf_kernels::exchange::Partners;

/// Rows that go to one rank, or come from it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Lane {
    pub rank: usize,
    pub rows: Vec<Range<usize>>,
}

impl Lane {
    fn len(&self) -> usize {
        self.rows.iter().map(Range::len).sum()
    }
}

/// Memory of messages, kept from one to the next.
#[derive(Debug, Default)]
struct Buffers {
    sends: Vec<Message>,
    receives: Vec<Message>,
    counts: Vec<usize>,
    own: Vec<u8>,
    all: Vec<u8>,
}

/// A rank's part in a sheaf over several processes.
#[derive(Debug)]
pub struct Share {
    pub(super) comm: Arc<dyn Comm>,
    /// Agents of the whole sheaf, and those of this rank.
    pub(super) agents: usize,
    pub(super) own: Range<usize>,
    /// Length of a state vector and of an edge vector of the whole sheaf.
    pub(super) state_len: usize,
    pub(super) edge_len: usize,
    /// How many chunks every rank owns.
    pub(super) chunks: Vec<usize>, // [ranks]
    pub(super) sends: Vec<Lane>,
    pub(super) receives: Vec<Lane>,
    /// Own agents with an edge to another rank, growing.
    pub(super) border: Vec<usize>,
    /// Runs of bands that contain such agents.
    pub(super) border_bands: Vec<Range<usize>>,
    /// The partners of all slots, on other ranks too; those of the sheaf leave them out.
    pub(super) partners: Option<Partners>,
    buffers: Mutex<Buffers>,
}

impl PartialEq for Share {
    fn eq(&self, other: &Self) -> bool {
        self.own == other.own && self.agents == other.agents && self.sends == other.sends
    }
}

impl Eq for Share {}

impl Share {
    pub(crate) fn new(comm: Arc<dyn Comm>, agents: usize, own: Range<usize>) -> Self {
        let chunks =
            (0..comm.ranks()).map(|rank| super::own_chunks(agents, rank, comm.ranks()).len()).collect();
        Self {
            comm,
            agents,
            own,
            state_len: 0,
            edge_len: 0,
            chunks,
            sends: Vec::new(),
            receives: Vec::new(),
            border: Vec::new(),
            border_bands: Vec::new(),
            partners: None,
            buffers: Mutex::default(),
        }
    }

    /// The connection with the other ranks.
    pub fn comm(&self) -> &Arc<dyn Comm> {
        &self.comm
    }

    /// Agents of the whole sheaf.
    pub fn agents(&self) -> usize {
        self.agents
    }

    /// The agents of this rank.
    pub fn own(&self) -> Range<usize> {
        self.own.clone()
    }

    /// Rows that this rank sends in an exchange, to each of its neighbours.
    pub fn sent_rows(&self) -> impl Iterator<Item = (usize, usize)> + '_ {
        self.sends.iter().map(|lane| (lane.rank, lane.len()))
    }

    fn buffers(&self) -> MutexGuard<'_, Buffers> {
        self.buffers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends the rows of the border, which `y` holds already, calls `during` and puts the rows of the others in their places.
    pub(crate) fn swap<T: Real>(&self, y: &mut [T], mut during: impl FnMut(&mut [T])) {
        let Buffers { sends, receives, .. } = &mut *self.buffers();
        fit(sends, &self.sends, T::BYTES);
        fit(receives, &self.receives, T::BYTES);
        for (message, lane) in sends.iter_mut().zip(&self.sends) {
            let mut rest = &mut message.bytes[..];
            for rows in &lane.rows {
                let (own, after) = rest.split_at_mut(rows.len() * T::BYTES);
                T::to_bytes(&y[rows.clone()], own);
                rest = after;
            }
        }
        self.comm.swap(sends, receives, &mut || during(y));
        for (message, lane) in receives.iter().zip(&self.receives) {
            let mut rest = &message.bytes[..];
            for rows in &lane.rows {
                let (own, after) = rest.split_at(rows.len() * T::BYTES);
                T::from_bytes(own, &mut y[rows.clone()]);
                rest = after;
            }
        }
    }

    /// Calls `take` with what `make` gives for every chunk of the whole sheaf, in their order. `make` is called with a
    /// receiver for the results of the own chunks.
    pub(super) fn gather<T: Real, const K: usize>(
        &self,
        make: impl FnOnce(&mut dyn FnMut([T; K])),
        mut take: impl FnMut([T; K]),
    ) {
        let Buffers { counts, own, all, .. } = &mut *self.buffers();
        let one = K * T::BYTES;
        counts.clear();
        counts.extend(self.chunks.iter().map(|chunks| chunks * one));
        own.clear();
        make(&mut |sums| {
            let start = own.len();
            own.resize(start + one, 0);
            T::to_bytes(&sums, &mut own[start..]);
        });
        debug_assert_eq!(own.len(), counts[self.comm.rank()], "one result for each own chunk");
        all.resize(counts.iter().sum(), 0);
        self.comm.gather(own, counts, all);
        for bytes in all.chunks_exact(one) {
            let mut sums = [T::ZERO; K];
            T::from_bytes(bytes, &mut sums);
            take(sums);
        }
    }

    /// The vectors of all ranks, one after the other, on every rank. `counts` are their lengths.
    pub fn collect<T: Real>(&self, own: &[T], counts: &[usize]) -> Vec<T> {
        let mut bytes = vec![0; own.len() * T::BYTES];
        T::to_bytes(own, &mut bytes);
        let counts: Vec<usize> = counts.iter().map(|count| count * T::BYTES).collect();
        let mut all = vec![0; counts.iter().sum()];
        self.comm.gather(&bytes, &counts, &mut all);
        let mut numbers = vec![T::ZERO; all.len() / T::BYTES];
        T::from_bytes(&all, &mut numbers);
        numbers
    }

    /// Calls `add` on the sum of the ranks before, rank after rank; then all have the sum of all.
    pub(crate) fn in_turn<T: Real>(&self, sum: &mut [T], add: &mut dyn FnMut(&mut [T])) {
        let (rank, last) = (self.comm.rank(), self.comm.ranks() - 1);
        let mut bytes = vec![0; sum.len() * T::BYTES];
        if rank > 0 {
            self.comm.receive(rank - 1, &mut bytes);
            T::from_bytes(&bytes, sum);
        }
        add(sum);
        T::to_bytes(sum, &mut bytes);
        if rank < last {
            self.comm.send(rank + 1, &bytes);
        }
        self.comm.broadcast(last, &mut bytes);
        T::from_bytes(&bytes, sum);
    }

    /// The values of all agents, `width` for each, from those of the own agents; on rank 0.
    pub fn collect_first<T: Real>(&self, own: &[T], width: usize) -> Option<Vec<T>> {
        let ranks = self.comm.ranks();
        let mut bytes = vec![0; own.len() * T::BYTES];
        if self.comm.rank() > 0 {
            T::to_bytes(own, &mut bytes);
            self.comm.send(0, &bytes);
            return None;
        }
        let mut all = own.to_vec();
        for rank in 1..ranks {
            let start = all.len();
            all.resize(start + super::own_agents(self.agents, rank, ranks).len() * width, T::ZERO);
            bytes.resize((all.len() - start) * T::BYTES, 0);
            self.comm.receive(rank, &mut bytes);
            T::from_bytes(&bytes, &mut all[start..]);
        }
        Some(all)
    }

    /// What rank 0 says.
    pub fn told(&self, here: bool) -> bool {
        let mut byte = [u8::from(here)];
        self.comm.broadcast(0, &mut byte);
        byte[0] == 1
    }

    /// The largest of the numbers of all ranks.
    pub fn largest(&self, own: f64) -> f64 {
        self.collect(&[own], &vec![1; self.comm.ranks()]).into_iter().fold(own, f64::max)
    }
}

/// Messages of the sizes of these lanes.
fn fit(messages: &mut Vec<Message>, lanes: &[Lane], bytes: usize) {
    messages.resize_with(lanes.len(), Message::default);
    for (message, lane) in messages.iter_mut().zip(lanes) {
        message.rank = lane.rank;
        message.bytes.resize(lane.len() * bytes, 0);
    }
}
