//! See `tidegate_hostile::topics`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::topics::check_event(bytes));
