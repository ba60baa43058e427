//! See `tidegate_hostile::session::check`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::session::check(bytes));
