//! Messages that wait until the client is authorized (OA-T, OA-U, OA-S, OA-X).

use std::time::Duration;

use mcp_auth::SignInOutcome;
use mcp_intermediary::relay;
use mcp_proto::auth::{Challenged, Credentials, ProofKey};
use mcp_proto::client::{Call, Client, Config, Event, Http, HttpConfig, HttpTransport, Outcome, Unavailable};
use mcp_proto::machine::HandleAuthorization;
use mcp_proto::{Failed, Fault, Method, Notification};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, broken, initialize_reply};
use mcp_testkit::messages::{DISCOVERED, INITIALIZED, complete, event, initialize, initialize_result, request, result};

type Harness = HttpClientHarness<Client<Http>>;

const METADATA: &str = "https://server.example/.well-known/oauth-protected-resource";

const MINUTE: Duration = Duration::from_secs(60);

/// The default of `HttpConfig::authorization_timeout`.
const PATIENCE: Duration = Duration::from_secs(360);

fn unauthorized() -> Reply {
    Reply::status(401).header("www-authenticate", &format!(r#"Bearer resource_metadata="{METADATA}""#))
}

fn insufficient_scope() -> Reply {
    Reply::status(403).header("www-authenticate", r#"Bearer error="insufficient_scope", scope="write""#)
}

fn bearer(generation: u64) -> Credentials {
    Credentials::bearer(&format!("token-{generation}"), generation).expect("a token")
}

/// Messages wait for authorization, and calls wait long enough for that.
fn managed(config: &mut Config, http: &mut HttpConfig) {
    http.managed_authorization = true;
    (config.request_timeout, config.max_timeout) = (20 * MINUTE, 20 * MINUTE);
}

fn authorize(harness: &mut Harness, generation: u64) {
    harness.machine.authorize(bearer(generation), harness.now);
    harness.drain();
}

fn refuse(harness: &mut Harness, reason: &str) {
    harness.machine.refuse_authorization(reason, harness.now);
    harness.drain();
}

/// The challenges among the events since the last call, and the other events.
fn challenges(harness: &mut Harness) -> (Vec<Challenged>, Vec<Event>) {
    let (mut found, mut others) = (Vec::new(), Vec::new());
    for event in harness.events() {
        match event {
            Event::Challenged(challenged) => found.push(challenged),
            other => others.push(other),
        }
    }
    (found, others)
}

/// The only challenge since the last call, if there was no other event.
fn challenge(harness: &mut Harness) -> Challenged {
    let (mut found, others) = challenges(harness);
    assert!(found.len() == 1 && others.is_empty(), "{found:?} {others:?}");
    found.remove(0)
}

/// Everything that was opened since the last call.
fn all_opened(harness: &mut Harness) -> Vec<Opened> {
    std::iter::from_fn(|| harness.has_opened().then(|| harness.opened())).collect()
}

fn is_not_authorized(failed: &Failed, status: u16, reason: &str) -> bool {
    matches!(failed, Failed::NotAuthorized { refusal, reason: found }
        if refusal.status == status && found.contains(reason))
}

/// Connected clients of both eras, with credentials of the first generation.
fn connected() -> [(&'static str, Harness); 2] {
    let mut clients = [
        ("2025-11-25", HttpClientHarness::connected_client_with(managed)),
        ("2026-07-28", HttpClientHarness::modern_client_with(managed)),
    ];
    for (_, harness) in &mut clients {
        authorize(harness, 1);
    }
    clients
}

#[test]
fn oa_t_02_the_handshake_waits_for_authorization_and_has_its_usual_time_again_after_it() {
    for (method, mut harness) in [
        ("initialize", HttpClientHarness::client_with(managed)),
        ("server/discover", HttpClientHarness::detecting_client_with(managed)),
    ] {
        let opened = harness.opened();
        assert_eq!((opened.method().as_str(), opened.header("authorization")), (method, ""));
        // The body never ends.
        harness.begin(opened.key, &unauthorized().content_type("application/json").body("{"));
        let challenged = challenge(&mut harness);
        assert_eq!((challenged.status.as_u16(), challenged.sent_with), (401, None));
        assert_eq!(challenged.challenges[0].resource_metadata(), Some(METADATA));
        harness.pass(PATIENCE.checked_sub(Duration::from_secs(1)).expect("it is longer"));
        assert!(harness.events().is_empty() && !harness.has_opened(), "{method}: no person has signed in yet");
        authorize(&mut harness, 7);
        let again = harness.opened();
        assert_eq!((again.line(), again.body()), (opened.line(), opened.body()), "OA-T-03: the same id");
        assert_eq!(again.header("authorization"), "Bearer token-7");
        harness.pass(Duration::from_secs(29));
        assert!(harness.events().is_empty());
        harness.pass(Duration::from_secs(1));
        let reason = Unavailable::Failed(Failed::TimedOut { after: Duration::from_secs(30) });
        assert!(matches!(&harness.events()[..], [Event::Unavailable { reason: found, .. }] if *found == reason));
    }
}

#[test]
fn a_handshake_that_waits_in_vain_fails_with_what_to_do() {
    let clients: [fn() -> Harness; 3] = [
        || HttpClientHarness::client_with(managed),
        || HttpClientHarness::detecting_client_with(managed),
        // Its own limits on the handshake do not shorten the wait.
        || {
            HttpClientHarness::client_with(|config, http| {
                managed(config, http);
                (config.initialize_timeout, config.max_timeout) = (Duration::from_secs(5), Duration::from_secs(5));
            })
        },
    ];
    for client in clients {
        for is_refused in [false, true] {
            let mut harness = client();
            let opened = harness.opened();
            harness.reply(opened.key, &unauthorized());
            challenge(&mut harness);
            let reason = if is_refused {
                refuse(&mut harness, "open https://as.example/authorize to sign in");
                "https://as.example/authorize"
            } else {
                harness.pass(PATIENCE);
                "no sign-in was completed within 360s"
            };
            let events = harness.events();
            let [Event::Unavailable { reason: Unavailable::Failed(failed), retry_in: None }] = &events[..] else {
                panic!("{events:?}")
            };
            assert!(is_not_authorized(failed, 401, reason), "{failed}");
            assert!(failed.describe("it").contains(reason));
            assert!(!harness.has_opened(), "no person is asked again without a request");
            authorize(&mut harness, 1);
            assert!(!harness.has_opened(), "what failed is not sent again");
            harness.machine.request(Call::new("tools/list"), harness.now).expect("a request");
            let next = harness.opened();
            assert_eq!((next.method(), next.header("authorization")), (opened.method(), "Bearer token-1"));
        }
    }
}

#[test]
fn a_resent_handshake_has_its_time_also_if_that_is_the_longest_allowed() {
    let mut harness = HttpClientHarness::client_with(|config, http| {
        managed(config, http);
        config.max_timeout = config.initialize_timeout;
    });
    let opened = harness.opened();
    harness.reply(opened.key, &unauthorized());
    harness.pass(5 * MINUTE);
    authorize(&mut harness, 1);
    let again = harness.opened();
    harness.pass(Duration::from_secs(29));
    harness.reply(again.key, &initialize_reply(&again, "2025-11-25", None));
    let (_, events) = challenges(&mut harness);
    assert!(matches!(&events[..], [Event::Connected { .. }]), "{events:?}");
}

#[test]
fn oa_t_05_messages_that_meet_one_challenge_wait_for_one_authorization_and_keep_their_order() {
    for (version, mut harness) in connected() {
        let calls = ["a", "b", "c", "d"].map(|method| harness.request(method).1);
        for call in [&calls[2], &calls[0]] {
            assert_eq!(call.header("authorization"), "Bearer token-1", "{version}");
            harness.reply(call.key, &unauthorized());
        }
        assert_eq!(challenge(&mut harness).sent_with, Some(1));
        // New messages would only meet the same challenge.
        harness.machine.request(Call::new("e"), harness.now).expect("a request");
        assert!(!harness.has_opened());
        harness.reply(calls[1].key, &unauthorized());
        let load = harness.machine.load();
        assert_eq!(load.waiting, 4, "{version}");
        assert!(harness.machine.backlog().bytes > calls[0].body().len() * 4);
        authorize(&mut harness, 2);
        let again = all_opened(&mut harness);
        let methods: Vec<_> = again.iter().map(Opened::method).collect();
        assert_eq!(methods, ["a", "b", "c", "e"], "{version}");
        for (again, call) in again.iter().zip(&calls[..3]) {
            assert_eq!((again.body(), again.header("mcp-method")), (call.body(), call.header("mcp-method")));
            assert_eq!(again.header("authorization"), "Bearer token-2");
        }
        // A challenge to the earlier token says nothing about the current one.
        harness.reply(calls[3].key, &unauthorized());
        let again = harness.opened();
        assert_eq!((again.body(), again.header("authorization")), (calls[3].body(), "Bearer token-2"));
        assert!(harness.events().is_empty() && harness.machine.load().waiting == 0);
        harness.reply(again.key, &Reply::json(complete(&again.id())));
        assert!(matches!(harness.outcome(), Outcome::Result(_)));
    }
}

#[test]
fn oa_t_02_and_07_only_challenges_that_credentials_can_answer_are_waited_for() {
    let challenge = |status, challenge: &str| Reply::status(status).header("www-authenticate", challenge);
    let scope = r#"error="insufficient_scope""#;
    for (reply, waits) in [
        (Reply::status(401), true),
        (challenge(401, "Basic realm=x"), true),
        (unauthorized().content_type("application/json").body(r#"{"error":"invalid_token"}"#), true),
        (insufficient_scope(), true),
        (challenge(403, &format!("Basic realm=x, Bearer {scope}")), true),
        (challenge(403, &format!("DPoP {scope}")), true),
        (challenge(403, "Bearer error=invalid_token"), false),
        (challenge(403, &format!("Basic {scope}")), false),
        (Reply::status(403), false),
        (challenge(400, &format!("Bearer {scope}")), false),
        (challenge(405, "Bearer"), false),
        (challenge(407, "Bearer"), false),
        (challenge(429, "Bearer"), false),
        (challenge(503, "Bearer"), false),
    ] {
        for (version, mut harness) in connected() {
            let (_, opened) = harness.request("tools/call");
            harness.reply(opened.key, &reply);
            let (challenges, events) = challenges(&mut harness);
            assert_eq!((challenges.len(), events.is_empty()), (usize::from(waits), waits), "{version} {reply:?}");
            let refused =
                |event: &Event| matches!(event, Event::Responded { outcome: Outcome::Failed(Failed::Refused(_)), .. });
            assert!(waits || events.iter().all(refused), "{version} {events:?}");
        }
    }
}

#[test]
fn oa_t_06_nothing_waits_if_the_application_has_its_own_header_or_does_not_want_it() {
    let own = |_: &mut Config, http: &mut HttpConfig| {
        http.managed_authorization = true;
        http.header("authorization", "Bearer mine").expect("a header");
    };
    for (mut harness, sent) in [
        (HttpClientHarness::connected_client_with(own), "Bearer mine"),
        (HttpClientHarness::connected_client(), "Bearer token-1"),
    ] {
        authorize(&mut harness, 1);
        for reply in [unauthorized(), insufficient_scope()] {
            let (_, opened) = harness.request("tools/call");
            assert_eq!(opened.header("authorization"), sent);
            assert_eq!(opened.request.headers().get_all("authorization").iter().count(), 1);
            harness.reply(opened.key, &reply);
            assert!(matches!(harness.outcome(), Outcome::Failed(Failed::Refused(_))));
        }
        authorize(&mut harness, 2);
        refuse(&mut harness, "no");
        assert!(harness.events().is_empty() && !harness.has_opened());
    }
}

#[test]
fn au19_oa_t_04_a_message_is_sent_again_once_for_credentials_and_twice_for_scopes() {
    let replies = |name: char| if name == 'c' { unauthorized() } else { insufficient_scope() };
    for (order, resent) in [("cc", 1), ("sss", 2), ("scss", 3), ("cssc", 3)] {
        for (version, mut harness) in connected() {
            let (_, mut opened) = harness.request("tools/call");
            for (at, name) in order.chars().enumerate() {
                harness.reply(opened.key, &replies(name));
                if at == resent {
                    break;
                }
                challenge(&mut harness);
                authorize(&mut harness, 2 + at as u64);
                opened = harness.opened();
            }
            let (found, events) = challenges(&mut harness);
            assert!(found.is_empty() && !harness.has_opened(), "{version} {order}");
            let refused =
                |event: &Event| matches!(event, Event::Responded { outcome: Outcome::Failed(Failed::Refused(_)), .. });
            assert!(matches!(&events[..], [event] if refused(event)), "{version} {order} {events:?}");
        }
    }
}

#[test]
fn au24_oa_u_01_every_request_to_the_server_carries_the_token_and_its_value_is_sensitive() {
    let mut harness = HttpClientHarness::client_with(managed);
    let opened = harness.opened();
    authorize(&mut harness, 1);
    assert!(harness.events().is_empty(), "credentials may be given at any time");
    // A challenge to the request that had none yet is answered by sending it again.
    harness.reply(opened.key, &unauthorized());
    let opened = harness.opened();
    let redirect = Reply::status(307).header("location", "/elsewhere");
    harness.reply(opened.key, &redirect);
    let redirected = harness.opened();
    assert_eq!((opened.line(), redirected.line()), ("POST /mcp".to_owned(), "POST /elsewhere".to_owned()));
    harness.reply(redirected.key, &initialize_reply(&redirected, "2025-11-25", Some("session-1")));
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &Reply::status(202));
    let get = harness.opened();
    harness.begin(get.key, &Reply::events(": open\n\n"));
    let (_, call) = harness.request("tools/list");
    harness.machine.close(harness.now);
    let delete = harness.opened();
    assert_eq!((get.line(), delete.line()), ("GET /mcp".to_owned(), "DELETE /mcp".to_owned()));
    for opened in [&opened, &redirected, &confirmation, &get, &call, &delete] {
        let value = opened.request.headers().get("authorization").expect("a header");
        assert!(value == "Bearer token-1" && value.is_sensitive(), "{}", opened.line());
    }
    // Another origin gets nothing.
    let mut harness = HttpClientHarness::client_with(managed);
    authorize(&mut harness, 1);
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(307).header("location", "https://other.example/mcp"));
    assert!(!harness.has_opened());
}

/// A client with a session, whose GET stream the server has not answered.
fn with_get_stream() -> (Harness, Opened) {
    let mut harness = HttpClientHarness::client_with(managed);
    authorize(&mut harness, 1);
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
    let get = harness.opened();
    assert_eq!(get.line(), "GET /mcp");
    harness.events();
    (harness, get)
}

#[test]
fn the_stream_of_the_server_is_opened_again_after_authorization() {
    let (mut harness, get) = with_get_stream();
    harness.reply(get.key, &unauthorized());
    challenge(&mut harness);
    let sent = harness.machine.request(Call::new("tools/list"), harness.now).expect("a request");
    assert!(!harness.has_opened());
    authorize(&mut harness, 2);
    let [again, call] = &all_opened(&mut harness)[..] else { panic!("two exchanges") };
    assert_eq!((again.line().as_str(), again.header("authorization")), ("GET /mcp", "Bearer token-2"));
    assert_eq!(call.method(), "tools/list");
    harness.reply(call.key, &Reply::json(complete(&call.id())));
    assert!(harness.outcomes().contains_key(&sent));
    // A challenge to an earlier token, and the limit.
    harness.begin(again.key, &Reply::events(": open\n\n"));
    harness.end(again.key);
    harness.pass(MINUTE);
    let get = harness.opened();
    harness.reply(get.key, &unauthorized());
    challenge(&mut harness);
    authorize(&mut harness, 3);
    let get = harness.opened();
    authorize(&mut harness, 4);
    harness.reply(get.key, &unauthorized());
    let get = harness.opened();
    assert_eq!(get.header("authorization"), "Bearer token-4");
    harness.reply(get.key, &unauthorized());
    let events = harness.events();
    assert!(
        matches!(&events[..], [Event::Faulted(Fault::NoServerStream { reason: Failed::Refused(_) })]),
        "{events:?}"
    );
    // Without authorization, there is no stream.
    let (mut harness, get) = with_get_stream();
    harness.reply(get.key, &unauthorized());
    challenge(&mut harness);
    refuse(&mut harness, "no");
    let events = harness.events();
    assert!(
        matches!(&events[..], [Event::Faulted(Fault::NoServerStream { reason })] if is_not_authorized(reason, 401, "no")),
        "{events:?}"
    );
    authorize(&mut harness, 2);
    assert!(!harness.has_opened());
}

/// A client with a call whose stream broke after an event with the id `7`, and the exchange that resumes it.
fn resuming() -> (Harness, Opened) {
    let mut harness = HttpClientHarness::connected_client_with(managed);
    authorize(&mut harness, 1);
    let (_, call) = harness.request("tools/call");
    harness.begin(call.key, &Reply::events("id: 7\ndata:\n\n"));
    harness.fail(call.key, broken());
    harness.pass(Duration::from_secs(3));
    let resumed = harness.opened();
    assert_eq!((resumed.line().as_str(), resumed.header("last-event-id")), ("GET /mcp", "7"));
    (harness, resumed)
}

#[test]
fn the_stream_of_a_request_is_resumed_after_authorization() {
    let (mut harness, resumed) = resuming();
    harness.reply(resumed.key, &unauthorized());
    challenge(&mut harness);
    assert_eq!(harness.machine.load().waiting, 1);
    authorize(&mut harness, 2);
    let again = harness.opened();
    assert_eq!((again.header("last-event-id"), again.header("authorization")), ("7", "Bearer token-2"));
    // The next challenge to it is final.
    harness.reply(again.key, &unauthorized());
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::StreamEnded)));
    // The answer comes on the stream that was opened again; a stream that breaks meanwhile waits, too.
    let (mut harness, resumed) = resuming();
    let (_, other) = harness.request("other");
    harness.begin(other.key, &Reply::events("id: 8\ndata:\n\n"));
    harness.reply(resumed.key, &unauthorized());
    harness.fail(other.key, broken());
    harness.pass(Duration::from_secs(5));
    assert!(!harness.has_opened() && harness.machine.load().waiting == 2);
    authorize(&mut harness, 2);
    let [first, second] = &all_opened(&mut harness)[..] else { panic!("two streams") };
    assert_eq!((first.header("last-event-id"), second.header("last-event-id")), ("7", "8"));
    harness.begin(first.key, &Reply::events(event(&complete("2"))));
    harness.begin(second.key, &Reply::events(event(&complete("3"))));
    assert_eq!(harness.outcomes().values().filter(|outcome| matches!(outcome, Outcome::Result(_))).count(), 2);
    // It fails if no person signs in, or if that is refused.
    for is_refused in [false, true] {
        let (mut harness, resumed) = resuming();
        harness.reply(resumed.key, &unauthorized());
        challenge(&mut harness);
        let reason = if is_refused { "refused" } else { "no sign-in was completed" };
        if is_refused {
            refuse(&mut harness, reason);
        } else {
            harness.pass(PATIENCE);
        }
        let Outcome::Failed(failed) = harness.outcome() else { panic!("it failed") };
        assert!(is_not_authorized(&failed, 401, reason), "{failed}");
    }
}

/// A client of a two-endpoint server, and the stream that it opens.
fn two_endpoints() -> (Harness, Opened) {
    let mut harness = HttpClientHarness::client_with(|config, http| {
        managed(config, http);
        http.transport = HttpTransport::HttpSse;
    });
    let stream = harness.opened();
    (harness, stream)
}

const ENDPOINT: &str = "event: endpoint\ndata: /messages\n\n";

#[test]
fn both_endpoints_of_2024_11_05_wait_for_authorization() {
    let (mut harness, stream) = two_endpoints();
    harness.reply(stream.key, &unauthorized());
    challenge(&mut harness);
    harness.pass(MINUTE);
    assert!(harness.events().is_empty(), "the endpoint need not be named while somebody signs in");
    authorize(&mut harness, 1);
    let stream = harness.opened();
    assert_eq!((stream.line().as_str(), stream.header("authorization")), ("GET /mcp", "Bearer token-1"));
    harness.begin(stream.key, &Reply::events(ENDPOINT));
    let opening = harness.opened();
    assert_eq!((opening.line().as_str(), opening.header("authorization")), ("POST /messages", "Bearer token-1"));
    harness.reply(opening.key, &unauthorized());
    challenge(&mut harness);
    harness.pass(4 * MINUTE);
    authorize(&mut harness, 2);
    let again = harness.opened();
    assert_eq!((again.line(), again.body()), (opening.line(), opening.body()));
    assert_eq!(again.header("authorization"), "Bearer token-2");
    harness.reply(again.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&again.id(), &initialize_result("2024-11-05"))).as_bytes());
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &Reply::status(202));
    harness.events();
    let (_, call) = harness.request("tools/list");
    harness.reply(call.key, &unauthorized());
    challenge(&mut harness);
    authorize(&mut harness, 3);
    let call = harness.opened();
    harness.reply(call.key, &Reply::status(202));
    harness.send(stream.key, event(&complete(&call.id())).as_bytes());
    assert!(matches!(harness.outcome(), Outcome::Result(_)));
}

