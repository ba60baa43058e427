//! See `tidegate_hostile::mqtt::check_client`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::mqtt::check_client(bytes));
