//! Each error variant has an example of its text, and each text can be shown to a person.

use std::time::Duration;

use http::StatusCode;
use mcp_proto::{Failed, escape_text};
use tests::error_texts::all;

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

/// `cargo run -p tests --bin error-texts` prints the texts.
#[test]
fn every_text_is_one_short_line_without_debug_forms() {
    let mut shown = 0;
    for (name, (variant, text)) in
        all().into_iter().flat_map(|texts| texts.examples.into_iter().map(move |example| (texts.name, example)))
    {
        let place = format!("{name}::{variant}: {text}");
        let length = text.chars().count();
        assert!((4..=250).contains(&length), "{length} characters: {place}");
        assert_eq!(escape_text(&text, length), text, "a character that is not printed: {place}");
        assert!(!text.contains("  ") && text.trim() == text, "blanks: {place}");
        assert!(!text.ends_with(['.', '!', ':', ';', ',']), "a text is a part of a line: {place}");
        let is_name = text.chars().all(|c| c.is_ascii_uppercase());
        assert!(is_name || !text.starts_with(|c: char| c.is_uppercase()), "a text is a part of a line: {place}");
        for form in ["Some(", "None", "Ok(", "Err(", " { "] {
            assert!(!text.contains(form), "{form} in {place}");
        }
        shown += 1;
    }
    assert!(shown > 150, "{shown}");
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

#[test]
fn a_refusal_states_what_its_status_means() {
    let failed = all().into_iter().find(|texts| texts.name == "Failed").expect("the texts of Failed");
    for (status, meaning) in [
        ("401", "; it requires credentials, or other ones"),
        ("403", "; these credentials are not allowed to do that"),
        ("404", " with an HTML page; is the path right?"),
        ("407", "; an HTTP proxy on the way requires a user name and a password"),
        ("429", "; its explanation is \"Rate limit of 60 a minute\""),
        ("502", " with plain text"),
    ] {
        let refused = |text: &str| text.contains(&format!(" answered {status} ")) && text.contains(meaning);
        assert!(failed.examples.iter().any(|(name, text)| name == "Refused" && refused(text)), "{status}{meaning}");
    }
}
