//! See `tidegate_hostile::decisions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::decisions::check(bytes));
