//! Machines that are driven through the traits of `mcp_proto::machine`, as drivers do, behave as by their own methods.

use std::time::Duration;

use mcp_intermediary::aggregate::{Action as OfAggregate, Event as AggregateEvent};
use mcp_intermediary::gateway::{Action, Event, Gateway};
use mcp_proto::machine::{Deadlines, HandleBytes, HandleRequests, Machine};
use mcp_proto::server::{HttpAction, RequestInfo};
use mcp_proto::{Instant, Limits, Output, ProcessEnd, ProtocolVersion, StartFailure, StdioAction};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::http_server::nonce;
use proptest::prelude::*;
use tests::aggregate::{AggregateHarness, Offer};
use tests::gateway::GatewayHarness;

const LEGACY: &[ProtocolVersion] = &[ProtocolVersion::V2025_11_25];

/// A log message of this length, as a line.
fn log(length: usize) -> String {
    let data = "d".repeat(length);
    format!(
        "{{\"jsonrpc\":\"2.0\",\"method\":\"notifications/message\",\"params\":{{\"level\":\"error\",\"data\":\"{data}\"}}}}\n"
    )
}

#[test]
fn a_server_of_an_aggregate_is_not_read_while_the_client_is_not() {
    let servers = [("a", Offer::new(LEGACY, &["x"])), ("b", Offer::new(LEGACY, &["x"]))];
    let mut harness = AggregateHarness::with(LEGACY, &servers, |config| {
        (config.relay.limits.message, config.relay.limits.unwritten) = (4096, 4096);
    });
    let (server, now) = (harness.server_key(0), harness.now);
    let aggregate = &mut harness.aggregate;
    assert!(HandleBytes::wants_bytes(aggregate, server));
    HandleBytes::handle_bytes(aggregate, server, log(1000).repeat(10).as_bytes(), now);
    let mut unwritten = 0;
    while let Some(output) = Machine::poll_output(aggregate) {
        let Output::Action(OfAggregate::Client(StdioAction::Write(bytes))) = output else { panic!("{output:?}") };
        unwritten += bytes.len();
    }
    assert!(unwritten > 0 && !HandleBytes::wants_bytes(aggregate, server));
    aggregate.handle_written(unwritten, now);
    assert!(HandleBytes::wants_bytes(aggregate, server));
}

