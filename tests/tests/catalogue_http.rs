//! Rows HT, SS, LE, RP and CL of the catalogue of bad input, for a client over HTTP.

use std::time::Duration;

use mcp_proto::client::{Call, CloseReason, Event, Failure, HttpConfig, HttpTransport, Outcome, Unavailable};
use mcp_proto::{BodyKind, Failed, Fault, InvalidResponse, Json, Notification, RedirectRefused, UsageError};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, broken, initialize_reply};
use mcp_testkit::messages::{INITIALIZED, error, event, initialize_result, request, result};

type Client = HttpClientHarness<mcp_proto::Client<mcp_proto::client::Http>>;

fn json(text: &str) -> Json {
    Json::parse(text.to_owned()).unwrap()
}

fn done() -> Outcome {
    Outcome::Result(json(r#"{"content":[]}"#))
}

fn answer(to: &Opened) -> String {
    result(&to.id(), r#"{"content":[]}"#)
}

fn faults(events: &[Event]) -> Vec<&Fault> {
    events.iter().filter_map(|event| if let Event::Faulted(fault) = event { Some(fault) } else { None }).collect()
}

/// Makes a request, answers it with `reply`, and returns the outcome, which must be reported at once.
fn outcome_of(reply: &Reply) -> Outcome {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, reply);
    harness.outcome()
}

fn failure_of(reply: &Reply) -> Failed {
    match outcome_of(reply) {
        Outcome::Failed(reason) => reason,
        other => panic!("{other:?}"),
    }
}

// ---- HT: the client's side of HTTP

#[test]
fn ht1_redirects_leave_the_origin_in_no_spelling_and_for_no_status() {
    for location in [
        "http://evil.example/mcp",
        "https://server.example/mcp",
        "http://server.example:8080/mcp",
        "http://server.example@evil.example/",
        "//evil.example/mcp",
        "/\\evil.example/mcp",
        "\\\\evil.example/mcp",
        "http://server.example.evil.example/mcp",
        "HTTP://SERVER.EXAMPLE/mcp",
        "unix:/run/x",
        "javascript:x",
    ] {
        for status in [307, 308] {
            let mut harness = HttpClientHarness::connected_client_with(|_, http| {
                http.header("Authorization", "Bearer secret").unwrap();
            });
            let (_, opened) = harness.request("tools/call");
            harness.reply(opened.key, &Reply::status(status).header("location", location));
            // `HttpClientHarness` itself checks that no request is sent to another authority.
            let Outcome::Failed(failed) = harness.outcome() else { panic!("{location}") };
            assert_eq!(refused_redirect(&failed), RedirectRefused::CrossOrigin, "{location}");
            assert!(!harness.has_opened());
        }
    }
    for status in [301, 302, 303] {
        let reply = Reply::status(status).header("location", "/elsewhere");
        assert_eq!(refused_redirect(&failure_of(&reply)), RedirectRefused::DropsBody);
    }
    assert_eq!(refused_redirect(&failure_of(&Reply::status(307))), RedirectRefused::NoLocation);
}

fn refused_redirect(failed: &Failed) -> RedirectRefused {
    let Failed::Redirected { reason, .. } = failed else { panic!("{failed:?}") };
    *reason
}

#[test]
fn a_redirect_elsewhere_is_shown_without_secrets() {
    let location = "https://user:secret-pw@other.example:8443/mcp?key=secret-key#secret";
    let failed = failure_of(&Reply::status(307).header("location", location));
    let text = failed.describe("the server at http://server.example/mcp");
    let expected =
        "the server at http://server.example/mcp redirects to https://other.example:8443/mcp, which is another origin";
    assert!(text.starts_with(expected) && !text.contains("secret"), "{text}");
    assert!(!format!("{failed:?}").contains("other.example"), "{failed:?}");
}

#[test]
fn au_14_a_challenge_is_part_of_the_error_whatever_the_body_is() {
    let challenge = "Bearer realm=\"a\tb\", resource_metadata=\"https://a.example/x\"";
    for status in [401, 403] {
        for reply in [
            Reply::status(status),
            Reply::html(status),
            Reply::json("nonsense").with_status(status),
            Reply::json(error("null", -32001, "Unauthorized")).with_status(status),
        ] {
            let failed = failure_of(&reply.header("www-authenticate", challenge).header("www-authenticate", "Basic"));
            let text = failed.to_string();
            assert!(text.contains("; its challenge is Bearer realm=\"a\\tb\", resource_metadata="), "{text}");
            assert!(text.ends_with("/x\", Basic"), "{text}");
            assert!(!format!("{failed:?}").contains("realm"), "{failed:?}");
        }
        // A JSON-RPC error in the response is the outcome, and the challenge is reported as a fault.
        let mut harness = HttpClientHarness::connected_client();
        let (_, opened) = harness.request("tools/call");
        let reply = Reply::json(error(&opened.id(), -32001, "Unauthorized")).with_status(status);
        harness.reply(opened.key, &reply.header("www-authenticate", challenge));
        let events = harness.events();
        let answered = |event: &Event| matches!(event, Event::Responded { outcome: Outcome::Error(_), .. });
        assert!(events.iter().any(answered), "{events:?}");
        let shows = |event: &Event| matches!(event, Event::Faulted(fault) if fault.to_string().contains("its challenge is Bearer"));
        assert!(events.iter().any(shows), "{events:?}");
    }
    // The error text is bounded, however long and numerous the challenges are.
    let mut reply = Reply::status(401);
    for _ in 0..100 {
        reply = reply.header("www-authenticate", &"x".repeat(2_000));
    }
    assert!(failure_of(&reply).to_string().len() < 2_000);
}

#[test]
fn ht1_on_the_same_origin_the_message_follows_with_everything() {
    for (status, location, remembered) in [(307, "/mcp/", false), (308, "http://server.example/mcp/?v=2", true)] {
        let mut harness =
            HttpClientHarness::connected_client_with(|_, http| http.header("X-Api-Key", "secret").unwrap());
        let (_, opened) = harness.request("tools/call");
        harness.reply(opened.key, &Reply::status(status).header("location", location));
        let again = harness.opened();
        assert_eq!(again.body(), opened.body());
        assert_eq!((again.header("x-api-key"), again.header("mcp-session-id")), ("secret", "session-1"));
        assert!(again.line().starts_with("POST /mcp/"));
        harness.reply(again.key, &Reply::json(answer(&again)));
        assert_eq!(harness.outcome(), done());
        // A permanent redirect is remembered for later requests.
        let (_, next) = harness.request("tools/call");
        assert_eq!(next.line() == "POST /mcp/?v=2", remembered);
    }
}

#[test]
fn ht2_redirects_are_followed_five_times() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, mut opened) = harness.request("tools/call");
    for hop in 0..5 {
        harness.reply(opened.key, &Reply::status(307).header("location", &format!("/hop{hop}")));
        opened = harness.opened();
    }
    harness.reply(opened.key, &Reply::status(307).header("location", "/mcp"));
    let Outcome::Failed(failed) = harness.outcome() else { panic!("no failure") };
    assert_eq!(refused_redirect(&failed), RedirectRefused::TooOften);
    assert!(!harness.has_opened());
}

