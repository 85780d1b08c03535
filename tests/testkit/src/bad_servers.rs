//! Lines that no server may write, and the outcome that a client must report. Every driver that runs servers as child
//! processes runs the table.
//!
//! Each name begins with the rows of the catalogue that it belongs to.

use std::fmt::Display;
use std::path::{Path, PathBuf};

use mcp_proto::Json;

use crate::bad_answers::{RESULT, judge, or_result};
use crate::bad_lines::{line, nested};
use crate::messages::{NOTIFICATION, initialize_result, request, result};

/// Bytes that a server writes in reply to a call, whose id is 2.
#[derive(Debug, Clone, Copy)]
pub struct BadServer {
    /// The rows of the catalogue, and what is wrong.
    pub name: &'static str,
    bytes: fn() -> Vec<u8>,
    /// A part of the client's error; `None` where the call succeeds with [`RESULT`].
    pub fails: Option<&'static str>,
}

/// The id of the call, which is the next request after `initialize`.
const CALL: &str = "2";

impl BadServer {
    /// What it writes in reply to the call.
    pub fn bytes(&self) -> Vec<u8> {
        (self.bytes)()
    }

    /// A script for `sh` that answers `initialize`, the first call with the bad lines, and the next one with `{}`.
    pub fn script(&self, folder: &Path) -> String {
        let name: String = self.name.chars().map(|c| if c.is_ascii_alphanumeric() { c } else { '-' }).collect();
        let file: PathBuf = folder.join(name);
        std::fs::create_dir_all(folder).expect("a folder");
        std::fs::write(&file, (self.bytes)()).expect("a file");
        let initialized = result("1", &initialize_result("2025-11-25"));
        format!(
            "read -r request; echo '{initialized}'; while read -r line; do case \"$line\" in \
             *'\"id\":{CALL},'*) cat '{}';; *'\"id\":3,'*) echo '{}';; esac; done",
            file.display(),
            result("3", "{}")
        )
    }

    /// Compares the outcome of the call with the expected one.
    pub fn judge(&self, outcome: Result<Json, impl Display>) {
        judge(self.name, or_result(self.fails), outcome);
    }
}

/// These bytes, followed by the correct response.
fn before_answer(bytes: impl Into<Vec<u8>>) -> Vec<u8> {
    let mut bytes = bytes.into();
    bytes.extend(line(result(CALL, RESULT)));
    bytes
}

fn members(members: &str) -> Vec<u8> {
    line(format!(r#"{{"jsonrpc":"2.0","id":{CALL},{members}}}"#))
}

/// The table of bad server output.
pub const BAD_SERVERS: &[BadServer] = &[
    BadServer {
        name: "FR1: a line of forty megabytes",
        bytes: || before_answer(line("x".repeat(40_000_000))),
        fails: None,
    },
    BadServer {
        name: "FR1: an answer of forty megabytes",
        bytes: || members(&format!(r#""result":{{"x":"{}"}}"#, "x".repeat(40_000_000))),
        fails: Some("more than"),
    },
    BadServer { name: "FR4: blank lines", bytes: || before_answer("\r\n\n   \n\t\r\n"), fails: None },
    BadServer { name: "FR5: a byte order mark, late", bytes: || before_answer("\u{feff}{}\n"), fails: None },
    BadServer {
        name: "FR7: an answer that is no UTF-8",
        bytes: || b"{\"jsonrpc\":\"2.0\",\"id\":2,\"result\":{\"x\":\"\xff\"}}\n".to_vec(),
        fails: Some("not UTF-8"),
    },
    BadServer {
        name: "FR10: a log",
        bytes: || before_answer("INFO listening\n[1, 2\nWARN \"id\":2\n".repeat(3)),
        fails: None,
    },
    BadServer {
        name: "FR10: a log of five thousand lines",
        bytes: || before_answer("INFO request served\n".repeat(5000)),
        fails: None,
    },
    BadServer {
        name: "FR10: a log of five thousand lines of JSON",
        bytes: || before_answer(line(r#"{"level":"info","msg":"request served"}"#).repeat(5000)),
        fails: None,
    },
    BadServer {
        name: "FR12: a hundred thousand empty lines",
        bytes: || before_answer(vec![b'\n'; 100_000]),
        fails: None,
    },
    BadServer {
        name: "JS1: a million levels",
        bytes: || members(&format!(r#""result":{}"#, nested(1_000_000))),
        fails: Some("nested deeper"),
    },
    BadServer {
        name: "JS2, JS3, JS4, JS10: odd and valid",
        bytes: || {
            let odd = r#"{"jsonrpc":"2.0","method":"notifications/message","params":{"__proto__":1e400,"x":"\ud800"}}"#;
            before_answer(line(odd))
        },
        fails: None,
    },
    BadServer {
        name: "JS5: two results",
        bytes: || members(r#""result":{},"result":{}"#),
        fails: Some("is no JSON-RPC response"),
    },
    BadServer { name: "JS11: what is no message", bytes: || before_answer("7\n\"x\"\nnull\n{}\n"), fails: None },
    BadServer {
        name: "RP1: answers to no request",
        bytes: || before_answer(line(result("4711", "{}")).repeat(3)),
        fails: None,
    },
    BadServer {
        name: "RP2: the answer twice",
        bytes: || [line(result(CALL, RESULT)), line(result(CALL, "{}"))].concat(),
        fails: None,
    },
    BadServer {
        name: "RP5: a result and an error",
        bytes: || members(r#""result":{},"error":{"code":1,"message":"x"}"#),
        fails: Some("is no JSON-RPC response"),
    },
    BadServer { name: "RP5: neither", bytes: || members(r#""x":1"#), fails: Some("is no JSON-RPC response") },
    BadServer {
        name: "RP7: an error without an id",
        bytes: || before_answer(line(r#"{"jsonrpc":"2.0","id":null,"error":{"code":-32600,"message":"x"}}"#)),
        fails: None,
    },
    BadServer {
        name: "RP9: ten thousand notifications",
        bytes: || before_answer(line(NOTIFICATION).repeat(10_000)),
        fails: None,
    },
    BadServer {
        name: "RP12: progress of nothing",
        bytes: || {
            let params = r#"{"progressToken":"unknown","progress":1}"#;
            before_answer(line(format!(r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{params}}}"#)))
        },
        fails: None,
    },
    BadServer {
        name: "RP14: a request that a server may not send",
        bytes: || before_answer(line(request("1", "sampling/createMessage", r#"{"messages":[]}"#))),
        fails: None,
    },
];
