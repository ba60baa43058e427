//! See `tidegate_hostile::pacer`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::pacer::check(bytes));
