//! HTTP responses of servers that are forbidden or unusual, and the outcome that a client must report. Every driver
//! with a client runs the table over sockets.
//!
//! Each name begins with the rows of the catalogue that it belongs to.

use std::fmt::Display;
use std::io;

use mcp_proto::Json;

use crate::loopback_server::{Connection, LoopbackServer, PostedMessage, mcp_server};
use crate::messages::{NOTIFICATION, event, request, result};

/// A bad response to a tool call.
#[derive(Debug, Clone, Copy)]
pub struct BadAnswer {
    /// The rows of the catalogue, and what is wrong.
    pub name: &'static str,
    pub(crate) answer: fn(&PostedMessage, &mut Connection) -> io::Result<()>,
    /// A part of the client's error; `None` where the client accepts the response, whose result is [`RESULT`].
    pub(crate) fails: Option<&'static str>,
}

/// The result of the calls that succeed.
pub const RESULT: &str = r#"{"content":[]}"#;

impl BadAnswer {
    /// Starts a server that answers tool calls with this response and everything else correctly.
    pub fn server(&self) -> LoopbackServer {
        let answer = self.answer;
        LoopbackServer::start(mcp_server(move |asked, connection| {
            if asked.method == "tools/call" {
                answer(asked, connection)
            } else {
                connection.json(result(&asked.id, "{}"))
            }
        }))
    }

    /// Whether the client must accept it; otherwise it must report an error. A client whose errors have other texts than
    /// those of `mcp-proto` is tested with this instead of [`judge`](Self::judge).
    pub const fn is_accepted(&self) -> bool {
        self.fails.is_none()
    }

    /// Compares the outcome of the call with the expected one.
    pub fn judge(&self, outcome: Result<Json, impl Display>) {
        judge(self.name, or_result(self.fails), outcome);
    }
}

/// The expected outcome: the failure if there is one, otherwise [`RESULT`].
pub(crate) fn or_result(fails: Option<&str>) -> Result<&str, &str> {
    fails.map_or(Ok(RESULT), Err)
}

pub(crate) fn judge(name: &str, expected: Result<&str, &str>, outcome: Result<Json, impl Display>) {
    match (outcome.map_err(|error| error.to_string()), expected) {
        (Ok(found), Ok(text)) => assert_eq!(found.to_text(), text, "{name}"),
        (Err(found), Err(text)) => assert!(found.contains(text), "{name}: {found}"),
        (found, expected) => panic!("{name}: {found:?} instead of {expected:?}"),
    }
}

const JSON: (&str, &str) = ("content-type", "application/json");
const EVENTS: (&str, &str) = ("content-type", "text/event-stream");

pub(crate) fn ok(asked: &PostedMessage) -> String {
    result(&asked.id, RESULT)
}

/// Sends a stream of events with `text` before the result.
fn before(asked: &PostedMessage, connection: &mut Connection, text: &str) -> io::Result<()> {
    stream(connection, format!("{text}{}", event(&ok(asked))))
}

fn stream(connection: &mut Connection, text: impl AsRef<[u8]>) -> io::Result<()> {
    connection.begin_events()?;
    for chunk in text.as_ref().chunks(64 * 1024) {
        connection.chunk(chunk)?;
    }
    connection.finish()
}

fn raw(connection: &mut Connection, text: impl AsRef<[u8]>) -> io::Result<()> {
    connection.close();
    connection.raw(text)
}

