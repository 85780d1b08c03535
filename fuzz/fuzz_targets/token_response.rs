//! See `fuzz::token_response`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::token_response(data));
