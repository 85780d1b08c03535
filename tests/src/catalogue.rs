//! The catalogue of bad input: its rows, and the tests that cover them, which are found by their names.
//!
//! The name of a test begins with the ids of the rows that it covers, such as `ht6_…`. The cases of a table begin with
//! them, too, as in `"HM1: another method"`, and are covered by the tests that run the table.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write;
use std::fs;
use std::path::{Path, PathBuf};

/// The rows: the id, and what is sent.
pub const ROWS: &[(&str, &str)] = &[
    ("FR1", "a line that never ends"),
    ("FR2", "a line of exactly the limit, of one byte more, and with CRLF"),
    ("FR3", "a line that is too long right behind one that is not"),
    ("FR4", "CRLF, a CR alone, empty lines, lines of spaces"),
    ("FR5", "a byte order mark at the beginning, and later"),
    ("FR6", "NUL outside of strings, inside, and escaped"),
    ("FR7", "bytes that are no UTF-8"),
    ("FR8", "characters and line ends cut in two, single bytes"),
    ("FR9", "a stream that ends in the middle of a line"),
    ("FR10", "a server that prints logs to its stdout"),
    ("FR11", "two messages on one line, and garbage after one"),
    ("FR12", "millions of empty lines, and of short wrong ones"),
    ("FR13", "a payload with a line feed of its own"),
    ("FR14", "a peer that never reads"),
    ("FR15", "an input that is closed while requests run"),
    ("JS1", "nesting of 129, ten thousand and a million levels"),
    ("JS2", "a million keys, a million elements"),
    ("JS3", "numbers of 5,000 digits, 1e400, -0, leading zeros, NaN"),
    ("JS4", "half a surrogate pair in a payload, a method, an id"),
    ("JS5", "two ids, two methods, also when one is escaped"),
    ("JS6", "two members of one name in what is read"),
    ("JS7", "names in another case"),
    ("JS8", "ids of every kind"),
    ("JS9", "an id of a megabyte"),
    ("JS10", "names that are special elsewhere, such as __proto__"),
    ("JS11", "a number, a string, null, an empty object as a message"),
    ("JS12", "no jsonrpc, or another one"),
    ("JS13", "parameters that are no object"),
    ("JS14", "a string of 16 MB, also of escapes alone"),
    ("JS15", "UTF-16 and UTF-32"),
    ("RP1", "a response to nothing"),
    ("RP2", "a response twice"),
    ("RP3", "one id for several requests over HTTP"),
    ("RP4", "one id for several requests on a stream"),
    ("RP5", "a response with both result and error, with neither, with a broken error"),
    ("RP6", "a message that is both request and response"),
    ("RP7", "an error without an id"),
    ("RP8", "batches: empty, nested, huge, in the wrong revision, of notifications alone"),
    ("RP9", "a flood of notifications"),
    ("RP10", "a flood of requests whose answers are not read"),
    ("RP11", "cancellations before, after and of nothing"),
    ("RP12", "progress of nothing, backwards, not a number, a flood of it"),
    ("RP13", "an answer after the time was up"),
    ("RP14", "requests that a server may not send"),
    ("RP15", "error codes that only the protocol may use"),
    ("RP16", "as many requests as there are, over many sessions"),
    ("RP17", "a kind of result that is unknown, missing, or does not belong there"),
    ("SS1", "an event, or a line of one, that never ends"),
    ("SS2", "a comment that never ends, comments without end"),
    ("SS3", "millions of unknown fields, names of a megabyte, NUL in one"),
    ("SS4", "every line end, cut anywhere"),
    ("SS5", "bytes that are no UTF-8"),
    ("SS6", "ids that are huge, hold NUL, or fit in no header"),
    ("SS7", "retry of nothing, of 20 digits, not a number"),
    ("SS8", "events of other names, endpoint where there is none"),
    ("SS9", "a stream that ends before the answer, cut anywhere"),
    ("SS10", "more after the answer"),
    ("SS11", "writing data, names and ids with line ends"),
    ("SS12", "an empty event with an id"),
    ("SS13", "JSON with the content type of events, and the reverse"),
    ("SS14", "a hundred thousand events at once, the last one not ended"),
    ("HT1", "redirects to another origin, with every credential"),
    ("HT2", "redirects in a circle, without end, to nowhere"),
    ("HT3", "session ids with spaces, controls, of 60 KB, two, none"),
    ("HT4", "a session id that changes"),
    ("HT5", "content types of every spelling, missing, wrong"),
    ("HT6", "202, 204 and an empty 200 to a request"),
    ("HT7", "a body in answer to a notification"),
    ("HT8", "every error status, with JSON, HTML, a gigabyte"),
    ("HT9", "404 while there is a session"),
    ("HT10", "a body that was compressed without being asked for"),
    ("HT11", "a body that is cut, too short, too long"),
    ("HT12", "a flood of interim responses and headers"),
    ("HT13", "headers and bodies that dribble"),
    ("HT14", "an answer that comes after its exchange was dropped"),
    ("HT15", "line ends and other bytes in what becomes a header"),
    ("HT16", "headers of the application's that the protocol owns"),
    ("LE1", "an endpoint on another origin, in every spelling"),
    ("LE2", "a second endpoint, a late one, none, one of a megabyte"),
    ("LE3", "an answer on the POST of the older transport"),
    ("LE4", "messages to a session of the older transport that is not there"),
    ("OR1", "pages of every other origin"),
    ("OR2", "every other host"),
    ("OR3", "the same for all methods and endpoints"),
    ("OR4", "content types that a form can have"),
    ("OR5", "Accept without one of the two types, with q=0"),
    ("OR6", "a body that is too long, has a wrong length, never ends"),
    ("OR7", "Expect, pipelined requests, Upgrade, two lengths"),
    ("OR8", "a body that is no JSON"),
    ("SE1", "requests before the session is there"),
    ("SE2", "a second initialize"),
    ("SE3", "a session after its end"),
    ("SE4", "the session of another principal"),
    ("SE5", "guessing session ids, and choosing them"),
    ("SE6", "sessions that are opened and never ended"),
    ("SE7", "two streams of one session"),
    ("SE8", "forged and foreign event ids"),
    ("SE9", "a flood of what is kept for replay"),
    ("SE10", "a client that never received the id of its session"),
    ("SE11", "a server that was started anew"),
    ("SE12", "a revision header that is missing, unknown, or changes"),
    ("SE13", "events of the session of another principal"),
    ("HM1", "headers that contradict the body"),
    ("HM2", "headers twice"),
    ("HM3", "names twice in the body"),
    ("HM4", "broken Base64, Base64 within Base64"),
    ("HM5", "arguments in headers in every form"),
    ("HM6", "tools that annotate what cannot be a header"),
    ("HM7", "one revision in the header, another in the body"),
    ("HM8", "GET, DELETE, sessions and event ids in 2026-07-28"),
    ("HM9", "responses and batches in 2026-07-28"),
    ("HM10", "a client that goes away"),
    ("HM11", "equal ids of two clients without sessions"),
    ("HM12", "an intermediary that forces an older revision"),
    ("MR1", "a requestState that was altered, is too old, or belongs elsewhere"),
    ("MR2", "a requestState of 16 MB, ten thousand questions, unknown ones"),
    ("MR3", "questions without end"),
    ("MR4", "a retry with the old id, a state where there was none"),
    ("MR5", "questions about a method that has none"),
    ("PX1", "numbers, escapes and orders of keys through the proxy"),
    ("PX2", "two clients with the same ids, tokens and subscriptions"),
    ("PX3", "a child that floods, exits, hangs, prints garbage"),
    ("PX4", "every failure of the server behind the proxy"),
    ("PX5", "a client of the proxy that goes away"),
    ("PX6", "one line that is too long for the proxy"),
    ("PX7", "a slow client and a fast server"),
    ("PX8", "controls in what is logged, arguments from the wire"),
    ("PX9", "secrets in logs"),
    ("TP1", "a tool whose definition changes after a person has permitted it"),
    ("TP2", "a request for what is denied, in every spelling"),
    ("AU1", "challenges that are malformed, repeated, or without end"),
    ("AU2", "metadata that is HTML, an array, or has a member twice or of another type"),
    ("AU3", "metadata of another resource"),
    ("AU4", "metadata of another issuer, in every spelling"),
    ("AU5", "URLs in challenges and metadata that are no https, or that two parsers read differently"),
    ("AU6", "an outage in place of metadata, of a registration or of a token"),
    ("AU7", "documents and responses that are too large"),
    ("AU8", "an authorization server without PKCE, or with plain alone"),
    ("AU9", "a redirect without state, with a guessed one, with that of an earlier sign-in"),
    ("AU10", "a code that is wrong, of another sign-in, or used twice"),
    ("AU11", "a redirect of another issuer, or of none"),
    ("AU12", "tokens in the fragment of a redirect, parameters twice, unusual characters"),
    ("AU13", "requests of other programs and pages to the port of the redirect"),
    ("AU14", "a token of another type, with controls, too long, with an error, with another status"),
    ("AU15", "a refresh token that was used, revoked, or is used by two processes"),
    ("AU16", "a registration that is refused, or cannot be used"),
    ("AU17", "private and reserved addresses that a server names"),
    ("AU18", "redirects of metadata and of token endpoints, to another origin, in a circle"),
    ("AU19", "401 for every token, scopes that are never enough"),
    ("AU20", "a server that moves to another issuer"),
    ("AU21", "a demand for proof nonces without end, or without a nonce"),
    ("AU22", "secrets in debug forms and logs"),
    ("AU23", "a sign-in that is never finished, many at once, a process that ends during one"),
    ("AU24", "credentials on their way to another origin"),
    ("AU25", "a stored record that is damaged, empty, or of another version"),
    ("AU26", "other users and links in the folder of stored tokens"),
    ("AU27", "requests to a server without a token, with that of another audience"),
    ("AU28", "a device grant without end, with hostile URLs and codes"),
    ("AU29", "answers to a sign-in that come late, twice, or to nothing"),
    ("CL1", "a clock that leaps, stands, goes back"),
    ("CL2", "timers that are called early, late, for nothing"),
    ("CL3", "every call after the end"),
    ("CL4", "random numbers that are always the same"),
    ("CL5", "limits of nothing and without measure"),
    ("CL6", "a billion requests on one connection"),
];

