//! See `tidegate_hostile::frames`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::frames::check(bytes));
