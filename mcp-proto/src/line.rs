//! Newline framing: bytes to lines, for stdio and any other byte stream.
//!
//! Framing does not depend on the content of a line. If a line is too long, not UTF-8 or not JSON, only that line is
//! lost, because the end of a line can be found in any content.
//!
//! Rules: ST-02, ST-23.

use std::fmt;

use bytes::Bytes;

use crate::collections::buffer::{CowBytes, extend_within, into_bytes};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// Splits a byte stream into lines.
///
/// * A line ends with LF; one CR before it is dropped. Blank lines are skipped.
/// * A byte order mark is accepted as the first bytes of the stream and nowhere else.
/// * A line longer than the limit, its end not counted, is reported once and skipped up to its LF.
/// * The lines do not depend on how the input is split into chunks.
///
/// Memory: at most the limit and one byte. Time: linear.
///
/// # Example: a chunk boundary inside a line
///
/// ```
/// use mcp_proto::line::Decoder;
///
/// let mut decoder = Decoder::new(1024);
/// let mut lines = Vec::new();
/// for mut chunk in [&b"{\"a\":1}\n{\"b\""[..], b":2}\r\n"] {
///     while let Some(line) = decoder.decode(&mut chunk) {
///         lines.push(line?.into_bytes());
///     }
/// }
/// assert_eq!(lines, ["{\"a\":1}", "{\"b\":2}"]);
/// # Ok::<(), mcp_proto::line::TooLong>(())
/// ```
///
/// Rules: ST-03, FR4, FR5, FR1, FR2.
pub struct Decoder {
    limit: usize,
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
    place: Place,
}

/// Omits the content of the unfinished line.
impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("limit", &self.limit)
            .field("partial", &self.partial.len())
            .finish_non_exhaustive()
    }
}

/// The position of the next byte in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the start of the stream's first line, or in it.
    FirstLine,
    LineStart,
    /// In a line that began with `partial`.
    Line,
    /// In a line that has been reported as too long: its rest is dropped.
    Skipped,
}

impl Decoder {
    /// A decoder for lines of at most `limit` bytes.
    #[must_use]
    pub const fn new(limit: usize) -> Self {
        Self { limit, partial: Vec::new(), place: Place::FirstLine }
    }

    /// Bytes held of the unfinished line.
    pub(crate) fn held(&self) -> usize {
        self.partial.len()
    }

    /// Takes bytes from the front of `input` up to the end of the next line, and returns the line.
    ///
    /// `None` means that all of `input` was taken and no line has ended.
    ///
    /// # Errors
    ///
    /// [`TooLong`] replaces a line that was longer than the limit; decoding continues after it.
    pub fn decode<'i>(&mut self, input: &mut &'i [u8]) -> Option<Result<CowBytes<'i>, TooLong>> {
        while let Some(end) = memchr::memchr(b'\n', input) {
            let (part, rest) = (input.get(..end)?, input.get(end + 1..)?);
            *input = rest;
            if self.place == Place::LineStart && part.len() <= self.limit {
                let line = part.strip_suffix(b"\r").unwrap_or(part);
                if !is_blank(line) {
                    return Some(Ok(CowBytes::Borrowed(line)));
                }
                continue;
            }
            match self.complete(part) {
                Some(Ok(line)) if is_blank(&line) => {}
                Some(outcome) => return Some(outcome),
                None => {}
            }
        }
        let part = std::mem::take(input);
        if self.place == Place::Skipped || part.is_empty() {
            return None;
        }
        if self.exceeds_limit(part) {
            self.place = Place::Skipped;
            let partial = std::mem::take(&mut self.partial);
            return Some(Err(self.too_long(&partial, part)));
        }
        if self.place == Place::LineStart {
            self.place = Place::Line;
        }
        extend_within(&mut self.partial, part, self.limit);
        None
    }

    /// Ends the stream.
    ///
    /// # Errors
    ///
    /// [`Truncated`] if it ended inside a line. The part that arrived is not a message, even if it looks complete.
    ///
    /// Rules: FR9.
    pub fn finish(self) -> Result<(), Truncated> {
        if is_blank(&self.partial) {
            return Ok(());
        }
        Err(Truncated { bytes: self.partial.len() })
    }

    /// Appends `part`, which is followed by a LF, to the unfinished line.
    fn complete<'i>(&mut self, part: &'i [u8]) -> Option<Result<CowBytes<'i>, TooLong>> {
        let place = std::mem::replace(&mut self.place, Place::LineStart);
        if place == Place::Skipped {
            return None;
        }
        let too_long = self.exceeds_limit(part);
        let mut line = std::mem::take(&mut self.partial);
        if too_long {
            return Some(Err(self.too_long(&line, part)));
        }
        let is_first = place == Place::FirstLine;
        if line.is_empty() {
            let part = if is_first { part.strip_prefix(BYTE_ORDER_MARK).unwrap_or(part) } else { part };
            return Some(Ok(CowBytes::Borrowed(part.strip_suffix(b"\r").unwrap_or(part))));
        }
        extend_within(&mut line, part, self.limit);
        if line.last() == Some(&b'\r') {
            line.pop();
        }
        let mut line = into_bytes(line);
        if is_first && line.starts_with(BYTE_ORDER_MARK) {
            line = line.split_off(BYTE_ORDER_MARK.len());
        }
        Some(Ok(CowBytes::Owned(line)))
    }

    fn too_long(&self, partial: &[u8], part: &[u8]) -> TooLong {
        let start = partial.iter().chain(part).copied().take(TooLong::START.min(self.limit)).collect();
        TooLong { limit: self.limit, start }
    }

    /// Whether the line with `part` appended is too long. A CR at the end may be the first half of a CRLF.
    fn exceeds_limit(&self, part: &[u8]) -> bool {
        let length = self.partial.len() + part.len();
        let last = part.last().or(self.partial.last());
        length > self.limit && !(length == self.limit + 1 && last == Some(&b'\r'))
    }
}

#[inline]
fn is_blank(line: &[u8]) -> bool {
    line.iter().all(|byte| matches!(byte, b' ' | b'\t' | b'\r'))
}

/// A line was longer than the limit and has been skipped.
#[derive(Clone, PartialEq, Eq, thiserror::Error)]
#[error("a line longer than {limit} bytes")]
pub struct TooLong {
    /// The limit in bytes.
    pub limit: usize,
    /// The beginning of the line, at most 1 KiB: enough to identify the request.
    pub start: Bytes,
}

impl TooLong {
    const START: usize = 1024;
}

/// Omits the content of the line.
impl fmt::Debug for TooLong {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TooLong").field("limit", &self.limit).finish_non_exhaustive()
    }
}

/// The stream ended inside a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the stream ended {bytes} bytes into a line")]
pub struct Truncated {
    /// Bytes of the line that had arrived.
    pub bytes: usize,
}
