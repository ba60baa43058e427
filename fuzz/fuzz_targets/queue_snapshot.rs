//! See `tidegate_fuzz::queues`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::queues::check_snapshot(bytes));
