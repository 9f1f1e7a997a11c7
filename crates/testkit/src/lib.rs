//! What the tests share: finite differences, a dense reference sheaf, golden arrays, a counting allocator.
