//! The headers of a client are replaced while it is connected: every request that follows has the later ones, and none the
//! earlier ones.

use std::time::Duration;

use mcp_intermediary::relay::Relay;
use mcp_proto::client::{Call, Client, Http, HttpConfig, HttpTransport, Outcome};
use mcp_proto::{Notification, UsageError};
use mcp_testkit::http_client::{HttpClientHarness, Opened, Reply, URL, initialize_reply};
use mcp_testkit::messages::{event, request, result};

type HttpClient = HttpClientHarness<Client<Http>>;

const SECOND: Duration = Duration::from_secs(1);
/// The headers of the configuration, before and after.
const EARLIER: &[(&str, &str)] = &[("X-Key", "earlier-key"), ("X-Also", "earlier-too"), ("X-Former", "earlier-only")];
const LATER: &[(&str, &str)] = &[("X-Key", "later-key"), ("X-Also", "later-too"), ("X-Also", "later-also")];

fn add(http: &mut HttpConfig, headers: &[(&str, &str)]) {
    for (name, value) in headers {
        http.header(name, value).unwrap();
    }
}

fn with(headers: &[(&str, &str)]) -> HttpConfig {
    let mut http = HttpConfig::new(URL).unwrap();
    add(&mut http, headers);
    http
}

fn assert_has(opened: &Opened, headers: &[(&str, &str)]) {
    let names = ["x-key", "x-also", "x-former"];
    let sent = opened.request.headers().iter().filter(|(name, _)| names.contains(&name.as_str()));
    let mut sent: Vec<_> = sent.map(|(name, value)| (name.as_str(), value.to_str().unwrap())).collect();
    let expected = headers.iter().map(|(name, value)| (name.to_ascii_lowercase(), *value));
    let mut expected: Vec<_> = expected.collect();
    sent.sort_unstable();
    expected.sort_unstable();
    let expected: Vec<_> = expected.iter().map(|(name, value)| (name.as_str(), *value)).collect();
    assert_eq!(sent, expected, "{}", opened.line());
}

/// Replaces the headers of the client.
fn change(harness: &mut HttpClient) {
    harness.machine.set_headers(&with(LATER)).unwrap();
    assert!(!harness.has_opened(), "nothing is sent because of it");
}

fn answer(opened: &Opened) -> Reply {
    Reply::json(result(&opened.id(), "{}"))
}

#[test]
fn all_kinds_of_requests_of_a_session_have_the_later_headers() {
    let mut harness = HttpClient::client_with(|config, http| {
        config.limits.exchanges = 8;
        http.redelivery = 60 * SECOND;
        add(http, EARLIER);
    });
    let opened = harness.opened();
    assert_has(&opened, EARLIER);
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-1")));
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &Reply::status(202));
    let stream = harness.opened();
    assert_eq!(stream.line(), "GET /mcp");
    let prime = |id: &str| format!("id: {id}\nretry: 10\ndata:\n\n");
    harness.begin(stream.key, &Reply::events(prime("s-1")));
    // One call whose stream will break, one that will be redirected, one that is not delivered, and so many that one waits.
    let calls: Vec<_> = (0..6).map(|_| harness.request("tools/call").1).collect();
    for opened in calls.iter().chain([&confirmation, &stream]) {
        assert_has(opened, EARLIER);
    }
    let waiting = harness.machine.request(Call::new("x/waits"), harness.now).unwrap();
    assert!(!harness.has_opened(), "{waiting:?}");
    harness.begin(calls[0].key, &Reply::events(prime("c-1")));
    change(&mut harness);

    let mut kinds = Vec::new();
    let mut expect = |opened: &Opened, line: &str, event_id: &str, session: &str| {
        assert_has(opened, LATER);
        assert_eq!((opened.line().as_str(), opened.header("last-event-id")), (line, event_id));
        assert_eq!(opened.header("mcp-session-id"), session);
        kinds.push(opened.line());
    };
    // What waited for an exchange.
    harness.reply(calls[5].key, &answer(&calls[5]));
    let opened = harness.opened();
    assert_eq!(opened.method(), "x/waits");
    expect(&opened, "POST /mcp", "", "session-1");
    harness.reply(opened.key, &answer(&opened));
    // What is sent again.
    harness.reply(calls[1].key, &Reply::status(307).header("location", "/other"));
    let opened = harness.opened();
    expect(&opened, "POST /other", "", "session-1");
    harness.reply(opened.key, &answer(&opened));
    harness.refuse(calls[2].key);
    harness.pass(2 * SECOND);
    let opened = harness.opened();
    expect(&opened, "POST /mcp", "", "session-1");
    harness.reply(opened.key, &answer(&opened));
    // Streams that are opened again.
    for (broken, last) in [(&stream, "s-1"), (&calls[0], "c-1")] {
        harness.end(broken.key);
        harness.pass(2 * SECOND);
        let opened = harness.opened();
        expect(&opened, "GET /mcp", last, "session-1");
        harness.begin(opened.key, &Reply::events(""));
    }
    // Messages that are no calls.
    let ping = harness.request("ping").1;
    expect(&ping, "POST /mcp", "", "session-1");
    harness.reply(ping.key, &answer(&ping));
    harness.machine.notify(Notification::new("notifications/x"), harness.now).unwrap();
    let notified = harness.opened();
    assert!(notified.body().contains("notifications/x"));
    expect(&notified, "POST /mcp", "", "session-1");
    harness.reply(notified.key, &Reply::status(202));
    // The next session, and its end.
    harness.reply(calls[3].key, &Reply::status(404));
    let opened = loop {
        let opened = harness.opened();
        if opened.method() == "initialize" {
            break opened;
        }
    };
    expect(&opened, "POST /mcp", "", "");
    harness.reply(opened.key, &initialize_reply(&opened, "2025-11-25", Some("session-2")));
    while harness.has_opened() {
        let opened = harness.opened();
        assert_has(&opened, LATER);
        harness.reply(opened.key, &Reply::status(if opened.line() == "GET /mcp" { 405 } else { 202 }));
    }
    harness.machine.close(harness.now);
    let mut deleted = harness.opened();
    while deleted.line() != "DELETE /mcp" {
        assert_has(&deleted, LATER);
        deleted = harness.opened();
    }
    expect(&deleted, "DELETE /mcp", "", "session-2");
    assert_eq!(kinds.len(), 9, "{kinds:?}");
}

