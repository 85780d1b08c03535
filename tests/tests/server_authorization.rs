//! Servers that demand authorization: the metadata of the resource, the challenges, and who sent a request.

use mcp_proto::auth::{Challenge, ProtectedResource};
use mcp_proto::server::{HttpConfig, Principal, TwoEndpoints};
use mcp_proto::{Json, UsageError};
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::http_server::HttpServerHarness;

const CALL: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"t"}}"#;
const METADATA: &str = "/.well-known/oauth-protected-resource";

fn resource(url: &str) -> ProtectedResource {
    let resource = ProtectedResource::new(url).and_then(|new| new.authorization_server("https://auth.example"));
    resource.and_then(|new| new.scope("read")).expect("a resource")
}

/// A server for both HTTP transports at this path, which names itself by this URL.
fn server(path: &str, url: &str) -> HttpServerHarness {
    HttpServerHarness::with(|http, config| {
        http.path = Some(path.into());
        http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
        http.protected_resource = Some(resource(url));
        config.capabilities = Json::parse(r#"{"tools":{}}"#).expect("JSON");
    })
}

fn header<'s>(sent: &'s TestResponse, name: &str) -> &'s str {
    sent.headers.get(name).map_or("", |value| value.to_str().expect("ASCII"))
}

#[test]
fn oa_z_01_the_metadata_are_served_where_clients_look_for_them() {
    for (own, url, path, code) in [
        ("/mcp", "https://h.example/mcp", "/mcp", 200),
        ("/mcp", "https://h.example/mcp", "/mcp?a=b", 200),
        ("/mcp", "https://h.example/mcp", "", 404),
        ("/mcp", "https://h.example/mcp", "/mcp/", 404),
        ("/mcp", "https://h.example/mcp", "/other", 404),
        ("/", "https://h.example/", "", 200),
        ("/", "https://h.example/behind/a/proxy", "", 200),
        ("/", "https://h.example/behind/a/proxy", "/behind/a/proxy", 200),
        ("/mcp", "https://h.example", "", 200),
    ] {
        let mut harness = server(own, url);
        let sent = harness.answer(&TestRequest::get().at(&format!("{METADATA}{path}")).without("accept"));
        assert_eq!(sent.code(), code, "{own} {url} {path}");
        if code == 200 {
            assert_eq!(sent.text().as_bytes(), resource(url).to_json());
            let fields = ["content-type", "cache-control", "access-control-allow-origin"];
            assert_eq!(fields.map(|name| header(&sent, name)), ["application/json", "max-age=3600", "*"]);
        }
    }
}

#[test]
fn oa_z_01_the_metadata_need_neither_a_token_nor_an_origin() {
    let mut harness = server("/mcp", "https://h.example/mcp");
    for is_routed in [false, true] {
        harness.is_routed = is_routed;
        for (method, code, allow) in [
            ("GET", 200, ""),
            ("HEAD", 200, ""),
            ("OPTIONS", 204, ""),
            ("POST", 405, "GET, HEAD, OPTIONS"),
            ("DELETE", 405, "GET, HEAD, OPTIONS"),
        ] {
            let asked = TestRequest::new(method, "").at(&format!("{METADATA}/mcp"));
            let asked = asked.with("origin", "https://evil.example").challenged(Challenge::bearer());
            let sent = harness.answer(&asked);
            assert_eq!((sent.code(), header(&sent, "allow")), (code, allow), "{method}");
            assert!(code == 405 || header(&sent, "access-control-allow-origin") == "*", "{method}");
            let asks = ["access-control-allow-methods", "access-control-allow-headers"].map(|name| header(&sent, name));
            assert_eq!(asks, if method == "OPTIONS" { ["GET, HEAD, OPTIONS", "*"] } else { [""; 2] });
        }
    }
    let other = TestRequest::get().at(&format!("{METADATA}/mcp")).with("host", "evil.example");
    assert_eq!(harness.answer(&other).code(), 403, "the host is checked nevertheless");
}

#[test]
fn oa_z_01_a_server_without_metadata_serves_none() {
    let mut harness = HttpServerHarness::new();
    for path in ["", "/mcp"] {
        assert_eq!(harness.answer(&TestRequest::get().at(&format!("{METADATA}{path}"))).code(), 404, "{path}");
    }
    let mut http = HttpConfig::new();
    http.protected_resource = ProtectedResource::new("https://h.example").ok();
    let refused = mcp_proto::Server::new(mcp_proto::server::Http::new(http), mcp_proto::server::Config::new("s", "1"));
    assert_eq!(refused.err(), Some(UsageError::NoAuthorizationServer));
}

