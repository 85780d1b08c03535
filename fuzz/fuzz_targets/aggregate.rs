//! See `fuzz::aggregate`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::aggregate(data));
