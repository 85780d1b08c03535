//! Requests that the server's ladder (RULES 5.2) refuses, for the machine and for what listens on sockets.

use mcp_proto::server::{Config, HttpConfig, TwoEndpoints};

use crate::asked::{Asked, initialize};

/// A request that is always answered.
pub const PING: &str = r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#;

/// A request that is refused.
#[derive(Debug, Clone)]
pub struct Row {
    /// The row of RULES 5.2 or of the catalogue.
    pub name: &'static str,
    /// The request.
    pub asked: Asked,
    /// The status of the answer.
    pub status: u16,
    /// The JSON-RPC error in its body.
    pub code: i64,
}

/// Configures a server for [`rows`].
pub fn configure(http: &mut HttpConfig, config: &mut Config) {
    http.two_endpoints = Some(TwoEndpoints { stream: "/sse".into(), messages: "/messages".into() });
    config.limits.message = 1000;
}

/// All of them; `id` names a session of 2025-11-25.
pub fn rows(id: &str) -> Vec<Row> {
    let post = || Asked::post(PING).in_session(id);
    let get = || Asked::new("GET", "").in_session(id);
    let rows = vec![
        ("another path", post().at("/"), 404, -32600),
        ("OR1: a page of another origin", post().with("origin", "https://evil.example"), 403, -32600),
        ("OR2: another host", post().with("host", "evil.example"), 403, -32600),
        ("OR3: GET", get().with("origin", "https://evil.example"), 403, -32600),
        ("OR3: DELETE", Asked::new("DELETE", "").in_session(id).with("host", "evil"), 403, -32600),
        ("OR3: the old stream", Asked::new("GET", "").at("/sse").with("origin", "null"), 403, -32600),
        ("OR3: the old messages", Asked::post(PING).at("/messages").with("host", "evil"), 403, -32600),
        ("another method", Asked::new("PUT", PING), 405, -32600),
        ("OPTIONS", Asked::new("OPTIONS", ""), 405, -32600),
        ("OR4: no content type", post().without("content-type"), 415, -32600),
        ("OR4: a form", post().with("content-type", "application/x-www-form-urlencoded"), 415, -32600),
        ("OR4: text", post().with("content-type", "text/plain"), 415, -32600),
        ("OR5: JSON only", post().with("accept", "application/json"), 406, -32600),
        ("OR5: events only", post().with("accept", "text/event-stream"), 406, -32600),
        ("OR5: no events", post().with("accept", "*/*, text/event-stream;q=0"), 406, -32600),
        ("row 31", get().with("accept", "application/json"), 406, -32600),
        ("OR6: a length over the limit", post().with("content-length", "1001"), 413, -32600),
        ("OR6: a body over the limit", Asked::post(vec![b' '; 1001]).in_session(id), 413, -32600),
        ("OR8: no JSON", Asked::post("{").in_session(id), 400, -32700),
        ("no JSON, no session", Asked::post("{"), 400, -32700),
        ("row 7", Asked::post("{}").in_session(id), 400, -32600),
        ("row 8", Asked::post(format!("[{PING}]")).in_session(id), 400, -32600),
        ("row 16", Asked::post(PING), 400, -32600),
        ("row 16, GET", Asked::new("GET", ""), 400, -32600),
        ("row 16, DELETE", Asked::new("DELETE", ""), 400, -32600),
        ("row 17", Asked::post(PING).in_session("0123"), 404, -32600),
        ("two session ids", post().and("mcp-session-id", id), 404, -32600),
        ("row 18, SE2", Asked::post(initialize("2025-06-18")).in_session(id), 400, -32600),
        ("row 20", post().with("mcp-protocol-version", "1999-01-01"), 400, -32600),
        ("row 20: DELETE", Asked::new("DELETE", "").in_session(id).with("mcp-protocol-version", "1"), 400, -32600),
        ("row 20: not served", post().with("mcp-protocol-version", "2026-07-28"), 400, -32600),
        ("SE8: a forged event", get().with("last-event-id", "0000000000000000-1"), 400, -32600),
        ("SE8: no event at all", get().with("last-event-id", "é"), 400, -32600),
        ("LE4: no session named", Asked::post(PING).at("/messages"), 404, -32600),
        ("LE4: an unknown session", Asked::post(PING).at("/messages?sessionId=1"), 404, -32600),
        ("LE4: POST to the stream", Asked::post(PING).at("/sse"), 405, -32600),
    ];
    rows.into_iter().map(|(name, asked, status, code)| Row { name, asked, status, code }).collect()
}
