//! See `tidegate_fuzz::topics`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::topics::check_snapshot(bytes));