#[test]
fn a_two_endpoint_server_without_authorization_is_unavailable_and_reached_again_later() {
    for is_refused in [false, true] {
        let (mut harness, stream) = two_endpoints();
        harness.reply(stream.key, &unauthorized());
        challenge(&mut harness);
        let reason = if is_refused { "refused" } else { "no sign-in was completed" };
        if is_refused {
            refuse(&mut harness, reason);
        } else {
            harness.pass(PATIENCE);
        }
        let events = harness.events();
        let [Event::Unavailable { reason: Unavailable::Failed(failed), retry_in: None }] = &events[..] else {
            panic!("{events:?}")
        };
        assert!(is_not_authorized(failed, 401, reason), "{failed}");
        authorize(&mut harness, 1);
        assert!(!harness.has_opened());
        harness.machine.connect(harness.now).expect("it is not connected");
        let stream = harness.opened();
        assert_eq!((stream.line().as_str(), stream.header("authorization")), ("GET /mcp", "Bearer token-1"));
        harness.begin(stream.key, &Reply::events(ENDPOINT));
        assert_eq!(harness.opened().line(), "POST /messages");
    }
}

#[test]
fn er_26_a_challenge_does_not_start_the_fallback_and_the_fallback_can_meet_one() {
    for expected in ["refused", "no sign-in was completed"] {
        let mut harness = HttpClientHarness::client_with(managed);
        let post = harness.opened();
        harness.reply(post.key, &unauthorized());
        challenge(&mut harness);
        assert!(!harness.has_opened());
        authorize(&mut harness, 1);
        let post = harness.opened();
        harness.reply(post.key, &Reply::html(405));
        let stream = harness.opened();
        assert_eq!(stream.line(), "GET /mcp");
        harness.reply(stream.key, &insufficient_scope());
        challenge(&mut harness);
        harness.pass(MINUTE);
        if expected == "refused" {
            refuse(&mut harness, expected);
        } else {
            harness.pass(PATIENCE);
        }
        let events = harness.events();
        assert!(
            matches!(&events[..], [Event::Unavailable { reason: Unavailable::Failed(reason), .. }]
            if is_not_authorized(reason, 403, expected)),
            "what a person can change is reported: {events:?}"
        );
        authorize(&mut harness, 2);
        harness.machine.connect(harness.now).expect("it is not connected");
        assert_eq!(harness.opened().line(), "POST /mcp", "the detection begins again");
    }
}

