//! The lines that delimit requests of HTTP/1.1. hyper accepts line ends, and combinations of lengths, that another parser
//! before it may understand otherwise (OR7).

/// The maximum number of bytes of a line with a length, without its line feed.
const LINE: usize = 64;
/// No line of a head or of trailers may contain it, so that hyper refuses the request.
const INVALID: u8 = 0;

/// What comes next on a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    /// Lines of a head.
    Head,
    /// Data of a body, of which this number of bytes is still to come.
    Body(u64),
    /// The line with the size of a chunk.
    Size,
    /// Data of a chunk, of which this number of bytes is still to come.
    Chunk(u64),
    /// The line end after the data of a chunk.
    ChunkEnd,
    /// Lines of trailers.
    Trailers,
    /// Bytes behind a request that is refused.
    Refused,
}

/// The lengths that a head has stated so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Length {
    None,
    Bytes(u64),
    Chunks,
}

/// Follows the requests on a connection.
#[derive(Debug)]
pub(super) struct RequestLines {
    part: Part,
    /// The first bytes of the current line.
    line: [u8; LINE],
    /// The number of bytes of the current line.
    count: usize,
    last: u8,
    has_request_line: bool,
    length: Length,
}

impl Default for RequestLines {
    fn default() -> Self {
        let (line, length) = ([0; LINE], Length::None);
        Self { part: Part::Head, line, count: 0, last: 0, has_request_line: false, length }
    }
}

impl RequestLines {
    /// Examines the next bytes of the connection. Overwrites a line feed of a head, or of trailers, with an invalid byte if
    /// no carriage return precedes it, or if its line is the second one that states a length. Between chunks, hyper is as strict
    /// itself.
    pub(super) fn examine(&mut self, mut bytes: &mut [u8]) {
        while !bytes.is_empty() {
            let taken = match &mut self.part {
                Part::Refused => return,
                Part::Body(left) => {
                    let (taken, is_complete) = take(left, bytes.len());
                    if is_complete {
                        self.part = Part::Head;
                    }
                    taken
                }
                Part::Chunk(left) => {
                    let (taken, is_complete) = take(left, bytes.len());
                    if is_complete {
                        self.part = Part::ChunkEnd;
                    }
                    taken
                }
                Part::Head | Part::Size | Part::ChunkEnd | Part::Trailers => self.take_line(bytes),
            };
            bytes = bytes.split_at_mut(taken).1;
        }
    }

    /// Takes bytes up to the end of the line; returns their number.
    fn take_line(&mut self, bytes: &mut [u8]) -> usize {
        for (at, byte) in bytes.iter_mut().enumerate() {
            if *byte != b'\n' {
                if let Some(free) = self.line.get_mut(self.count) {
                    *free = *byte;
                }
                self.count = self.count.saturating_add(1);
                self.last = *byte;
                continue;
            }
            let next = if self.count > 0 && self.last == b'\r' { self.end_line() } else { None };
            if next.is_none() && matches!(self.part, Part::Head | Part::Trailers) {
                *byte = INVALID;
            }
            self.part = next.unwrap_or(Part::Refused);
            self.count = 0;
            return at + 1;
        }
        bytes.len()
    }

    /// What follows the current line; `None` if its request is refused.
    fn end_line(&mut self) -> Option<Part> {
        let text = self.line.get(..self.count - 1);
        let is_empty = self.count == 1;
        match self.part {
            Part::Head if !is_empty => {
                if self.has_request_line {
                    self.length = self.length_with_line(text)?;
                }
                self.has_request_line = true;
                Some(Part::Head)
            }
            // Empty lines before a request are skipped (RFC 9112, section 2.2).
            Part::Head if !self.has_request_line => Some(Part::Head),
            Part::Head => {
                self.has_request_line = false;
                match std::mem::replace(&mut self.length, Length::None) {
                    Length::None | Length::Bytes(0) => Some(Part::Head),
                    Length::Bytes(length) => Some(Part::Body(length)),
                    Length::Chunks => Some(Part::Size),
                }
            }
            Part::Size => {
                let digits = text?.split(|byte| !byte.is_ascii_hexdigit()).next()?;
                match u64::from_str_radix(std::str::from_utf8(digits).ok()?, 16).ok()? {
                    0 => Some(Part::Trailers),
                    size => Some(Part::Chunk(size)),
                }
            }
            Part::ChunkEnd => is_empty.then_some(Part::Size),
            Part::Trailers if is_empty => Some(Part::Head),
            Part::Trailers => Some(Part::Trailers),
            Part::Body(_) | Part::Chunk(_) | Part::Refused => None,
        }
    }

