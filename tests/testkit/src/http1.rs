//! A minimal HTTP/1.1 reader, for recorded traffic and for servers in tests.

use std::fmt;

/// A request or response.
#[derive(Clone, PartialEq, Eq)]
pub struct HttpMessage {
    /// The request line or the status line.
    pub line: String,
    /// The header fields, with names in lower case.
    pub headers: Vec<(String, String)>,
    /// The body without the chunked coding.
    pub body: Vec<u8>,
    /// Whether the body is complete.
    pub is_complete: bool,
}

impl fmt::Debug for HttpMessage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({} bytes)", self.line, self.body.len())
    }
}

impl HttpMessage {
    /// The value of a header, or the empty string.
    pub fn header(&self, name: &str) -> &str {
        self.headers.iter().find(|(found, _)| found == name).map_or("", |(_, value)| value)
    }

    /// The status code of a response, or zero.
    pub fn status(&self) -> u16 {
        self.line.split(' ').nth(1).and_then(|status| status.parse().ok()).unwrap_or(0)
    }
}

/// Reads one message from the front of `bytes`; `None` if its head is not complete.
pub fn read(bytes: &mut &[u8]) -> Option<HttpMessage> {
    let end = bytes.windows(4).position(|window| window == b"\r\n\r\n")?;
    let head = String::from_utf8_lossy(&bytes[..end]).into_owned();
    let mut lines = head.split("\r\n");
    let line = lines.next()?.to_owned();
    let headers: Vec<_> = lines
        .filter_map(|line| line.split_once(':'))
        .map(|(name, value)| (name.to_ascii_lowercase(), value.trim().to_owned()))
        .collect();
    let mut exchange = HttpMessage { line, headers, body: Vec::new(), is_complete: true };
    let mut rest = &bytes[end + 4..];
    let is_response = exchange.line.starts_with("HTTP/");
    if exchange.header("transfer-encoding").eq_ignore_ascii_case("chunked") {
        exchange.is_complete = false;
        while let Some(line_end) = rest.windows(2).position(|window| window == b"\r\n") {
            let size = std::str::from_utf8(&rest[..line_end]).ok()?;
            let size = usize::from_str_radix(size.split(';').next()?.trim(), 16).ok()?;
            let chunk = &rest[line_end + 2..];
            if size == 0 {
                exchange.is_complete = true;
                rest = chunk.get(2..).unwrap_or_default();
                break;
            }
            let length = size.min(chunk.len());
            exchange.body.extend_from_slice(&chunk[..length]);
            rest = chunk.get(size + 2..).unwrap_or_default();
            if length < size {
                break;
            }
        }
        if !exchange.is_complete {
            rest = &[];
        }
    } else if let Ok(length) = exchange.header("content-length").parse::<usize>() {
        exchange.is_complete = rest.len() >= length;
        let length = length.min(rest.len());
        exchange.body = rest[..length].to_vec();
        rest = &rest[length..];
    } else if is_response && !matches!(exchange.status(), 100..=199 | 204 | 304) {
        exchange.body = rest.to_vec();
        rest = &[];
    }
    *bytes = rest;
    Some(exchange)
}

/// Reads all messages.
pub fn read_all(mut bytes: &[u8]) -> Vec<HttpMessage> {
    std::iter::from_fn(|| read(&mut bytes)).collect()
}