#[test]
fn au27_oa_z_02_a_challenge_becomes_the_response_that_its_error_demands() {
    let own = r#"resource_metadata="https://h.example/.well-known/oauth-protected-resource/mcp""#;
    let with = |error: &str| Challenge::bearer().with("error", error);
    for (challenge, code, expected) in [
        (Challenge::bearer(), 401, format!("Bearer {own}")),
        (Challenge::bearer().with("scope", "read"), 401, format!(r#"Bearer scope="read", {own}"#)),
        (with("invalid_token"), 401, format!(r#"Bearer error="invalid_token", {own}"#)),
        (with("of another standard"), 401, format!(r#"Bearer error="of another standard", {own}"#)),
        (
            with("insufficient_scope").with("scope", "read write"),
            403,
            format!(r#"Bearer error="insufficient_scope", scope="read write", {own}"#),
        ),
        (with("invalid_request"), 400, format!(r#"Bearer error="invalid_request", {own}"#)),
        (
            Challenge::bearer().with("resource_metadata", "https://other.example/m"),
            401,
            r#"Bearer resource_metadata="https://other.example/m""#.to_owned(),
        ),
    ] {
        let mut harness = server("/mcp", "https://h.example/mcp");
        let sent = harness.answer(&TestRequest::post(initialize("2025-11-25")).challenged(challenge));
        assert_eq!((sent.code(), header(&sent, "www-authenticate")), (code, expected.as_str()));
        assert!(sent.text().starts_with(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"#), "{}", sent.text());
        assert_eq!((header(&sent, "content-type"), harness.server.sessions()), ("application/json", 0));
        assert!(harness.events().is_empty());
    }
    let mut plain = HttpServerHarness::new();
    let sent = plain.answer(&TestRequest::post(initialize("2025-11-25")).challenged(Challenge::bearer()));
    assert_eq!((sent.code(), header(&sent, "www-authenticate")), (401, "Bearer"), "there are no metadata to name");
}

#[test]
fn au27_oa_z_02_se_02_no_request_gets_past_a_challenge_or_learns_of_a_session() {
    let mut harness = server("/mcp", "https://h.example/mcp");
    let id = harness.session_of("2025-11-25", Some("ada"));
    let opened = harness.ask(&TestRequest::get().at("/sse").by("ada"));
    let endpoint = harness.take(opened).text();
    let messages = endpoint.split("data: ").nth(1).and_then(|rest| rest.lines().next()).expect("an endpoint");
    harness.events();
    for session in [&*id, "unknown"] {
        for asked in [
            TestRequest::post(CALL),
            TestRequest::get(),
            TestRequest::get().with("last-event-id", "x"),
            TestRequest::new("DELETE", ""),
            TestRequest::new("PUT", ""),
            TestRequest::get().at("/sse"),
            TestRequest::post(CALL).at(messages),
            TestRequest::post(CALL).at("/messages?sessionId=unknown"),
            TestRequest::stateless("1", "tools/list", ""),
            TestRequest::post("no JSON").with("content-type", "text/plain"),
        ] {
            let sent = harness.answer(&asked.clone().in_session(session).challenged(Challenge::bearer()));
            assert_eq!(sent.code(), 401, "{asked:?}");
        }
    }
    assert_eq!((harness.server.sessions(), harness.events().len()), (2, 0));
    let elsewhere = TestRequest::get().at("/elsewhere").challenged(Challenge::bearer());
    assert_eq!(harness.answer(&elsewhere).code(), 404);
    let origin = TestRequest::post(CALL).with("origin", "https://evil.example").challenged(Challenge::bearer());
    assert_eq!(harness.answer(&origin).code(), 403, "a page of another origin is told nothing");
}

#[test]
fn au27_oa_z_03_a_handler_sees_the_principal_of_its_own_request() {
    let mut harness = server("/mcp", "https://h.example/mcp");
    let ada = |scopes: &str| Principal::new("ada").with_subject("a").with_scopes(scopes);
    let opened = harness.answer(&TestRequest::post(initialize("2025-11-25")).by(ada("none")));
    let id = header(&opened, "mcp-session-id").to_owned();
    let note = TestRequest::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#);
    assert_eq!(harness.answer(&note.in_session(&id).by("ada")).code(), 202);
    let stream = harness.ask(&TestRequest::get().at("/sse").by(ada("none")));
    let endpoint = harness.take(stream).text();
    let messages = endpoint.split("data: ").nth(1).and_then(|rest| rest.lines().next()).expect("an endpoint");
    let body = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2024-11-05","capabilities":{},"clientInfo":{"name":"c","version":"1"}}}"#;
    for body in [body, r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#] {
        assert_eq!(harness.answer(&TestRequest::post(body).at(messages).by("ada")).code(), 202);
    }
    for asked in [
        TestRequest::post(CALL).in_session(&id),
        TestRequest::post(CALL).at(messages),
        TestRequest::stateless_call("1", "t", ""),
    ] {
        let mut tickets = Vec::new();
        // Both are unanswered at the same time.
        for scopes in ["read", "read write"] {
            let body = String::from_utf8(asked.body.to_vec()).expect("text");
            let body = body.replacen("\"id\":1", &format!("\"id\":{}", scopes.len()), 1);
            harness.ask(&TestRequest { body: body.into(), ..asked.clone() }.by(ada(scopes)));
            tickets.push((harness.ticket(), scopes));
        }
        for (ticket, scopes) in tickets {
            let context = harness.server.context(&ticket).expect("a context");
            let principal = context.principal.expect("a principal");
            assert_eq!((principal.as_str(), principal.subject()), ("ada", Some("a")));
            assert_eq!(principal.scopes().collect::<Vec<_>>().join(" "), scopes, "{asked:?}");
            harness.respond(ticket, r#"{"content":[]}"#);
        }
    }
    let eve = harness.answer(&TestRequest::post(CALL).in_session(&id).by("eve"));
    assert_eq!(eve.code(), 404, "SE4");
}
