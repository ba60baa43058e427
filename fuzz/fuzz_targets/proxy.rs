//! See `tidegate_hostile::proxy::check`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::proxy::check(bytes));
