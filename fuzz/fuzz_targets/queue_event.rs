//! See `tidegate_hostile::queues`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::queues::check_event(bytes));
