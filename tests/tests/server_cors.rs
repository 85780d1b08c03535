//! Web pages of allowed origins may read the responses of a server, and no others (CORS).

use mcp_proto::auth::{Challenge, ProtectedResource};
use mcp_proto::server::{Access, HttpConfig, TwoEndpoints};
use mcp_testkit::bad_requests::PING;
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::http_server::HttpServerHarness;
use mcp_testkit::messages::{INITIALIZED, request};

const APP: &str = "https://app.example";

fn listed(http: &mut HttpConfig) {
    http.cors = true;
    http.access = Access::Listed { hosts: vec!["localhost".into()], origins: vec![APP.into()] };
}

fn harness() -> HttpServerHarness {
    HttpServerHarness::with(|http, _| listed(http))
}

fn preflight(path: &str, origin: &str) -> TestRequest {
    TestRequest::new("OPTIONS", "")
        .at(path)
        .with("origin", origin)
        .with("access-control-request-method", "POST")
        .with("access-control-request-headers", "content-type,Mcp-Param-Region, mcp-param-b, x-other, bad name")
}

fn header<'r>(sent: &'r TestResponse, name: &str) -> &'r str {
    sent.headers.get(name).map_or("", |value| value.to_str().unwrap())
}

/// The origin whose pages may read a response, and the headers of the transport in it.
fn readable_by(sent: &TestResponse) -> Option<&str> {
    assert!(!sent.headers.contains_key("access-control-allow-credentials"), "cookies are never permitted");
    let origin = sent.headers.get("access-control-allow-origin")?.to_str().unwrap();
    let exposed = header(sent, "access-control-expose-headers");
    assert!(exposed.contains("mcp-session-id") && exposed.contains("www-authenticate"), "{exposed}");
    assert!(sent.headers.get_all("vary").iter().any(|value| value == "origin"));
    Some(origin)
}

#[test]
fn a_browser_is_permitted_what_the_transport_needs() {
    let two = || Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    for (get_stream, delete, methods) in
        [(true, true, "GET, POST, DELETE"), (false, true, "POST, DELETE"), (false, false, "POST")]
    {
        let mut harness = HttpServerHarness::with(|http, _| {
            listed(http);
            (http.two_endpoints, http.get_stream, http.delete) = (two(), get_stream, delete);
        });
        for (path, methods) in [("/mcp", methods), ("/sse", "GET"), ("/messages", "POST")] {
            // A browser states no credentials in this request.
            let sent = harness.answer(&preflight(path, APP).challenged(Challenge::bearer()));
            assert_eq!((sent.code(), readable_by(&sent)), (204, Some(APP)), "{path}");
            assert_eq!(header(&sent, "access-control-allow-methods"), methods, "{path}");
            let allowed: Vec<_> = header(&sent, "access-control-allow-headers").split(", ").collect();
            for name in [
                "accept",
                "authorization",
                "content-type",
                "last-event-id",
                "mcp-method",
                "mcp-name",
                "mcp-protocol-version",
                "mcp-session-id",
                "traceparent",
                "mcp-param-region",
                "mcp-param-b",
            ] {
                assert!(allowed.contains(&name), "{name} is not in {allowed:?}");
            }
            assert!(!allowed.iter().any(|name| ["*", "x-other", "bad name"].contains(name)), "{allowed:?}");
        }
    }
}

