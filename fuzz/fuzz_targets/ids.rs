//! See `tidegate_hostile::ids`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::ids::check(bytes));
