//! See `fuzz::challenge`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::challenge(data));
