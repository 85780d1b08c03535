//! Each error variant has an example of its text, and the committed list of texts is up to date.

use std::time::Duration;

use http::StatusCode;
use mcp_proto::Failed;
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

#[test]
fn a_request_is_surely_undelivered_only_if_nothing_was_sent() {
    for (failed, is_undelivered, status) in [
        (Failed::Unreachable { detail: "x".into() }, true, None),
        (Failed::QueueFull { limit: 1 }, true, None),
        (Failed::Broken { detail: "x".into() }, false, None),
        (Failed::TimedOut { after: Duration::from_secs(1) }, false, None),
        (Failed::NoAnswer { status: StatusCode::ACCEPTED }, false, Some(StatusCode::ACCEPTED)),
        (Failed::SessionLost, false, None),
    ] {
        assert_eq!((failed.is_undelivered(), failed.status()), (is_undelivered, status), "{failed}");
    }
}
