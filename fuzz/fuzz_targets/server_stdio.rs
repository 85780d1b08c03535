//! See `fuzz::server_stdio`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::server_stdio(data));
