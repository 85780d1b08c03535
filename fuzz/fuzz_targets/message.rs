//! See `fuzz::message`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::message(data));
