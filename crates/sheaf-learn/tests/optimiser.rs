//! An update of the trainer does not allocate.

use sheaf_learn::train::{AdamW, Decay, Schedule, clip_global_norm, ema_update};
use sheaf_testkit::{CountingAllocator, allocations};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

#[test]
fn a_whole_update_allocates_nothing() {
    let n = 100_003;
    let mut grad: Vec<f32> = (0..n).map(|k| (k as f32).sin()).collect();
    let (mut params, mut ema, mut m, mut v) = (grad.clone(), grad.clone(), vec![0.0; n], vec![0.0; n]);
    let (rule, schedule) = (AdamW::default(), Schedule { peak: 0.1, warmup: 0, decay: Decay::None });
    let before = params.clone();
    let count = allocations(|| {
        clip_global_norm(1.0, &mut grad);
        rule.update(schedule.at(0), 1, &grad, &mut params, &mut m, &mut v).unwrap();
        ema_update(0.999, &params, &mut ema).unwrap();
    });
    assert_eq!(count, 0);
    assert_ne!(params, before);
}