#[test]
fn ht3_a_session_id_that_cannot_be_sent_back_fails_initialize() {
    let long = "x".repeat(60_000);
    for ids in [vec!["bad id"], vec!["é"], vec![long.as_str()], vec!["a", "b"], vec![""]] {
        let mut harness = HttpClientHarness::client();
        let opened = harness.opened();
        let mut reply = Reply::json(result(&opened.id(), &initialize_result("2025-11-25")));
        for id in &ids {
            reply = reply.header("mcp-session-id", id);
        }
        harness.reply(opened.key, &reply);
        let reason = Unavailable::Failed(Failed::InvalidSessionId);
        assert_eq!(harness.events(), [Event::Unavailable { reason, retry_in: None }], "{ids:?}");
    }
}

#[test]
fn ht4_later_answers_do_not_change_the_session_id_of_initialize() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, &Reply::json(answer(&opened)).header("mcp-session-id", "session-2"));
    assert_eq!(faults(&harness.events()), [&Fault::SessionIdChanged]);
    assert_eq!(harness.request("tools/call").1.header("mcp-session-id"), "session-1");
}

#[test]
fn sh_c_06_a_session_id_that_came_with_anything_but_initialize_is_none() {
    let mut harness = HttpClientHarness::client();
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202).header("mcp-session-id", "late"));
    let opened = harness.opened();
    assert_eq!(opened.header("mcp-session-id"), "");
}

#[test]
fn ht5_content_types_are_judged_by_their_essence() {
    for (content_type, ok) in [
        ("application/json", true),
        ("Application/JSON; charset=utf-8", true),
        ("application/jsonp-evil", false),
        ("text/json", false),
        ("text/html", false),
        ("text/plain", false),
    ] {
        let mut harness = HttpClientHarness::connected_client();
        let (_, opened) = harness.request("tools/call");
        harness.reply(opened.key, &Reply::status(200).content_type(content_type).body(answer(&opened)));
        match harness.outcome() {
            Outcome::Result(_) => assert!(ok, "{content_type}"),
            Outcome::Failed(Failed::ContentType { .. }) => assert!(!ok, "{content_type}"),
            other => panic!("{content_type}: {other:?}"),
        }
    }
    let untyped = Reply::status(200).body("{}");
    assert_eq!(failure_of(&untyped), Failed::ContentType { body: BodyKind::Untyped });
    let twice = Reply::json("{}").content_type("application/json");
    assert_eq!(failure_of(&twice), Failed::ContentType { body: BodyKind::Unclear });
}

#[test]
fn ht6_a_request_that_is_accepted_like_a_notification_has_failed() {
    for reply in [
        Reply::status(202),
        Reply::status(204),
        Reply::json("").with_status(202),
        Reply::json(""),
        Reply::json("  \n"),
        Reply::status(200).header("content-length", "0"),
    ] {
        assert!(matches!(failure_of(&reply), Failed::NoAnswer { .. }), "{reply:?}");
    }
}

#[test]
fn ht7_sh_c_17_a_notification_is_accepted_by_any_success_whatever_its_body() {
    for reply in [
        Reply::status(202),
        Reply::status(200),
        Reply::status(204),
        Reply::json("nonsense"),
        Reply::events("data: {\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{}}\n\n"),
        Reply::status(202).body("Accepted"),
    ] {
        let mut harness = HttpClientHarness::connected_client();
        let (key, opened) = harness.request("tools/call");
        harness.machine.notify(Notification::new("notifications/roots/list_changed"), harness.now).unwrap();
        let notification = harness.opened();
        harness.reply(notification.key, &reply);
        assert!(faults(&harness.events()).is_empty());
        harness.reply(opened.key, &Reply::json(answer(&opened)));
        assert_eq!(harness.outcomes(), [(key, done())].into());
    }
    // An endless body is not read to its end.
    let mut harness = HttpClientHarness::connected_client();
    harness.machine.notify(Notification::new("notifications/roots/list_changed"), harness.now).unwrap();
    let notification = harness.opened();
    harness.begin(notification.key, &Reply::status(202));
    harness.send(notification.key, &vec![b'x'; 64 * 1024]);
    assert!(!harness.is_aborted(notification.key));
    harness.send(notification.key, b"x");
    assert!(harness.is_aborted(notification.key));
}

