//! See `tidegate_hostile::websocket::check`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::websocket::check(bytes));