    /// The length of the request, if its head also has this line. `text` is `None` if the line is long.
    fn length_with_line(&self, text: Option<&[u8]>) -> Option<Length> {
        let line = text.unwrap_or(&self.line);
        let mut parts = line.splitn(2, |byte| *byte == b':');
        let name = parts.next().unwrap_or_default();
        let is_length = name.eq_ignore_ascii_case(b"content-length");
        if !is_length && !name.eq_ignore_ascii_case(b"transfer-encoding") {
            return Some(self.length);
        }
        let value = text.and(parts.next()).filter(|_| self.length == Length::None)?.trim_ascii();
        if is_length {
            return std::str::from_utf8(value).ok()?.parse().ok().map(Length::Bytes);
        }
        let last = value.rsplit(|byte| *byte == b',').next()?;
        last.trim_ascii().eq_ignore_ascii_case(b"chunked").then_some(Length::Chunks)
    }
}

/// Takes what is there of the bytes that are still to come; returns their number, and whether they are complete.
fn take(left: &mut u64, available: usize) -> (usize, bool) {
    let taken = available.min(usize::try_from(*left).unwrap_or(usize::MAX));
    *left -= taken as u64;
    (taken, *left == 0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What hyper receives of `text`, which arrives in pieces of `size` bytes.
    fn received(text: &str, size: usize) -> String {
        let (mut lines, mut bytes) = (RequestLines::default(), text.as_bytes().to_vec());
        bytes.chunks_mut(size).for_each(|piece| lines.examine(piece));
        String::from_utf8(bytes).unwrap()
    }

    /// Asserts that `refused` is refused at the line feed that is written `!` in it, behind each kind of request.
    #[track_caller]
    fn assert_refused(refused: &str) {
        let before = [
            "",
            "\r\nGET / HTTP/1.1\r\nx: y\r\n\r\n",
            "POST / HTTP/1.1\r\ncontent-length: 0\r\n\r\n",
            "POST / HTTP/1.1\r\nContent-Length:3\r\n\r\n\n\n\n",
            "POST / HTTP/1.1\r\nx: content-length: 9\r\ntransfer-encoding: Chunked\r\n\r\n2;x=y\r\n\n\n\r\n1\r\n\n\r\n0\r\nt: v\r\n\r\n",
        ];
        for (before, size) in before.iter().flat_map(|before| [1, 2, 3, 7, 1000].map(|size| (before, size))) {
            let whole = format!("{before}{refused}");
            assert_eq!(received(&whole.replace('!', "\n"), size), whole.replace('!', "\0"), "in pieces of {size}");
        }
    }

    #[test]
    fn a_line_feed_alone_ends_no_line() {
        for refused in [
            "!GET / HTTP/1.1\r\n\r\n",
            "GET / HTTP/1.1!x: y\r\n\r\n",
            "GET / HTTP/1.1\r\nx: y!\r\nz: z\n\n",
            "GET / HTTP/1.1\r\n!",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\n!",
            "POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n0\r\nt: v!\r\n",
        ] {
            assert_refused(refused);
        }
    }

    #[test]
    fn a_request_has_one_length_that_can_be_read() {
        let long = format!("content-length: {}1", " ".repeat(LINE));
        for second in [
            "content-length: 2\r\nCONTENT-LENGTH: 2",
            "content-length: 2\r\ntransfer-encoding: chunked",
            "transfer-encoding: chunked\r\ncontent-length: 2",
            "transfer-encoding: chunked\r\ntransfer-encoding: chunked",
            "content-length: 2, 2",
            "content-length: -2",
            "content-length: 99999999999999999999",
            "content-length",
            "transfer-encoding: chunked, identity",
            &long,
        ] {
            assert_refused(&format!("POST / HTTP/1.1\r\n{second}\r!\r\n{{}}"));
        }
    }

    #[test]
    fn bytes_behind_a_broken_chunk_are_left_to_hyper() {
        for broken in ["4\n", "1;x\n", "x\r\n", "-1\r\n", "10000000000000000\r\n", "1\r\nx\n", "1\r\nxy\r\n"] {
            let text = format!("POST / HTTP/1.1\r\ntransfer-encoding: chunked\r\n\r\n{broken}\n\nGET / HTTP/1.1\n\n");
            assert_eq!(received(&text, 1000), text);
        }
    }

    #[test]
    fn requests_of_one_length_are_received_as_they_are() {
        let long = "y".repeat(1000);
        let text = format!(
            "GET /{long} HTTP/1.1\r\nx: {long}\r\n{long}: x\r\n\r\nPOST / HTTP/1.1\r\ntransfer-encoding: deflate,\tchunked\r\n\r\n\
             {:x};a=\"b\"\r\n{long}\r\n0\r\n\r\nPOST / HTTP/1.1\r\nContent-Length:\t1000\r\n\r\n{}GET / HTTP/1.1\r\n\r\n",
            long.len(),
            "\n".repeat(1000),
        );
        for size in [1, 2, 3, 64, 65, 1000, 10_000] {
            assert_eq!(received(&text, size), text);
        }
    }
}
