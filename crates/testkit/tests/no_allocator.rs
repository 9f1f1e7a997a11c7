//! Without the counting allocator, counting panics.

#[test]
#[should_panic(expected = "the counting allocator is not installed")]
fn counting_without_the_allocator_panics_instead_of_saying_zero() {
    sheaf_testkit::allocations(|| ());
}
