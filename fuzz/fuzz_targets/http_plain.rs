//! See `tidegate_hostile::http_plain`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::http_plain::check(bytes));