/// Where a row is tested.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Place {
    /// The machines and codecs, without I/O.
    Core,
    /// `mcp-tokio`, over sockets and pipes.
    Tokio,
    /// `mcp-blocking`, over sockets and pipes.
    Blocking,
    /// The binary `mcp-proxy`.
    Proxy,
}

/// Tables of cases, and the tests that run them.
const TABLES: &[(&str, &[(Place, &str)])] = &[
    (
        "tests/testkit/src/bad_requests.rs",
        &[
            (Place::Core, "admission_answers_each_wrong_request_as_its_table_states"),
            (Place::Tokio, "admission_answers_as_its_table_states"),
            (Place::Blocking, "admission_answers_as_its_table_states"),
        ],
    ),
    (
        "tests/testkit/src/bad_answers.rs",
        &[
            (Place::Tokio, "bad_answers_are_outcomes_at_once_and_the_next_call_succeeds"),
            (Place::Blocking, "bad_answers_are_outcomes_at_once_and_the_next_call_succeeds"),
            (Place::Proxy, "bad_answers_reach_the_client_as_outcomes_and_the_next_call_succeeds"),
        ],
    ),
    (
        "tests/testkit/src/bad_handshakes.rs",
        &[
            (Place::Tokio, "bad_handshakes_are_readable_errors_or_are_tolerated"),
            (Place::Blocking, "bad_handshakes_are_readable_errors_or_are_tolerated"),
            (Place::Proxy, "bad_handshakes_are_readable_errors_or_are_tolerated"),
        ],
    ),
    (
        "tests/testkit/src/late_answers.rs",
        &[
            (Place::Tokio, "late_answers_fail_in_time_and_the_next_call_succeeds"),
            (Place::Blocking, "late_answers_fail_in_time_and_the_next_call_succeeds"),
            (Place::Proxy, "late_answers_fail_in_time_and_the_next_call_succeeds"),
        ],
    ),
    (
        "tests/testkit/src/modern_answers.rs",
        &[
            (Place::Tokio, "modern_answers_are_outcomes_at_once_and_the_next_call_succeeds"),
            (Place::Blocking, "modern_answers_are_outcomes_at_once_and_the_next_call_succeeds"),
            (Place::Proxy, "modern_answers_reach_the_client_as_outcomes_and_the_next_call_succeeds"),
        ],
    ),
    (
        "tests/testkit/src/bad_lines.rs",
        &[
            (Place::Tokio, "bad_lines_are_answered_and_the_next_request_is_served"),
            (Place::Proxy, "bad_lines_are_answered_and_the_next_request_is_served"),
        ],
    ),
    (
        "tests/testkit/src/bad_servers.rs",
        &[
            (Place::Tokio, "bad_lines_of_a_child_are_outcomes_at_once_and_the_next_call_succeeds"),
            (Place::Blocking, "bad_lines_of_a_child_are_outcomes_at_once_and_the_next_call_succeeds"),
            (Place::Proxy, "bad_lines_of_a_server_reach_the_client_as_outcomes_and_the_next_call_succeeds"),
        ],
    ),
];

