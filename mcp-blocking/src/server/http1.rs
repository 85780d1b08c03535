//! Parses requests and writes responses of HTTP/1.1 (RFC 9112). The head is parsed by `httparse`.

use std::io::{self, Write};

use http::header::{CONNECTION, CONTENT_LENGTH, TRANSFER_ENCODING};
use http::request::Parts;
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, StatusCode, Uri, Version};

/// The maximum number of bytes in a head, and of fields (HT12).
pub(super) const HEAD: usize = 32 * 1024;
const FIELDS: usize = 64;
/// The maximum number of bytes in a line that begins a chunk, including its CRLF.
const CHUNK_LINE: usize = 256;

/// How the body of a request is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framing {
    /// This number of bytes is still to come.
    Length(u64),
    /// Chunked. `left` is the number of bytes still to come of the current chunk, or the number of bytes of trailers so
    /// far.
    Chunked { left: u64, state: ChunkState },
    /// The body is complete.
    Done,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ChunkState {
    /// A line with a length comes next.
    Line,
    /// Data comes next.
    Data,
    /// The line end after the data comes next.
    DataEnd,
    /// Trailers come next.
    Trailers,
}

/// The head of a request.
#[derive(Debug)]
pub(crate) struct Head {
    pub(crate) parts: Parts,
    pub(super) framing: Framing,
    /// Whether the connection may be reused.
    pub(super) keep_alive: bool,
}

/// Parses a head at the front of `bytes`. Returns the head and its length, or `None` if it is incomplete.
///
/// # Errors
///
/// The status with which to answer a head that is invalid or cannot be served.
pub(crate) fn parse_head(bytes: &[u8]) -> Result<Option<(Head, usize)>, StatusCode> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS];
    let mut request = httparse::Request::new(&mut fields);
    let length = match request.parse(bytes) {
        Ok(httparse::Status::Complete(length)) => length,
        Ok(httparse::Status::Partial) if bytes.len() < HEAD => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        }
        Err(_) => return Err(StatusCode::BAD_REQUEST),
    };
    let bad = StatusCode::BAD_REQUEST;
    // `httparse` accepts a bare line feed, which another parser may treat as part of the line (OR7).
    if has_bare_line_feed(bytes.get(..length).unwrap_or_default()) {
        return Err(bad);
    }
    let method = Method::from_bytes(request.method.unwrap_or_default().as_bytes()).map_err(|_| bad)?;
    let uri: Uri = request.path.unwrap_or_default().parse().map_err(|_| bad)?;
    let version = if request.version == Some(0) { Version::HTTP_10 } else { Version::HTTP_11 };
    let mut headers = HeaderMap::with_capacity(request.headers.len());
    for field in request.headers.iter() {
        let name = HeaderName::from_bytes(field.name.as_bytes()).map_err(|_| bad)?;
        headers.append(name, HeaderValue::from_bytes(field.value).map_err(|_| bad)?);
    }
    // A sender that speaks HTTP/1.0 knows no chunks (RFC 9112, section 6.1).
    if version == Version::HTTP_10 && headers.contains_key(TRANSFER_ENCODING) {
        return Err(bad);
    }
    let framing = framing(&headers)?;
    let keep_alive = version == Version::HTTP_11 && !has_token(&headers, &CONNECTION, "close");
    let mut parts = Request::new(()).into_parts().0;
    (parts.method, parts.uri, parts.version, parts.headers) = (method, uri, version, headers);
    Ok(Some((Head { parts, framing, keep_alive }, length)))
}

