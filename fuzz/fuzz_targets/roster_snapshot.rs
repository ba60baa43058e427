//! See `tidegate_fuzz::roster`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::roster::check_snapshot(bytes));
