//! Lines that no client may write, and how a server must answer them. Every server on a byte stream runs the table.
//!
//! Each name begins with the rows of the catalogue that it belongs to (section 15 of `docs/rules.md` of the repository).
//!
//! # Example: the server machine
//!
//! ```
//! use mcp_testkit::bad_lines::BAD_LINES;
//! use mcp_testkit::byte_stream::ServerStream;
//!
//! for bad_line in BAD_LINES.iter().filter(|bad_line| bad_line.name.starts_with("JS11")) {
//!     let mut server = ServerStream::ready("2025-11-25");
//!     server.bytes(&bad_line.all());
//!     bad_line.judge(server.lines());
//! }
//! ```

use crate::messages::{NOTIFICATION, request, result};

/// Bytes that a client writes to a server of 2025-11-25 after the handshake.
#[derive(Debug, Clone, Copy)]
pub struct BadLine {
    /// The rows of the catalogue, and what is wrong.
    pub name: &'static str,
    bytes: fn() -> Vec<u8>,
    /// One entry for each answer: the texts that it must contain.
    answers: &'static [&'static [&'static str]],
}

impl BadLine {
    /// The bad lines, followed by a valid request.
    pub fn all(&self) -> Vec<u8> {
        let mut bytes = (self.bytes)();
        bytes.extend(line(request("\"next\"", "ping", "{}")));
        bytes
    }

    /// The number of answers to [`all`](Self::all).
    pub fn answers(&self) -> usize {
        self.answers.len() + 1
    }