#[test]
fn ht8_refusals_are_typed_and_explained_and_nothing_is_tried_again() {
    for status in [400, 401, 403, 404, 405, 406, 413, 415, 429, 500, 502, 503] {
        for (reply, body) in [
            (Reply::html(status), BodyKind::Html),
            (Reply::status(status), BodyKind::Untyped),
            (Reply::json("{\"error\":\"no JSON-RPC\"}").with_status(status), BodyKind::Json),
        ] {
            let mut harness = HttpClientHarness::client();
            let opened = harness.opened();
            harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
            let opened = harness.opened();
            harness.reply(opened.key, &Reply::status(202));
            let opened = harness.opened();
            harness.reply(opened.key, &Reply::status(405));
            let (_, opened) = harness.request("tools/call");
            harness.reply(opened.key, &reply.header("retry-after", "99999").header("www-authenticate", "Bearer"));
            let Outcome::Failed(Failed::Refused(refusal)) = harness.outcome() else { panic!("{status}") };
            assert_eq!((refusal.status.as_u16(), refusal.body), (status, body));
            assert_eq!(refusal.retry_after, Some(Duration::from_secs(300)), "clamped");
            assert_eq!(refusal.challenges, ["Bearer"]);
            harness.pass(Duration::from_secs(1000));
            assert!(!harness.has_opened());
        }
        // An error with a matching id, or with none, belongs to the request. With a session, a 404 without a matching
        // id is about the session instead.
        for id in [None, Some("null")].into_iter().take(if status == 404 { 1 } else { 2 }) {
            let mut harness = HttpClientHarness::connected_client();
            let (_, opened) = harness.request("tools/call");
            let id = id.map_or_else(|| opened.id(), str::to_owned);
            harness.reply(opened.key, &Reply::json(error(&id, -32601, "because")).with_status(status));
            let Outcome::Error(error) = harness.outcome() else { panic!("{status} {id}") };
            assert_eq!(error.message(), "because");
        }
    }
}

#[test]
fn ht8_an_explanation_is_read_up_to_64_kib() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::status(500).content_type("application/json"));
    for _ in 0..64 {
        harness.send(opened.key, &[b' '; 1024]);
    }
    assert!(!harness.is_aborted(opened.key));
    harness.send(opened.key, b" ");
    assert!(harness.is_aborted(opened.key));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::Refused(_))));
}

#[test]
fn ht9_a_404_with_a_session_is_a_lost_session_and_calls_that_may_have_been_served_fail() {
    let mut harness = HttpClientHarness::connected_client();
    let (first, one) = harness.request("tools/call");
    let (second, two) = harness.request("tools/call");
    harness.reply(two.key, &Reply::status(404));
    assert_eq!(harness.outcomes(), [(first, Outcome::Failed(Failed::SessionLost))].into());
    assert!(harness.is_aborted(one.key));
    let opened = harness.opened();
    assert_eq!((opened.method().as_str(), opened.header("mcp-session-id")), ("initialize", ""));
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-2")));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
    harness.opened();
    let again = harness.opened();
    assert_eq!((again.body(), again.header("mcp-session-id")), (two.body(), "session-2"));
    harness.reply(again.key, &Reply::json(answer(&again)));
    assert_eq!(harness.outcomes(), [(second, done())].into());
}

#[test]
fn ht9_sh_c_08_an_answer_to_a_request_of_the_lost_session_is_not_sent_in_the_next() {
    let mut harness =
        HttpClientHarness::connected_client_with(|config, _| config.capabilities = json(r#"{"roots":{}}"#));
    let (_, asking) = harness.request("tools/call");
    harness.begin(asking.key, &Reply::events(event(&request("7", "roots/list", "{}"))));
    let Some(Event::Requested { ticket, .. }) = harness.events().pop() else { panic!("nothing was asked") };
    let (_, refused) = harness.request("tools/list");
    harness.reply(refused.key, &Reply::status(404));
    let opened = harness.opened();
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-2")));
    let opened = harness.opened();
    harness.reply(opened.key, &Reply::status(202));
    let [_stream, again] = [harness.opened(), harness.opened()];
    harness.machine.answer(ticket, Ok(Json::empty_object()), harness.now);
    assert!(!harness.has_opened());
    harness.reply(again.key, &Reply::json(answer(&again)));
    assert!(harness.outcomes().values().any(|outcome| *outcome == done()));
}

#[test]
fn ht10_a_compressed_body_is_refused_unread() {
    for encoding in ["gzip", "deflate", "br", "zstd", "gzip, gzip", "unknown"] {
        let reply = Reply::json("\u{1f}not unpacked").header("content-encoding", encoding);
        assert_eq!(failure_of(&reply), Failed::ContentEncoding, "{encoding}");
    }
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    assert_eq!(opened.header("accept-encoding"), "identity");
    harness.reply(opened.key, &Reply::json(answer(&opened)).header("content-encoding", "Identity"));
    assert_eq!(harness.outcome(), done());
}

#[test]
fn ht11_a_body_that_breaks_off_is_no_answer() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::json(answer(&opened)));
    harness.fail(opened.key, broken());
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::Broken { .. })));
    let (_, opened) = harness.request("tools/call");
    let text = answer(&opened);
    harness.reply(opened.key, &Reply::json(&text[..text.len() - 1]));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::InvalidResponse { .. })));
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, &Reply::json(format!("{}{{}}", answer(&opened))));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::InvalidResponse { .. })));
}

