//! What the APIs of both drivers share: requests and their senders, the states of servers, and arguments of calls.

use std::collections::BTreeMap;

use mcp_application::{Authenticated, Connected, Error, IncomingRequest, prompt, tool_call};
use mcp_proto::client::{DetectedBy, DetectedEra};
use mcp_proto::server::{Principal, SessionMode};
use mcp_proto::{Era, Json, Method, ProtocolVersion};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::request;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

#[test]
fn what_was_found_out_about_a_sender_is_handed_on_whole() {
    #[derive(Debug, Clone, PartialEq)]
    struct Tenant(u32);

    for principal in [None, Some(Principal::new("ada"))] {
        let found = Authenticated::from(principal.clone()).extension(Tenant(6)).extension(Tenant(7));
        let (own, extensions) = found.into_parts();
        assert_eq!((own, extensions.get(), extensions.len()), (principal, Some(&Tenant(7)), 1));
    }
    let (principal, extensions) = Authenticated::new().into_parts();
    assert!(principal.is_none() && extensions.is_empty());
}

#[test]
fn what_a_server_states_about_itself_is_read_in_both_eras() {
    let read = |result: &str| {
        let connected = Connected {
            version: ProtocolVersion::LATEST,
            result: json(result),
            transport: None,
            detected_era: DetectedEra { era: Era::Modern, by: DetectedBy::Discovered },
        };
        let has_tools = connected.server_capabilities().map(|all| all.tools.is_some());
        (has_tools, connected.server_info().map(|info| info.name), connected.instructions())
    };
    let some = |text: &str| Some(text.to_owned());
    for (result, expected) in [
        (
            r#"{"capabilities":{"tools":{}},"serverInfo":{"name":"s","version":"1"},"instructions":"i"}"#,
            (Some(true), some("s"), some("i")),
        ),
        (
            r#"{"capabilities":{},"_meta":{"io.modelcontextprotocol/serverInfo":{"name":"m","version":"1"}}}"#,
            (Some(false), some("m"), None),
        ),
        (r#"{"capabilities":7,"serverInfo":7,"instructions":7}"#, (None, None, None)),
        ("{}", (None, None, None)),
    ] {
        assert_eq!(read(result), expected, "{result}");
    }
}

#[test]
fn a_request_names_its_session_if_it_has_one() {
    for has_session in [true, false] {
        let mut harness = HttpServerHarness::with(|http, _| {
            if !has_session {
                http.sessions = SessionMode::None;
            }
        });
        let asked = TestRequest::post(request("1", "tools/list", "{}"));
        let (asked, expected) = if has_session {
            let id = harness.session("2025-11-25");
            (asked.in_session(&id), Some(harness.last_session()))
        } else {
            (asked.with("mcp-protocol-version", "2025-11-25"), None)
        };
        harness.ask(&asked);
        let ticket = harness.ticket();
        let unix_time = || 7;
        let incoming =
            IncomingRequest::new(&harness.server, &ticket, Method::TOOLS_LIST, None, unix_time).expect("it is open");
        assert_eq!((incoming.session(), incoming.ticket(), incoming.unix_time()), (expected, ticket.key(), 7));
        assert_eq!(incoming.version(), ProtocolVersion::V2025_11_25);
    }
}

#[test]
fn arguments_without_a_json_form_are_an_error_of_each_call() {
    // A name must be a string.
    let unwritable = BTreeMap::from([((1, 2), "x")]);
    assert!(matches!(prompt("p", &unwritable), Err(Error::Arguments(_))));
    assert!(matches!(tool_call("t", &unwritable), Err(Error::Arguments(_))));
    for arguments in [json("[1]"), json("7")] {
        assert!(matches!(prompt("p", &arguments), Err(Error::Arguments(_))), "{arguments:?}");
        assert!(matches!(tool_call("t", &arguments), Err(Error::Arguments(_))), "{arguments:?}");
    }
    assert!(matches!(prompt("p", json(r#"{"a":7}"#)), Err(Error::Arguments(_))), "those of a prompt are strings");
    let with = prompt("p", BTreeMap::from([("a", "b")])).expect("arguments");
    assert_eq!(with.arguments.map(|all| all.get("a").cloned()), Some(Some("b".to_owned())));
    assert!(prompt("p", ()).expect("no arguments").arguments.is_none());
}
