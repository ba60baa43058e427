//! See `tidegate_fuzz::segment`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::segment::check(bytes));
