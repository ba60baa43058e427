//! See `tidegate_fuzz::session::check`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::session::check(bytes));
