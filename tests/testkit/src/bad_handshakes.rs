//! Forbidden or unusual behaviour of HTTP servers while a client connects, and the outcome that the client must report.
//! Every driver with a client runs the table over sockets.
//!
//! Each name begins with the rows of the catalogue that it belongs to.

use std::fmt::Display;
use std::io;

use mcp_proto::Json;

use crate::bad_answers::{RESULT, judge, ok, or_result};
use crate::http1::HttpMessage;
use crate::loopback_server::{Connection, LoopbackServer, PostedMessage, mcp_server, two_endpoint_server};
use crate::messages::{initialize_result, result};

/// A server that behaves badly during the handshake.
#[derive(Debug, Clone, Copy)]
pub struct BadHandshake {
    /// The rows of the catalogue, and what is wrong.
    pub name: &'static str,
    /// Starts the server.
    pub server: fn() -> LoopbackServer,
    /// A part of the client's error; `None` where the client connects and a call succeeds with [`RESULT`].
    fails: Option<&'static str>,
}

impl BadHandshake {
    /// Whether the client must accept it; otherwise it must report an error. A client whose errors have other texts than
    /// those of `mcp-proto` is tested with this instead of [`judge`](Self::judge).
    pub const fn is_accepted(&self) -> bool {
        self.fails.is_none()
    }

    /// Compares the outcome of a call, or of the attempt to connect, with the expected one.
    pub fn judge(&self, outcome: Result<Json, impl Display>) {
        judge(self.name, or_result(self.fails), outcome);
    }
}

/// Starts a server that behaves correctly except for the requests that `answer` handles.
fn otherwise(answer: fn(&HttpMessage, &mut Connection) -> Option<io::Result<()>>) -> LoopbackServer {
    let sane = mcp_server(|asked, connection| connection.json(result(&asked.id, RESULT)));
    LoopbackServer::start(move |request, connection| {
        answer(request, connection).unwrap_or_else(|| sane(request, connection))
    })
}

fn is(method: &str, request: &HttpMessage) -> bool {
    PostedMessage::of(request).is_some_and(|asked| asked.method == method)
}

/// Answers `initialize` with one `Mcp-Session-Id` header for each of these ids.
fn sessions(ids: &[&str], request: &HttpMessage, connection: &mut Connection) -> Option<io::Result<()>> {
    let asked = PostedMessage::of(request).filter(|asked| asked.method == "initialize")?;
    let mut headers = vec![("content-type", "application/json")];
    headers.extend(ids.iter().map(|id| ("mcp-session-id", *id)));
    Some(connection.reply("200 OK", &headers, result(&asked.id, &initialize_result("2025-11-25"))))
}

/// Acts as a server of the two-endpoint transport whose stream begins with this text.
fn older(stream: &str, request: &HttpMessage, connection: &mut Connection) -> io::Result<()> {
    if request.line.starts_with("GET") {
        connection.close();
        let head = "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\n\r\n";
        return connection.raw(format!("{head}{stream}"));
    }
    connection.reply("405 Method Not Allowed", &[], "")
}

/// The table of bad handshakes.
pub const BAD_HANDSHAKES: &[BadHandshake] = &[
    BadHandshake {
        name: "HT3: a session id with a space",
        server: || otherwise(|request, connection| sessions(&["a b"], request, connection)),
        fails: Some("gave a session id that cannot be sent back"),
    },
    BadHandshake {
        name: "HT3: a session id with a control",
        server: || otherwise(|request, connection| sessions(&["a\tb"], request, connection)),
        fails: Some("gave a session id that cannot be sent back"),
    },
    BadHandshake {
        name: "HT3: a session id of eight kilobytes",
        server: || otherwise(|request, connection| sessions(&[&"x".repeat(8 * 1024)], request, connection)),
        fails: Some("gave a session id that cannot be sent back"),
    },
    BadHandshake {
        name: "HT3: two session ids",
        server: || otherwise(|request, connection| sessions(&["a", "b"], request, connection)),
        fails: Some("gave a session id that cannot be sent back"),
    },
    BadHandshake {
        name: "HT3: no session id",
        server: || otherwise(|request, connection| sessions(&[], request, connection)),
        fails: None,
    },
    BadHandshake {
        name: "HT7: a body in answer to a notification",
        server: || {
            otherwise(|request, connection| {
                is("notifications/initialized", request).then(|| connection.json(result("null", r#"{"thank":"you"}"#)))
            })
        },
        fails: None,
    },
    BadHandshake {
        name: "HT7: a page in answer to a notification",
        server: || {
            otherwise(|request, connection| {
                is("notifications/initialized", request)
                    .then(|| connection.reply("200 OK", &[("content-type", "text/html")], "<p>thank you"))
            })
        },
        fails: None,
    },
    BadHandshake {
        name: "LE1: an endpoint on another origin",
        server: || {
            otherwise(|request, connection| {
                Some(older("event: endpoint\ndata: http://127.0.0.1:2/messages\n\n", request, connection))
            })
        },
        fails: Some("as the endpoint for messages, which is on another origin"),
    },
    BadHandshake {
        name: "LE1: an endpoint on another host, without a scheme",
        server: || {
            otherwise(|request, connection| {
                Some(older("event: endpoint\ndata: //example.org/x\n\n", request, connection))
            })
        },
        fails: Some("as the endpoint for messages, which is on another origin"),
    },
    BadHandshake {
        name: "LE2: a stream that ends before it names an endpoint",
        server: || otherwise(|request, connection| Some(older(": soon\n\n", request, connection))),
        fails: Some("405"),
    },
    BadHandshake {
        name: "LE2: a message before the endpoint",
        server: || otherwise(|request, connection| Some(older("data: {}\n\n", request, connection))),
        fails: Some("405"),
    },
    BadHandshake {
        name: "LE3: answers on the POSTs of the older transport",
        server: || two_endpoint_server(ok, |asked, connection| connection.json(result(&asked.id, r#"{"wrong":true}"#))),
        fails: None,
    },
];
