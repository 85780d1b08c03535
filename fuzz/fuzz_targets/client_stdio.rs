//! See `fuzz::client_stdio`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::client_stdio(data));
