//! See `tidegate_fuzz::proxy::check`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::proxy::check(bytes));