#[test]
fn a_stateless_client_sends_the_later_headers() {
    let mut harness = HttpClient::modern_client_with(|_, http| add(http, EARLIER));
    let opened = harness.request("tools/list").1;
    assert_has(&opened, EARLIER);
    change(&mut harness);
    harness.reply(opened.key, &answer(&opened));
    let opened = harness.request("tools/list").1;
    assert_has(&opened, LATER);
    assert_eq!(opened.header("mcp-method"), "tools/list");
}

#[test]
fn both_endpoints_of_2024_11_05_receive_the_later_headers() {
    let mut harness = HttpClient::client_with(|_, http| {
        http.transport = HttpTransport::HttpSse;
        add(http, EARLIER);
    });
    let stream = harness.opened();
    harness.begin(stream.key, &Reply::events("event: endpoint\ndata: /messages\n\n"));
    let opened = harness.opened();
    assert_eq!(opened.line(), "POST /messages");
    harness.reply(opened.key, &Reply::status(202));
    let initialized = initialize_reply(&opened, "2024-11-05", None).parts().1;
    harness.send(stream.key, event(&String::from_utf8(initialized).unwrap()).as_bytes());
    let confirmation = harness.opened();
    for opened in [&stream, &opened, &confirmation] {
        assert_has(opened, EARLIER);
    }
    harness.reply(confirmation.key, &Reply::status(202));
    change(&mut harness);
    let (call, opened) = harness.request("x/y");
    assert_has(&opened, LATER);
    assert_eq!(opened.line(), "POST /messages");
    harness.reply(opened.key, &Reply::status(202));
    harness.send(stream.key, event(&result(&opened.id(), "{}")).as_bytes());
    assert!(matches!(harness.outcomes().remove(&call), Some(Outcome::Result(_))));
    // The stream of the next session.
    harness.end(stream.key);
    harness.machine.connect(harness.now).unwrap();
    let stream = harness.opened();
    assert_has(&stream, LATER);
    assert_eq!(stream.line(), "GET /mcp");
}

#[test]
fn a_server_that_repeats_an_earlier_header_in_a_refusal_is_quoted_without_it() {
    let mut harness = HttpClient::connected_client_with(|_, http| add(http, EARLIER));
    let opened = harness.request("x/y").1;
    change(&mut harness);
    change(&mut harness);
    let body = r#"{"error":"neither earlier-key nor later-key is known"}"#;
    harness.reply(opened.key, &Reply::status(400).content_type("application/json").body(body));
    let Outcome::Failed(failed) = harness.outcome() else { panic!() };
    assert!(failed.to_string().contains("neither […] nor […] is known"), "{failed}");
}

#[test]
fn whether_there_is_an_authorization_header_cannot_change() {
    let fixed = |value| [("Authorization", value)];
    for (before, after, is_fine) in [
        (&fixed("Bearer a")[..], &fixed("Bearer b")[..], true),
        (&fixed("Bearer a")[..], LATER, false),
        (EARLIER, &fixed("Bearer b")[..], false),
        (EARLIER, LATER, true),
    ] {
        let mut harness = HttpClient::connected_client_with(|_, http| add(http, before));
        let expected = if is_fine { Ok(()) } else { Err(UsageError::AuthorizationHeader) };
        assert_eq!(harness.machine.set_headers(&with(after)), expected);
        let in_force = if is_fine { after } else { before };
        let opened = harness.request("x/y").1;
        for (name, value) in in_force {
            assert!(opened.request.headers().get_all(*name).iter().any(|sent| sent == value), "{name}");
        }
        let authorization = in_force.iter().find(|(name, _)| *name == "Authorization").map_or("", |(_, value)| value);
        assert_eq!(opened.header("authorization"), authorization);
    }
}

#[test]
fn a_relay_sends_the_later_headers_and_its_client_notices_nothing() {
    let mut harness = HttpClientHarness::<Relay>::connected_relay_with(|_, http| add(http, EARLIER));
    let opened = harness.call("\"a\"", "tools/call");
    assert_has(&opened, EARLIER);
    harness.machine.set_headers(&with(LATER)).unwrap();
    harness.reply(opened.key, &answer(&opened));
    assert_eq!(harness.lines(), [result("\"a\"", "{}")]);
    let opened = harness.call("\"b\"", "tools/call");
    assert_has(&opened, LATER);
    // A server for which the other key is another user may refuse the session.
    harness.reply(opened.key, &Reply::status(404));
    let opened = harness.opened();
    assert_eq!(opened.method(), "initialize");
    assert_has(&opened, LATER);
    harness.line(&request("\"c\"", "ping", "{}"));
    harness.machine.close(harness.now);
    assert_eq!(harness.machine.set_headers(&with(EARLIER)), Ok(()), "also after its end");
}
