//! Layouts of arbitrary tensors.

use proptest::prelude::*;
use sheaf_learn::params::ParamLayout;

/// Mostly small numbers, sometimes huge ones.
fn size() -> impl Strategy<Value = usize> {
    prop_oneof![8 => 0usize..6, 1 => Just(usize::MAX), 1 => Just(usize::MAX / 16), 1 => Just(1 << 40)]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 300, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn layouts_hold_what_was_declared_or_tell_of_a_mistake(
        tensors in prop::collection::vec(("[ab]{1,2}", prop::collection::vec(size(), 0..3)), 0..6),
    ) {
        let mut layout = ParamLayout::new();
        let ranges: Vec<_> = tensors.iter().map(|(name, shape)| layout.add(name.as_str(), shape)).collect();
        prop_assert!(ranges.windows(2).all(|pair| pair[0].end == pair[1].start));
        let mut names: Vec<&str> = tensors.iter().map(|(name, _)| name.as_str()).collect();
        names.sort_unstable();
        let unique = names.windows(2).all(|pair| pair[0] != pair[1]);
        let small = tensors.iter().all(|(_, shape)| shape.iter().all(|&n| n < 6));
        prop_assert_eq!(layout.check().is_ok(), unique && (small || layout.check().is_ok()));
        if layout.check().is_ok() {
            for ((name, _), range) in tensors.iter().zip(ranges) {
                prop_assert_eq!(layout.range(name).expect("declared"), range);
            }
        }
    }
}
