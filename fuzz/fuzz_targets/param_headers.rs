//! See `fuzz::param_headers`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::param_headers(data));