/// Refuses a request whose length is ambiguous: what follows it might be parsed as another request (OR7).
fn framing(headers: &HeaderMap) -> Result<Framing, StatusCode> {
    let bad = StatusCode::BAD_REQUEST;
    let mut lengths = headers.get_all(CONTENT_LENGTH).iter();
    let length = match (lengths.next(), lengths.next()) {
        (None, _) => None,
        (Some(length), None) => {
            let text = length.to_str().ok().filter(|text| text.bytes().all(|byte| byte.is_ascii_digit())).ok_or(bad)?;
            Some(text.parse::<u64>().map_err(|_| bad)?)
        }
        (Some(_), Some(_)) => return Err(bad),
    };
    let mut codings = headers.get_all(TRANSFER_ENCODING).iter();
    match (codings.next(), codings.next(), length) {
        (None, _, None | Some(0)) => Ok(Framing::Done),
        (None, _, Some(length)) => Ok(Framing::Length(length)),
        (Some(coding), None, None) if coding.as_bytes().eq_ignore_ascii_case(b"chunked") => {
            Ok(Framing::Chunked { left: 0, state: ChunkState::Line })
        }
        (Some(_), _, Some(_)) => Err(bad),
        (Some(_), _, None) => Err(StatusCode::NOT_IMPLEMENTED),
    }
}

fn has_bare_line_feed(bytes: &[u8]) -> bool {
    let before = std::iter::once(&0).chain(bytes);
    before.zip(bytes).any(|(&before, &byte)| byte == b'\n' && before != b'\r')
}

fn has_token(headers: &HeaderMap, name: &HeaderName, token: &str) -> bool {
    headers
        .get_all(name)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|part| part.trim().eq_ignore_ascii_case(token))
}

/// How the next bytes that have arrived are used.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Piece {
    /// This number of bytes belongs to the body.
    Data(usize),
    /// This number of bytes only delimits the body.
    Skip(usize),
    /// More bytes must arrive.
    More,
}

impl Framing {
    /// Examines the bytes that have arrived, and consumes those that it returns as [`Piece`].
    ///
    /// # Errors
    ///
    /// If the chunked encoding is invalid.
    pub(super) fn next(&mut self, bytes: &[u8]) -> Result<Piece, StatusCode> {
        match self {
            Self::Done => Ok(Piece::Skip(0)),
            _ if bytes.is_empty() => Ok(Piece::More),
            Self::Length(left) => {
                let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                *left -= taken as u64;
                if *left == 0 {
                    *self = Self::Done;
                }
                Ok(Piece::Data(taken))
            }
            Self::Chunked { left, state } => match state {
                ChunkState::Line => {
                    let Some((line, length)) = take_line(bytes, CHUNK_LINE)? else { return Ok(Piece::More) };
                    let size = chunk_size(line).ok_or(StatusCode::BAD_REQUEST)?;
                    (*left, *state) = (size, if size == 0 { ChunkState::Trailers } else { ChunkState::Data });
                    Ok(Piece::Skip(length))
                }
                ChunkState::Data => {
                    let taken = bytes.len().min(usize::try_from(*left).unwrap_or(usize::MAX));
                    *left -= taken as u64;
                    if *left == 0 {
                        *state = ChunkState::DataEnd;
                    }
                    Ok(Piece::Data(taken))
                }
                ChunkState::DataEnd => match bytes {
                    [b'\r', b'\n', ..] => {
                        *state = ChunkState::Line;
                        Ok(Piece::Skip(2))
                    }
                    [b'\r'] => Ok(Piece::More),
                    _ => Err(StatusCode::BAD_REQUEST),
                },
                // The content of trailers is ignored; they end with an empty line.
                ChunkState::Trailers => {
                    let room = HEAD.saturating_sub(usize::try_from(*left).unwrap_or(usize::MAX));
                    let Some((line, length)) = take_line(bytes, room)? else { return Ok(Piece::More) };
                    *left += length as u64;
                    if line.is_empty() {
                        *self = Self::Done;
                    } else if !is_field(line) {
                        return Err(StatusCode::BAD_REQUEST);
                    }
                    Ok(Piece::Skip(length))
                }
            },
        }
    }
}

