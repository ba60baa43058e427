//! See `tidegate_hostile::learned`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::learned::check(bytes));
