//! A server that closes connections when a request has arrived, as one does whose connection was idle for too long.

use std::collections::BTreeSet;
use std::sync::{Mutex, PoisonError};

use mcp_testkit::loopback_server::{LoopbackServer, mcp_server};
use mcp_testkit::messages::result;

/// Requests, with their parameters, and whether a client sends them again when their connection was closed.
pub const REQUESTS: [(&str, &str, bool); 7] = [
    ("tools/list", "{}", true),
    ("resources/read", r#"{"uri":"file:///a"}"#, true),
    ("prompts/get", r#"{"name":"p"}"#, true),
    ("resources/list", "{}", true),
    ("tools/call", r#"{"name":"t"}"#, false),
    ("logging/setLevel", r#"{"level":"info"}"#, false),
    ("x/unknown", "{}", false),
];

/// Starts the server. It closes the connection of the first request with each of these methods, or of all of them, without
/// a response.
pub fn closing_server(closes_all: bool) -> LoopbackServer {
    let closed = Mutex::new(BTreeSet::new());
    LoopbackServer::start(mcp_server(move |asked, connection| {
        let is_first = closed.lock().unwrap_or_else(PoisonError::into_inner).insert(asked.method.clone());
        if closes_all || is_first {
            connection.close();
            return Ok(());
        }
        connection.json(result(&asked.id, "{}"))
    }))
}

/// How many requests with this method the server has received.
pub fn count(server: &LoopbackServer, method: &str) -> usize {
    server.asked().iter().filter(|asked| asked.method == method).count()
}
