#!/bin/bash -eu
# Builds every fuzz target, with its corpus and its dictionary beside it.
cd "$SRC/mcp-proto/fuzz"
export CARGO_TARGET_DIR="$SRC/mcp-proto/target"
cargo fuzz build --features libfuzzer
./corpus_files unpack "$WORK/corpus"
for source in fuzz_targets/*.rs; do
    target=$(basename "$source" .rs)
    cp "$CARGO_TARGET_DIR/x86_64-unknown-linux-gnu/release/$target" "$OUT/"
    cp "dictionaries/$target.dict" "$OUT/"
    zip -jrq "$OUT/${target}_seed_corpus.zip" "$WORK/corpus/$target"
done