#[test]
fn ht13_missing_bytes_end_by_a_deadline_at_every_point() {
    // Silence after the request: the timeout of the request ends it.
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.machine.handle_sent(opened.key, harness.now);
    harness.pass(Duration::from_secs(60));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::TimedOut { .. })));
    // The cancellation is sent as a message; the exchange is kept open for a short time, then aborted (CX-09).
    assert_eq!(harness.opened().method(), "notifications/cancelled");
    harness.pass(Duration::from_secs(5));
    assert!(harness.is_aborted(opened.key));

    // Silence in the middle of a body, before the request's timeout: the connection counts as broken.
    let mut harness = HttpClientHarness::connected_client_with(|config, http| {
        config.request_timeout = Duration::from_secs(600);
        http.idle_timeout = Duration::from_secs(30);
    });
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::json("{"));
    for _ in 0..10 {
        harness.pass(Duration::from_secs(29));
        harness.send(opened.key, b" ");
    }
    assert!(harness.outcomes().is_empty());
    harness.pass(Duration::from_secs(30));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::Broken { .. })));
    assert!(harness.is_aborted(opened.key));

    // Bytes that arrive one after another do not extend the request's timeout.
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events(""));
    for _ in 0..60 {
        harness.send(opened.key, b":\n");
        harness.pass(Duration::from_secs(1));
    }
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::TimedOut { .. })));

    // The server does not accept a notification.
    let mut harness = HttpClientHarness::connected_client();
    harness.machine.notify(Notification::new("notifications/roots/list_changed"), harness.now).unwrap();
    let opened = harness.opened();
    harness.pass(Duration::from_secs(30));
    assert!(harness.is_aborted(opened.key));
    assert!(matches!(faults(&harness.events())[..], [Fault::NotAccepted { reason: Failed::TimedOut { .. } }]));
}

#[test]
fn ht14_nothing_of_a_dropped_exchange_is_ever_read_for_another() {
    let mut harness = HttpClientHarness::connected_client();
    let (first, opened) = harness.request("tools/call");
    harness.machine.cancel(first, None, harness.now);
    harness.pass(Duration::from_secs(10));
    assert!(harness.is_aborted(opened.key));
    let notice = harness.opened();
    assert_eq!(notice.method(), "notifications/cancelled");
    harness.reply(notice.key, &Reply::status(202));
    let (second, next) = harness.request("tools/call");
    // Late bytes of the old exchange contain an answer to the new request.
    harness.machine.handle_body(opened.key, event(&answer(&next)).as_bytes(), harness.now);
    harness.machine.handle_end(opened.key, harness.now);
    harness.reply(next.key, &Reply::json(answer(&next)));
    assert_eq!(harness.outcomes(), [(first, Outcome::Failed(Failed::Cancelled)), (second, done())].into());
}

#[test]
fn ht15_ht16_headers_that_cannot_or_may_not_be_sent_are_refused_at_configuration() {
    let mut config = HttpConfig::new("http://server.example/mcp").unwrap();
    for value in ["a\r\nX-B: b", "a\0", "a\n", "a\u{7f}"] {
        let expected = Err(UsageError::HeaderValue { name: "x-a".into() });
        assert_eq!(config.header("X-A", value), expected, "{value:?}");
    }
    for name in ["X A", "", "X-É", "X:A"] {
        assert_eq!(config.header(name, "a"), Err(UsageError::HeaderName), "{name:?}");
    }
    for name in [
        "Host",
        "Content-Length",
        "content-type",
        "ACCEPT",
        "Accept-Encoding",
        "Transfer-Encoding",
        "Connection",
        "Mcp-Session-Id",
        "MCP-Protocol-Version",
        "Last-Event-ID",
        "Mcp-Method",
        "Mcp-Param-Region",
    ] {
        assert!(matches!(config.header(name, "x"), Err(UsageError::ReservedHeader { .. })), "{name}");
    }
    for name in ["Authorization", "X-Api-Key", "Cookie", "User-Agent"] {
        assert_eq!(config.header(name, "x"), Ok(()));
    }
    // `Debug` does not show header values (PX9).
    config.header("X-Secret", "hunter2").unwrap();
    assert!(!format!("{config:?}").contains("hunter2"));
}

// ---- RP: JSON-RPC over exchanges

#[test]
fn rp3_c1_an_answer_counts_only_on_its_own_exchange() {
    let mut harness = HttpClientHarness::connected_client();
    let (first, one) = harness.request("tools/call");
    let (second, two) = harness.request("tools/call");
    // Each stream first contains the answer to the other request.
    harness.begin(one.key, &Reply::events(event(&answer(&two))));
    harness.begin(two.key, &Reply::events(event(&answer(&one))));
    let events = harness.events();
    assert_eq!(faults(&events).len(), 2);
    assert_eq!(events.len(), 2, "{events:?}");
    harness.send(two.key, event(&answer(&two)).as_bytes());
    harness.send(one.key, event(&answer(&one)).as_bytes());
    assert_eq!(harness.outcomes(), [(first, done()), (second, done())].into());
    // A JSON body has one message only: a wrong id fails the request.
    let (_, one) = harness.request("tools/call");
    let (_, two) = harness.request("tools/call");
    harness.reply(one.key, &Reply::json(answer(&two)));
    let reason = InvalidResponse::WrongId;
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::InvalidResponse { reason }));
    harness.reply(two.key, &Reply::json(answer(&two)));
    assert_eq!(harness.outcome(), done());
}

