//! Inputs for the targets without a fuzzer: those of the corpora, and scripts that are generated from seeds.

use std::fs;
use std::path::{Path, PathBuf};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use mcp_testkit::random::Random;

/// The inputs of `corpus/NAME`, which has one per line, in base64; see `fuzz/corpus_files`.
#[must_use]
pub fn kept(name: &str) -> Vec<Vec<u8>> {
    let packed = fs::read_to_string(folder("corpus").join(name)).expect("a corpus");
    packed.lines().map(|line| STANDARD.decode(line).expect("an input")).collect()
}

/// A folder of this crate.
#[must_use]
pub fn folder(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(name)
}

/// An input as it is written in `corpus/NAME`.
#[must_use]
pub fn packed(input: &[u8]) -> String {
    STANDARD.encode(input)
}

/// The scripts of the 3,000 seeds.
pub fn scripts() -> impl Iterator<Item = Vec<u8>> {
    (0..3000).map(script)
}

/// The script of a seed. Two of three have the highest bit of the first byte set: with it, a client may use 2026-07-28,
/// and a relay runs until every call has timed out.
#[must_use]
pub fn script(seed: u64) -> Vec<u8> {
    let mut random = Random::new(seed);
    let length = 20 + random.below(300);
    let mut script: Vec<u8> = (0..length).map(|_| u8::try_from(random.below(256)).expect("it is below 256")).collect();
    if let Some(first) = script.first_mut() {
        *first = if seed % 3 == 0 { *first & 0x7f } else { *first | 0x80 };
    }
    script
}
