//! What a gateway reports of its processes: each event once, however many clients share the process.

use mcp_intermediary::gateway::{BackendKey, Event, Sharing};
use mcp_intermediary::relay;
use mcp_proto::client::CloseReason;
use mcp_proto::{Method, ProcessEnd, Quirk, UsageError};
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::messages::{INITIALIZED, request, result};
use tests::gateway::{GatewayHarness, id_of};

const SHARINGS: [Sharing; 3] = [Sharing::PerSession, Sharing::PerPrincipal, Sharing::Shared];

/// A gateway, a process that it has started for a session, and the session's id.
fn opened(sharing: Sharing) -> (GatewayHarness, BackendKey, String) {
    let mut gateway = GatewayHarness::with(|config| config.sharing = sharing);
    let (id, process) = gateway.session_of("2025-11-25", Some("ada"));
    gateway.events();
    (gateway, process, id)
}

/// What was reported of a process since the last call.
fn reported(gateway: &mut GatewayHarness, of: BackendKey) -> Vec<relay::Event> {
    let events = gateway.events().into_iter();
    events
        .filter_map(
            |event| if let Event::Backend { backend, event } = event { (backend == of).then_some(event) } else { None },
        )
        .collect()
}

#[test]
fn a_quirk_of_a_process_is_reported_once_in_every_mode_of_sharing() {
    for sharing in SHARINGS {
        let (mut gateway, process, id) = opened(sharing);
        for call in ["7", "8"] {
            let exchange = gateway
                .ask(&TestRequest::post(request(call, "tools/call", r#"{"name":"t"}"#)).in_session(&id).by("ada"));
            let line = gateway.lines(process).concat();
            gateway.reply(process, &result(id_of(&line), r#"{"text":"no content here"}"#));
            assert!(gateway.responses.take(exchange).text().contains("no content here"));
            let events = reported(&mut gateway, process);
            let expected = vec![relay::Event::QuirkObserved(Quirk::ToolResultWithoutContent); usize::from(call == "7")];
            assert_eq!(events, expected, "{sharing:?} {call}");
        }
    }
}

#[test]
fn the_end_of_a_process_is_reported_once_in_every_mode_of_sharing() {
    for sharing in SHARINGS {
        for end in [None, Some(ProcessEnd::Code(3))] {
            let (mut gateway, process, _) = opened(sharing);
            match end {
                None => gateway.exit(process),
                Some(end) => gateway.end_process(process, end),
            }
            let events = reported(&mut gateway, process);
            let closed = events
                .iter()
                .filter_map(|event| if let relay::Event::Closed(reason) = event { Some(*reason) } else { None });
            let expected = end.map_or(CloseReason::Peer, CloseReason::ProcessEnded);
            assert_eq!(closed.collect::<Vec<_>>(), [expected], "{sharing:?} {events:?}");
        }
    }
}

#[test]
fn a_process_that_cannot_be_told_that_its_session_is_confirmed_is_reported() {
    for sharing in [Sharing::PerPrincipal, Sharing::Shared] {
        let mut gateway = GatewayHarness::with(|config| config.sharing = sharing);
        gateway.ask(&TestRequest::post(initialize("2025-11-25")).by("ada"));
        let process = gateway.last_started();
        let line = gateway.lines(process).concat();
        let opened = result(id_of(&line), r#"{"protocolVersion":"2025-11-25","capabilities":{}}"#);
        // It writes more at once than is queued, so that its connection is ended before the session is confirmed.
        let notification = "{\"jsonrpc\":\"2.0\",\"method\":\"x/y\",\"params\":{}}\n";
        gateway.write(process, format!("{opened}\n{}", notification.repeat(20_000)).as_bytes());
        assert!(!gateway.lines(process).contains(&INITIALIZED.to_owned()), "{sharing:?}");
        let events = reported(&mut gateway, process);
        let error = UsageError::Closed;
        let expected = [
            relay::Event::NotPassed { method: Method::INITIALIZED, error },
            relay::Event::Closed(CloseReason::Overflow),
        ];
        for expected in expected {
            let count = events.iter().filter(|event| **event == expected).count();
            assert_eq!(count, 1, "{sharing:?} {expected:?} in {events:?}");
        }
    }
}
