//! Ranks that are threads of one process.

use std::collections::{HashMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, PoisonError};

use super::{Comm, Message};

/// Messages on their way, by sender and receiver.
type Boxes = HashMap<(usize, usize), VecDeque<Vec<u8>>>;

#[derive(Debug, Default)]
struct Post {
    boxes: Mutex<Boxes>,
    arrived: Condvar,
}

/// One of several ranks in a process.
#[derive(Debug)]
struct Thread {
    rank: usize,
    ranks: usize,
    post: Arc<Post>,
}

/// Connects so many ranks; each must be used on a thread of its own.
pub fn threads(ranks: usize) -> Vec<Arc<dyn Comm>> {
    let post = Arc::new(Post::default());
    let one = |rank| Arc::new(Thread { rank, ranks, post: Arc::clone(&post) }) as Arc<dyn Comm>;
    (0..ranks).map(one).collect()
}

impl Comm for Thread {
    fn rank(&self) -> usize {
        self.rank
    }

    fn ranks(&self) -> usize {
        self.ranks
    }

    fn swap(&self, sends: &[Message], receives: &mut [Message], during: &mut dyn FnMut()) {
        sends.iter().for_each(|message| self.send(message.rank, &message.bytes));
        during();
        receives.iter_mut().for_each(|message| self.receive(message.rank, &mut message.bytes));
    }

    fn gather(&self, own: &[u8], counts: &[usize], all: &mut [u8]) {
        (0..self.ranks).filter(|&to| to != self.rank).for_each(|to| self.send(to, own));
        let mut rest = all;
        for (from, &count) in counts.iter().enumerate() {
            let (part, after) = rest.split_at_mut(count);
            match from == self.rank {
                true => part.copy_from_slice(own),
                false => self.receive(from, part),
            }
            rest = after;
        }
    }

    fn send(&self, to: usize, bytes: &[u8]) {
        let mut boxes = self.post.boxes.lock().unwrap_or_else(PoisonError::into_inner);
        boxes.entry((self.rank, to)).or_default().push_back(bytes.to_vec());
        self.post.arrived.notify_all();
    }

    fn receive(&self, from: usize, bytes: &mut [u8]) {
        let mut boxes = self.post.boxes.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            if let Some(message) = boxes.get_mut(&(from, self.rank)).and_then(VecDeque::pop_front) {
                return bytes.copy_from_slice(&message);
            }
            boxes = self.post.arrived.wait(boxes).unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn broadcast(&self, from: usize, bytes: &mut [u8]) {
        if self.rank == from {
            (0..self.ranks).filter(|&to| to != from).for_each(|to| self.send(to, bytes));
        } else {
            self.receive(from, bytes);
        }
    }
}
