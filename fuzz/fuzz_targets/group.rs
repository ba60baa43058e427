//! See `tidegate_fuzz::group`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::group::check(bytes));