#[test]
fn refused_authorization_fails_what_waits_and_the_rest_of_the_storm() {
    for (version, mut harness) in connected() {
        let calls = ["a", "b", "c"].map(|method| harness.request(method));
        harness.reply(calls[0].1.key, &unauthorized());
        harness.machine.request(Call::new("d"), harness.now).expect("a request");
        challenge(&mut harness);
        refuse(&mut harness, "open https://as.example/authorize?x=1 to sign in");
        let outcomes = harness.outcomes();
        assert_eq!(outcomes.len(), 2, "{version}");
        // This one was on its way meanwhile.
        harness.reply(calls[1].1.key, &unauthorized());
        let (found, events) = challenges(&mut harness);
        assert!(found.is_empty() && events.len() == 1, "{version} {found:?} {events:?}");
        let late = events.into_iter().map(|event| match event {
            Event::Responded { outcome, .. } => outcome,
            other => panic!("{other:?}"),
        });
        for outcome in outcomes.into_values().chain(late) {
            let Outcome::Failed(failed) = outcome else { panic!("{outcome:?}") };
            assert!(is_not_authorized(&failed, 401, "https://as.example/authorize?x=1"), "{failed}");
        }
        // The next message asks again, and after that, challenges to older exchanges count as usual.
        let (_, next) = harness.request("e");
        harness.reply(next.key, &unauthorized());
        assert_eq!(challenge(&mut harness).sent_with, Some(1));
        authorize(&mut harness, 2);
        assert_eq!(harness.opened().method(), "e");
        harness.reply(calls[2].1.key, &unauthorized());
        assert_eq!(harness.opened().method(), "c");
    }
}