#[test]
fn rp2_rp5_rp7_what_an_exchange_may_bring_besides_its_answer() {
    // A second answer.
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events(event(&answer(&opened)).repeat(2)));
    let events = harness.events();
    assert_eq!(events.len(), 2);
    assert!(matches!(faults(&events)[..], [Fault::UnknownResponse { .. }]));
    // An error without an id belongs to the request of its exchange.
    for id in ["null", ""] {
        let mut harness = HttpClientHarness::connected_client();
        let (_, opened) = harness.request("tools/call");
        let text = error(id, -32603, "x").replace(r#""id":,"#, "");
        harness.begin(opened.key, &Reply::events(event(&text)));
        assert!(matches!(harness.outcome(), Outcome::Error(error) if error.code() == -32603));
    }
    // Neither a result nor an error.
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events(event(&format!(r#"{{"jsonrpc":"2.0","id":{}}}"#, opened.id()))));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::InvalidResponse { .. })));
    // Only a notification.
    let reply = Reply::json(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
    let reason = InvalidResponse::NotAResponse;
    assert_eq!(failure_of(&reply), Failed::InvalidResponse { reason });
}

#[test]
fn rp10_answers_get_through_although_every_exchange_is_taken() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| {
        config.limits.exchanges = 8;
        config.capabilities = json(r#"{"roots":{}}"#);
    });
    let mut calls = Vec::new();
    for _ in 0..20 {
        harness.machine.request(Call::new("tools/call"), harness.now).unwrap();
        while harness.has_opened() {
            calls.push(harness.opened());
        }
    }
    assert_eq!(calls.len(), 6, "two of eight are kept");
    harness.begin(calls[0].key, &Reply::events(event(&request("5", "roots/list", "{}"))));
    let Some(Event::Requested { ticket, .. }) = harness.events().pop() else { panic!("not asked") };
    harness.machine.answer(ticket, Ok(json("{}")), harness.now);
    let answered = harness.opened();
    assert_eq!(answered.body(), result("5", "{}"));
    harness.reply(answered.key, &Reply::status(202));
    // Each call that ends makes room for the next one, and none is lost.
    let mut ended = 0;
    while let Some(call) = calls.pop() {
        let text = answer(&call);
        if ended == 5 {
            harness.send(call.key, event(&text).as_bytes());
            harness.end(call.key);
        } else {
            harness.reply(call.key, &Reply::json(text));
        }
        ended += 1;
        while harness.has_opened() {
            calls.insert(0, harness.opened());
        }
        if ended > 30 {
            break;
        }
    }
    assert_eq!((ended, harness.outcomes().len()), (20, 20));
}

#[test]
fn rp13_requests_in_flight_are_bounded() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.requests_out = 3);
    for _ in 0..3 {
        harness.machine.request(Call::new("a"), harness.now).unwrap();
    }
    assert_eq!(harness.machine.request(Call::new("a"), harness.now), Err(UsageError::TooManyRequests { limit: 3 }));
}

// ---- SS: streams of events

#[test]
fn ss1_an_event_over_the_limit_fails_its_request_and_the_body_is_dropped() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.event = 1024);
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events("data: "));
    harness.send(opened.key, &[b'x'; 2048]);
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::TooLarge { limit: 1024 }));
    assert!(harness.is_aborted(opened.key));
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.message = 1024);
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::json([b' '; 1025]));
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::TooLarge { limit: 1024 }));
    assert!(harness.is_aborted(opened.key));
}

#[test]
fn ss5_ss12_ss13_what_is_no_message_on_a_stream_is_skipped() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events("id: 0\ndata:\n\nretry: 10\n\n: comment\n\n"));
    harness.send(opened.key, b"data: {\"jsonrpc\":\"2.0\",\"method\":\"\xff\"}\n\n");
    harness.send(opened.key, b"event: whatever\ndata: not json\n\n");
    harness.send(opened.key, b"event: endpoint\ndata: /messages\n\n");
    harness.send(opened.key, event(&answer(&opened)).as_bytes());
    let events = harness.events();
    assert_eq!(faults(&events).len(), 3);
    assert!(matches!(events.last(), Some(Event::Responded { outcome: Outcome::Result(_), .. })));
    // A body that does not match its content type: the client does not guess the type.
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, &Reply::events(answer(&opened)));
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::StreamEnded));
    let (_, opened) = harness.request("tools/call");
    harness.reply(opened.key, &Reply::json(event(&answer(&opened))));
    assert!(matches!(harness.outcome(), Outcome::Failed(Failed::InvalidResponse { .. })));
}

#[test]
fn ss8_ev_19_a_message_in_an_event_of_another_type_is_a_message() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events(format!("event: error\ndata: {}\n\n", error(&opened.id(), -1, "x"))));
    assert!(matches!(harness.outcome(), Outcome::Error(_)));
}

#[test]
fn ss9_h1_a_stream_that_ends_without_the_answer_is_an_outcome_at_once() {
    for ending in ["", "data: {\"unfinished\":", ": comment\n\n", "event: message\n"] {
        let mut harness = HttpClientHarness::connected_client();
        let (_, opened) = harness.request("tools/call");
        harness.reply(opened.key, &Reply::events(ending));
        assert_eq!(harness.outcome(), Outcome::Failed(Failed::StreamEnded), "{ending:?}");
        let (_, opened) = harness.request("tools/call");
        harness.begin(opened.key, &Reply::events(ending));
        harness.fail(opened.key, broken());
        assert!(matches!(harness.outcome(), Outcome::Failed(Failed::Broken { .. })), "{ending:?}");
    }
}

