//! See `tidegate_hostile::openrtb`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::openrtb::check(bytes));
