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

/// The entries of a dictionary, in the form of libFuzzer: a text in quotes on each line, with `\xHH`, `\\` and `\"`.
#[must_use]
pub fn dictionary(name: &str) -> Vec<Vec<u8>> {
    let text = fs::read_to_string(folder("dictionaries").join(name).with_extension("dict")).expect("a dictionary");
    let entries = text.lines().filter_map(|line| line.strip_prefix('"')?.strip_suffix('"'));
    entries.map(unescaped).collect()
}

fn unescaped(entry: &str) -> Vec<u8> {
    let (mut bytes, mut rest) = (Vec::new(), entry);
    while let Some(c) = rest.chars().next() {
        let (byte, length) = match rest.strip_prefix("\\x") {
            Some(hex) => (u8::from_str_radix(&hex[..2], 16).expect("two digits"), 4),
            None if c == '\\' => (rest.as_bytes()[1], 2),
            None => (rest.as_bytes()[0], 1),
        };
        bytes.push(byte);
        rest = &rest[length..];
    }
    bytes
}

/// An input that is made of the beginning and the end of two others, with entries of a dictionary between them.
#[must_use]
pub fn mixed(seed: u64, kept: &[Vec<u8>], entries: &[Vec<u8>]) -> Vec<u8> {
    let mut random = Random::new(seed);
    let (first, last) = (random.pick(kept).clone(), random.pick(kept).clone());
    let mut at = |input: &[u8]| usize::try_from(random.below(input.len() as u64 + 1)).expect("a position");
    let (end, start) = (at(&first), at(&last));
    let mut input = first[..end].to_vec();
    for _ in 0..random.below(8) {
        input.extend(random.pick(entries));
    }
    input.extend(&last[start..]);
    input
}
