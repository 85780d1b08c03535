//! See `fuzz::era`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::era(data));