#[test]
fn each_message_waits_for_a_limited_time_and_calls_no_longer_than_their_own() {
    for (version, mut harness) in connected() {
        let (first, opened) = harness.request("a");
        let call = Call::new("b").timeout(MINUTE);
        let short = harness.machine.request(call, harness.now).expect("a request");
        let other = harness.opened();
        harness.reply(opened.key, &unauthorized());
        harness.reply(other.key, &unauthorized());
        challenge(&mut harness);
        harness.pass(MINUTE);
        assert_eq!(harness.outcomes().get(&short), Some(&Outcome::Failed(Failed::TimedOut { after: MINUTE })));
        let later = harness.machine.request(Call::new("c"), harness.now).expect("a request");
        harness.pass(5 * MINUTE);
        let outcomes = harness.outcomes();
        assert_eq!(outcomes.keys().collect::<Vec<_>>(), [&first], "{version}");
        let Outcome::Failed(failed) = &outcomes[&first] else { panic!("{outcomes:?}") };
        assert!(is_not_authorized(failed, 401, "no sign-in was completed"), "{failed}");
        harness.pass(MINUTE);
        assert_eq!(harness.outcomes().keys().collect::<Vec<_>>(), [&later]);
        authorize(&mut harness, 2);
        assert!(!harness.has_opened(), "{version}: nothing waits any more, and nothing is cancelled");
        assert_eq!(harness.machine.load().waiting, 0);
    }
}

