//! See `tidegate_hostile::stream`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::stream::check(bytes));
