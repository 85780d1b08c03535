//! What drivers share besides their I/O, without a driver.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::time::Duration;

use mcp_application::{Authenticated, Connected, Error, IncomingRequest, prompt, tool_call};
use mcp_auth::SignInOutcome;
use mcp_intermediary::relay::{Action, Config, Event, Pinning, Pins};
use mcp_intermediary::{ObservedOutput, Observer, Relay, poll_observed};
use mcp_proto::auth::Credentials;
use mcp_proto::client::{DetectedBy, DetectedEra, Failure, Outcome};
use mcp_proto::server::{Principal, SessionMode};
use mcp_proto::{Era, Failed, Instant, Json, Method, ProtocolVersion, Stdio, StdioAction};
use mcp_testkit::http_client::{HttpClientHarness, Reply};
use mcp_testkit::http_exchange::TestRequest;
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, initialize, initialize_result, request, result};
use tests::gateway::id_of;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).expect("the test's text is JSON")
}

#[test]
fn what_was_found_out_about_a_sender_is_handed_on_whole() {
    #[derive(Debug, Clone, PartialEq)]
    struct Tenant(u32);

    for principal in [None, Some(Principal::new("ada"))] {
        let found = Authenticated::from(principal.clone()).with_extension(Tenant(6)).with_extension(Tenant(7));
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
fn pins_that_an_observer_does_not_store_are_those_of_the_relay_alone() {
    struct Storing(Option<Pins>);
    impl Observer for Storing {
        fn event(&mut self, _: &Event) {}

        fn store_pins(&mut self, pins: &Pins) -> Option<Pins> {
            assert_ne!(pins.to_text(), Pins::default().to_text(), "the tool is pinned");
            self.0.clone()
        }
    }

    fn pinned(observer: &mut impl Observer) -> Pins {
        let now = Instant::START;
        let mut config = Config::default();
        config.pinning = Some(Pinning::new(Pins::default()));
        let mut relay = Relay::new(Stdio::new(), config).expect("a configuration");
        let lines = [initialize("0", "2025-11-25"), INITIALIZED.to_owned(), request("1", "tools/list", "{}")];
        let tools = r#"{"tools":[{"name":"t","inputSchema":{"type":"object"}}]}"#;
        let mut stored = None;
        for line in lines {
            relay.handle_bytes(format!("{line}\n").as_bytes(), now);
            while let Some(output) = poll_observed(&mut relay, observer) {
                match output {
                    ObservedOutput::Action(Action::Server(StdioAction::Write(bytes))) => {
                        let line = String::from_utf8(bytes.to_vec()).expect("text");
                        if line.contains(r#""id":"#) {
                            let answer = if line.contains("initialize") {
                                initialize_result("2025-11-25")
                            } else {
                                tools.to_owned()
                            };
                            let answer = result(id_of(&line), &answer);
                            relay.handle_server_bytes(format!("{answer}\n").as_bytes(), now);
                        }
                    }
                    ObservedOutput::PinsStored(pins) => stored = Some(pins),
                    _ => {}
                }
            }
        }
        stored.expect("pins")
    }

    let own = pinned(&mut ());
    assert_ne!(own.to_text(), Pins::default().to_text(), "the pin of the relay is kept");
    assert_eq!(pinned(&mut Storing(None)).to_text(), own.to_text());
    // That of another process is passed on.
    assert_eq!(pinned(&mut Storing(Some(Pins::default()))).to_text(), Pins::default().to_text());
}

#[test]
fn the_outcome_of_a_sign_in_reaches_the_machine_that_waits_for_it() {
    let bearer = || Credentials::bearer("token", 1).expect("a token");
    for outcome in ["authorized", "refused", "none", "waiting"] {
        let mut harness = HttpClientHarness::connected_client_with(|_, http| http.managed_authorization = true);
        let (_, call) = harness.request("tools/call");
        harness.reply(call.key, &Reply::status(401).header("www-authenticate", "Bearer"));
        assert!(!harness.has_opened(), "it waits for authorization");
        let made = match outcome {
            "authorized" => SignInOutcome::Authorized(bearer()),
            "refused" => SignInOutcome::Refused("the person has declined".to_owned()),
            "none" => SignInOutcome::NoToken,
            _ => SignInOutcome::Waiting("https://as.example/authorize".to_owned()),
        };
        assert_eq!(made.ends_sign_in(), outcome != "waiting");
        made.pass_to(&mut harness.machine, harness.now);
        let is_sent_again = harness.has_opened();
        assert_eq!(is_sent_again, outcome == "authorized", "{outcome}");
        if is_sent_again {
            assert_eq!(harness.opened().header("authorization"), "Bearer token");
        }
        let ended: Vec<_> = harness.outcomes().into_values().collect();
        let is_refused = matches!(&ended[..], [Outcome::Failed(Failed::NotAuthorized { .. })]);
        assert_eq!(
            (is_refused, ended.is_empty()),
            (outcome == "refused", outcome != "refused"),
            "{outcome}: {ended:?}"
        );
    }
}

#[test]
fn a_relay_tells_its_client_where_a_person_must_sign_in_until_one_has() {
    for (outcome, is_shown) in [("waiting", true), ("none", false)] {
        let mut harness = HttpClientHarness::connected_relay_with(|config, _| {
            (config.request_timeout, config.max_timeout) = (Duration::from_secs(30), Duration::from_secs(30));
        });
        let url = "https://as.example/authorize";
        SignInOutcome::Waiting(url.to_owned()).pass_to(&mut harness.machine, harness.now);
        if outcome == "none" {
            SignInOutcome::NoToken.pass_to(&mut harness.machine, harness.now);
        }
        harness.call("1", "tools/call");
        harness.pass(Duration::from_secs(30));
        let lines = harness.lines();
        let text = format!("; a person must sign in first: open {url}\"");
        assert!(lines.len() == 1 && lines[0].contains("-32603"), "{lines:?}");
        assert_eq!(lines[0].contains(&text), is_shown, "{outcome}: {lines:?}");
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

#[test]
fn each_kind_of_error_of_a_connection_has_words() {
    use ErrorKind as E;
    let words_of =
        |error: &io::Error| [Failure::connecting(error), Failure::exchanging(error)].map(|failure| detail(&failure));
    for (kind, words) in [
        (E::ConnectionRefused, "nothing listens there (connection refused)"),
        (E::ConnectionReset, "it reset the connection"),
        (E::ConnectionAborted, "it closed the connection"),
        (E::BrokenPipe, "it closed the connection"),
        (E::UnexpectedEof, "it closed the connection"),
        (E::HostUnreachable, "there is no route to it"),
        (E::NetworkUnreachable, "there is no route to it"),
        (E::NetworkDown, "there is no route to it"),
        (E::TimedOut, "it was silent for too long"),
        (E::WouldBlock, "it was silent for too long"),
    ] {
        assert_eq!(words_of(&io::Error::new(kind, "the words of the system")), [words; 2], "{kind:?}");
    }
    assert_eq!(words_of(&io::Error::other("something else")), ["something else"; 2]);
    let unknown = io::Error::other("failed to lookup address information: Name or service not known");
    assert_eq!(words_of(&unknown), [detail(&Failure::unknown_host()), detail(&Failure::unknown_host())]);
}

fn detail(failure: &Failure) -> String {
    match failure {
        Failure::Unreachable { detail }
        | Failure::Hopeless { detail }
        | Failure::Broken { detail }
        | Failure::Closed { detail } => detail.to_string(),
        failure => panic!("{failure:?} is new"),
    }
}
