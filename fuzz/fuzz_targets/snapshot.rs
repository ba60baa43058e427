//! See `tidegate_hostile::snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::snapshot::check(bytes));
