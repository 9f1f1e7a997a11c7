//! Views of samples: each distinct one once, numbered in order of first occurrence; buffers are kept.

use proptest::prelude::*;
use sheaf_learn::model::{Samples, Targets, Views};
use sheaf_testkit::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const AGENTS: usize = 4;
const LEN: usize = 3;

/// Samples with given views.
struct Given(Vec<f32>); // [samples, AGENTS, LEN]

impl Samples for Given {
    fn len(&self) -> usize {
        self.0.len() / (AGENTS * LEN)
    }

    fn views(&self, i: usize, out: &mut [f32]) {
        out.copy_from_slice(&self.0[i * AGENTS * LEN..][..AGENTS * LEN]);
    }

    fn targets(&self, _i: usize, _out: &mut Targets) {}
}

fn collected(samples: &Given) -> Views {
    let mut views = Views::default();
    views.collect(samples, 0..samples.len(), AGENTS, LEN);
    views
}

proptest! {
    #[test]
    fn every_agent_finds_its_view_and_no_view_is_listed_twice(
        pixels in prop::collection::vec(prop_oneof![4 => Just(0.0f32), 1 => Just(1.0), 1 => 0.0f32..1.0], 1..40),
        samples in 1usize..8,
    ) {
        let given = Given(pixels.iter().copied().cycle().take(samples * AGENTS * LEN).collect());
        let mut views = Views::default();
        // Buffers left by another batch do not matter.
        views.collect(&Given(vec![0.5; AGENTS * LEN]), 0..1, AGENTS, LEN);
        views.collect(&given, 0..samples, AGENTS, LEN);
        let listed: Vec<&[f32]> = views.rows().chunks_exact(LEN).collect();
        prop_assert_eq!(listed.len(), views.len());
        for (i, a) in listed.iter().enumerate() {
            prop_assert!(!listed[..i].contains(a));
        }
        prop_assert_eq!(views.index().len(), samples * AGENTS);
        let mut next = 0;
        for (&number, view) in views.index().iter().zip(given.0.chunks_exact(LEN)) {
            prop_assert_eq!(listed[number as usize], view);
            prop_assert!(number <= next, "numbers come in the order of first sight");
            next = next.max(number + 1);
        }
    }
}

#[test]
fn a_range_of_samples_has_the_views_of_these_alone() {
    let given = Given((0..5 * AGENTS * LEN).map(|i| (i % 24) as f32).collect());
    let mut part = Views::default();
    part.collect(&given, 2..4, AGENTS, LEN);
    let alone = collected(&Given(given.0[2 * AGENTS * LEN..4 * AGENTS * LEN].to_vec()));
    assert_eq!((part.index(), part.rows()), (alone.index(), alone.rows()));
    assert!(Views::default().is_empty() && !part.is_empty());
}

#[test]
fn thousands_of_views_are_told_apart() {
    let given = Given((0..3000 * AGENTS * LEN).map(|p| ((p * 7919) % 99_991) as f32 / 1e5).collect());
    assert_eq!(collected(&given).len(), 3000 * AGENTS);
}

#[test]
fn memory_is_kept_from_batch_to_batch() {
    let wild = Given((0..500 * AGENTS * LEN).map(|p| ((p * 7919) % 99_991) as f32).collect());
    let tame = Given((0..500 * AGENTS * LEN).map(|p| (p % 9) as f32).collect());
    let mut views = collected(&wild);
    assert_eq!(allocations(|| views.collect(&tame, 0..500, AGENTS, LEN)), 0);
    let fresh = collected(&tame);
    assert_eq!((views.index(), views.rows()), (fresh.index(), fresh.rows()));
}