#[test]
fn the_end_of_each_process_reaches_its_machine() {
    for end in ["eof", "process end", "not started"] {
        let servers = [("a", Offer::new(LEGACY, &["x"])), ("b", Offer::new(LEGACY, &["x"]))];
        let mut harness = AggregateHarness::new(LEGACY, &servers);
        let (server, now) = (harness.server_key(0), harness.now);
        match end {
            "eof" => HandleBytes::handle_eof(&mut harness.aggregate, server, now),
            "process end" => HandleBytes::handle_process_end(&mut harness.aggregate, server, ProcessEnd::Code(1), now),
            _ => HandleBytes::handle_not_started(&mut harness.aggregate, server, StartFailure::NotFound, now),
        }
        let failed = std::iter::from_fn(|| Machine::poll_output(&mut harness.aggregate)).filter(|output| {
            matches!(output, Output::Event(AggregateEvent::ServerFailed { server: failed, .. }) if *failed == server)
        });
        assert_eq!(failed.count(), 1, "{end}");

        let mut harness = GatewayHarness::new();
        let opening = harness.ask(&TestRequest::post(initialize("2025-11-25")));
        let (process, now) = (harness.last_started(), harness.now);
        match end {
            "eof" => HandleBytes::handle_eof(&mut harness.gateway, process, now),
            "process end" => HandleBytes::handle_process_end(&mut harness.gateway, process, ProcessEnd::Code(1), now),
            _ => HandleBytes::handle_not_started(&mut harness.gateway, process, StartFailure::NotFound, now),
        }
        harness.settle();
        let refused = harness.responses.take(opening);
        assert!(refused.is_over && refused.text().contains(r#""error""#), "{end}: {}", refused.text());
    }
}

/// The outputs of a gateway that is driven through traits alone.
fn outputs(gateway: &mut Gateway) -> Vec<Output<Action, Event>> {
    std::iter::from_fn(|| Machine::poll_output(gateway)).collect()
}

/// A gateway, and one request, which it has received in full.
fn asked(limits: impl FnOnce(&mut Limits), asked: &TestRequest) -> (Gateway, mcp_proto::server::ExchangeKey) {
    let mut config = mcp_intermediary::gateway::Config::default();
    limits(&mut config.relay.limits);
    let mut gateway = Gateway::new(config).expect("a configuration");
    let exchange = ask(&mut gateway, asked);
    (gateway, exchange)
}

fn ask(machine: &mut impl HandleRequests, asked: &TestRequest) -> mcp_proto::server::ExchangeKey {
    let exchange = machine.handle_request(asked.head(), RequestInfo::new(nonce(1)), Instant::START);
    machine.handle_body(exchange, &asked.body, Instant::START);
    machine.handle_end(exchange, Instant::START);
    exchange
}

#[test]
fn a_gateway_probes_whether_a_client_that_has_ended_its_sending_side_still_reads() {
    let now = Instant::START;
    let (mut gateway, exchange) = asked(|_| {}, &TestRequest::post(initialize("2025-11-25")));
    outputs(&mut gateway);
    HandleRequests::handle_half_close(&mut gateway, exchange, now);
    let probed = outputs(&mut gateway);
    let is_probe = |output: &Output<Action, Event>| matches!(output, Output::Action(Action::Client(HttpAction::Continue { exchange: of })) if *of == exchange);
    assert!(matches!(&probed[..], [output] if is_probe(output)), "once: {probed:?}");
    // And again, while there is no response.
    let due = Machine::poll_timeout(&gateway).expect("a timer");
    assert!(due > now && due <= now + Duration::from_secs(60));
    Machine::handle_timeout(&mut gateway, due);
    let probed = outputs(&mut gateway);
    assert!(matches!(&probed[..], [output] if is_probe(output)), "once: {probed:?}");
}

#[test]
fn a_process_that_reads_again_is_sent_what_waits() {
    let now = Instant::START;
    let (mut gateway, _) =
        asked(|limits| (limits.message, limits.unwritten) = (4096, 1), &TestRequest::post(initialize("2025-11-25")));
    let mut process = None;
    let mut written = 0;
    for output in outputs(&mut gateway) {
        if let Output::Action(Action::Backend { backend, action: StdioAction::Write(bytes) }) = output {
            process = Some(backend);
            written += bytes.len();
        }
    }
    let process = process.expect("a process");
    let unwritten = |gateway: &Gateway| gateway.load().unwritten;
    assert_eq!(unwritten(&gateway), written);
    HandleBytes::handle_written(&mut gateway, process, written, now);
    assert_eq!(unwritten(&gateway), 0);
    assert!(HandleBytes::wants_bytes(&gateway, process));
}

proptest! {
    #[test]
    fn timers_are_those_of_a_plain_table(steps in prop::collection::vec((0..4_u8, 0..6_u8, 0..20_u64), 0..200)) {
        let at = |seconds| Instant::START + Duration::from_secs(seconds);
        let mut timers = Deadlines::new();
        let mut table: Vec<(Instant, u8)> = Vec::new();
        for (what, key, seconds) in steps {
            match what {
                0 | 1 => {
                    timers.set(key, at(seconds));
                    table.retain(|(_, other)| *other != key);
                    table.push((at(seconds), key));
                }
                2 => {
                    timers.clear(key);
                    table.retain(|(_, other)| *other != key);
                }
                _ => {
                    let due = table.iter().copied().filter(|(time, _)| *time <= at(seconds)).min();
                    prop_assert_eq!(timers.pop_due(at(seconds)), due.map(|(_, key)| key));
                    table.retain(|timer| Some(*timer) != due);
                }
            }
            prop_assert_eq!(timers.next(), table.iter().map(|(time, _)| *time).min());
            prop_assert_eq!(timers.len(), table.len());
            let found = table.iter().find(|(_, other)| *other == key).map(|(time, _)| *time);
            prop_assert_eq!(timers.get(key), found);
            prop_assert_eq!(timers.is_set(key), found.is_some());
        }
    }
}
