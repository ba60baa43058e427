//! See `tidegate_hostile::smpp`.
#![no_main]

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| tidegate_hostile::smpp::check(bytes));