#[test]
fn ss9_sh_c_32_a_stream_with_an_event_id_is_resumed_by_get_and_brings_the_answer() {
    for version in ["2025-03-26", "2025-06-18", "2025-11-25"] {
        let mut harness = HttpClientHarness::client();
        let opened = harness.opened();
        harness.reply(opened.key, &initialize_reply(&opened, version, Some("session-1")));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(202));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(405));
        let (_, call) = harness.request("tools/call");
        // After a priming event, the server closes the connection: the client is to poll.
        harness.reply(call.key, &Reply::events("id: s/1\nretry: 700\ndata:\n\n"));
        harness.pass(Duration::from_millis(699));
        assert!(!harness.has_opened(), "SH-C-34: not before the time that the server asked for");
        harness.pass(Duration::from_millis(100));
        let resumed = harness.opened();
        assert_eq!((resumed.line().as_str(), resumed.header("last-event-id")), ("GET /mcp", "s/1"));
        assert_eq!(resumed.header("mcp-session-id"), "session-1");
        // An event without an id leaves the cursor unchanged; then the stream breaks again.
        harness.begin(resumed.key, &Reply::events("data: {\"jsonrpc\":\"2.0\",\"method\":\"n\"}\n\n"));
        harness.fail(resumed.key, broken());
        harness.pass(Duration::from_secs(1));
        let resumed = harness.opened();
        assert_eq!(resumed.header("last-event-id"), "s/1");
        harness.reply(resumed.key, &Reply::events(event(&answer(&call))));
        assert_eq!(harness.outcome(), done());
        // A stream whose request has its answer is not resumed (SH-C-35).
        harness.pass(Duration::from_secs(100));
        assert!(!harness.has_opened());
    }
}

#[test]
fn ss9_a_resumption_that_brings_nothing_is_not_tried_for_ever() {
    let mut harness =
        HttpClientHarness::connected_client_with(|config, _| config.request_timeout = Duration::from_secs(600));
    let (_, call) = harness.request("tools/call");
    harness.reply(call.key, &Reply::events("id: 1\ndata:\n\n"));
    for _ in 0..3 {
        harness.pass(Duration::from_secs(20));
        let resumed = harness.opened();
        harness.reply(resumed.key, &Reply::events(""));
    }
    assert_eq!(harness.outcome(), Outcome::Failed(Failed::StreamEnded));
    // The server refuses the resumption.
    for status in [405, 400, 409] {
        let (_, call) = harness.request("tools/call");
        harness.reply(call.key, &Reply::events("id: 1\ndata:\n\n"));
        harness.pass(Duration::from_secs(5));
        let resumed = harness.opened();
        harness.reply(resumed.key, &Reply::status(status));
        assert_eq!(harness.outcome(), Outcome::Failed(Failed::StreamEnded));
    }
}

#[test]
fn sh_c_34_a_stream_is_opened_again_after_the_longer_of_the_times_that_the_server_has_asked_for() {
    for is_get_stream in [false, true] {
        // What the stream and then the refusal ask for, in seconds.
        for (retry, retry_after, expected) in
            [(20, Some(40), 40), (40, Some(20), 40), (40, None, 40), (0, Some(40), 40), (30, Some(30), 30)]
        {
            let mut harness = HttpClientHarness::client_with(|config, _| {
                config.request_timeout = Duration::from_secs(600);
            });
            let opened = harness.opened();
            harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
            let opened = harness.opened();
            harness.reply(opened.key, &Reply::status(202));
            let get = harness.opened();
            assert_eq!(get.line(), "GET /mcp");
            let broken = if is_get_stream {
                get
            } else {
                harness.reply(get.key, &Reply::status(405));
                harness.request("tools/call").1
            };
            let retry = if retry == 0 { String::new() } else { format!("retry: {retry}000\n") };
            harness.reply(broken.key, &Reply::events(format!("id: 1\n{retry}data:\n\n")));
            while !harness.has_opened() {
                harness.pass(Duration::from_millis(100));
            }
            let refused = harness.opened();
            assert_eq!(refused.header("last-event-id"), "1");
            let mut refusal = Reply::status(503);
            if let Some(seconds) = retry_after {
                refusal = refusal.header("retry-after", &seconds.to_string());
            }
            harness.reply(refused.key, &refusal);
            harness.pass(Duration::from_secs(expected).saturating_sub(Duration::from_millis(1)));
            assert!(!harness.has_opened(), "{is_get_stream} {retry} {retry_after:?}");
            // A tenth is random.
            harness.pass(Duration::from_secs(expected) / 10 + Duration::from_millis(1));
            assert_eq!(harness.opened().header("last-event-id"), "1", "{is_get_stream} {retry} {retry_after:?}");
        }
    }
}

#[test]
fn ss9_a_request_that_was_delivered_is_never_reported_as_undelivered() {
    let mut harness =
        HttpClientHarness::connected_client_with(|config, _| config.request_timeout = Duration::from_secs(600));
    let (_, call) = harness.request("tools/call");
    harness.reply(call.key, &Reply::events("id: 1\ndata:\n\n"));
    for _ in 0..3 {
        harness.pass(Duration::from_secs(20));
        let resumed = harness.opened();
        harness.fail(resumed.key, Failure::Unreachable { detail: "nothing listens there".into() });
    }
    let Outcome::Failed(reason) = harness.outcome() else { panic!() };
    assert!(!reason.is_undelivered());
    assert_eq!(reason, Failed::Broken { detail: "nothing listens there".into() });
}

#[test]
fn ss6_an_id_that_no_header_can_carry_is_no_place_to_resume_after() {
    for id in ["é", "x\u{1}", &"9".repeat(2000)] {
        let mut harness = HttpClientHarness::connected_client();
        let (_, call) = harness.request("tools/call");
        harness.reply(call.key, &Reply::events(format!("id: 1\ndata:\n\nid: {id}\ndata:\n\n")));
        assert_eq!(harness.outcome(), Outcome::Failed(Failed::StreamEnded));
    }
}

