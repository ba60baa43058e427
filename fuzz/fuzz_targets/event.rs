//! See `tidegate_hostile::event`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::event::check(bytes));
