//! See `fuzz::schema`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::schema(data));
