//! A server that demands tokens, and what its clients receive on the wire.

use http::header::AUTHORIZATION;
use http::request::Parts;
use mcp_proto::Json;
use mcp_proto::auth::{Challenge, ProtectedResource};
use mcp_proto::server::{Config, HttpConfig, Principal};
use mcp_testkit::http_exchange::{TestRequest, TestResponse, initialize};
use mcp_testkit::raw_client::RawClient;

const METADATA: &str = "/.well-known/oauth-protected-resource/mcp";
const WHOAMI: &str = r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"whoami"}}"#;

/// Configures a server for [`its_clients_receive_challenges`].
///
/// # Panics
///
/// Never.
pub fn configure(http: &mut HttpConfig, config: &mut Config) {
    let resource = ProtectedResource::new("https://mcp.example/mcp").expect("a URL");
    http.protected_resource = Some(resource.authorization_server("https://auth.example").expect("a URL"));
    config.capabilities = Json::parse(r#"{"tools":{}}"#).expect("JSON");
}

/// Accepts the tokens `ada-read` and `eve-read`, and demands more for requests with the header `x-needs`.
///
/// # Errors
///
/// The challenge.
///
/// # Panics
///
/// With the token `broken`.
pub fn authenticate(head: &Parts) -> Result<Principal, Challenge> {
    let Some(token) = head.headers.get(AUTHORIZATION) else { return Err(Challenge::bearer().with("scope", "read")) };
    let principal = match token.as_bytes() {
        b"Bearer ada-read" => Principal::new("ada"),
        b"Bearer eve-read" => Principal::new("eve"),
        b"Bearer broken" => panic!("the check is broken"),
        b"Bearer" => return Err(Challenge::bearer().with("error", "invalid_request")),
        _ => return Err(Challenge::bearer().with("error", "invalid_token")),
    };
    match head.headers.get("x-needs") {
        None => Ok(principal.with_scopes("read")),
        Some(scope) => {
            let scopes = format!("read {}", scope.to_str().expect("ASCII"));
            Err(Challenge::bearer().with("error", "insufficient_scope").with("scope", &scopes))
        }
    }
}

/// What the handlers of the server answer.
pub fn whoami(principal: Option<&Principal>) -> Json {
    let scopes = principal.map(|principal| principal.scopes().collect::<Vec<_>>().join(" "));
    let text = format!("{} {}", principal.map_or("", Principal::as_str), scopes.unwrap_or_default());
    Json::empty_object().with_member("you", &Json::from(text.as_str()))
}

/// The scenario, for a server with [`configure`], [`authenticate`] and [`whoami`].
///
/// # Panics
///
/// If the server does not do what it should.
pub fn its_clients_receive_challenges(server: &RawClient) {
    let with = |asked: &TestRequest, token: &str| asked.clone().with("authorization", &format!("Bearer {token}"));
    let challenge = |sent: &TestResponse| {
        let field = sent.headers.get("www-authenticate").map(|field| field.to_str().expect("ASCII").to_owned());
        let own = format!(r#"resource_metadata="https://mcp.example{METADATA}""#);
        (sent.code(), field.map_or("none".to_owned(), |field| field.replace(&own, "…")))
    };
    let open = TestRequest::post(initialize("2025-11-25"));
    let unknown = TestRequest::post(WHOAMI).in_session("unknown");
    for asked in [&open, &unknown, &TestRequest::get().in_session("unknown"), &TestRequest::new("DELETE", "")] {
        for (asked, code, expected) in [
            (asked.clone(), 401, r#"Bearer scope="read", …"#),
            (with(asked, "forged"), 401, r#"Bearer error="invalid_token", …"#),
            (asked.clone().with("authorization", "Bearer"), 400, r#"Bearer error="invalid_request", …"#),
            (
                with(asked, "ada-read").with("x-needs", "write"),
                403,
                r#"Bearer error="insufficient_scope", scope="read write", …"#,
            ),
        ] {
            assert_eq!(challenge(&server.answer(&asked)), (code, expected.to_owned()), "{asked:?}");
        }
    }
    assert_eq!(challenge(&server.answer(&with(&unknown, "ada-read"))), (404, "none".to_owned()));

    let metadata = server.answer(&TestRequest::get().at(METADATA));
    let document = r#"{"resource":"https://mcp.example/mcp","authorization_servers":["https://auth.example"],"bearer_methods_supported":["header"]}"#;
    assert_eq!((metadata.code(), metadata.text().as_str()), (200, document));
    let head =
        server.raw(format!("HEAD {METADATA} HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n").as_bytes());
    assert!(head.starts_with("HTTP/1.1 200") && head.ends_with("\r\n\r\n"), "{head}");

    let opened = server.answer(&with(&open, "ada-read"));
    assert_eq!(opened.code(), 200);
    let id = opened.headers["mcp-session-id"].to_str().expect("ASCII");
    let note = TestRequest::post(r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#).in_session(id);
    assert_eq!(server.answer(&with(&note, "ada-read")).code(), 202);
    let call = TestRequest::post(WHOAMI).in_session(id);
    assert_eq!(server.answer(&with(&call, "eve-read")).code(), 404, "SE4");
    assert_eq!(server.answer(&call).code(), 401);
    for asked in [call, TestRequest::stateless_call("1", "whoami", "")] {
        let answer = server.answer(&with(&asked, "ada-read"));
        assert!(answer.code() == 200 && answer.text().contains(r#""you":"ada read""#), "{}", answer.text());
    }
    let broken = with(&open, "broken").with("connection", "close");
    assert_eq!(server.raw(&mcp_testkit::raw_client::text(&broken)), "", "a check that fails admits no client");
    assert_eq!(server.answer(&with(&open, "eve-read")).code(), 200);
}