#[test]
fn a_message_that_is_cancelled_while_it_waits_is_never_sent() {
    for (version, mut harness) in connected() {
        let (request, opened) = harness.request("a");
        harness.reply(opened.key, &unauthorized());
        challenge(&mut harness);
        harness.machine.cancel(request, None, harness.now);
        assert_eq!(harness.outcome(), Outcome::Failed(Failed::Cancelled));
        authorize(&mut harness, 2);
        assert!(!harness.has_opened(), "{version}");
        // If a cancelled request meets a challenge, no person has to sign in for it.
        if version == "2025-11-25" {
            let (request, opened) = harness.request("b");
            harness.machine.cancel(request, None, harness.now);
            harness.reply(opened.key, &unauthorized());
            let cancelled = harness.opened();
            assert_eq!(cancelled.method(), "notifications/cancelled");
            assert!(challenges(&mut harness).0.is_empty());
        }
    }
}

#[test]
fn oa_g_05_closing_waits_for_no_person_and_what_waits_gets_its_outcome() {
    let mut harness = HttpClientHarness::connected_client_with(managed);
    authorize(&mut harness, 1);
    let (request, opened) = harness.request("a");
    harness.machine.notify(Notification::new(Method::ROOTS_LIST_CHANGED), harness.now).expect("it is connected");
    let notified = harness.opened();
    harness.reply(notified.key, &unauthorized());
    harness.reply(opened.key, &unauthorized());
    challenge(&mut harness);
    harness.machine.close(harness.now);
    let delete = harness.opened();
    assert_eq!((delete.line().as_str(), delete.header("authorization")), ("DELETE /mcp", "Bearer token-1"));
    harness.reply(delete.key, &unauthorized());
    let (found, events) = challenges(&mut harness);
    assert!(found.is_empty() && !harness.has_opened());
    let outcome = Outcome::Failed(Failed::Closed);
    assert!(
        matches!(&events[..], [
            Event::Responded { request: ended, outcome: found },
            Event::Faulted(Fault::NotAccepted { reason: Failed::Closed }),
            Event::Faulted(Fault::SessionNotEnded { reason: Failed::Refused(_) }),
            Event::Closed(_),
        ] if *ended == request && *found == outcome),
        "{events:?}"
    );
    assert_eq!(harness.machine.poll_timeout(), None);
    // A notification on its way that meets a challenge now does not wait either.
    let mut harness = HttpClientHarness::connected_client_with(managed);
    harness.machine.notify(Notification::new(Method::ROOTS_LIST_CHANGED), harness.now).expect("it is connected");
    let notified = harness.opened();
    harness.machine.close(harness.now);
    assert!(!harness.has_opened());
    harness.reply(notified.key, &unauthorized());
    assert_eq!(harness.opened().line(), "DELETE /mcp");
    assert!(challenges(&mut harness).0.is_empty());
}

