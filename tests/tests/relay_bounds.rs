//! What a relay keeps for a modern client at a legacy server is bounded, and what is over a bound is refused or passed on.

use mcp_intermediary::relay::{Config, Event};
use mcp_proto::{Era, Method, UsageError};
use mcp_testkit::messages::request;
use tests::relay_pair::RelayPair;

/// The bytes of names in setting requests that may be open.
const REQUEST_BYTES: usize = 1024 * 1024;
/// The bytes of names that one subscription may have.
const NAMES: usize = 32 * 1024;
/// The members of `_meta` of a client with roots.
const META: &str = r#""io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{"roots":{}}"#;

fn cancelled(question: usize) -> String {
    format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":"r{question}"}}}}"#)
}

#[test]
fn calls_wait_for_roots_up_to_the_number_of_requests_and_others_are_passed_on() {
    for limit in 1..4 {
        let change = |config: &mut Config| config.limits.requests_in = limit;
        let mut pair = RelayPair::open_as(META, Era::Modern, Era::Legacy, false, change);
        for call in 1..=limit + 1 {
            pair.server_line(&request(&format!("\"r{call}\""), "roots/list", "{}"));
            assert!(pair.received().is_empty(), "no request reaches the client by itself");
            pair.ask("tools/call", r#""name":"t","arguments":{}"#);
            if call <= limit {
                let required = pair.only_line();
                assert!(required.contains(r#""resultType":"input_required""#), "{call} of {limit}: {required}");
                assert!(pair.asked().is_empty());
                // There is room for the next question.
                pair.server_line(&cancelled(call));
            } else {
                assert_eq!(pair.asked().len(), 1, "{call} of {limit}");
                pair.answer(r#""content":[]"#);
                assert!(pair.only_line().contains(r#""content":[]"#));
            }
        }
    }
}

#[test]
fn a_subscription_whose_request_would_exceed_the_bound_is_not_acknowledged() {
    let mut pair = RelayPair::open(Era::Modern, Era::Legacy, false, |_| {});
    // The first fill the bound; the server answers none.
    let lengths = [NAMES; REQUEST_BYTES / NAMES].into_iter().chain([1, NAMES]);
    let mut open = 0;
    for (number, length) in lengths.enumerate() {
        let uri = if length == 1 { "u".to_owned() } else { format!("{number:02}{}", "u".repeat(length - 2)) };
        let before = pair.asked().len();
        pair.events();
        pair.ask("subscriptions/listen", &format!(r#""notifications":{{"resourceSubscriptions":["{uri}"]}}"#));
        open += length;
        let is_sent = open <= REQUEST_BYTES;
        assert_eq!(pair.asked().len() - before, usize::from(is_sent), "{number}");
        let refused = pair.events().into_iter().filter(|event| {
            let is_limit = |error: &UsageError| matches!(error, UsageError::TooManyRequests { .. });
            matches!(event, Event::NotPassed { method, error } if *method == Method::RESOURCES_SUBSCRIBE && is_limit(error))
        });
        assert_eq!(refused.count(), usize::from(!is_sent), "{number}");
        // It is acknowledged at once if nothing is awaited.
        let received = pair.received();
        let acknowledged = received.iter().filter(|line| line.contains("acknowledged")).count();
        assert_eq!(acknowledged, usize::from(!is_sent), "{number}: {received:?}");
    }
    // There is room again for as much as was answered.
    pair.answer("");
    for is_sent in [true, false] {
        let before = pair.asked().len();
        let uri = format!("{is_sent}{}", "v".repeat(NAMES - 5));
        pair.ask("subscriptions/listen", &format!(r#""notifications":{{"resourceSubscriptions":["{uri}"]}}"#));
        assert_eq!(pair.asked().len() - before, usize::from(is_sent));
    }
}
