//! See `tidegate_fuzz::event`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::event::check(bytes));