#[test]
fn messages_that_are_no_requests_wait_as_well() {
    let mut harness = HttpClientHarness::client_with(managed);
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &unauthorized());
    let (found, _) = challenges(&mut harness);
    assert_eq!(found.len(), 1);
    harness.machine.request(Call::new("a"), harness.now).expect("a request");
    harness.pass(MINUTE);
    assert!(!harness.has_opened() && harness.events().is_empty());
    authorize(&mut harness, 1);
    let again = harness.opened();
    assert_eq!((again.body(), again.header("mcp-session-id")), (INITIALIZED, "session-1"));
    assert!(!harness.has_opened(), "BR-T-08");
    harness.reply(again.key, &Reply::status(202));
    assert_eq!(all_opened(&mut harness).iter().map(Opened::line).collect::<Vec<_>>(), ["GET /mcp", "POST /mcp"]);
    // Nobody signs in for the next one.
    harness.machine.notify(Notification::new(Method::ROOTS_LIST_CHANGED), harness.now).expect("it is connected");
    let notified = harness.opened();
    harness.reply(notified.key, &unauthorized());
    challenge(&mut harness);
    assert_eq!(harness.machine.backlog().messages, 1);
    harness.pass(PATIENCE);
    let events = harness.events();
    assert!(
        matches!(&events[..], [Event::Faulted(Fault::NotAccepted { reason })]
            if is_not_authorized(reason, 401, "no sign-in was completed")),
        "{events:?}"
    );
}

#[test]
fn a_session_that_is_lost_meanwhile_is_opened_again_after_authorization() {
    let mut harness = HttpClientHarness::connected_client_with(managed);
    authorize(&mut harness, 1);
    let [waiting, lost] = ["a", "b"].map(|method| harness.request(method).1);
    harness.reply(waiting.key, &unauthorized());
    challenge(&mut harness);
    harness.reply(lost.key, &Reply::status(404));
    assert_eq!(harness.events(), [Event::SessionLost]);
    harness.pass(5 * MINUTE);
    assert!(!harness.has_opened(), "the handshake waits as well");
    authorize(&mut harness, 2);
    let opening = harness.opened();
    assert_eq!((opening.method().as_str(), opening.header("authorization")), ("initialize", "Bearer token-2"));
    harness.reply(opening.key, &initialize_reply(&opening, "2025-11-25", Some("session-2")));
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &Reply::status(202));
    let opened = all_opened(&mut harness);
    let sent: Vec<_> = opened.iter().filter(|opened| !opened.body().is_empty()).map(Opened::method).collect();
    assert_eq!(sent, ["b", "a"], "a message that was refused with the session comes first, as before");
}