#[test]
fn ss7_b17_no_server_makes_a_client_reconnect_without_bounds() {
    for retry in ["0", "1", "500", "99999999999999999999"] {
        let mut harness = HttpClientHarness::client();
        let opened = harness.opened();
        harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", None));
        let opened = harness.opened();
        harness.reply(opened.key, &Reply::status(202));
        let mut attempts = 0;
        let start = harness.now;
        loop {
            while harness.has_opened() {
                let stream = harness.opened();
                attempts += 1;
                // Each attempt receives an event, so that it counts as a success.
                let notification = event(r#"{"jsonrpc":"2.0","method":"notifications/tools/list_changed"}"#);
                harness.reply(stream.key, &Reply::events(format!("retry: {retry}\n\n{notification}")));
                harness.events();
            }
            if harness.now - start >= Duration::from_secs(600) {
                break;
            }
            harness.pass(Duration::from_millis(100));
        }
        assert!(attempts - 1 <= 10 * 11, "{retry}: {attempts} in ten minutes");
        assert!(attempts >= 2, "{retry}: the longest pause is five minutes");
    }
}

#[test]
fn ss10_after_the_answer_a_stream_is_read_for_a_moment_and_up_to_a_limit() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events(event(&answer(&opened))));
    let notification = event(r#"{"jsonrpc":"2.0","method":"notifications/message","params":{}}"#);
    harness.send(opened.key, notification.as_bytes());
    let events = harness.events();
    assert!(matches!(&events[..], [Event::Responded { .. }, Event::Notified { .. }]), "{events:?}");
    harness.send(opened.key, &b":\n".repeat(40_000));
    assert!(harness.is_aborted(opened.key));
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events(event(&answer(&opened))));
    for _ in 0..10 {
        harness.pass(Duration::from_millis(500));
        if !harness.is_aborted(opened.key) {
            harness.send(opened.key, b":\n");
        }
    }
    assert!(harness.is_aborted(opened.key));
}

