//! One sheaf over several processes, *ranks*, with the bits of one process.
//!
//! Agents are cut into [chunks](crate::chunks), and each rank owns a run of chunks. It holds the states, maps and
//! objectives of its own agents and, of its neighbours, only the rows that its edges meet: the *halo*. A [`Sheaf`] made
//! for a [`GraphPart`] is such a share, and everything that runs on a sheaf runs on it. Two things communicate:
//!
//! | what | message | when |
//! | --- | --- | --- |
//! | exchange | rows of the agents at the border, to each neighbour | every product with the Laplacian |
//! | inner products | one number per chunk and sum, to all | every sum over agents |
//!
//! While rows travel, the interior is computed. Sums are gathered chunk by chunk and added in the order of the chunks, by
//! every rank: so a solve takes the same steps on all ranks, and any number of ranks, with any number of threads each,
//! gives the same bits as one process.
//!
//! [`Comm`] is all that a solver knows of the network. [`threads`] connects threads of one process, for tests; the crate
//! `sheaf-mpi` implements it with MPI.
//!
//! [`Sheaf`]: crate::sheaf::Sheaf

mod build;
mod check;
mod halo;
mod metered;
mod order;
mod part;
mod sums;
mod threads;

pub use halo::Share;
pub use metered::{Metered, Traffic};
pub use order::Order;
pub use part::{GraphPart, own_agents, own_chunks};
pub use threads::threads;

pub(crate) use check::{maps as check_maps, refuse, solver as check_solver};
pub(crate) use sums::{ChunkSum, Lanes};

use std::fmt;

/// Messages of a rank to one other, or from it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Message {
    /// The other rank.
    pub rank: usize,
    /// What is sent, or room for exactly what is received.
    pub bytes: Vec<u8>,
}

/// The connection of a rank with the others.
///
/// All ranks make the same calls in the same order. A call returns when its data are there; where that cannot happen any more,
/// the implementation ends the process with a message, because a solve that has lost a rank cannot go on.
pub trait Comm: Send + Sync + fmt::Debug {
    /// The number of this rank, from 0.
    fn rank(&self) -> usize;

    /// How many ranks there are.
    fn ranks(&self) -> usize;

    /// Sends and receives one message per neighbour and calls `during` while they travel.
    fn swap(&self, sends: &[Message], receives: &mut [Message], during: &mut dyn FnMut());

    /// Everybody's bytes, one rank after the other; rank r contributes `counts[r]` of them.
    fn gather(&self, own: &[u8], counts: &[usize], all: &mut [u8]);

    /// Sends bytes to one rank.
    fn send(&self, to: usize, bytes: &[u8]);

    /// Receives bytes of a known length from one rank.
    fn receive(&self, from: usize, bytes: &mut [u8]);

    /// Sends what rank `from` holds to all others.
    fn broadcast(&self, from: usize, bytes: &mut [u8]);

    /// As a [`receive`](Self::receive) that may take any time, because the other rank is known to be busy.
    fn await_bytes(&self, from: usize, bytes: &mut [u8]) {
        self.receive(from, bytes);
    }
}