#[test]
fn streams_that_break_while_somebody_signs_in_are_opened_after_that() {
    let (mut harness, get) = with_get_stream();
    harness.begin(get.key, &Reply::events(": open\n\n"));
    let (_, call) = harness.request("a");
    harness.reply(call.key, &unauthorized());
    challenge(&mut harness);
    harness.end(get.key);
    harness.pass(MINUTE);
    assert!(!harness.has_opened());
    authorize(&mut harness, 2);
    let opened = all_opened(&mut harness);
    assert_eq!(opened.iter().map(Opened::line).collect::<Vec<_>>(), ["GET /mcp", "POST /mcp"]);
    // A stream that waits belongs to its session.
    let (mut harness, get) = with_get_stream();
    let (_, call) = harness.request("a");
    harness.reply(get.key, &unauthorized());
    harness.reply(call.key, &Reply::status(404));
    authorize(&mut harness, 2);
    let opened = all_opened(&mut harness);
    assert_eq!(opened.iter().map(Opened::method).collect::<Vec<_>>(), ["initialize"]);
    // The stream of a two-endpoint server, and with it the session.
    let (mut harness, stream) = two_endpoints();
    harness.reply(stream.key, &unauthorized());
    challenge(&mut harness);
    authorize(&mut harness, 1);
    let stream = harness.opened();
    harness.begin(stream.key, &Reply::events(ENDPOINT));
    let opening = harness.opened();
    harness.reply(opening.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&opening.id(), &initialize_result("2024-11-05"))).as_bytes());
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &Reply::status(202));
    harness.events();
    let (_, call) = harness.request("a");
    harness.reply(call.key, &unauthorized());
    challenge(&mut harness);
    harness.end(stream.key);
    assert_eq!(harness.events(), [Event::SessionLost]);
    harness.pass(MINUTE);
    assert!(!harness.has_opened());
    authorize(&mut harness, 2);
    let stream = harness.opened();
    assert_eq!((stream.line().as_str(), stream.header("authorization")), ("GET /mcp", "Bearer token-2"));
    harness.reply(stream.key, &unauthorized());
    assert_eq!(challenge(&mut harness).sent_with, Some(2), "the next session counts anew");
}

// ---- Relay

type Relay = HttpClientHarness<mcp_intermediary::Relay>;

fn relay() -> Relay {
    HttpClientHarness::relay_with(|_, http| http.managed_authorization = true)
}

fn is_challenged(relay: &mut Relay) -> bool {
    let events = relay.events();
    matches!(&events[..], [event] if <mcp_intermediary::Relay as HandleAuthorization>::challenged(event).is_some())
}

#[test]
fn the_handshake_of_a_relay_and_its_messages_wait_for_authorization() {
    let discover = r#"{"_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientInfo":{"name":"editor","version":"1"},"io.modelcontextprotocol/clientCapabilities":{}}}"#;
    for (line, answer, wait) in [
        // After 15 s, the relay answers by itself (OA-G-07).
        (initialize("1", "2025-11-25"), initialize_result("2025-11-25"), Duration::from_secs(14)),
        (request("1", "server/discover", discover), DISCOVERED.to_owned(), 5 * MINUTE),
    ] {
        let mut relay = relay();
        relay.line(&line);
        let opened = relay.opened();
        relay.reply(opened.key, &unauthorized());
        assert!(is_challenged(&mut relay));
        relay.pass(wait);
        assert!(relay.lines().is_empty() && !relay.has_opened());
        HandleAuthorization::authorize(&mut relay.machine, bearer(1), relay.now);
        let again = relay.opened();
        assert_eq!((again.body(), again.header("authorization")), (opened.body(), "Bearer token-1"));
        relay.reply(again.key, &Reply::json(result(&again.id(), &answer)));
        assert_eq!(relay.lines(), [result("1", &answer)]);
    }
}

#[test]
fn the_client_of_a_relay_reads_why_there_is_no_authorization() {
    let mut relay = relay();
    relay.line(&initialize("1", "2025-11-25"));
    let opened = relay.opened();
    relay.reply(opened.key, &unauthorized());
    assert!(is_challenged(&mut relay));
    HandleAuthorization::refuse_authorization(&mut relay.machine, "open https://as.example/x to sign in", relay.now);
    let lines = relay.lines();
    assert_eq!(lines.len(), 1);
    for part in ["open https://as.example/x to sign in", r#""failure":"not_authorized""#, r#""status":401"#, METADATA] {
        assert!(lines[0].contains(part), "{} lacks {part}", lines[0]);
    }
    let events = relay.events();
    assert!(matches!(&events[..], [relay::Event::Unavailable { retry_in: None, .. }]), "{events:?}");
    assert!(!relay.has_opened());
}

// ---- Proofs of possession

const HASH: &str = "fUHyO2r2Z3DZ53EsNrWBb0xWXoaNy59IiKCAqksmQEo";

fn dpop(generation: u64) -> Credentials {
    let key = ProofKey::new("private".into(), "x", "y");
    Credentials::dpop(&format!("token-{generation}"), HASH, key, generation).expect("a token")
}