#[test]
fn every_response_to_an_allowed_origin_can_be_read_by_its_pages() {
    let mut harness = harness();
    let of_app = |asked: TestRequest| asked.with("origin", APP);
    let opened = harness.answer(&of_app(TestRequest::post(initialize("2025-11-25"))));
    assert_eq!((opened.code(), readable_by(&opened)), (200, Some(APP)));
    let id = header(&opened, "mcp-session-id").to_owned();
    for (name, asked, code) in [
        ("202", TestRequest::post(INITIALIZED).in_session(&id), 202),
        ("an answer", TestRequest::post(PING).in_session(&id), 200),
        ("a stream", TestRequest::get().in_session(&id), 200),
        ("a broken body", TestRequest::post("{").in_session(&id), 400),
        ("a stateless answer", TestRequest::stateless("1", "server/discover", ""), 200),
        ("a challenge", TestRequest::post(PING).challenged(Challenge::bearer()), 401),
        ("an unknown session", TestRequest::post(PING).in_session("0"), 404),
        ("an unknown path", TestRequest::post(PING).at("/other"), 404),
        ("OPTIONS without the method of the request", TestRequest::new("OPTIONS", ""), 405),
    ] {
        let sent = harness.answer(&of_app(asked));
        assert_eq!((sent.code(), readable_by(&sent)), (code, Some(APP)), "{name}: {}", sent.text());
    }
    // A response that becomes a stream, and one that ends before it begins.
    let call = r#"{"_meta":{"progressToken":1}}"#;
    let key = harness.ask(&of_app(TestRequest::post(request("1", "tools/call", call)).in_session(&id)));
    let ticket = harness.ticket();
    let progress = mcp_proto::server::Progress { progress: 1.0, total: None, message: None };
    harness.server.progress(&ticket, &progress, harness.now);
    let sent = harness.take(key);
    assert!(sent.is_stream && readable_by(&sent) == Some(APP));
    let gone = harness.begin(&of_app(TestRequest::post(PING).in_session(&id)));
    harness.server.handle_disconnect(gone, harness.now);
    harness.server.close(harness.now);
    let sent = harness.answer(&of_app(TestRequest::post(PING)));
    assert_eq!((sent.code(), readable_by(&sent)), (503, Some(APP)));
}

#[test]
fn or1_pages_of_other_origins_and_hosts_are_permitted_nothing() {
    let mut harness = harness();
    for origin in ["https://evil.example", "null", "https://app.example.evil.example", "http://app.example", ""] {
        for asked in [preflight("/mcp", origin), TestRequest::post(PING).with("origin", origin)] {
            let sent = harness.answer(&asked);
            assert_eq!((sent.code(), readable_by(&sent)), (403, None), "{origin:?}");
            assert!(!sent.headers.contains_key("access-control-allow-methods"));
        }
    }
    let sent = harness.answer(&preflight("/mcp", APP).and("origin", APP));
    assert_eq!((sent.code(), readable_by(&sent)), (403, None), "two origins");
    let sent = harness.answer(&preflight("/mcp", APP).with("host", "evil.example"));
    assert_eq!((sent.code(), readable_by(&sent)), (403, None), "OR2");
    let sent = harness.answer(&TestRequest::post(PING));
    assert_eq!((sent.code(), readable_by(&sent)), (400, None), "a client that is no browser");
    assert_eq!(header(&sent, "vary"), "origin", "a cache keeps it from pages");
}

#[test]
fn or3_without_the_setting_no_page_is_permitted_anything() {
    let mut harness = HttpServerHarness::with(|http, _| {
        listed(http);
        http.cors = false;
    });
    let sent = harness.answer(&preflight("/mcp", APP));
    assert_eq!((sent.code(), readable_by(&sent)), (405, None));
    let sent = harness.answer(&TestRequest::post(initialize("2025-11-25")).with("origin", APP));
    assert_eq!((sent.code(), readable_by(&sent), header(&sent, "vary")), (200, None, ""));
}

#[test]
fn a_server_for_all_origins_does_not_repeat_them() {
    let mut harness = HttpServerHarness::with(|http, _| (http.cors, http.access) = (true, Access::Anybody));
    let sent = harness.answer(&preflight("/mcp", "https://evil.example"));
    assert_eq!((sent.code(), readable_by(&sent)), (204, Some("*")));
    let mut harness = HttpServerHarness::with(|http, _| http.cors = true);
    let sent = harness.answer(&preflight("/mcp", "http://localhost:8080"));
    assert_eq!((sent.code(), readable_by(&sent)), (204, Some("http://localhost:8080")), "Access::Loopback");
}

#[test]
fn the_metadata_of_a_protected_resource_stay_for_every_page() {
    let mut harness = HttpServerHarness::with(|http, _| {
        listed(http);
        let resource = ProtectedResource::new("http://localhost:3000/mcp").unwrap();
        http.protected_resource = Some(resource.authorization_server("https://auth.example").unwrap());
    });
    let path = "/.well-known/oauth-protected-resource/mcp";
    for origin in [APP, "https://other.example"] {
        for asked in [preflight(path, origin), TestRequest::get().at(path).with("origin", origin)] {
            let sent = harness.answer(&asked);
            let origins: Vec<_> = sent.headers.get_all("access-control-allow-origin").iter().collect();
            assert!(sent.code() < 300 && origins == ["*"], "{}: {origins:?}", sent.code());
        }
    }
}
