//! See `fuzz::redirect`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::redirect(data));
