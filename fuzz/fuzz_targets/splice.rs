//! See `fuzz::splice`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::splice(data));