/// A response with these members and the id of the request.
fn members(asked: &PostedMessage, members: &str) -> String {
    format!(r#"{{"jsonrpc":"2.0","id":{},{members}}}"#, asked.id)
}

fn nested(depth: usize) -> String {
    "[".repeat(depth) + &"]".repeat(depth)
}

/// The table of bad responses.
pub const BAD_ANSWERS: &[BadAnswer] = &[
    BadAnswer {
        name: "HT1: a redirect elsewhere",
        answer: |_, connection| connection.reply("307 Temporary Redirect", &[("location", "http://127.0.0.1:2/")], ""),
        fails: Some(" redirects"),
    },
    BadAnswer {
        name: "HT1: a redirect that would make a GET of it",
        answer: |_, connection| connection.reply("302 Found", &[("location", "/elsewhere")], ""),
        fails: Some(" redirects"),
    },
    BadAnswer {
        name: "HT2: redirects in a circle",
        answer: |_, connection| connection.reply("308 Permanent Redirect", &[("location", "/mcp")], ""),
        fails: Some(" redirects"),
    },
    BadAnswer {
        name: "HT2: a redirect to nowhere",
        answer: |_, connection| connection.reply("307 Temporary Redirect", &[], ""),
        fails: Some(" redirects"),
    },
    BadAnswer {
        name: "HT4: another session",
        answer: |asked, connection| connection.reply("200 OK", &[JSON, ("mcp-session-id", "another")], ok(asked)),
        fails: None,
    },
    BadAnswer {
        name: "HT5: JSON, spelled otherwise",
        answer: |asked, connection| {
            connection.reply("200 OK", &[("content-type", "APPLICATION/JSON ; charset=utf-8")], ok(asked))
        },
        fails: None,
    },
    BadAnswer {
        name: "HT5: a page",
        answer: |_, connection| connection.reply("200 OK", &[("content-type", "text/html")], "<p>hello"),
        fails: Some("answered with an HTML page"),
    },
    BadAnswer {
        name: "HT5: no content type",
        answer: |asked, connection| connection.reply("200 OK", &[], ok(asked)),
        fails: Some("a body without a type"),
    },
    BadAnswer {
        name: "HT5: another content type",
        answer: |asked, connection| connection.reply("200 OK", &[("content-type", "application/jsonp")], ok(asked)),
        fails: Some("a body of another type"),
    },
    BadAnswer {
        name: "HT6: 202",
        answer: |_, connection| connection.reply("202 Accepted", &[], ""),
        fails: Some("treated the request as a notification"),
    },
    BadAnswer {
        name: "HT6: 204",
        answer: |_, connection| connection.raw("HTTP/1.1 204 No Content\r\n\r\n"),
        fails: Some("treated the request as a notification"),
    },
    BadAnswer {
        name: "HT6: 200 and nothing",
        answer: |_, connection| connection.reply("200 OK", &[JSON], ""),
        fails: Some("treated the request as a notification"),
    },
    BadAnswer {
        name: "HT8: no credentials",
        answer: |_, connection| connection.reply("401 Unauthorized", &[("www-authenticate", "Bearer")], ""),
        fails: Some("answered 401 Unauthorized; it requires credentials"),
    },
    BadAnswer {
        name: "HT8: too much to do",
        answer: |_, connection| connection.reply("429 Too Many Requests", &[("retry-after", "700")], ""),
        fails: Some("it asks to wait 300s"),
    },
    BadAnswer {
        name: "HT8: an error body of ten megabytes",
        answer: |_, connection| {
            connection.close();
            connection.reply("500 Internal Server Error", &[("content-type", "text/html")], "x".repeat(10_000_000))
        },
        fails: Some("answered 500"),
    },
    BadAnswer {
        name: "HT8: an error of JSON-RPC in one of HTTP",
        answer: |asked, connection| {
            let error = members(asked, r#""error":{"code":-32602,"message":"no such tool"}"#);
            connection.reply("400 Bad Request", &[JSON], error)
        },
        fails: Some("no such tool"),
    },
    BadAnswer {
        name: "HT9: a session that is never there",
        answer: |_, connection| connection.reply("404 Not Found", &[], ""),
        fails: Some("answered 404 Not Found"),
    },
    BadAnswer {
        name: "HT10: gzip that was not requested",
        answer: |_, connection| connection.reply("200 OK", &[JSON, ("content-encoding", "gzip")], b"\x1f\x8b\x08\x00"),
        fails: Some("compressed its answer"),
    },
    BadAnswer {
        name: "HT11: a body that ends early",
        answer: |_, connection| {
            raw(connection, "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: 1000\r\n\r\n{")
        },
        fails: Some("broke the connection before it answered"),
    },
    BadAnswer {
        name: "HT11: chunks that end early",
        answer: |_, connection| {
            connection.close();
            connection.begin_events()?;
            connection.raw("ff\r\ndata: ")
        },
        fails: Some("broke the connection before it answered"),
    },
    BadAnswer {
        name: "HT11: nothing",
        answer: |_, connection| raw(connection, ""),
        fails: Some("it closed the connection"),
    },
    BadAnswer {
        name: "HT11: something that is no HTTP",
        answer: |_, connection| raw(connection, "SSH-2.0-OpenSSH_9.2p1\r\n\r\n"),
        fails: Some("it does not speak HTTP/1.1"),
    },
    BadAnswer {
        name: "HT12: headers of more than 64 KiB",
        answer: |_, connection| {
            raw(connection, format!("HTTP/1.1 200 OK\r\nx-long: {}\r\n\r\n", "x".repeat(1_000_000)))
        },
        fails: Some("headers are larger"),
    },
    BadAnswer {
        name: "HT12: a thousand headers",
        answer: |_, connection| raw(connection, format!("HTTP/1.1 200 OK\r\n{}\r\n", "x-many: y\r\n".repeat(1000))),
        fails: Some("broke the connection before it answered"),
    },
    BadAnswer {
        name: "HT12: interim responses before the answer",
        answer: |asked, connection| {
            for _ in 0..10 {
                connection.raw("HTTP/1.1 103 Early Hints\r\nlink: </x>\r\n\r\n")?;
            }
            connection.json(ok(asked))
        },
        fails: None,
    },
    BadAnswer {
        name: "SS1: an event that is too long",
        answer: |_, connection| stream(connection, "data: ".to_owned() + &"x".repeat(20_000_000)),
        fails: Some("answered with more than"),
    },
    BadAnswer {
        name: "SS2: comments, one of them long",
        answer: |asked, connection| {
            let text = ":\n".repeat(10_000) + ": " + &"x".repeat(5_000_000) + "\n";
            before(asked, connection, &text)
        },
        fails: None,
    },
    BadAnswer {
        name: "SS3: unknown fields, one of them long",
        answer: |asked, connection| {
            let text = "x: y\n\n".repeat(10_000) + &"z".repeat(5_000_000) + ": 1\n\n\0: 2\n";
            before(asked, connection, &text)
        },
        fails: None,
    },
    BadAnswer {
        name: "SS4: every line end",
        answer: |asked, connection| {
            let text = format!(": 1\r\n: 2\r: 3\n\r\nevent:message\rdata:{}\r\r", ok(asked));
            connection.begin_events()?;
            for byte in text.bytes() {
                connection.chunk([byte])?;
            }
            connection.finish()
        },
        fails: None,
    },
    BadAnswer {
        name: "SS5: bytes that are no UTF-8",
        answer: |asked, connection| {
            let text = [b"data: {\"x\":\"\xff\"}\n\n", event(&ok(asked)).as_bytes()].concat();
            stream(connection, text)
        },
        fails: None,
    },
    BadAnswer {
        name: "SS6: ids with NUL, with controls, of a megabyte",
        answer: |asked, connection| {
            let text = format!("id: a\0b\ndata:\n\nid: \x01\ndata:\n\nid: {}\ndata:\n\n", "x".repeat(1_000_000));
            before(asked, connection, &text)
        },
        fails: None,
    },
    BadAnswer {
        name: "SS7: retry of nothing, of 20 digits, not a number",
        answer: |asked, connection| {
            before(asked, connection, "retry:\n\nretry: 99999999999999999999\n\nretry: -1\n\nretry: 1e3\n\n")
        },
        fails: None,
    },
    BadAnswer {
        name: "SS8: events of other names",
        answer: |asked, connection| {
            before(asked, connection, "event: ping\ndata: now\n\nevent: endpoint\ndata: http://127.0.0.1:2/\n\n")
        },
        fails: None,
    },
    BadAnswer {
        name: "SS9: a stream that ends in order and without the answer",
        answer: |_, connection| stream(connection, ""),
        fails: Some("ended the stream without an answer"),
    },
    BadAnswer {
        name: "SS9: a stream that ends before the end of the answer",
        answer: |asked, connection| stream(connection, event(&ok(asked)).trim_end()),
        fails: Some("ended the stream without an answer"),
    },
    BadAnswer {
        name: "SS10: more after the answer",
        answer: |asked, connection| {
            let text = event(&ok(asked)) + &event(NOTIFICATION) + &event(&result("\"another\"", "{}"));
            stream(connection, text)
        },
        fails: None,
    },
    BadAnswer {
        name: "SS12: an empty event with an id",
        answer: |asked, connection| before(asked, connection, "id: 1\ndata:\n\nid: 2\n\n"),
        fails: None,
    },
    BadAnswer {
        name: "SS13: JSON with the content type of events",
        answer: |asked, connection| connection.reply("200 OK", &[EVENTS], ok(asked)),
        fails: Some("ended the stream without an answer"),
    },
    BadAnswer {
        name: "SS13: events with the content type of JSON",
        answer: |asked, connection| connection.reply("200 OK", &[JSON], event(&ok(asked))),
        fails: Some("not JSON"),
    },
    BadAnswer {
        name: "SS14, RP9: ten thousand events before the answer",
        answer: |asked, connection| before(asked, connection, &event(NOTIFICATION).repeat(10_000)),
        fails: None,
    },
    BadAnswer {
        name: "RP1: answers to no request",
        answer: |asked, connection| {
            let text = event(&result("4711", "{}")) + &event(&result("\"x\"", "{}"));
            before(asked, connection, &text)
        },
        fails: None,
    },
    BadAnswer {
        name: "RP2: the answer twice",
        answer: |asked, connection| stream(connection, event(&ok(asked)) + &event(&result(&asked.id, "{}"))),
        fails: None,
    },
    BadAnswer {
        name: "RP3: the answer to another request",
        answer: |_, connection| connection.json(result("77", "{}")),
        fails: Some("has another id"),
    },
    BadAnswer {
        name: "RP5: a result and an error",
        answer: |asked, connection| connection.json(members(asked, r#""result":{},"error":{"code":1,"message":"x"}"#)),
        fails: Some("is no JSON-RPC response"),
    },
    BadAnswer {
        name: "RP5: neither",
        answer: |asked, connection| connection.json(members(asked, r#""x":1"#)),
        fails: Some("is no JSON-RPC response"),
    },
    BadAnswer {
        name: "RP5: an error without a code",
        answer: |asked, connection| connection.json(members(asked, r#""error":{"message":"x"}"#)),
        fails: Some("is no JSON-RPC response"),
    },
    BadAnswer {
        name: "RP6: an answer that is a request too",
        answer: |asked, connection| {
            connection.json(members(asked, r#""method":"tools/call","params":{"name":"t"},"result":{"content":[]}"#))
        },
        fails: None,
    },
    BadAnswer {
        name: "RP7: an error without an id",
        answer: |_, connection| {
            connection.json(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"what was that"}}"#)
        },
        fails: Some("what was that"),
    },
    BadAnswer {
        name: "RP8: an answer in an array",
        answer: |asked, connection| connection.json(format!("[{}]", ok(asked))),
        fails: None,
    },
    BadAnswer {
        name: "RP12: progress of nothing, and backwards",
        answer: |asked, connection| {
            let progress = |token: &str, value: i64| {
                let params = format!(r#"{{"progressToken":{token},"progress":{value}}}"#);
                event(&format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#))
            };
            let text = progress("\"unknown\"", 1) + &progress(&asked.id, 5) + &progress(&asked.id, 4);
            before(asked, connection, &text)
        },
        fails: None,
    },
    BadAnswer {
        name: "RP14: a request that a server may not send",
        answer: |asked, connection| {
            before(asked, connection, &event(&request("1", "sampling/createMessage", r#"{"messages":[]}"#)))
        },
        fails: None,
    },
    BadAnswer {
        name: "JS1: a result that is too deep",
        answer: |asked, connection| connection.json(result(&asked.id, &nested(1000))),
        fails: Some("JSON nested deeper"),
    },
    BadAnswer {
        name: "JS1: a million levels",
        answer: |asked, connection| {
            let body = result(&asked.id, &nested(1_000_000));
            stream(connection, event(&body))
        },
        fails: Some("JSON nested deeper"),
    },
    BadAnswer {
        name: "JS2: a hundred thousand members before the answer",
        answer: |asked, connection| {
            let many: Vec<_> = (0..100_000).map(|number| format!(r#""m{number}":0"#)).collect();
            let many = many.join(",");
            connection.json(format!(r#"{{{many},"jsonrpc":"2.0","id":{},"result":{RESULT}}}"#, asked.id))
        },
        fails: None,
    },
    BadAnswer {
        name: "JS3: numbers that are none",
        answer: |asked, connection| connection.json(result(&asked.id, r#"{"x":01}"#)),
        fails: Some("not JSON"),
    },
    BadAnswer {
        name: "JS5: two ids",
        answer: |asked, connection| {
            connection.json(format!(r#"{{"jsonrpc":"2.0","id":{0},"\u0069d":77,"result":{{}}}}"#, asked.id))
        },
        fails: Some("is no JSON-RPC response"),
    },
    BadAnswer {
        name: "JS5: two results",
        answer: |asked, connection| connection.json(members(asked, r#""result":{},"result":{}"#)),
        fails: Some("is no JSON-RPC response"),
    },
    BadAnswer {
        name: "JS7: names in another case",
        answer: |asked, connection| connection.json(members(asked, r#""Result":{}"#)),
        fails: Some("is no JSON-RPC response"),
    },
    BadAnswer {
        name: "JS11: a number",
        answer: |_, connection| connection.json("7"),
        fails: Some("is no JSON-RPC response"),
    },
    BadAnswer {
        name: "JS12: no jsonrpc",
        answer: |asked, connection| connection.json(format!(r#"{{"id":{},"result":{{}}}}"#, asked.id)),
        fails: Some("is no JSON-RPC response"),
    },
    BadAnswer {
        name: "JS15: UTF-16",
        answer: |asked, connection| {
            let text: Vec<u8> = ok(asked).encode_utf16().flat_map(u16::to_le_bytes).collect();
            connection.json(text)
        },
        fails: Some("not JSON"),
    },
    BadAnswer {
        name: "FR7: a result that is no UTF-8",
        answer: |asked, connection| {
            let body =
                [&b"{\"jsonrpc\":\"2.0\",\"id\":"[..], asked.id.as_bytes(), b",\"result\":{\"x\":\"\xff\"}}"].concat();
            connection.json(body)
        },
        fails: Some("not UTF-8"),
    },
    BadAnswer {
        name: "FR11: two texts in one body",
        answer: |asked, connection| connection.json(ok(asked) + &ok(asked)),
        fails: Some("more text after the JSON value"),
    },
];
