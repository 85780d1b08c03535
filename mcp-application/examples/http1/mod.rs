//! What the examples need of HTTP/1.1 (RFC 9112) on blocking sockets. Each connection carries one request and its
//! response.

use std::io::{self, BufRead, ErrorKind, Read};

use http::header::{CONTENT_LENGTH, TRANSFER_ENCODING};
use http::{HeaderMap, HeaderName};

/// The most bytes of a line.
const MAX_LINE: u64 = 8 * 1024;
/// The most headers of a message.
const MAX_HEADERS: usize = 100;

/// The head of a message: its first line, its headers, and those of the connection.
pub(crate) fn write_head(first_line: &str, headers: &HeaderMap, body_length: Option<usize>) -> Vec<u8> {
    let mut head = Vec::from(first_line);
    for (name, value) in headers {
        head.extend([b"\r\n", name.as_str().as_bytes(), b": ", value.as_bytes()].concat());
    }
    if let Some(length) = body_length {
        head.extend(format!("\r\ncontent-length: {length}").bytes());
    }
    head.extend(b"\r\nconnection: close\r\n\r\n");
    head
}

/// Reads the first line of a message, and its headers.
pub(crate) fn read_head(reader: &mut impl BufRead) -> io::Result<(String, HeaderMap)> {
    let first_line = read_line(reader)?;
    let mut headers = HeaderMap::new();
    while headers.len() < MAX_HEADERS {
        let line = read_line(reader)?;
        if line.is_empty() {
            return Ok((first_line, headers));
        }
        let (name, value) = line.split_once(':').ok_or(ErrorKind::InvalidData)?;
        let name: HeaderName = name.parse().map_err(io::Error::other)?;
        headers.append(name, value.trim().parse().map_err(io::Error::other)?);
    }
    Err(ErrorKind::InvalidData.into())
}

/// Reads the body of a message, and passes on its parts as they arrive, until `pass_on` returns an error. If no header
/// states the length of the body, it ends with the connection, or there is none.
pub(crate) fn read_body(
    reader: &mut impl BufRead,
    headers: &HeaderMap,
    ends_with_connection: bool,
    mut pass_on: impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    if headers.get(TRANSFER_ENCODING).is_some_and(|coding| coding == "chunked") {
        loop {
            let line = read_line(reader)?;
            let size = line.split(';').next().map(|size| u64::from_str_radix(size.trim(), 16));
            match size {
                Some(Ok(0)) => return Ok(()),
                Some(Ok(size)) => read_exactly(reader, size, &mut pass_on)?,
                Some(Err(_)) | None => return Err(ErrorKind::InvalidData.into()),
            }
            read_line(reader)?;
        }
    }
    match headers.get(CONTENT_LENGTH).map(|length| length.to_str().unwrap_or_default().parse()) {
        Some(Ok(length)) => read_exactly(reader, length, &mut pass_on),
        Some(Err(_)) => Err(ErrorKind::InvalidData.into()),
        None if ends_with_connection => read_up_to(reader, u64::MAX, &mut pass_on).map(|_| ()),
        None => Ok(()),
    }
}

fn read_exactly(
    reader: &mut impl BufRead,
    length: u64,
    pass_on: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<()> {
    if read_up_to(reader, length, pass_on)? == length { Ok(()) } else { Err(ErrorKind::UnexpectedEof.into()) }
}

/// Returns the number of bytes before the end of the connection, `length` at most.
fn read_up_to(
    reader: &mut impl BufRead,
    length: u64,
    pass_on: &mut impl FnMut(&[u8]) -> io::Result<()>,
) -> io::Result<u64> {
    let mut read = 0;
    while read < length {
        let part = reader.fill_buf()?;
        let taken = part.len().min(usize::try_from(length - read).unwrap_or(usize::MAX));
        if taken == 0 {
            break;
        }
        pass_on(&part[..taken])?;
        reader.consume(taken);
        read += taken as u64;
    }
    Ok(read)
}

fn read_line(reader: &mut impl BufRead) -> io::Result<String> {
    let mut line = String::new();
    Read::take(&mut *reader, MAX_LINE).read_line(&mut line)?;
    let line = line.strip_suffix('\n').ok_or(ErrorKind::UnexpectedEof)?;
    Ok(line.strip_suffix('\r').unwrap_or(line).to_owned())
}
