//! The files of `JSONTestSuite` as bodies of requests, as parameters, and as lines, for servers of both drivers.

use std::io::{BufRead, BufReader, Write};
use std::process::{Command, Stdio};

use mcp_proto::Json;
use mcp_testkit::bad_requests::PING;
use mcp_testkit::http_exchange::{TestRequest, initialize};
use mcp_testkit::raw_client::RawClient;

use crate::vectors;

/// The folder of the files.
const FILES: &str = "json/test_parsing";
/// The maximum size of a message, as [`bad_requests::configure`](mcp_testkit::bad_requests::configure) sets it.
const MESSAGE: usize = 1000;

/// What the name of a file says about its text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Text {
    Valid,
    Invalid,
    /// A parser may accept it.
    Either,
}

fn files() -> Vec<(String, Text, Vec<u8>)> {
    let files = vectors::files(FILES);
    assert_eq!(files.len(), 318, "JSONTestSuite is complete");
    let kind = |name: &str| match name.get(..2) {
        Some("y_") => Text::Valid,
        Some("n_") => Text::Invalid,
        _ => Text::Either,
    };
    files.into_iter().map(|(name, bytes)| (name.clone(), kind(&name), bytes)).collect()
}

/// Asserts that a server over HTTP answers each file as a body with the right status and code, and returns each valid one
/// unchanged if it is a parameter without repeated names.
///
/// # Panics
///
/// If a file is answered otherwise.
pub fn each_body_is_answered_with_the_right_code(server: &RawClient) {
    let session = server.session("2025-06-18");
    for (name, text, bytes) in files() {
        let sent = server.answer(&TestRequest::post(bytes.clone()).in_session(&session));
        let has = |code: i64| sent.text().contains(&format!("\"code\":{code},"));
        let is_right = match (text, bytes.len() > MESSAGE) {
            (_, true) => sent.code() == 413,
            // None of the valid texts is a message.
            (Text::Valid, false) => sent.code() == 400 && has(-32600),
            (Text::Invalid, false) => sent.code() == 400 && has(-32700),
            (Text::Either, false) => sent.code() == 400 && (has(-32600) || has(-32700)),
        };
        assert!(is_right, "{name}: {} {}", sent.code(), sent.text());
        if text == Text::Valid {
            let Ok(value) = Json::parse(bytes.clone()) else { panic!("{name} is refused") };
            let params = format!(r#"{{"v":{}}}"#, value.to_text());
            let body = format!(r#"{{"jsonrpc":"2.0","id":1,"method":"echo","params":{params}}}"#);
            if body.len() > MESSAGE {
                continue;
            }
            let sent = server.answer(&TestRequest::post(body).in_session(&session));
            // JSON-RPC has one value for each name.
            if name.contains("duplicated") {
                assert!(sent.text().contains("\"code\":-32602,"), "{name}: {}", sent.text());
                continue;
            }
            // What is written contains no line end.
            let params = params.replace(['\r', '\n'], " ");
            assert_eq!(sent.text(), format!(r#"{{"jsonrpc":"2.0","id":1,"result":{params}}}"#), "{name}");
        }
    }
    assert_eq!(server.answer(&TestRequest::post(PING).in_session(&session)).code(), 200, "the session is as it was");
}

/// Asserts that a server over stdio answers each line of each file, and then the request behind it.
///
/// # Panics
///
/// If a line is answered otherwise.
pub fn each_line_is_answered_and_the_next_one_is_served(mut server: Command) {
    crate::deadline::set();
    let mut process =
        server.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null()).spawn().expect("the server starts");
    let mut input = process.stdin.take().expect("a pipe");
    let mut output = BufReader::new(process.stdout.take().expect("a pipe")).lines();
    let mut next = || output.next().expect("the server runs").expect("UTF-8");
    let confirm = r#"{"jsonrpc":"2.0","method":"notifications/initialized"}"#;
    writeln!(input, "{}\n{confirm}", initialize("2025-06-18")).expect("the server reads");
    assert!(next().contains("\"protocolVersion\":\"2025-06-18\""));
    for (name, text, bytes) in files() {
        input.write_all(&[&bytes[..], b"\n", PING.as_bytes(), b"\n"].concat()).expect("the server reads");
        let is_in_lines = bytes.trim_ascii().contains(&b'\n');
        let mut errors = 0;
        loop {
            let line = next();
            if line.contains(r#""id":"p""#) {
                assert!(line.contains(r#""result":{}"#), "{name}: {line}");
                break;
            }
            let has = |code: i64| line.contains(&format!("\"code\":{code},"));
            let is_right = match text {
                // A long text that is invalid is nested too deep. The lines of one that has several may be valid.
                Text::Valid => has(-32600) || is_in_lines,
                Text::Invalid => has(-32700) || bytes.len() > MESSAGE || is_in_lines,
                Text::Either => has(-32600) || has(-32700),
            };
            assert!(is_right && line.contains(r#""id":null"#), "{name}: {line}");
            errors += 1;
        }
        let lines = bytes.split(|byte| *byte == b'\n').filter(|line| !line.trim_ascii().is_empty()).count();
        assert!(errors <= lines && (text == Text::Either || lines == 0 || errors > 0), "{name}: {errors} of {lines}");
    }
    drop(input);
    assert!(process.wait().expect("a process").success());
}
