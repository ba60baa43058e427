//! See `tidegate_fuzz::websocket::check`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::websocket::check(bytes));
