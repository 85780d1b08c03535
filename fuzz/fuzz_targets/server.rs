//! See `fuzz::server`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::server(data));
