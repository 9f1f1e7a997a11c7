#![no_main]
libfuzzer_sys::fuzz_target!(|bytes: &[u8]| sheaf_fuzz::read("problem_toml", bytes));