/// Returns the line at the front without its CRLF, and its length with it; `None` if its end has not arrived. A line
/// ends with CRLF and contains no other CR or LF.
fn take_line(bytes: &[u8], most: usize) -> Result<Option<(&[u8], usize)>, StatusCode> {
    let seen = bytes.get(..bytes.len().min(most)).unwrap_or_default();
    let Some(end) = seen.iter().position(|byte| *byte == b'\n') else {
        return if bytes.len() < most { Ok(None) } else { Err(StatusCode::BAD_REQUEST) };
    };
    let line = seen.get(..end).and_then(|line| line.strip_suffix(b"\r")).filter(|line| !line.contains(&b'\r'));
    line.map(|line| Some((line, end + 1))).ok_or(StatusCode::BAD_REQUEST)
}

/// Parses the line that begins a chunk, and returns the size: `chunk-size [ chunk-ext ]` of RFC 9112, section 7.1.
fn chunk_size(line: &[u8]) -> Option<u64> {
    let digits = line.iter().take_while(|byte| byte.is_ascii_hexdigit()).count();
    let (size, mut extensions) = line.split_at_checked(digits)?;
    let size = u64::from_str_radix(std::str::from_utf8(size).ok()?, 16).ok()?;
    while !extensions.is_empty() {
        let name = skip_blanks(extensions).strip_prefix(b";").map(skip_blanks)?;
        extensions = skip_token(name)?;
        if let Some(value) = skip_blanks(extensions).strip_prefix(b"=").map(skip_blanks) {
            extensions = match value.strip_prefix(b"\"") {
                Some(quoted) => skip_quoted(quoted)?,
                None => skip_token(value)?,
            };
        }
    }
    Some(size)
}

fn skip_blanks(bytes: &[u8]) -> &[u8] {
    let blanks = bytes.iter().take_while(|byte| matches!(byte, b' ' | b'\t')).count();
    bytes.get(blanks..).unwrap_or_default()
}

/// Returns what follows a token, which has at least one character (RFC 9110, section 5.6.2).
fn skip_token(bytes: &[u8]) -> Option<&[u8]> {
    let is_token = |byte: &u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(byte);
    let length = bytes.iter().take_while(|byte| is_token(byte)).count();
    bytes.get(length..).filter(|_| length > 0)
}

/// Returns what follows a quoted string whose opening quote was already taken (RFC 9110, section 5.6.4).
fn skip_quoted(mut bytes: &[u8]) -> Option<&[u8]> {
    loop {
        let (byte, rest) = bytes.split_first()?;
        bytes = match byte {
            b'"' => return Some(rest),
            b'\\' => rest.split_first().filter(|(byte, _)| is_text(**byte))?.1,
            byte if is_text(*byte) => rest,
            _ => return None,
        };
    }
}

/// Whether a byte may occur in a field value: no control character except a tab.
const fn is_text(byte: u8) -> bool {
    matches!(byte, b'\t' | b' '..=b'~' | 0x80..)
}

/// Whether a line of the trailers is a field (RFC 9112, section 5).
fn is_field(line: &[u8]) -> bool {
    let value = skip_token(line).and_then(|rest| rest.strip_prefix(b":"));
    value.is_some_and(|value| value.iter().copied().all(is_text))
}

/// How the body of a response is delimited.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Delimited {
    /// By `Content-Length`.
    Length(usize),
    /// By chunks.
    Chunks,
    /// By the end of the connection.
    Close,
}