/// The tests of every row, by place.
pub type Found = BTreeMap<String, BTreeMap<Place, BTreeSet<String>>>;

/// Finds the tests of all rows in the sources of the workspace.
pub fn find() -> Found {
    let mut found = Found::new();
    for (path, text) in texts() {
        if let Some((_, runs)) = TABLES.iter().find(|(table, _)| *table == path) {
            for row in text.split('"').flat_map(rows_of_case) {
                for (place, name) in *runs {
                    found.entry(row.clone()).or_default().entry(*place).or_default().insert((*name).to_owned());
                }
            }
            continue;
        }
        for name in functions(&text) {
            for row in rows_in(name) {
                for place in places(&path) {
                    found.entry(row.clone()).or_default().entry(*place).or_default().insert(name.to_owned());
                }
            }
        }
    }
    found
}

/// The sources that contain tests, with their paths in the workspace.
fn texts() -> Vec<(String, String)> {
    let root = crate::workspace::root();
    let mut files = Vec::new();
    for folder in [
        "tests/tests",
        "tests/src",
        "tests/testkit/src",
        "mcp-proto/src",
        "mcp-platform/src",
        "mcp-token-store/src",
        "mcp-tokio",
        "mcp-blocking",
        "mcp-proxy",
        "fuzz/src",
        "fuzz/tests",
    ] {
        sources(&root.join(folder), &mut files);
    }
    let read = |file: PathBuf| {
        let path = file.strip_prefix(&root).expect("it is below").to_string_lossy().replace('\\', "/");
        (path, fs::read_to_string(&file).expect("a source"))
    };
    files.into_iter().map(read).collect()
}

