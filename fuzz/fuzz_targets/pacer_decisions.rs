//! See `tidegate_fuzz::decisions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::decisions::check(bytes));