/// A client that is connected with a token that needs proofs.
fn with_proofs(change: impl FnOnce(&mut Config, &mut HttpConfig)) -> Harness {
    let mut harness = HttpClientHarness::connected_client_with(change);
    harness.machine.authorize(dpop(1), harness.now);
    harness
}

fn nonce(opened: &Opened) -> Option<&str> {
    opened.proof.as_ref().expect("the claims of a proof").nonce.as_deref()
}

fn demands_nonce(nonce: &str) -> Reply {
    Reply::status(401)
        .header("www-authenticate", r#"DPoP error="use_dpop_nonce", algs="ES256""#)
        .header("dpop-nonce", nonce)
}

#[test]
fn oa_x_06_each_request_with_a_bound_token_has_the_claims_of_a_proof_and_no_other_has() {
    let mut harness = HttpClientHarness::new(
        Client::new(
            Http::new(HttpConfig::new("http://server.example/mcp?key=secret").expect("a URL")),
            mcp_testkit::http_client::legacy_client("tests"),
        )
        .expect("a configuration"),
    );
    harness.machine.authorize(dpop(1), harness.now);
    harness.machine.connect(harness.now).expect("a fresh client");
    let post = harness.opened();
    harness.reply(post.key, &initialize_reply(&post, "2025-11-25", Some("session-1")));
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &Reply::status(202));
    let get = harness.opened();
    harness.machine.close(harness.now);
    let delete = harness.opened();
    for (opened, method) in [(&post, "POST"), (&get, "GET"), (&delete, "DELETE")] {
        assert_eq!(opened.header("authorization"), "DPoP token-1");
        let claims = opened.proof.as_ref().expect("the claims of a proof");
        assert_eq!((claims.htm.as_str(), &*claims.htu), (method, "http://server.example/mcp"));
        assert_eq!((claims.ath.as_deref(), claims.nonce.as_deref()), (Some(HASH), None));
        assert_eq!(format!("{claims:?}"), format!("ProofClaims {{ htm: {method}, .. }}"));
    }
    let (_, mut harness) = connected().into_iter().next().expect("two clients");
    assert_eq!(harness.request("a").1.proof, None);
}

#[test]
fn au21_oa_x_07_a_demand_for_a_nonce_is_no_sign_in_and_the_newest_nonce_is_used() {
    // A bound token needs no managed authorization for this.
    for change in [managed, |_: &mut Config, _: &mut HttpConfig| {}] {
        let mut harness = with_proofs(change);
        let (_, first) = harness.request("a");
        assert_eq!(nonce(&first), None);
        harness.begin(first.key, &demands_nonce("one"));
        let again = harness.opened();
        assert_eq!((again.body(), nonce(&again)), (first.body(), Some("one")));
        harness.reply(again.key, &demands_nonce("two"));
        let again = harness.opened();
        assert_eq!((again.body(), nonce(&again)), (first.body(), Some("two")));
        // A third demand is final.
        harness.reply(again.key, &demands_nonce("three"));
        let outcome = harness.outcome();
        assert!(matches!(&outcome, Outcome::Failed(Failed::Refused(refusal)) if refusal.status == 401), "{outcome:?}");
        // A nonce comes with any response, and is kept until the next one.
        let (_, second) = harness.request("b");
        assert_eq!(nonce(&second), Some("three"));
        harness.reply(second.key, &Reply::json(complete(&second.id())).header("dpop-nonce", "four"));
        for (bad, expected) in [
            ("four and a half", "four"),
            ("", "four"),
            ("a\"b", "four"),
            ("a\\b", "four"),
            (&"x".repeat(1025), "four"),
            ("five", "five"),
        ] {
            let (_, opened) = harness.request("c");
            assert_eq!(nonce(&opened), Some("four"), "{bad}");
            harness.reply(opened.key, &Reply::status(500).header("dpop-nonce", bad));
            let (_, opened) = harness.request("d");
            assert_eq!(nonce(&opened), Some(expected), "{bad}");
            harness.reply(opened.key, &Reply::json(complete(&opened.id())));
        }
        assert!(challenges(&mut harness).0.is_empty());
    }
}

#[test]
fn au21_oa_x_07_a_demand_for_a_nonce_without_one_or_without_a_bound_token_is_a_challenge() {
    let without = Reply::status(401).header("www-authenticate", r#"DPoP error="use_dpop_nonce""#);
    for (credentials, reply) in [(dpop(2), without), (bearer(2), demands_nonce("one"))] {
        let mut harness = with_proofs(managed);
        harness.machine.authorize(credentials, harness.now);
        let (_, opened) = harness.request("a");
        harness.reply(opened.key, &reply);
        assert_eq!(challenge(&mut harness).sent_with, Some(2));
        assert!(!harness.has_opened());
    }
}

#[test]
fn a_demand_for_a_nonce_waits_while_somebody_signs_in() {
    let mut harness = with_proofs(managed);
    let [first, second] = ["a", "b"].map(|method| harness.request(method).1);
    harness.reply(first.key, &unauthorized());
    challenge(&mut harness);
    harness.reply(second.key, &demands_nonce("one"));
    assert!(!harness.has_opened());
    harness.machine.authorize(dpop(2), harness.now);
    let again = all_opened(&mut harness);
    assert_eq!(again.iter().map(Opened::method).collect::<Vec<_>>(), ["a", "b"]);
    assert!(again.iter().all(|opened| nonce(opened) == Some("one")));
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
