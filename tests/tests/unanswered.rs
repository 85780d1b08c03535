//! Counts the answers to requests that are malformed in each way that the collection of JSON texts contains.

use std::fs;
use std::path::Path;

use mcp_proto::server::Event;
use mcp_proto::{Json, ProtocolVersion};
use mcp_testkit::byte_stream::ServerStream;
use mcp_testkit::messages::request;

/// The lines that a server of a revision writes after this line; its application answers requests with an empty object.
fn answers(version: &str, line: &[u8]) -> Vec<String> {
    let mut stream = ServerStream::ready(version);
    stream.line(line);
    for event in stream.events() {
        if let Event::Requested { ticket, .. } = event {
            stream.machine.respond(ticket, Ok(Json::empty_object()), stream.now).expect("a result");
        }
    }
    stream.lines()
}

/// The texts of the collection that are a single line of less than 10,000 bytes.
fn texts() -> Vec<(String, Vec<u8>)> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("vectors/json/test_parsing");
    let entries = fs::read_dir(folder).expect("the collection").map(|entry| entry.expect("an entry").path());
    let mut texts: Vec<_> = entries
        .map(|path| {
            (path.file_name().expect("a name").to_string_lossy().into_owned(), fs::read(&path).expect("a text"))
        })
        .filter(|(_, text)| !text.contains(&b'\n') && text.len() < 10_000)
        // This text ends the message, so a second text follows on the line, and neither has an id (FR11).
        .filter(|(name, _)| name != "n_structure_object_followed_by_closing_object.json")
        .collect();
    texts.sort();
    texts
}

#[test]
#[expect(clippy::print_stdout, reason = "tests/bench/bars reads the figure")]
fn b2_every_bad_request_with_a_readable_id_has_one_answer_with_it() {
    let mut requests = Vec::new();
    for (name, text) in texts() {
        // The members that make it a request precede the part that may be malformed.
        for member in ["params", "jsonrpc", "method", "x"] {
            let mut line = format!(r#"{{"id":"a","method":"tools/call","{member}":"#).into_bytes();
            line.extend(&text);
            line.extend(b"}");
            requests.push((format!("{name} as {member}"), line));
        }
        let mut line = request("\"a\"", "tools/call", "").into_bytes();
        line.pop();
        line.extend(&text);
        line.extend(b"}");
        requests.push((format!("{name} behind a request"), line));
    }
    let mut unanswered = Vec::new();
    let versions = ProtocolVersion::ALL.iter().filter(|version| **version != ProtocolVersion::V2026_07_28);
    for version in versions {
        for (name, line) in &requests {
            let answers = answers(version.as_str(), line);
            if answers.len() != 1 || !answers[0].contains(r#""id":"a""#) {
                unanswered.push(format!("{version:?} {name}: {answers:?}"));
            }
        }
    }
    println!("b2: {} bad requests, {} left without an answer", requests.len() * 4, unanswered.len());
    assert!(unanswered.is_empty(), "{unanswered:#?}");
}
