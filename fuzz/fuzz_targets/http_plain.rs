//! See `tidegate_fuzz::http_plain`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::http_plain::check(bytes));
