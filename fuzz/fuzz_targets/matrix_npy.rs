#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::read("matrix_npy", bytes));
