//! See `fuzz::extensions`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::extensions(data));
