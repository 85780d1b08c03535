//! See `fuzz::uri_template`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::uri_template(data));
