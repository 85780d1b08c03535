//! A loopback MCP server that costs little: it computes nothing for its answers.

use std::io::{self, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::thread;

use serde::Deserialize;
use serde_json::value::RawValue;

/// The parts of a result before and after its text.
const RESULT: (&str, &str) = (r#"{"content":[{"type":"text","text":""#, r#""}]}"#);
const MODERN_RESULT: (&str, &str) = (r#"{"resultType":"complete","content":[{"type":"text","text":""#, r#""}]}"#);
/// A line of the text of results, escaped as in JSON. Tools return texts of many lines.
const TEXT: &str = "What a tool returns is often the text of a file, in lines of about eighty bytes\\n";
/// The most bytes that are written at once.
const BLOCK: usize = 64 * 1024;

/// How a client states its revision: in `initialize`, or in every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Era {
    Legacy,
    Modern,
}

/// Serves clients of one era on a port of its own until the process ends, and returns the URL.
pub fn start(era: Era) -> io::Result<String> {
    let listener = TcpListener::bind(("127.0.0.1", 0))?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            // An error is ignored: a client may close the connection during an answer.
            thread::spawn(move || serve(stream, era));
        }
    });
    Ok(url)
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct Message<'m> {
    #[serde(borrow)]
    id: Option<&'m RawValue>,
    method: String,
    params: Params,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Params {
    protocol_version: String,
    arguments: Arguments,
}

/// The arguments of the only tool.
#[derive(Default, Deserialize)]
#[serde(default)]
struct Arguments {
    /// The size of the result's text, in bytes.
    bytes: usize,
    /// Whether the result is sent as a server-sent event instead of JSON.
    sse: bool,
}

fn serve(mut stream: TcpStream, era: Era) -> io::Result<()> {
    stream.set_nodelay(true)?;
    let mut bytes = Vec::new();
    let mut buffer = [0; 16 * 1024];
    loop {
        if let Some((is_post, head, length)) = request(&bytes)? {
            if is_post {
                answer(&mut stream, &bytes[head..length], era)?;
            } else if bytes.starts_with(b"DELETE") {
                stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n")?;
            } else {
                stream.write_all(b"HTTP/1.1 405 Method Not Allowed\r\nallow: POST\r\ncontent-length: 0\r\n\r\n")?;
            }
            bytes.drain(..length);
            continue;
        }
        match stream.read(&mut buffer)? {
            0 => return Ok(()),
            length => bytes.extend_from_slice(&buffer[..length]),
        }
    }
}

/// For a complete request: whether it is a POST, the length of its head, and its whole length.
fn request(bytes: &[u8]) -> io::Result<Option<(bool, usize, usize)>> {
    let mut headers = [httparse::EMPTY_HEADER; 32];
    let mut request = httparse::Request::new(&mut headers);
    let httparse::Status::Complete(head) = request.parse(bytes).map_err(io::Error::other)? else {
        return Ok(None);
    };
    let mut length = head;
    for header in request.headers.iter() {
        if header.name.eq_ignore_ascii_case("content-length") {
            let text = str::from_utf8(header.value).map_err(io::Error::other)?;
            length += text.parse::<usize>().map_err(io::Error::other)?;
        } else if header.name.eq_ignore_ascii_case("transfer-encoding") {
            return Err(io::Error::other("requests have a length here"));
        }
    }
    Ok((bytes.len() >= length).then_some((request.method == Some("POST"), head, length)))
}

fn answer(stream: &mut TcpStream, body: &[u8], era: Era) -> io::Result<()> {
    let message: Message<'_> = serde_json::from_slice(body).map_err(io::Error::other)?;
    let Some(id) = message.id else {
        return stream.write_all(b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n");
    };
    let result = if era == Era::Modern { MODERN_RESULT } else { RESULT };
    match message.method.as_str() {
        "initialize" if era == Era::Modern => refuse(
            stream,
            id.get(),
            r#"{"code":-32022,"message":"no","data":{"supported":["2026-07-28"],"requested":""}}"#,
        ),
        "server/discover" if era == Era::Legacy => {
            refuse(stream, id.get(), r#"{"code":-32000,"message":"no session"}"#)
        }
        "server/discover" => {
            let result = r#"{"resultType":"complete","supportedVersions":["2026-07-28"],"capabilities":{"tools":{}},"ttlMs":0,"cacheScope":"private"}"#;
            json(stream, "", id.get(), result, 0, "")
        }
        "initialize" => {
            let version = message.params.protocol_version;
            let result = format!(
                r#"{{"protocolVersion":"{version}","capabilities":{{"tools":{{}}}},"serverInfo":{{"name":"bench","version":"0"}}}}"#
            );
            json(stream, "mcp-session-id: 0123456789abcdef0123456789abcdef\r\n", id.get(), &result, 0, "")
        }
        "tools/list" => {
            json(stream, "", id.get(), r#"{"tools":[{"name":"read","inputSchema":{"type":"object"}}]}"#, 0, "")
        }
        "tools/call" => {
            let Arguments { bytes, sse } = message.params.arguments;
            let text = bytes.saturating_sub(result.0.len() + result.1.len());
            if sse {
                event(stream, id.get(), result.0, text, result.1)
            } else {
                json(stream, "", id.get(), result.0, text, result.1)
            }
        }
        _ => json(stream, "", id.get(), "{}", 0, ""),
    }
}

fn refuse(stream: &mut TcpStream, id: &str, error: &str) -> io::Result<()> {
    let body = format!(r#"{{"jsonrpc":"2.0","id":{id},"error":{error}}}"#);
    let head =
        format!("HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\ncontent-length: {}\r\n\r\n", body.len());
    stream.write_all((head + &body).as_bytes())
}

fn json(stream: &mut TcpStream, headers: &str, id: &str, before: &str, text: usize, after: &str) -> io::Result<()> {
    let before = format!(r#"{{"jsonrpc":"2.0","id":{id},"result":{before}"#);
    let after = format!("{after}}}");
    let length = before.len() + text + after.len();
    let head =
        format!("HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n{headers}content-length: {length}\r\n\r\n");
    write(stream, head + &before, text, &after)
}

/// One event with one data line in one chunk, as the SDKs of MCP send them.
fn event(stream: &mut TcpStream, id: &str, before: &str, text: usize, after: &str) -> io::Result<()> {
    let before = format!("event: message\ndata: {{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{before}");
    let after = format!("{after}}}\n\n");
    let length = before.len() + text + after.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n{length:x}\r\n"
    );
    write(stream, head + &before, text, &(after + "\r\n0\r\n\r\n"))
}

/// Writes a text of this size between two strings, in as few writes as the size of a block allows.
fn write(stream: &mut TcpStream, before: String, mut text: usize, after: &str) -> io::Result<()> {
    let mut block = before.into_bytes();
    while text > 0 {
        if block.len() > BLOCK {
            stream.write_all(&block)?;
            block.clear();
        }
        if text < TEXT.len() {
            block.resize(block.len() + text, b'.');
            break;
        }
        block.extend_from_slice(TEXT.as_bytes());
        text -= TEXT.len();
    }
    block.extend_from_slice(after.as_bytes());
    stream.write_all(&block)
}
