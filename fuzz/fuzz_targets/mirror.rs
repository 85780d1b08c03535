//! See `fuzz::mirror`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::mirror(data));
