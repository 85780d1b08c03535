//! See `fuzz::gateway`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::gateway(data));