/// The table of all rows with their tests.
pub fn table() -> String {
    let found = find();
    let nothing = BTreeMap::new();
    let mut table = HEAD.to_owned();
    for (row, what) in ROWS {
        let tests = found.get(*row).unwrap_or(&nothing);
        let cell = |place: Place| {
            let names = tests.get(&place).into_iter().flatten();
            names.map(|name| format!("`{name}`")).collect::<Vec<_>>().join("<br>")
        };
        let cells = [Place::Core, Place::Tokio, Place::Blocking, Place::Proxy].map(cell);
        writeln!(table, "| {row} | {what} | {} |", cells.join(" | ")).expect("a string");
    }
    table
}

const HEAD: &str = "\
# The catalogue of bad input

Every row is a kind of input that is forbidden or unusual, and occurs. Its tests begin with its id; `cargo test
--workspace` runs them. A test fails while a row has no test.

*Core* are the codecs and machines without I/O; the others are reached over sockets, pipes and processes.

| row | what is sent | core | mcp-tokio | mcp-blocking | mcp-proxy |
|---|---|---|---|---|---|
";

fn sources(folder: &Path, files: &mut Vec<PathBuf>) {
    let mut entries: Vec<_> =
        fs::read_dir(folder).expect("a folder").map(|entry| entry.expect("an entry").path()).collect();
    entries.sort();
    for path in entries {
        if path.is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            files.push(path);
        }
    }
}

/// The names of functions, and of scenarios from which a macro generates tests.
fn functions(text: &str) -> impl Iterator<Item = &str> {
    text.split("fn ").skip(1).filter_map(|rest| rest.split(['(', '<']).next())
}

/// The rows in the first six parts of a name. Other parts, such as ids of rules, are skipped.
fn rows_in(name: &str) -> Vec<String> {
    name.split('_').take(6).filter_map(|part| row_of(&part.to_ascii_uppercase())).collect()
}

/// The rows before the colon of a case's name.
fn rows_of_case(text: &str) -> Vec<String> {
    text.split_once(':').map_or_else(Vec::new, |(rows, _)| rows.split(", ").filter_map(row_of).collect())
}

fn row_of(text: &str) -> Option<String> {
    ROWS.iter().find(|(row, _)| *row == text).map(|(row, _)| (*row).to_owned())
}

/// Where the tests of a source run.
fn places(path: &str) -> &'static [Place] {
    match path {
        "tests/src/on_the_wire.rs" => &[Place::Tokio, Place::Blocking],
        path if path.starts_with("mcp-tokio/") => &[Place::Tokio],
        path if path.starts_with("mcp-proxy/") => &[Place::Proxy],
        path if path.starts_with("mcp-blocking/") => &[Place::Blocking],
        _ => &[Place::Core],
    }
}