/// Writes the head of a response.
pub(super) fn write_head(
    out: &mut impl Write,
    status: StatusCode,
    headers: &HeaderMap,
    body: Delimited,
    keep_alive: bool,
) -> io::Result<()> {
    write!(out, "HTTP/1.1 {} {}\r\n", status.as_u16(), status.canonical_reason().unwrap_or_default())?;
    for (name, value) in headers {
        out.write_all(name.as_str().as_bytes())?;
        out.write_all(b": ")?;
        out.write_all(value.as_bytes())?;
        out.write_all(b"\r\n")?;
    }
    match body {
        // A response that cannot have a body has no `Content-Length` (RFC 9110 8.6).
        Delimited::Length(0) if status == StatusCode::NO_CONTENT => {}
        Delimited::Length(length) => write!(out, "content-length: {length}\r\n")?,
        Delimited::Chunks => out.write_all(b"transfer-encoding: chunked\r\n")?,
        Delimited::Close => {}
    }
    if !keep_alive {
        out.write_all(b"connection: close\r\n")?;
    }
    out.write_all(b"\r\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn head(text: &str) -> Result<Head, StatusCode> {
        parse_head(text.as_bytes()).map(|found| found.unwrap().0)
    }

    #[test]
    fn or7_a_request_of_two_lengths_is_not_served() {
        for (fields, expected) in [
            ("", Ok(Framing::Done)),
            ("content-length: 0\r\n", Ok(Framing::Done)),
            ("content-length: 5\r\n", Ok(Framing::Length(5))),
            ("transfer-encoding: chunked\r\n", Ok(Framing::Chunked { left: 0, state: ChunkState::Line })),
            ("transfer-encoding: Chunked\r\n", Ok(Framing::Chunked { left: 0, state: ChunkState::Line })),
            ("content-length: 5\r\ncontent-length: 5\r\n", Err(StatusCode::BAD_REQUEST)),
            ("content-length: 5, 5\r\n", Err(StatusCode::BAD_REQUEST)),
            ("content-length: +5\r\n", Err(StatusCode::BAD_REQUEST)),
            ("content-length: -1\r\n", Err(StatusCode::BAD_REQUEST)),
            ("content-length: 99999999999999999999\r\n", Err(StatusCode::BAD_REQUEST)),
            ("content-length: 5\r\ntransfer-encoding: chunked\r\n", Err(StatusCode::BAD_REQUEST)),
            ("transfer-encoding: gzip, chunked\r\n", Err(StatusCode::NOT_IMPLEMENTED)),
            ("transfer-encoding: chunked\r\ntransfer-encoding: chunked\r\n", Err(StatusCode::NOT_IMPLEMENTED)),
            ("content-length : 5\r\n", Err(StatusCode::BAD_REQUEST)),
        ] {
            let found = head(&format!("POST /mcp HTTP/1.1\r\nhost: h\r\n{fields}\r\n")).map(|head| head.framing);
            assert_eq!(found, expected, "{fields}");
        }
    }

    #[test]
    fn ht12_heads_are_bounded() {
        assert!(parse_head(b"POST /mcp HT").unwrap().is_none());
        let endless = format!("POST /mcp HTTP/1.1\r\nx: {}", "y".repeat(HEAD));
        assert_eq!(parse_head(endless.as_bytes()).unwrap_err(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        let many = format!("POST /mcp HTTP/1.1\r\n{}\r\n", "x: y\r\n".repeat(FIELDS + 1));
        assert_eq!(parse_head(many.as_bytes()).unwrap_err(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        assert_eq!(parse_head(b"\0\0").unwrap_err(), StatusCode::BAD_REQUEST);
    }

    /// The body that `framing` extracts from `wire`, which arrives in pieces of `size` bytes.
    fn body(mut framing: Framing, wire: &[u8], size: usize) -> Result<(Vec<u8>, usize), StatusCode> {
        let (mut body, mut have, mut at) = (Vec::new(), size.min(wire.len()), 0);
        while framing != Framing::Done {
            match framing.next(&wire[at..have])? {
                Piece::Data(length) => {
                    body.extend_from_slice(&wire[at..at + length]);
                    at += length;
                }
                Piece::Skip(length) => at += length,
                Piece::More if have == wire.len() => return Ok((body, at)),
                Piece::More => have = (have + size).min(wire.len()),
            }
        }
        Ok((body, at))
    }

    #[test]
    fn chunks_are_joined_however_they_arrive() {
        let start = Framing::Chunked { left: 0, state: ChunkState::Line };
        let wire = b"4\r\nWiki\r\n6;x=y\r\npedia \r\n0\r\nTrailer: t\r\n\r\nGET / HTTP/1.1";
        for size in 1..wire.len() {
            let (found, at) = body(start, wire, size).unwrap();
            assert_eq!((found.as_slice(), &wire[at..]), (&b"Wikipedia "[..], &b"GET / HTTP/1.1"[..]));
        }
        for broken in [&b"x\r\n"[..], b"4\r\nWikiX\r\n", b"-1\r\n", b"fffffffffffffffffff\r\n"] {
            assert_eq!(body(start, broken, 64).unwrap_err(), StatusCode::BAD_REQUEST);
        }
        assert_eq!(body(Framing::Length(3), b"abcdef", 2).unwrap(), (b"abc".to_vec(), 3));
    }

    const CHUNKED: Framing = Framing::Chunked { left: 0, state: ChunkState::Line };

    #[test]
    fn or7_no_second_spelling_of_a_chunked_body_is_accepted() {
        let rest = "\r\nGET /evil HTTP/1.1\r\n\r\n";
        for wire in [
            // A bare line feed.
            "4\nWiki\r\n0\r\n\r\n",
            "4;x\nWiki\r\n0\r\n\r\n",
            "4;x=\"\n\"\r\nWiki\r\n0\r\n\r\n",
            "4\r\nWiki\n0\r\n\r\n",
            "0\n\r\n",
            "0\r\n\n",
            "0\r\nt: v\n\r\n",
            "0\r\nt: v\r\n\n",
            // A bare carriage return.
            "4\rWiki\r\n0\r\n\r\n",
            "4;x\r;y\r\nWiki\r\n0\r\n\r\n",
            "0\r\nt: v\rX: y\r\n\r\n",
            "4\r\nWiki\r\r\n0\r\n\r\n",
            // Invalid sizes.
            "\r\nWiki\r\n0\r\n\r\n",
            " 4\r\nWiki\r\n0\r\n\r\n",
            "4 \r\nWiki\r\n0\r\n\r\n",
            "+4\r\nWiki\r\n0\r\n\r\n",
            "0x4\r\nWiki\r\n0\r\n\r\n",
            "4 4\r\nWiki\r\n0\r\n\r\n",
            "10000000000000004\r\nWiki\r\n0\r\n\r\n",
            // Invalid extensions.
            "4;\r\nWiki\r\n0\r\n\r\n",
            "4;x=\r\nWiki\r\n0\r\n\r\n",
            "4;x y\r\nWiki\r\n0\r\n\r\n",
            "4;x=\"\r\nWiki\r\n0\r\n\r\n",
            "4;x=\0\r\nWiki\r\n0\r\n\r\n",
            "4,x\r\nWiki\r\n0\r\n\r\n",
            // Data that is longer or shorter than its size.
            "4\r\nWikis\r\n0\r\n\r\n",
            "5\r\nWiki\r\n0\r\n\r\n",
            // Invalid trailers.
            "0\r\nt\r\n\r\n",
            "0\r\n: v\r\n\r\n",
            "0\r\nt : v\r\n\r\n",
            "0\r\nt: v\r\n folded\r\n\r\n",
            "0\r\nt: \0\r\n\r\n",
        ] {
            let wire = format!("{wire}{rest}");
            for size in [1, 3, wire.len()] {
                assert_eq!(body(CHUNKED, wire.as_bytes(), size).unwrap_err(), StatusCode::BAD_REQUEST, "{wire:?}");
            }
        }
        for wire in ["4;x\r\nWiki\r\n0\r\n\r\n", "004 ; x = \"\\\"\" ;y\r\nWiki\r\n00;z\r\nt:v\r\nu: \r\n\r\n"] {
            for size in [1, 3, wire.len()] {
                assert_eq!(body(CHUNKED, wire.as_bytes(), size).unwrap(), (b"Wiki".to_vec(), wire.len()), "{wire:?}");
            }
        }
        let endless = format!("0\r\n{}", "t: v\r\n".repeat(HEAD));
        assert_eq!(
            body(CHUNKED, endless.as_bytes(), 1000).unwrap_err(),
            StatusCode::BAD_REQUEST,
            "trailers are bounded"
        );
    }

    #[test]
    fn or7_no_second_spelling_of_a_head_is_accepted() {
        for text in [
            "POST /mcp HTTP/1.1\nhost: h\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nhost: h\n\r\n",
            "POST /mcp HTTP/1.1\r\nhost: h\r\n\n",
            "POST /mcp HTTP/1.1\nhost: h\n\n",
            "\nPOST /mcp HTTP/1.1\r\nhost: h\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nhost: h\rx: y\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nhost: h\r\n folded\r\n\r\n",
            "POST /mcp HTTP/1.1\r\n host: h\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nhost : h\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nhost\r\n\r\n",
            "POST /mcp HTTP/1.1\r\nho\0st: h\r\n\r\n",
            "POST /mcp\thttp HTTP/1.1\r\nhost: h\r\n\r\n",
            "POST  /mcp HTTP/1.1\r\nhost: h\r\n\r\n",
            "POST /mcp  HTTP/1.1\r\nhost: h\r\n\r\n",
            "POST /mcp HTTP/1.1 \r\nhost: h\r\n\r\n",
            "POST /mcp HTTP/2.0\r\nhost: h\r\n\r\n",
            "POST /mcp HTTP/1.10\r\nhost: h\r\n\r\n",
            "POST /mcp\r\nhost: h\r\n\r\n",
        ] {
            assert_eq!(parse_head(text.as_bytes()).unwrap_err(), StatusCode::BAD_REQUEST, "{text:?}");
        }
        assert!(head("\r\nPOST /mcp HTTP/1.1\r\nhost: h\r\n\r\n").is_ok(), "RFC 9112, section 2.2");
    }
    #[test]
    fn a_connection_is_kept_if_both_sides_allow_it() {
        for (version, fields, keep_alive) in [
            ("1.1", "", true),
            ("1.1", "connection: keep-alive\r\n", true),
            ("1.1", "connection: close\r\n", false),
            ("1.1", "connection: x, Close\r\n", false),
            ("1.1", "connection: x\r\nconnection: close\r\n", false),
            ("1.1", "connection: closed\r\n", true),
            ("1.0", "", false),
            ("1.0", "connection: keep-alive\r\n", false),
        ] {
            let found = head(&format!("DELETE /a?b HTTP/{version}\r\n{fields}x: y\r\nx: z\r\n\r\n")).unwrap();
            assert_eq!(found.keep_alive, keep_alive, "{version} {fields}");
            let expected = if version == "1.1" { Version::HTTP_11 } else { Version::HTTP_10 };
            assert_eq!((found.parts.version, found.parts.method), (expected, Method::DELETE));
            assert_eq!((found.parts.uri.path(), found.parts.uri.query()), ("/a", Some("b")));
            assert_eq!(found.parts.headers.get_all("x").iter().collect::<Vec<_>>(), ["y", "z"]);
        }
        let text = b"GET / HTTP/1.1\r\n\r\nrest";
        assert_eq!(parse_head(text).unwrap().unwrap().1, text.len() - 4);
    }

    #[test]
    fn ht12_a_head_may_have_so_many_bytes_and_a_line_of_a_chunk_so_many() {
        let begun = |length: usize| {
            let mut bytes = b"GET / HTTP/1.1\r\nx: ".to_vec();
            bytes.resize(length, b'y');
            bytes
        };
        assert!(parse_head(&begun(HEAD - 1)).unwrap().is_none());
        assert_eq!(parse_head(&begun(HEAD)).unwrap_err(), StatusCode::REQUEST_HEADER_FIELDS_TOO_LARGE);
        let line = |length: usize| [&b"1;"[..], &vec![b'x'; length - 4], b"\r\n"].concat();
        let start = || Framing::Chunked { left: 0, state: ChunkState::Line };
        assert_eq!(start().next(&line(CHUNK_LINE)), Ok(Piece::Skip(CHUNK_LINE)));
        assert_eq!(start().next(&line(CHUNK_LINE)[..CHUNK_LINE - 1]), Ok(Piece::More));
        assert_eq!(start().next(&line(CHUNK_LINE + 1)), Err(StatusCode::BAD_REQUEST));
        assert_eq!(start().next(&line(CHUNK_LINE + 1)[..CHUNK_LINE]), Err(StatusCode::BAD_REQUEST));
        // All trailers together may be as long as one head.
        let trailers = |left| Framing::Chunked { left, state: ChunkState::Trailers };
        assert_eq!(trailers(HEAD as u64 - 5).next(b"t:v\r\n"), Ok(Piece::Skip(5)));
        assert_eq!(trailers(HEAD as u64 - 4).next(b"t:v\r\n"), Err(StatusCode::BAD_REQUEST));
        assert_eq!(trailers(u64::MAX).next(b"\r\n"), Err(StatusCode::BAD_REQUEST));
        let mut two = trailers(1);
        assert_eq!((two.next(b"t:v\r\nu:"), two), (Ok(Piece::Skip(5)), trailers(6)));
        assert_eq!((two.next(b""), Framing::Done.next(b"GET")), (Ok(Piece::More), Ok(Piece::Skip(0))));
    }

    #[test]
    fn the_text_of_fields_and_extensions_has_no_control_character() {
        for (byte, expected) in
            [(0, false), (8, false), (b'\t', true), (b'\n', false), (0x1f, false), (b' ', true), (b'~', true)]
        {
            assert_eq!(is_text(byte), expected, "{byte}");
        }
        assert_eq!((is_text(0x7f), is_text(0x80), is_text(0xff)), (false, true, true));
        for (line, size) in [
            ("a", Some(10)),
            ("0A;b", Some(10)),
            ("a ;b=c;d = \"e\\\"\tf\" ;g", Some(10)),
            ("a;b=\"\"", Some(10)),
            ("", None),
            (";b", None),
            ("g", None),
            ("-1", None),
            ("a;", None),
            ("a;=b", None),
            ("a;b=", None),
            ("a;b c", None),
            ("a;b=\"c", None),
            ("a;b=\"\\", None),
            ("a;b=\"\x01\"", None),
            ("a;b=\"\\\x01\"", None),
            ("10000000000000000", None),
        ] {
            assert_eq!(chunk_size(line.as_bytes()), size, "{line:?}");
        }
    }

    #[test]
    fn a_response_states_the_end_of_its_body_and_of_the_connection() {
        let mut headers = HeaderMap::new();
        headers.append("x-a", HeaderValue::from_static("1"));
        headers.append("x-a", HeaderValue::from_static("2"));
        for (status, body, keep_alive, expected) in [
            (200, Delimited::Length(0), true, "200 OK\r\nx-a: 1\r\nx-a: 2\r\ncontent-length: 0\r\n\r\n"),
            (204, Delimited::Length(0), true, "204 No Content\r\nx-a: 1\r\nx-a: 2\r\n\r\n"),
            (
                404,
                Delimited::Length(7),
                false,
                "404 Not Found\r\nx-a: 1\r\nx-a: 2\r\ncontent-length: 7\r\nconnection: close\r\n\r\n",
            ),
            (200, Delimited::Chunks, true, "200 OK\r\nx-a: 1\r\nx-a: 2\r\ntransfer-encoding: chunked\r\n\r\n"),
            (200, Delimited::Close, false, "200 OK\r\nx-a: 1\r\nx-a: 2\r\nconnection: close\r\n\r\n"),
        ] {
            let mut out = Vec::new();
            write_head(&mut out, StatusCode::from_u16(status).unwrap(), &headers, body, keep_alive).unwrap();
            assert_eq!(String::from_utf8(out).unwrap(), format!("HTTP/1.1 {expected}"));
        }
    }
}
