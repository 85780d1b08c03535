//! The texts of errors are complete, and are those that were read.

use tests::error_texts::{all, table};

#[test]
fn every_variant_has_an_example_of_its_text() {
    for texts in all() {
        let declared = texts.declared();
        assert!(!declared.is_empty(), "{}", texts.name);
        for variant in declared {
            assert!(
                texts.examples.iter().any(|(name, _)| *name == variant),
                "{}::{variant} has no example",
                texts.name
            );
        }
    }
}

#[test]
fn the_texts_are_what_would_be_written() {
    let written = include_str!("../ERRORS.md");
    assert!(written == table(), "cargo run -p tests --bin error-texts > tests/ERRORS.md");
}