#[test]
fn ss14_events_before_the_end_of_the_stream_are_delivered_before_it() {
    let mut harness = HttpClientHarness::connected_client();
    let (_, opened) = harness.request("tools/call");
    let notification = event(r#"{"jsonrpc":"2.0","method":"n","params":{}}"#);
    harness.reply(
        opened.key,
        &Reply::events(format!("{}{}data: lost", notification.repeat(1000), event(&answer(&opened)))),
    );
    let events = harness.events();
    assert_eq!(events.len(), 1001);
    assert!(matches!(events.last(), Some(Event::Responded { outcome: Outcome::Result(_), .. })));
}

#[test]
fn rp10_a_server_that_sends_requests_and_reads_no_answers_is_disconnected() {
    let mut harness = HttpClientHarness::connected_client_with(|config, _| config.limits.queue = 16);
    let (_, opened) = harness.request("tools/call");
    harness.begin(opened.key, &Reply::events(""));
    let ping = event(r#"{"jsonrpc":"2.0","id":1,"method":"ping"}"#);
    harness.send(opened.key, ping.repeat(32).as_bytes());
    assert!(!harness.machine.is_closed());
    // Each answer that the server accepts makes room for another.
    let answer = harness.opened();
    harness.reply(answer.key, &Reply::status(202));
    harness.send(opened.key, ping.repeat(1000).as_bytes());
    let events = harness.events();
    assert!(events.iter().any(|event| matches!(event, Event::Responded { outcome: Outcome::Failed(_), .. })));
    harness.pass(Duration::from_secs(60));
    assert!(harness.events().contains(&Event::Closed(CloseReason::Overflow)));
}

// ---- LE: the transport of 2024-11-05

fn two_endpoint_client() -> (Client, Opened) {
    let mut harness = HttpClientHarness::client_with(|_, http| http.transport = HttpTransport::HttpSse);
    let stream = harness.opened();
    assert_eq!(stream.line(), "GET /mcp");
    (harness, stream)
}

#[test]
fn le1_an_endpoint_elsewhere_is_rejected_and_nothing_is_posted() {
    for endpoint in [
        "http://evil.example/m",
        "//evil.example/m",
        "\\\\evil.example/m",
        "javascript:x",
        "file:///etc/passwd",
        "http://server.example@evil.example/m",
        "http://server.example:81/m",
        "https://server.example/m",
        "/m\u{e9}",
        "",
        &format!("/{}", "x".repeat(1 << 20)),
    ] {
        let (mut harness, stream) = two_endpoint_client();
        harness.begin(stream.key, &Reply::events(format!("event: endpoint\ndata: {endpoint}\n\n")));
        let events = harness.events();
        let [Event::Unavailable { reason: Unavailable::Failed(Failed::EndpointRejected { endpoint: shown }), .. }] =
            &events[..]
        else {
            panic!("{endpoint:.60}: {events:?}");
        };
        assert!(endpoint.len() > 1000 || endpoint.contains(shown.as_str()) || endpoint.contains('@'), "{shown}");
        assert!(harness.is_aborted(stream.key) && !harness.has_opened());
    }
    for endpoint in ["/m?s=1", "http://server.example/m?s=1", "m?s=1", "./m?s=1", "../../m?s=1"] {
        let (mut harness, stream) = two_endpoint_client();
        harness.begin(stream.key, &Reply::events(format!("event: endpoint\r\ndata: {endpoint}\r\n\r\n")));
        assert_eq!(harness.opened().line(), "POST /m?s=1");
    }
}

#[test]
fn le2_the_endpoint_comes_first_once_and_in_time() {
    // The endpoint event does not come.
    let (mut harness, stream) = two_endpoint_client();
    harness.begin(stream.key, &Reply::events(": hello\n\n"));
    harness.pass(Duration::from_secs(10));
    let reason = Unavailable::Failed(Failed::NoEndpoint);
    assert_eq!(harness.events(), [Event::Unavailable { reason: reason.clone(), retry_in: None }]);
    assert!(harness.is_aborted(stream.key));
    // Another event comes first.
    let (mut harness, stream) = two_endpoint_client();
    harness.begin(stream.key, &Reply::events(event(r#"{"jsonrpc":"2.0","method":"n"}"#)));
    assert_eq!(harness.events(), [Event::Unavailable { reason, retry_in: None }]);
    // The endpoint event comes twice: the first one stays in effect.
    let (mut harness, stream) = two_endpoint_client();
    harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /a\n\nevent: endpoint\ndata: /b\n\n"));
    assert_eq!(harness.opened().line(), "POST /a");
    assert_eq!(faults(&harness.events()), [&Fault::SecondEndpoint]);
}

#[test]
fn le3_an_answer_on_the_post_is_none() {
    let (mut harness, stream) = two_endpoint_client();
    harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /m\n\n"));
    let post = harness.opened();
    harness.reply(post.key, &initialize_reply(&post, "2024-11-05", None));
    assert!(harness.events().is_empty());
    harness.send(stream.key, event(&result(&post.id(), &initialize_result("2024-11-05"))).as_bytes());
    assert!(matches!(&harness.events()[..], [Event::Connected { .. }]));
}

#[test]
fn hs_04_answers_come_on_the_stream_in_any_order_and_a_refused_post_fails_its_request() {
    let (mut harness, stream) = two_endpoint_client();
    harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /m\n\n"));
    let post = harness.opened();
    harness.reply(post.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&post.id(), &initialize_result("2025-11-25"))).as_bytes());
    let post = harness.opened();
    assert_eq!((post.body(), post.header("mcp-protocol-version")), (INITIALIZED, "2025-11-25"), "HS-14");
    harness.reply(post.key, &Reply::status(202));
    harness.events();
    let (first, one) = harness.request("a");
    let (second, two) = harness.request("b");
    let (third, three) = harness.request("c");
    harness.reply(one.key, &Reply::status(202));
    // The answer comes before the acknowledgement of the POST.
    harness.send(stream.key, event(&answer(&two)).as_bytes());
    harness.send(stream.key, event(&answer(&one)).as_bytes());
    harness.reply(two.key, &Reply::status(200));
    harness.reply(three.key, &Reply::status(500));
    let outcomes = harness.outcomes();
    assert_eq!((&outcomes[&first], &outcomes[&second]), (&done(), &done()));
    assert!(matches!(outcomes[&third], Outcome::Failed(Failed::Refused(_))));
}

#[test]
fn er_27_the_fallback_happens_where_it_may_and_the_first_answer_is_reported() {
    for status in [400, 404, 405, 406, 415, 422] {
        let mut harness = HttpClientHarness::client();
        let post = harness.opened();
        harness.reply(post.key, &Reply::html(status));
        let stream = harness.opened();
        assert_eq!((stream.line().as_str(), stream.header("accept")), ("GET /mcp", "text/event-stream"), "{status}");
        harness.reply(stream.key, &Reply::html(404));
        let events = harness.events();
        let [Event::Unavailable { reason: Unavailable::Failed(Failed::Refused(refusal)), retry_in: None }] =
            &events[..]
        else {
            panic!("{events:?}");
        };
        assert_eq!(refusal.status.as_u16(), status);
    }
    // These statuses prove nothing about the transport (ER-29, ER-26).
    for status in [401, 403, 407, 408, 429, 500, 502, 503] {
        let mut harness = HttpClientHarness::client();
        let post = harness.opened();
        harness.reply(post.key, &Reply::status(status));
        assert!(!harness.has_opened(), "{status}");
    }
    // A server that answers with a JSON-RPC message and the client's id uses Streamable HTTP.
    let mut harness = HttpClientHarness::client();
    let post = harness.opened();
    harness.reply(post.key, &Reply::json(error(&post.id(), -32602, "Unsupported")).with_status(400));
    assert!(!harness.has_opened());
    assert!(matches!(&harness.events()[..], [Event::Unavailable { reason: Unavailable::Error(_), .. }]));
    // There is no fallback if the configuration names the transport.
    let mut harness = HttpClientHarness::client_with(|_, http| http.transport = HttpTransport::StreamableHttp);
    let post = harness.opened();
    harness.reply(post.key, &Reply::html(404));
    assert!(!harness.has_opened());
}

// ---- CL: closing

#[test]
fn cl3_h6_closing_is_bounded_and_final() {
    let mut harness = HttpClientHarness::connected_client();
    let (key, opened) = harness.request("tools/call");
    harness.machine.close(harness.now);
    assert!(harness.is_aborted(opened.key));
    let delete = harness.opened();
    assert_eq!(delete.line(), "DELETE /mcp");
    assert_eq!(harness.machine.request(Call::new("a"), harness.now), Err(UsageError::Closed));
    harness.pass(Duration::from_secs(3));
    let events = harness.events();
    assert!(events.contains(&Event::Responded { request: key, outcome: Outcome::Failed(Failed::Closed) }));
    assert!(matches!(faults(&events)[..], [Fault::SessionNotEnded { .. }]));
    assert_eq!(events.last(), Some(&Event::Closed(CloseReason::Local)));
    assert!(harness.is_aborted(delete.key));
    assert_eq!(harness.machine.poll_timeout(), None);
    for status in [200, 202, 204, 404, 405] {
        let mut harness = HttpClientHarness::connected_client();
        harness.machine.close(harness.now);
        let delete = harness.opened();
        harness.reply(delete.key, &Reply::status(status));
        assert_eq!(harness.events(), [Event::Closed(CloseReason::Local)], "{status}");
    }
    // If the server does not accept the DELETE, a fault is reported and the client does not wait.
    for is_refused in [true, false] {
        let mut harness = HttpClientHarness::connected_client();
        harness.machine.close(harness.now);
        let delete = harness.opened();
        if is_refused {
            harness.reply(delete.key, &Reply::status(500));
        } else {
            harness.fail(delete.key, broken());
        }
        let events = harness.events();
        assert!(
            matches!(&events[..], [Event::Faulted(Fault::SessionNotEnded { .. }), Event::Closed(CloseReason::Local)]),
            "{events:?}"
        );
    }
}
