//! The tokens of the protocol for fuzzers, from the tables of `mcp_proto`.

use std::collections::BTreeSet;
use std::fmt::Write;

use mcp_proto::spec::{HEADERS, List, PARAM_PREFIX, meta};
use mcp_proto::{Method, ProtocolVersion, code};

/// The dictionary as a file for libFuzzer and AFL, as `mcp-testkit dictionary` prints it.
///
/// # Example
///
/// ```
/// assert!(mcp_testkit::dictionary::DICTIONARY.contains(r#""tools/call""#));
/// ```
pub const DICTIONARY: &str = include_str!("../mcp.dict");

/// Members of messages and their parameters and results, of which there is no table.
const MEMBERS: &[&str] = &[
    "jsonrpc",
    "id",
    "method",
    "params",
    "result",
    "error",
    "code",
    "message",
    "data",
    "_meta",
    "progressToken",
    "progress",
    "requestId",
    "name",
    "arguments",
    "uri",
    "cursor",
    "level",
    "ref",
    "argument",
    "protocolVersion",
    "capabilities",
    "clientInfo",
    "inputResponses",
    "requestState",
    "resultType",
    "notifications",
    "resourceSubscriptions",
    "taskId",
];

/// Whole parts of messages.
const PARTS: &[&str] = &[
    r#"{"jsonrpc":"2.0","id":1,"method":""#,
    r#"{"jsonrpc":"2.0","method":""#,
    r#"{"jsonrpc":"2.0","id":1,"result":{}}"#,
    r#","params":{"#,
    r#""_meta":{"#,
    "}}\n",
    "[]",
    "null",
    "true",
    r"\ud800",
    r"\u0000",
    "1e400",
    "9223372036854775807",
    "data: ",
    "event: ",
    "retry: ",
    "=?base64?",
];

/// All tokens, without repetition.
pub fn tokens() -> Vec<String> {
    let methods = Method::ALL.iter().map(|method| method.as_str().to_owned());
    let versions = ProtocolVersion::ALL.iter().map(ToString::to_string);
    let headers = HEADERS.iter().map(|name| name.as_str().to_owned()).chain([PARAM_PREFIX.to_owned()]);
    let filters = List::ALL.iter().flat_map(|list| [list.capability(), list.filter_member()]);
    let fixed = meta::KEYS.iter().copied().chain(filters).chain(MEMBERS.iter().copied()).chain(PARTS.iter().copied());
    let all = methods
        .chain(versions)
        .chain(headers)
        .chain(fixed.map(str::to_owned))
        .chain(code::ALL.iter().map(ToString::to_string));
    let mut seen = BTreeSet::new();
    all.filter(|token| seen.insert(token.clone())).collect()
}

/// The file that [`DICTIONARY`] must be.
pub fn file() -> String {
    let mut file = "# The tokens of the Model Context Protocol, written by `mcp-testkit dictionary`.\n".to_owned();
    for token in tokens() {
        let _ = writeln!(file, "\"{}\"", escaped(&token));
    }
    file
}

/// A token as a dictionary contains it: with `\xHH`, `\\` and `\"`.
fn escaped(token: &str) -> String {
    let escape = |byte: u8| match byte {
        b'"' | b'\\' => format!("\\{}", char::from(byte)),
        b' '..=b'~' => char::from(byte).to_string(),
        _ => format!("\\x{byte:02X}"),
    };
    token.bytes().map(escape).collect()
}
