//! A client machine and a server machine that are connected by a simulated byte stream.

use std::time::Duration;

use mcp_proto::client::Outcome;
use mcp_proto::{Failed, ProtocolVersion};
use proptest::prelude::*;
use tests::echo_pair::EchoPair;

/// Runs a conversation: makes requests and cancels some of them at the given times.
fn converse(seed: u64, requests: &[(String, Option<u64>)]) -> EchoPair {
    converse_in(EchoPair::new(seed), requests)
}

fn converse_in(mut pair: EchoPair, requests: &[(String, Option<u64>)]) -> EchoPair {
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
fn a_client_and_a_server_connect_and_exchange_messages() {
    let pair = converse(7, &[("hello".to_owned(), None), ("wörld\n".to_owned(), None)]);
    assert_eq!(pair.client.version(), Some(ProtocolVersion::LATEST_LEGACY));
    assert_eq!(pair.server.version(pair.server.session()), Some(ProtocolVersion::LATEST_LEGACY));
    assert_eq!(pair.outcomes.len(), 2);
}

#[test]
fn a_client_of_every_revision_and_a_server_agree_on_the_newest() {
    let pair = converse(8, &[("hello".to_owned(), None), ("wörld\n".to_owned(), None)]);
    assert_eq!(pair.client.version(), Some(ProtocolVersion::V2026_07_28));
    assert_eq!(pair.outcomes.len(), 2);
}

/// The revisions that a client or a server supports: only a legacy one, only a modern one, or all.
const SUPPORTED: [&[ProtocolVersion]; 3] =
    [&[ProtocolVersion::V2025_11_25], &[ProtocolVersion::V2026_07_28], ProtocolVersion::ALL];

fn check(pair: &EchoPair, requests: usize) -> Result<(), TestCaseError> {
    prop_assert!(pair.waiting.is_empty());
    prop_assert_eq!(pair.outcomes.len(), requests);
    for (key, outcome) in &pair.outcomes {
        match outcome {
            Outcome::Failed(Failed::Cancelled) => prop_assert!(pair.cancelled.contains(key)),
            Outcome::Failed(reason) => prop_assert!(matches!(reason, Failed::TimedOut { .. }), "{}", reason),
            Outcome::Result(_) | Outcome::Error(_) => {}
        }
    }
    prop_assert_eq!(pair.server.requests_in_flight(), 0);
    prop_assert_eq!(pair.client.requests_in_flight(), 0);
    Ok(())
}

#[test]
fn a_relay_joins_every_client_to_every_server() {
    for client in SUPPORTED {
        for server in SUPPORTED {
            // Not every seed gives a result: some servers ask for input that a client of another revision cannot be
            // asked for.
            let answered = (0..40).flat_map(|seed| {
                let pair = converse_in(EchoPair::joined(seed, client, server), &[("hello".to_owned(), None)]);
                let newest = |supported: &[ProtocolVersion]| supported.iter().max().copied();
                assert_eq!(pair.client.version(), newest(client), "{:#?}", pair.trace);
                let asked = pair.asked;
                pair.outcomes.into_iter().map(move |(_, outcome)| (outcome, asked))
            });
            let answered: Vec<_> = answered.collect();
            let results = answered.iter().filter(|(outcome, _)| matches!(outcome, Outcome::Result(_)));
            let asked = results.clone().filter(|(_, asked)| *asked > 0);
            assert!(results.count() > 20 && asked.count() > 2, "{client:?} {server:?} {answered:#?}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn every_request_ends_exactly_once_and_with_its_own_answer(
        seed in any::<u64>(),
        requests in prop::collection::vec(("[a-zé\"\\\\]{0,30}", prop::option::of(0_u64..3)), 0..12),
    ) {
        check(&converse(seed, &requests), requests.len())?;
    }

    #[test]
    fn a_relay_between_any_two_changes_nothing_of_that(
        seed in any::<u64>(),
        client in 0_usize..3,
        server in 0_usize..3,
        requests in prop::collection::vec(("[a-zé\"\\\\]{0,30}", prop::option::of(0_u64..3)), 0..12),
    ) {
        check(&converse_in(EchoPair::joined(seed, SUPPORTED[client], SUPPORTED[server]), &requests), requests.len())?;
    }

    #[test]
    fn b22_the_same_seed_gives_the_same_run(seed in any::<u64>()) {
        let requests: Vec<_> = (0..6).map(|number| (format!("{number}"), Some(number % 4))).collect();
        prop_assert_eq!(converse(seed, &requests).trace, converse(seed, &requests).trace);
    }
}
