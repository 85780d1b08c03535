//! See `fuzz::metadata`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::metadata(data));
