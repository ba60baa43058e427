//! See `tidegate_hostile::group`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::group::check(bytes));
