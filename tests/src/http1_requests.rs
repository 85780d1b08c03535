//! Requests of HTTP/1.1 as bytes, well-formed and broken, with what a server on a socket does with them.

use std::fmt::Write;

use mcp_testkit::http1;
use mcp_testkit::raw_client::RawClient;

/// What follows the request of a row on its connection. It is answered with 405 and ends the connection, unless the row has ended
/// it.
const NEXT: &str = "PUT /mcp HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n";
const NEXT_STATUS: u16 = 405;

/// A message that the server answers with 200 in a session.
const BODY: &str = r#"{"jsonrpc":"2.0","id":1,"method":"echo"}"#;

/// What a server does with the requests of a row.
#[derive(Debug, Clone, Copy)]
enum Outcome {
    /// It answers each with this status, and reads on.
    Answered(&'static [u16]),
    /// It answers with one of these statuses, and ends the connection.
    Refused(&'static [u16]),
    /// It ends the connection, and answers with 400 or not at all.
    Closed,
}

use Outcome::{Answered, Closed, Refused};

/// Bytes, and what a server does with them. In the bytes, `$POST` begins a request in a session, and `$GET` one that is answered
/// with 400 because it names no session; both have the lines of `$HEAD`. `$BODY` is a message, `$REST` all of it but its first
/// byte, `$LEN` its length, and `$HEX` the same in hexadecimal digits.
type Row = (&'static str, Outcome);

const OK: Outcome = Answered(&[200]);
const GET: Outcome = Answered(&[400]);
const BAD: Outcome = Refused(&[400]);

/// Request lines.
const REQUEST_LINES: &[Row] = &[
    ("$GET\r\n", GET),
    ("\r\n$GET\r\n", GET),
    ("\r\n\r\n$GET\r\n", GET),
    ("GET http://localhost/mcp HTTP/1.1\r\n$HEAD\r\n", GET),
    ("GET /mcp?a=b&c HTTP/1.1\r\n$HEAD\r\n", GET),
    ("GET /mcp?a=%00%ff HTTP/1.1\r\n$HEAD\r\n", GET),
    ("GET /%6dcp HTTP/1.1\r\n$HEAD\r\n", Answered(&[404])),
    ("GET /../mcp HTTP/1.1\r\n$HEAD\r\n", Answered(&[404])),
    ("GET //mcp HTTP/1.1\r\n$HEAD\r\n", Answered(&[404])),
    ("GET /mcp/ HTTP/1.1\r\n$HEAD\r\n", GET),
    ("OPTIONS * HTTP/1.1\r\n$HEAD\r\n", Answered(&[404])),
    ("get /mcp HTTP/1.1\r\n$HEAD\r\n", Answered(&[405])),
    ("M-SEARCH /mcp HTTP/1.1\r\n$HEAD\r\n", Answered(&[405])),
    ("PATCH /mcp HTTP/1.1\r\n$HEAD\r\n", Answered(&[405])),
    ("DELETE /mcp HTTP/1.1\r\n$HEAD\r\n", GET),
    ("G@T /mcp HTTP/1.1\r\n$HEAD\r\n", BAD),
    ("G\tT /mcp HTTP/1.1\r\n$HEAD\r\n", BAD),
    (" GET /mcp HTTP/1.1\r\n$HEAD\r\n", BAD),
    ("GET  /mcp HTTP/1.1\r\n$HEAD\r\n", BAD),
    ("GET /mcp  HTTP/1.1\r\n$HEAD\r\n", BAD),
    ("GET /mcp HTTP/1.1 \r\n$HEAD\r\n", BAD),
    ("GET\t/mcp\tHTTP/1.1\r\n$HEAD\r\n", BAD),
    ("GET /m cp HTTP/1.1\r\n$HEAD\r\n", BAD),
    ("GET /m\u{b}cp HTTP/1.1\r\n$HEAD\r\n", BAD),
    ("GET /m\0cp HTTP/1.1\r\n$HEAD\r\n", BAD),
    ("GET mcp HTTP/1.1\r\n$HEAD\r\n", Answered(&[403])),
    ("GET HTTP/1.1\r\n$HEAD\r\n", BAD),
    ("GET /mcp\r\n$HEAD\r\n", BAD),
    ("GET /mcp HTTP/0.9\r\n$HEAD\r\n", BAD),
    ("GET /mcp HTTP/1.2\r\n$HEAD\r\n", BAD),
    ("GET /mcp HTTP/2.0\r\n$HEAD\r\n", BAD),
    ("GET /mcp HTTP/01.1\r\n$HEAD\r\n", BAD),
    ("GET /mcp HTTP/1.\r\n$HEAD\r\n", BAD),
    ("GET /mcp http/1.1\r\n$HEAD\r\n", BAD),
    ("GET /mcp ICE/1.1\r\n$HEAD\r\n", BAD),
    ("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", Closed),
    ("\u{16}\u{3}\u{1}\r\n\r\n", BAD),
    ("HTTP/1.1 200 OK\r\n\r\n", BAD),
    ("{\"jsonrpc\":\"2.0\"}\r\n\r\n", BAD),
];

/// Lines of a head.
const FIELDS: &[Row] = &[
    ("$GETx:y\r\n\r\n", GET),
    ("$GETx:\r\n\r\n", GET),
    ("$GETx: \t y \t \r\n\r\n", GET),
    ("$GETx: y, z; \"q\"\r\n\r\n", GET),
    ("$GETx: \u{e9}\r\n\r\n", GET),
    ("$GET!#$%&'*+-.^_`|~: y\r\n\r\n", GET),
    ("$GETX: y\r\nx: z\r\n\r\n", GET),
    ("$GETx : y\r\n\r\n", BAD),
    ("$GETx\t: y\r\n\r\n", BAD),
    ("$GET x: y\r\n\r\n", BAD),
    ("$GETx: y\r\n z\r\n\r\n", BAD),
    ("$GETx: y\r\n\tz\r\n\r\n", BAD),
    ("$GETx\r\n\r\n", BAD),
    ("$GET: y\r\n\r\n", BAD),
    ("$GETx y: z\r\n\r\n", BAD),
    ("$GETx(: y\r\n\r\n", BAD),
    ("$GETx@: y\r\n\r\n", BAD),
    ("$GET\u{e9}: y\r\n\r\n", BAD),
    ("$GETx\0: y\r\n\r\n", BAD),
    ("$GETx: \0\r\n\r\n", BAD),
    ("$GETx: \u{1}\r\n\r\n", BAD),
    ("$GETx: \u{7f}\r\n\r\n", BAD),
    ("$GETx: y\rz\r\n\r\n", BAD),
    ("$GETx: y\r\r\n\r\n", BAD),
    ("GET /mcp HTTP/1.1\r\naccept: */*\r\n\r\n", Answered(&[403])),
    ("$GEThost: localhost\r\n\r\n", Answered(&[403])),
    ("GET /mcp HTTP/1.1\r\nhost:\r\n\r\n", Answered(&[403])),
    ("$GETconnection: keep-alive\r\n\r\n", GET),
    ("$GETconnection: upgrade\r\nupgrade: websocket\r\n\r\n", GET),
    ("$GETconnection: Upgrade, HTTP2-Settings\r\nupgrade: h2c\r\nhttp2-settings: AAMAAABk\r\n\r\n", GET),
    ("$GETconnection: close\r\n\r\n", BAD),
    ("$GETconnection: x, Close\r\n\r\n", BAD),
    ("GET /mcp HTTP/1.0\r\n$HEAD\r\n", BAD),
    ("GET /mcp HTTP/1.0\r\n\r\n", Refused(&[403])),
];

/// Line feeds and carriage returns where a line end has both.
const LINE_ENDS: &[Row] = &[
    ("\n$GET\r\n", BAD),
    ("\r$GET\r\n", BAD),
    ("GET /mcp HTTP/1.1\n$HEAD\r\n", BAD),
    ("GET /mcp HTTP/1.1\r$HEAD\r\n", BAD),
    ("$GETx: y\n\r\n", BAD),
    ("$GETx: y\nz: a\r\n\r\n", BAD),
    ("$GET\n", BAD),
    ("$GETx: y\r\n\n", BAD),
    ("$GETx: y\n\n", BAD),
    ("$POSTcontent-length: $LEN\n\r\n$BODY", BAD),
    ("$POSTcontent-length: $LEN\r\n\n$BODY", BAD),
    ("$POSTtransfer-encoding: chunked\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", BAD),
];

/// Lengths of bodies.
const LENGTHS: &[Row] = &[
    ("$POSTcontent-length: $LEN\r\n\r\n$BODY", OK),
    ("$POSTContent-Length:$LEN\r\n\r\n$BODY", OK),
    ("$POSTcontent-length: \t$LEN \t\r\n\r\n$BODY", OK),
    ("$POSTcontent-length: 00$LEN\r\n\r\n$BODY", OK),
    ("$POSTcontent-length: $LEN\r\n\r\n$BODY\r\n", OK),
    ("$POSTcontent-length: $LEN\r\n\r\n$BODY$POSTcontent-length: $LEN\r\n\r\n$BODY", Answered(&[200, 200])),
    ("$POSTcontent-length: 0\r\n\r\n", Answered(&[400])),
    ("$POST\r\n", Answered(&[400])),
    ("$POSTcontent-length: 1000000\r\n\r\n", Refused(&[413])),
    ("$GETcontent-length: 2\r\n\r\n{}", GET),
    ("$POSTcontent-length:\r\n\r\n", BAD),
    ("$POSTcontent-length: +$LEN\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: -1\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: 0x28\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: 4 0\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: $LEN.0\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: x\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: $LEN, $LEN\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: $LEN,\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: 18446744073709551616\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: 99999999999999999999999999\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: $LEN\r\ncontent-length: $LEN\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: $LEN\r\ncontent-length: 1\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length : $LEN\r\n\r\n$BODY", BAD),
    ("$POSTcontent-length: $LEN\r\ntransfer-encoding: chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("$POSTtransfer-encoding: chunked\r\ncontent-length: $LEN\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("$POSTtransfer-encoding: identity\r\ncontent-length: $LEN\r\n\r\n$BODY", BAD),
];

/// Codings of bodies.
const CODINGS: &[Row] = &[
    ("$POSTtransfer-encoding: chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", OK),
    ("$POSTTransfer-Encoding:CHUNKED\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", OK),
    ("$POSTtransfer-encoding: \tchunked \t\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", OK),
    ("$POSTcontent-encoding: identity\r\ncontent-length: $LEN\r\n\r\n$BODY", OK),
    ("$POSTcontent-encoding: gzip\r\ncontent-length: $LEN\r\n\r\n$BODY", Answered(&[415])),
    ("$POSTcontent-encoding: identity, br\r\ncontent-length: $LEN\r\n\r\n$BODY", Answered(&[415])),
    ("$POSTtransfer-encoding: gzip, chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[501])),
    ("$POSTtransfer-encoding: deflate,chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[501])),
    ("$POSTtransfer-encoding: chunked, chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[501])),
    ("$POSTtransfer-encoding: , chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[501])),
    (
        "$POSTtransfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n",
        Refused(&[400, 501]),
    ),
    (
        "$POSTtransfer-encoding: gzip\r\ntransfer-encoding: chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n",
        Refused(&[400, 501]),
    ),
    ("$POSTtransfer-encoding: chunked, gzip\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[400, 501])),
    ("$POSTtransfer-encoding: chunked,\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[400, 501])),
    ("$POSTtransfer-encoding: chunked;x=y\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[400, 501])),
    ("$POSTtransfer-encoding: \"chunked\"\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[400, 501])),
    ("$POSTtransfer-encoding: xchunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[400, 501])),
    ("$POSTtransfer-encoding: chunkedx\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", Refused(&[400, 501])),
    ("$POSTtransfer-encoding: identity\r\n\r\n", Refused(&[400, 501])),
    ("$POSTtransfer-encoding:\r\n\r\n", Refused(&[400, 501])),
    ("$POSTtransfer-encoding: \u{b}chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("$POSTtransfer-encoding : chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("POST /mcp HTTP/1.0\r\n$HEADtransfer-encoding: chunked\r\n\r\n$HEX\r\n$BODY\r\n0\r\n\r\n", BAD),
];

/// Bodies in chunks. Each follows `$POST` and `transfer-encoding: chunked`.
const CHUNKS: &[Row] = &[
    ("$HEX\r\n$BODY\r\n0\r\n\r\n", OK),
    ("00$HEX\r\n$BODY\r\n000\r\n\r\n", OK),
    ("1\r\n{\r\n27\r\n$REST\r\n0\r\n\r\n", OK),
    ("1\r\n{\r\n27\r\n$REST\r\n0\r\n\r\n\r\n", OK),
    ("$HEX;x\r\n$BODY\r\n0\r\n\r\n", OK),
    ("$HEX;x=y;z=\"a;b\"\r\n$BODY\r\n0;x\r\n\r\n", OK),
    ("$HEX\r\n$BODY\r\n0\r\nt: v\r\n\r\n", OK),
    ("$HEX\r\n$BODY\r\n0\r\nt: v\r\nu: w\r\n\r\n", OK),
    ("$HEX\r\n$BODY\r\n0\r\ncontent-length: 9\r\n\r\n", OK),
    ("0\r\n\r\n", Answered(&[400])),
    ("\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("x\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("-28\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("+28\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("0x28\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("28 28\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("28g\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("10000000000000028\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("28\n$BODY\r\n0\r\n\r\n", BAD),
    ("28\r$BODY\r\n0\r\n\r\n", BAD),
    ("28;x\n$BODY\r\n0\r\n\r\n", BAD),
    ("28;x=\"\n\"\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("28\r\n$BODY\n0\r\n\r\n", BAD),
    ("28\r\n$BODY0\r\n\r\n", BAD),
    ("28\r\n$BODYx\r\n0\r\n\r\n", BAD),
    ("27\r\n$BODY\r\n0\r\n\r\n", BAD),
    ("28\r\n$BODY\r\n0\n\r\n", BAD),
    ("28\r\n$BODY\r\n0\r\n\n", BAD),
    ("28\r\n$BODY\r\n0\r\nt: v\n\r\n", BAD),
];

/// Asserts that each row is answered as its table states, and that no part of a refused request is served.
///
/// # Panics
///
/// If a row is answered otherwise.
pub fn each_spelling_of_a_request_is_served_or_refused(server: &RawClient) {
    let session = server.session("2025-06-18");
    let chunked =
        CHUNKS.iter().map(|(body, outcome)| (format!("$POSTtransfer-encoding: chunked\r\n\r\n{body}"), outcome));
    let tables = [REQUEST_LINES, FIELDS, LINE_ENDS, LENGTHS, CODINGS];
    let rows = tables.into_iter().flatten().map(|(text, outcome)| ((*text).to_owned(), outcome)).chain(chunked);
    let mut wrong = String::new();
    for (text, outcome) in rows {
        let bytes = expand(&text, &session);
        let answers: Vec<_> = {
            let mut connection = server.connect();
            connection.write(&bytes);
            connection.write(NEXT.as_bytes());
            http1::read_all(connection.rest().as_bytes()).iter().map(http1::HttpMessage::status).collect()
        };
        let is_right = match (answers.split_last(), outcome) {
            (Some((last, before)), Answered(statuses)) => *last == NEXT_STATUS && before == *statuses,
            (Some((last, [])), Refused(statuses)) => statuses.contains(last),
            (None | Some((400, [])), Closed) => true,
            _ => false,
        };
        if !is_right {
            let _ = writeln!(wrong, "{text:?}: {answers:?} instead of {outcome:?}");
        }
    }
    assert!(wrong.is_empty(), "{wrong}");
}

fn expand(text: &str, session: &str) -> Vec<u8> {
    let head = "host: localhost\r\naccept: */*\r\n";
    let post = format!("POST /mcp HTTP/1.1\r\n{head}mcp-session-id: {session}\r\ncontent-type: application/json\r\n");
    let text = text
        .replace("$POST", &post)
        .replace("$GET", &format!("GET /mcp HTTP/1.1\r\n{head}"))
        .replace("$HEAD", head)
        .replace("$LEN", &BODY.len().to_string())
        .replace("$HEX", &format!("{:x}", BODY.len()))
        .replace("$BODY", BODY)
        .replace("$REST", BODY.strip_prefix('{').unwrap_or_default());
    // One byte for each character, as HTTP has it.
    text.chars().map(|character| u8::try_from(u32::from(character)).expect("a byte")).collect()
}
