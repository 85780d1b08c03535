//! The cookies that a client over HTTP keeps for the time of a session.

use mcp_proto::client::{Client, Http, HttpConfig};
use mcp_testkit::http_client::{HttpClientHarness, Reply, initialize_reply};
use mcp_testkit::messages::{DISCOVERED, result};

type Harness = HttpClientHarness<Client<Http>>;

/// Opens a session whose first response sets a cookie, and returns the cookies of the next request.
fn cookies_after_opening(change: impl FnOnce(&mut HttpConfig)) -> (Harness, String) {
    let mut harness = Harness::client_with(|_, http| change(http));
    let opened = harness.opened();
    assert_eq!(opened.header("cookie"), if opened.header("x-own").is_empty() { "" } else { "own=1" });
    let reply = initialize_reply(&opened, "2025-11-25", Some("session-1"));
    harness.reply(opened.key, &reply.header("set-cookie", "lb=backend-1; Path=/; HttpOnly"));
    let confirmation = harness.opened();
    harness.reply(confirmation.key, &Reply::status(202));
    let stream = harness.opened();
    let cookies = stream.header("cookie").to_owned();
    assert_eq!(confirmation.header("cookie"), cookies);
    harness.reply(stream.key, &Reply::status(405));
    harness.events();
    (harness, cookies)
}

#[test]
fn the_cookie_of_a_load_balancer_is_sent_with_every_request_of_the_session() {
    let (mut harness, cookies) = cookies_after_opening(|_| {});
    assert_eq!(cookies, "lb=backend-1");
    let (_, opened) = harness.request("tools/list");
    assert_eq!(opened.header("cookie"), "lb=backend-1");
    // A later response replaces it.
    let reply = Reply::json(result(&opened.id(), r#"{"tools":[]}"#)).header("set-cookie", "lb=backend-2; Path=/");
    harness.reply(opened.key, &reply);
    let (_, opened) = harness.request("tools/list");
    assert_eq!(opened.header("cookie"), "lb=backend-2");
    // The next session may be at another instance.
    harness.reply(opened.key, &Reply::status(404));
    let opened = harness.opened();
    assert_eq!((opened.method().as_str(), opened.header("cookie")), ("initialize", ""));
}

#[test]
fn cookies_can_be_turned_off_and_a_configured_header_replaces_them() {
    let (_, cookies) = cookies_after_opening(|http| http.cookies = false);
    assert_eq!(cookies, "");
    let (_, cookies) = cookies_after_opening(|http| {
        http.header("X-Own", "1").unwrap();
        http.header("Cookie", "own=1").unwrap();
    });
    assert_eq!(cookies, "own=1");
}

#[test]
fn a_revision_without_sessions_has_no_cookies() {
    let mut harness = Harness::detecting_client();
    let opened = harness.opened();
    let reply = Reply::json(result(&opened.id(), DISCOVERED)).header("set-cookie", "lb=backend-1; Path=/");
    harness.reply(opened.key, &reply);
    let (_, opened) = harness.request("tools/list");
    assert_eq!(opened.header("cookie"), "");
}
