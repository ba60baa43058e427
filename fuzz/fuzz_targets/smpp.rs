//! See `tidegate_fuzz::smpp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_fuzz::smpp::check(bytes));
