//! See `fuzz::instances`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::instances(data));
