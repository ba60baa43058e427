//! See `tidegate_hostile::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::segment::check(bytes));
