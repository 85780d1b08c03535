//! A client and a server machine that talk over a simulated byte stream.

use std::time::Duration;

use mcp_proto::client::Outcome;
use mcp_proto::{Failed, ProtocolVersion};
use proptest::prelude::*;
use tests::pair::Pair;

/// Runs a conversation: requests, some of which are taken back, in the course of a while.
fn converse(seed: u64, requests: &[(String, Option<u64>)]) -> Pair {
    let mut pair = Pair::new(seed);
    let mut keys = Vec::new();
    for (text, cancel) in requests {
        keys.push((pair.request(text), *cancel));
    }
    for (key, cancel) in &keys {
        if *cancel == Some(0) {
            pair.cancel(*key);
        }
    }
    for moment in 1..=2 {
        pair.run_for(Duration::from_millis(300));
        for (key, cancel) in &keys {
            if *cancel == Some(moment) {
                pair.cancel(*key);
            }
        }
    }
    pair.run();
    pair
}

#[test]
fn a_client_and_a_server_shake_hands_and_talk() {
    let pair = converse(7, &[("hello".to_owned(), None), ("wörld\n".to_owned(), None)]);
    assert_eq!(pair.client.version(), Some(ProtocolVersion::LATEST_LEGACY));
    assert_eq!(pair.server.version(pair.server.session()), Some(ProtocolVersion::LATEST_LEGACY));
    assert_eq!(pair.outcomes.len(), 2);
}

#[test]
fn a_client_that_may_speak_every_revision_meets_a_server_in_the_newest() {
    let pair = converse(8, &[("hello".to_owned(), None), ("wörld\n".to_owned(), None)]);
    assert_eq!(pair.client.version(), Some(ProtocolVersion::V2026_07_28));
    assert_eq!(pair.outcomes.len(), 2);
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_request_ends_exactly_once_and_with_its_own_answer(
        seed in any::<u64>(),
        requests in prop::collection::vec(("[a-zé\"\\\\]{0,30}", prop::option::of(0_u64..3)), 0..12),
    ) {
        let pair = converse(seed, &requests);
        prop_assert!(pair.waiting.is_empty());
        prop_assert_eq!(pair.outcomes.len(), requests.len());
        for (key, outcome) in &pair.outcomes {
            match outcome {
                Outcome::Failed(Failed::Cancelled) => prop_assert!(pair.cancelled.contains(key)),
                Outcome::Failed(reason) => prop_assert!(matches!(reason, Failed::TimedOut { .. }), "{}", reason),
                Outcome::Result(_) | Outcome::Error(_) => {}
            }
        }
        prop_assert_eq!(pair.server.requests_in_flight(), 0);
        prop_assert_eq!(pair.client.requests_in_flight(), 0);
    }

    #[test]
    fn b22_the_same_seed_gives_the_same_run(seed in any::<u64>()) {
        let requests: Vec<_> = (0..6).map(|number| (format!("{number}"), Some(number % 4))).collect();
        prop_assert_eq!(converse(seed, &requests).trace, converse(seed, &requests).trace);
    }
}
