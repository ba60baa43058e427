//! See `tidegate_fuzz::snapshot`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::snapshot::check(bytes));
