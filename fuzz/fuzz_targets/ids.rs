//! See `tidegate_fuzz::ids`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::ids::check(bytes));
