//! See `tidegate_fuzz::openrtb`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::openrtb::check(bytes));
