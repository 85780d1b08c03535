//! See `fuzz::api`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::api(data));
