//! Requests that a server over HTTP must refuse, for tests of machines and of servers on sockets.
//!
//! # Example: the server machine
//!
//! ```
//! use mcp_testkit::bad_requests;
//! use mcp_testkit::http_server::HttpServerHarness;
//!
//! let mut server = HttpServerHarness::with(bad_requests::configure);
//! let session = server.session("2025-11-25");
//! for row in bad_requests::rows(&session) {
//!     let response = server.answer(&row.asked);
//!     assert_eq!(response.code(), row.status, "{}", row.name);
//!     assert!(response.text().contains(&format!("\"code\":{}", row.code)), "{}", row.name);
//! }
//! ```

use mcp_proto::Json;
use mcp_proto::server::{Config, HttpConfig, TwoEndpoints};

use crate::http_exchange::{META, TestRequest, initialize, modern};

/// A request that is always answered with a result.
pub const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;

const RESPONSE: &str = r#"{"jsonrpc":"2.0","id":1,"result":{}}"#;

/// A request that is refused.
#[derive(Debug, Clone)]
pub struct Row {
    /// The row of RULES 5.2 or of the catalogue of bad input.
    pub name: &'static str,
    /// The request that is sent.
    pub asked: TestRequest,
    /// The HTTP status of the response.
    pub status: u16,
    /// The JSON-RPC error code in the body of the response.
    pub code: i64,
}