    /// Compares all answers of the server with the expected ones, in any order. They must have no spaces outside of strings.
    pub fn judge(&self, mut answers: Vec<String>) {
        let next: &[&str] = &[r#""id":"next","result":{}"#];
        for parts in self.answers.iter().chain([&next]) {
            let found = answers.iter().position(|answer| parts.iter().all(|part| answer.contains(part)));
            let found = found.unwrap_or_else(|| panic!("{}: no {parts:?} in {answers:.300?}", self.name));
            answers.remove(found);
        }
        assert!(answers.is_empty(), "{}: {answers:.300?}", self.name);
    }
}

pub(crate) fn line(text: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut bytes = text.into();
    bytes.push(b'\n');
    bytes
}

fn call(params: &str) -> Vec<u8> {
    line(request("\"a\"", "tools/call", params))
}

/// A call of `length` bytes without its line end, followed by the line end `end`.
fn exactly(length: usize, end: &str) -> Vec<u8> {
    let with = |filler: usize| request("\"a\"", "tools/call", &format!(r#"{{"x":"{}"}}"#, "x".repeat(filler)));
    (with(length - with(0).len()) + end).into()
}

fn with_id(id: &str) -> Vec<u8> {
    line(request(id, "tools/call", "{}"))
}

pub(crate) fn nested(depth: usize) -> String {
    format!("{{\"x\":{}{}}}", "[".repeat(depth), "]".repeat(depth))
}

fn utf16(text: &str) -> Vec<u8> {
    text.encode_utf16().flat_map(u16::to_le_bytes).collect()
}

const PARSE_ERROR: &str = r#""code":-32700"#;
const INVALID_REQUEST: &str = r#""code":-32600"#;
const INVALID_PARAMS: &str = r#""code":-32602"#;
const ID: &str = r#""id":"a""#;

/// The table of bad lines. The server's application must answer a call with its parameters.
pub const BAD_LINES: &[BadLine] = &[
    BadLine {
        name: "FR1: a line of forty megabytes",
        bytes: || call(&format!(r#"{{"x":"{}"}}"#, "x".repeat(40_000_000))),
        answers: &[&[ID, INVALID_REQUEST]],
    },
    BadLine {
        name: "FR2: a line of exactly sixteen MiB, with either line end, and of one byte more",
        bytes: || [exactly(16 << 20, "\n"), exactly(16 << 20, "\r\n"), exactly((16 << 20) + 1, "\n")].concat(),
        answers: &[&[ID, r#""result""#], &[ID, r#""result""#], &[ID, INVALID_REQUEST]],
    },
    BadLine {
        name: "FR3: a line that is too long between two that are not",
        bytes: || [with_id("1"), call(&format!(r#"{{"x":"{}"}}"#, "x".repeat(40_000_000))), with_id("2")].concat(),
        answers: &[&[r#""id":1,"result""#], &[ID, INVALID_REQUEST], &[r#""id":2,"result""#]],
    },
    BadLine { name: "FR4: blank lines", bytes: || b"\r\n\n   \n\t\r\n".to_vec(), answers: &[] },
    BadLine {
        name: "FR4: a line that ends with CRLF",
        bytes: || (request("\"a\"", "tools/call", "{}") + "\r\n").into(),
        answers: &[&[ID, r#""result":{}"#]],
    },
    BadLine { name: "FR5: a byte order mark, late", bytes: || line("\u{feff}{}"), answers: &[&[PARSE_ERROR]] },
    BadLine { name: "FR6: NUL", bytes: || line("{\"jsonrpc\":\"2.0\",\0\"id\":1}"), answers: &[&[PARSE_ERROR]] },
    BadLine {
        name: "FR6: NUL, escaped",
        bytes: || call(r#"{"x":"\u0000"}"#),
        answers: &[&[ID, r#""result":{"x":"\u0000"}"#]],
    },
    BadLine {
        name: "FR7: bytes that are no UTF-8",
        bytes: || {
            let text = String::from_utf8(call(r#"{"x":"?"}"#)).expect("text");
            text.bytes().map(|byte| if byte == b'?' { 0xff } else { byte }).collect()
        },
        answers: &[&[ID, PARSE_ERROR]],
    },
    BadLine {
        name: "FR11: two texts on one line",
        bytes: || line(request("1", "ping", "{}") + &request("2", "ping", "{}")),
        answers: &[&[PARSE_ERROR]],
    },
    BadLine { name: "FR12: a hundred thousand empty lines", bytes: || vec![b'\n'; 100_000], answers: &[] },
    BadLine {
        name: "FR13: a line feed in a string",
        bytes: || call("{\"x\":\"\n\"}"),
        answers: &[&[PARSE_ERROR], &[PARSE_ERROR]],
    },
    BadLine { name: "JS1: a thousand levels", bytes: || call(&nested(1000)), answers: &[&[ID, INVALID_REQUEST]] },
    BadLine { name: "JS1: a million levels", bytes: || call(&nested(1_000_000)), answers: &[&[ID, INVALID_REQUEST]] },
    BadLine {
        name: "JS2: a hundred thousand members",
        bytes: || {
            let many: Vec<_> = (0..100_000).map(|number| format!(r#""m{number}":0"#)).collect();
            call(&format!("{{{}}}", many.join(",")))
        },
        answers: &[&[ID, r#""m99999":0}"#]],
    },
    BadLine { name: "JS3: a leading zero", bytes: || call(r#"{"x":01}"#), answers: &[&[ID, PARSE_ERROR]] },
    BadLine { name: "JS3: NaN", bytes: || call(r#"{"x":NaN}"#), answers: &[&[ID, PARSE_ERROR]] },
    BadLine {
        name: "JS3: numbers without measure",
        bytes: || call(r#"{"x":1e400,"y":-0,"z":12345678901234567890123}"#),
        answers: &[&[ID, r#"{"x":1e400,"y":-0,"z":12345678901234567890123}"#]],
    },
    BadLine {
        name: "JS4: half a surrogate pair in the method",
        bytes: || line(r#"{"jsonrpc":"2.0","id":"a","method":"\ud800"}"#),
        answers: &[&[ID, INVALID_REQUEST]],
    },
    BadLine {
        name: "JS5: two methods",
        bytes: || line(r#"{"jsonrpc":"2.0","id":"a","method":"ping","m\u0065thod":"tools/call"}"#),
        answers: &[&[ID, INVALID_REQUEST]],
    },
    BadLine {
        name: "JS5: two ids",
        bytes: || line(r#"{"jsonrpc":"2.0","id":"a","id":"b","method":"ping"}"#),
        answers: &[&[INVALID_REQUEST]],
    },
    BadLine {
        name: "JS6: two members of one name",
        bytes: || call(r#"{"x":1,"x":2}"#),
        answers: &[&[ID, INVALID_PARAMS]],
    },
    BadLine {
        name: "JS7: names in another case",
        bytes: || line(r#"{"jsonrpc":"2.0","id":"a","Method":"ping"}"#),
        answers: &[&[ID, INVALID_REQUEST]],
    },
    BadLine {
        name: "JS8: ids that are none",
        bytes: || ["1.5", "null", "true", "[]", "{}"].map(with_id).concat(),
        answers: &[&[INVALID_REQUEST], &[INVALID_REQUEST], &[INVALID_REQUEST], &[INVALID_REQUEST], &[INVALID_REQUEST]],
    },
    BadLine {
        name: "JS9: an id of a megabyte",
        bytes: || with_id(&format!("\"{}\"", "x".repeat(1_000_000))),
        answers: &[&[INVALID_REQUEST]],
    },
    BadLine {
        name: "JS10: names that are special elsewhere",
        bytes: || call(r#"{"__proto__":{"constructor":1},"a":{"$serde_json::private::RawValue":"1.0"}}"#),
        answers: &[&[ID, r#"{"__proto__":{"constructor":1},"a":{"$serde_json::private::RawValue":"1.0"}}"#]],
    },
    BadLine {
        name: "JS11: what is no message",
        bytes: || ["7", "\"x\"", "null", "{}"].map(line).concat(),
        answers: &[&[INVALID_REQUEST], &[INVALID_REQUEST], &[INVALID_REQUEST], &[INVALID_REQUEST]],
    },
    BadLine {
        name: "JS12: another jsonrpc, and none",
        bytes: || {
            let without = line(r#"{"id":"a","method":"ping"}"#);
            [line(r#"{"jsonrpc":"1.0","id":"a","method":"ping"}"#), without].concat()
        },
        answers: &[&[ID, INVALID_REQUEST], &[ID, INVALID_REQUEST]],
    },
    BadLine {
        name: "JS13: parameters that are neither object nor array",
        bytes: || [call("7"), call("true")].concat(),
        answers: &[&[ID, INVALID_PARAMS], &[ID, INVALID_PARAMS]],
    },
    BadLine {
        name: "JS14: a string of escapes alone",
        bytes: || call(&format!(r#"{{"x":"{}","y":1}}"#, r"\u0041".repeat(100_000))),
        answers: &[&[ID, r#"\u0041","y":1}"#]],
    },
    BadLine {
        name: "JS15: UTF-16",
        bytes: || line(utf16(r#"{"jsonrpc":"2.0","id":"a","method":"ping"}"#)),
        answers: &[&[PARSE_ERROR]],
    },
    BadLine {
        name: "RP1, RP2: answers to no request",
        bytes: || [line(result("4711", "{}")), line(result("\"a\"", "{}")), line(result("\"a\"", "{}"))].concat(),
        answers: &[],
    },
    BadLine {
        name: "RP4: one id for two calls",
        bytes: || [call(r#"{"x":1}"#), call(r#"{"x":2}"#)].concat(),
        answers: &[&[ID, r#""result":{"x":"#], &[ID, r#""result":{"x":"#]],
    },
    BadLine {
        name: "RP6: a request that is a response too",
        bytes: || line(r#"{"jsonrpc":"2.0","id":"a","method":"ping","result":{}}"#),
        // A response to nothing.
        answers: &[],
    },
    BadLine {
        name: "RP6: a request with a result of null",
        bytes: || line(r#"{"jsonrpc":"2.0","id":"a","method":"ping","result":null}"#),
        answers: &[&[ID, INVALID_REQUEST]],
    },
    BadLine {
        name: "RP8: batches where there are none",
        bytes: || [line("[]"), line(format!("[{}]", request("1", "ping", "{}")))].concat(),
        answers: &[&[INVALID_REQUEST], &[INVALID_REQUEST]],
    },
    BadLine { name: "RP9: ten thousand notifications", bytes: || line(NOTIFICATION).repeat(10_000), answers: &[] },
    BadLine {
        name: "RP11: cancellations of nothing",
        bytes: || {
            let cancelled =
                |id| format!(r#"{{"jsonrpc":"2.0","method":"notifications/cancelled","params":{{"requestId":{id}}}}}"#);
            [cancelled("4711"), cancelled("null"), cancelled("{}")].map(line).concat()
        },
        answers: &[],
    },
];
