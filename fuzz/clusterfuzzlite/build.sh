#!/bin/bash -eu
# Builds every fuzz target, with its corpus and its dictionary beside it.
cd "$SRC/mcp-proto/fuzz"
# The release profile is made for a small binary; the sanitizers want another one.
export CARGO_PROFILE_RELEASE_LTO=off CARGO_PROFILE_RELEASE_OPT_LEVEL=3 CARGO_PROFILE_RELEASE_STRIP=none
export CARGO_PROFILE_RELEASE_PANIC=unwind CARGO_TARGET_DIR="$SRC/mcp-proto/target"
cargo fuzz build --features libfuzzer
./corpora unpack "$WORK/corpus"
for source in fuzz_targets/*.rs; do
    target=$(basename "$source" .rs)
    cp "$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/release/$target" "$OUT/"
    cp "dictionaries/$target.dict" "$OUT/"
    zip -jrq "$OUT/${target}_seed_corpus.zip" "$WORK/corpus/$target"
done
