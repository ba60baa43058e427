//! See `tidegate_fuzz::http_body`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::http_body::check(bytes));
