//! See `fuzz::frontmatter`.
#![no_main]

libfuzzer_sys::fuzz_target!(|data: &[u8]| fuzz::frontmatter(data));
