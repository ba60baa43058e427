//! See `tidegate_hostile::roster`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::roster::check_event(bytes));
