//! Splits lines off the input, and a line into field and value.

use crate::swar;

/// The field that a line sets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Field {
    /// Appends to the data (EV-11).
    Data,
    /// Sets the type (EV-10).
    Event,
    /// Sets the id (EV-12).
    Id,
    /// Sets the reconnection time (EV-13).
    Retry,
    /// Begins with a colon, and is ignored (EV-06).
    Comment,
    /// Any other field, which is ignored (EV-09).
    Unknown,
}

impl Field {
    /// This many bytes of a line determine its field and where the value starts: `event`, a colon and a space.
    pub(super) const TELLING: usize = 7;

    /// EV-06 to EV-09: the field that a line sets, and its value without the one space after the colon.
    pub(super) fn split(line: &[u8]) -> (Self, &[u8]) {
        let (field, rest) = match line {
            [b'd', b'a', b't', b'a', rest @ ..] => (Self::Data, rest),
            [b':', ..] => return (Self::Comment, &[]),
            [b'e', b'v', b'e', b'n', b't', rest @ ..] => (Self::Event, rest),
            [b'i', b'd', rest @ ..] => (Self::Id, rest),
            [b'r', b'e', b't', b'r', b'y', rest @ ..] => (Self::Retry, rest),
            _ => return (Self::Unknown, &[]),
        };
        match rest {
            [b':', b' ', value @ ..] | [b':', value @ ..] => (field, value),
            [] => (field, &[]),
            _ => (Self::Unknown, &[]),
        }
    }
}

/// The first line of `input` without its terminator, how it ended, and the rest; `None` if the line does not end in
/// `input`.
///
/// A CR at the very end of `input` ends the line, although it may turn out to be the first half of a CRLF (EV-04).
#[inline]
pub(super) fn split_line(input: &[u8]) -> Option<(&[u8], LineEnd, &[u8])> {
    // Fast path: every event ends with a blank line.
    if let [b'\n', rest @ ..] = input {
        return Some((&[], LineEnd::Known, rest));
    }
    let (line, rest) = input.split_at_checked(line_length(input)?)?;
    Some(match rest {
        [b'\r', b'\n', rest @ ..] | [b'\n', rest @ ..] => (line, LineEnd::Known, rest),
        [_, rest @ ..] if !rest.is_empty() => (line, LineEnd::Known, rest),
        _ => (line, LineEnd::Open, &[]),
    })
}

/// How a line ended (EV-03).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LineEnd {
    /// The terminator is complete.
    Known,
    /// A CR at the end of the input, which a LF may follow.
    Open,
}

/// The index of the first CR or LF.
#[inline]
fn line_length(input: &[u8]) -> Option<usize> {
    // Too short for reading a word at a time.
    if input.len() < swar::WIDTH {
        return input.iter().position(|byte| matches!(byte, b'\n' | b'\r'));
    }
    let mut start = 0;
    while start < 2 * swar::WIDTH {
        let Some(bytes) = input.get(start..).and_then(<[u8]>::first_chunk) else { break };
        if let Some(at) = swar::first(swar::below(swar::load(*bytes), b'\r' + 1)) {
            start += at;
            if matches!(input.get(start), Some(b'\n' | b'\r')) {
                return Some(start);
            }
            // Another control character: rare in text.
            break;
        }
        start += swar::WIDTH;
    }
    memchr::memchr2(b'\n', b'\r', input.get(start..)?).map(|at| start + at)
}