/// Configures a server for [`rows`].
pub fn configure(http: &mut HttpConfig, config: &mut Config) {
    http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    config.limits.message = 1000;
    config.capabilities =
        Json::parse(r#"{"tools":{"listChanged":true},"resources":{"subscribe":true},"logging":{}}"#).expect("JSON");
}

/// All refused requests. `id` is the id of an open session of 2025-11-25.
pub fn rows(id: &str) -> Vec<Row> {
    let post = || TestRequest::post(PING).in_session(id);
    let get = || TestRequest::new("GET", "").in_session(id);
    let list = || TestRequest::stateless("1", "tools/list", "");
    let call = || TestRequest::stateless_call("1", "a", "");
    let stated = |meta: &str| {
        let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"tools/list","params":{{"_meta":{{{meta}}}}}}}"#);
        TestRequest::post(body).repeating_headers("2026-07-28", "tools/list")
    };
    let versioned = |version: &str| stated(&META.replace("2026-07-28", version));
    let rows = vec![
        ("another path", post().at("/"), 404, -32600),
        ("OR1: a page of another origin", post().with("origin", "https://evil.example"), 403, -32600),
        ("OR2: another host", post().with("host", "evil.example"), 403, -32600),
        ("OR3: GET", get().with("origin", "https://evil.example"), 403, -32600),
        ("OR3: DELETE", TestRequest::new("DELETE", "").in_session(id).with("host", "evil"), 403, -32600),
        ("OR3: the old stream", TestRequest::new("GET", "").at("/sse").with("origin", "null"), 403, -32600),
        ("OR3: the old messages", TestRequest::post(PING).at("/messages").with("host", "evil"), 403, -32600),
        ("another method", TestRequest::new("PUT", PING), 405, -32600),
        ("OPTIONS", TestRequest::new("OPTIONS", ""), 405, -32600),
        ("OR4: no content type", post().without("content-type"), 415, -32600),
        ("OR4: a form", post().with("content-type", "application/x-www-form-urlencoded"), 415, -32600),
        ("OR4: text", post().with("content-type", "text/plain"), 415, -32600),
        ("a compressed body", post().with("content-encoding", "gzip"), 415, -32600),
        (
            "a coding in two layers",
            post().and("content-encoding", "identity").and("content-encoding", "br"),
            415,
            -32600,
        ),
        ("OR5: JSON only", post().with("accept", "application/json"), 406, -32600),
        ("OR5: events only", post().with("accept", "text/event-stream"), 406, -32600),
        ("OR5: no events", post().with("accept", "*/*, text/event-stream;q=0"), 406, -32600),
        ("row 31", get().with("accept", "application/json"), 406, -32600),
        ("OR6: a length over the limit", post().with("content-length", "1001"), 413, -32600),
        ("OR6: a body over the limit", TestRequest::post(vec![b' '; 1001]).in_session(id), 413, -32600),
        ("OR8: no JSON", TestRequest::post("{").in_session(id), 400, -32700),
        ("no JSON, no session", TestRequest::post("{"), 400, -32700),
        ("row 7", TestRequest::post("{}").in_session(id), 400, -32600),
        ("row 8", TestRequest::post(format!("[{PING}]")).in_session(id), 400, -32600),
        ("row 16", TestRequest::post(PING), 400, -32600),
        ("row 16, GET", TestRequest::new("GET", ""), 400, -32600),
        ("row 16, DELETE", TestRequest::new("DELETE", ""), 400, -32600),
        ("row 17", TestRequest::post(PING).in_session("0123"), 404, -32600),
        ("two session ids", post().and("mcp-session-id", id), 404, -32600),
        ("row 18, SE2", TestRequest::post(initialize("2025-06-18")).in_session(id), 400, -32600),
        ("row 20", post().with("mcp-protocol-version", "1999-01-01"), 400, -32600),
        (
            "row 20: DELETE",
            TestRequest::new("DELETE", "").in_session(id).with("mcp-protocol-version", "1"),
            400,
            -32600,
        ),
        ("MD-M-02: no _meta", post().with("mcp-protocol-version", "2026-07-28"), 400, -32602),
        ("HM8: GET in the newer revision", get().with("mcp-protocol-version", "2026-07-28"), 405, -32600),
        (
            "HM8: DELETE in the newer revision",
            TestRequest::new("DELETE", "").repeating_headers("2026-07-28", "x"),
            405,
            -32600,
        ),
        (
            "HM9: a response in the newer revision",
            TestRequest::post(RESPONSE).repeating_headers("2026-07-28", "x"),
            400,
            -32600,
        ),
        (
            "HM9: a batch in the newer revision",
            TestRequest::post(format!("[{PING}]")).repeating_headers("2026-07-28", "ping"),
            400,
            -32600,
        ),
        ("JR-38: a batch with such a request", TestRequest::post(format!("[{}]", modern("1", "x", ""))), 400, -32600),
        ("HM7: a newer body with an older header", list().with("mcp-protocol-version", "2025-11-25"), 400, -32020),
        ("HM7: a newer body without the header", list().without("mcp-protocol-version"), 400, -32020),
        (
            "HM7: an older body with a newer header",
            TestRequest::post(PING).repeating_headers("2026-07-28", "ping"),
            400,
            -32602,
        ),
        (
            "ER-44",
            TestRequest::post(initialize("2025-11-25")).repeating_headers("2026-07-28", "initialize"),
            400,
            -32020,
        ),
        ("HM1: another method", list().with("mcp-method", "tools/call"), 400, -32020),
        ("HM1: the method in another case", list().with("mcp-method", "Tools/List"), 400, -32020),
        ("HM1: no method", list().without("mcp-method"), 400, -32020),
        ("HM1: an empty method", list().with("mcp-method", ""), 400, -32020),
        ("HM1: another name", call().with("mcp-name", "b"), 400, -32020),
        ("HM1: no name", call().without("mcp-name"), 400, -32020),
        ("HM2: two versions", list().and("mcp-protocol-version", "2026-07-28"), 400, -32020),
        ("HM2: two methods", list().and("mcp-method", "tools/list"), 400, -32020),
        ("HM2: two names", call().and("mcp-name", "a"), 400, -32020),
        ("HM3: two names in the body", TestRequest::stateless_call("1", "a", r#""name":"a","#), 400, -32602),
        ("HM4: broken Base64", call().with("mcp-name", "=?base64?Y?="), 400, -32020),
        ("HM4: Base64 within Base64", call().with("mcp-name", "=?base64?PT9iYXNlNjQ/WVE9PT89?="), 400, -32020),
        ("MD-V-01", versioned("2027-01-01").with("mcp-protocol-version", "2027-01-01"), 400, -32022),
        ("MD-V-01: an older one", versioned("2025-11-25").with("mcp-protocol-version", "2025-11-25"), 400, -32022),
        ("8.4: the header comes before the version", versioned("v999"), 400, -32020),
        ("MD-M-02: no capabilities", stated(r#""io.modelcontextprotocol/protocolVersion":"2026-07-28""#), 400, -32602),
        ("MD-M-02: no version", stated(r#""io.modelcontextprotocol/clientCapabilities":{}"#), 400, -32602),
        ("MD-M-03", stated(r#""io.modelcontextprotocol/protocolVersion":1"#), 400, -32602),
        ("MD-M-10", stated(&format!(r#"{META},"io.modelcontextprotocol/logLevel":"loud""#)), 400, -32602),
        ("8.4: ping is no more", TestRequest::stateless("1", "ping", ""), 404, -32601),
        ("8.4: initialize is no more", TestRequest::stateless("1", "initialize", ""), 404, -32601),
        ("MD-V-05: not declared", TestRequest::stateless("1", "prompts/list", ""), 404, -32601),
        ("MD-L-01", TestRequest::stateless("1", "subscriptions/listen", ""), 400, -32602),
        ("SE8: a forged event", get().with("last-event-id", "0000000000000000-1"), 400, -32600),
        ("SE8: no event at all", get().with("last-event-id", "é"), 400, -32600),
        ("LE4: no session named", TestRequest::post(PING).at("/messages"), 404, -32600),
        ("LE4: an unknown session", TestRequest::post(PING).at("/messages?sessionId=1"), 404, -32600),
        ("LE4: POST to the stream", TestRequest::post(PING).at("/sse"), 405, -32600),
    ];
    rows.into_iter().map(|(name, asked, status, code)| Row { name, asked, status, code }).collect()
}
