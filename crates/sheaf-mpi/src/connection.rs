//! The connection of ranks by MPI.

use std::time::Duration;

use mpi::datatype::PartitionMut;
use mpi::topology::SimpleCommunicator;
use mpi::traits::*;
use sheaf_admm::share::{Comm, Message};

use crate::wait;

/// One of the ranks of `MPI_COMM_WORLD`, which is looked up in every call: its handle must not leave a thread.
#[derive(Debug)]
pub(crate) struct Connection {
    rank: usize,
    ranks: usize,
    timeout: Option<Duration>,
}

/// Ends all ranks.
pub(crate) fn abort(code: i32) -> ! {
    world().abort(code)
}

fn world() -> SimpleCommunicator {
    SimpleCommunicator::world()
}

/// MPI counts with 32 bits.
fn number(count: usize) -> i32 {
    i32::try_from(count).expect("a message below 2 GB")
}

impl Connection {
    pub(crate) fn new(timeout: Duration) -> Self {
        let (rank, ranks) = (world().rank() as usize, world().size() as usize);
        Self { rank, ranks, timeout: (!timeout.is_zero()).then_some(timeout) }
    }

    fn receive_within(&self, from: usize, bytes: &mut [u8], limit: Option<Duration>) {
        mpi::request::scope(|scope| {
            let pending = world().process_at_rank(number(from)).immediate_receive_into(scope, bytes);
            wait::all(vec![pending], limit, &format!("a message from rank {from}"));
        });
    }
}

impl Comm for Connection {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn swap(&self, sends: &[Message], receives: &mut [Message], during: &mut dyn FnMut()) {
        let world = world();
        let what = || {
            let from: Vec<String> = sends.iter().map(|m| m.rank.to_string()).collect();
            format!("exchange with rank {}", from.join(", "))
        };
        let what = what();
        mpi::request::scope(|scope| {
            let mut pending = Vec::with_capacity(sends.len() + receives.len());
            for message in receives {
                let from = world.process_at_rank(number(message.rank));
                pending.push(from.immediate_receive_into(scope, &mut message.bytes[..]));
            }
            for message in sends {
                let to = world.process_at_rank(number(message.rank));
                pending.push(to.immediate_send(scope, &message.bytes[..]));
            }
            during();
            wait::all(pending, self.timeout, &what);
        });
    }

    fn gather(&self, own: &[u8], counts: &[usize], all: &mut [u8]) {
        let counts: Vec<i32> = counts.iter().map(|&count| number(count)).collect();
        let starts: Vec<i32> =
            counts.iter().scan(0, |at, &count| Some(std::mem::replace(at, *at + count))).collect();
        // Small and regular: the blocking call is the fastest, but it cannot end by itself.
        let mut parts = PartitionMut::new(all, counts, &starts[..]);
        mpi::request::scope(|scope| {
            let mut pending = world().immediate_all_gather_varcount_into(scope, own, &mut parts);
            let began = std::time::Instant::now();
            while let Err(request) = pending.test() {
                pending = request;
                wait::pause(began, self.timeout, "a sum over all ranks");
            }
        });
    }

    fn send(&self, to: usize, bytes: &[u8]) {
        mpi::request::scope(|scope| {
            let pending = world().process_at_rank(number(to)).immediate_send(scope, bytes);
            wait::all(vec![pending], self.timeout, &format!("a message to rank {to}"));
        });
    }

    fn receive(&self, from: usize, bytes: &mut [u8]) {
        self.receive_within(from, bytes, self.timeout);
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        mpi::request::scope(|scope| {
            let pending = world().process_at_rank(number(from)).immediate_broadcast_into(scope, bytes);
            wait::all(vec![pending], self.timeout, &format!("a broadcast of rank {from}"));
        });
    }

    fn await_bytes(&self, from: usize, bytes: &mut [u8]) {
        self.receive_within(from, bytes, None);
    }
}
