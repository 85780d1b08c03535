//! Splits lines off the input, and a line into field and value; collects the fields of the event that is being parsed.

use bytes::Bytes;

use super::{Event, EventId, EventName, Item};
use crate::collections::buffer::{CowBytes, extend_within, into_bytes};
use crate::swar;

/// Data up to this length is copied out of the block's buffer, which is reused; longer data takes over the buffer.
const SMALL: usize = 4096;

/// The fields set by the lines since the last dispatch.
#[derive(Debug, Default)]
pub(super) struct Block {
    name: Option<EventName>,
    /// The data lines so far, joined with LF.
    data: Vec<u8>,
    has_data: bool,
    id: Move,
    /// Bytes of all values so far, plus one for each LF that joins data lines.
    size: usize,
}

/// How dispatch changes the cursor.
#[derive(Debug, Default)]
enum Move {
    #[default]
    Stay,
    To(Option<EventId>),
}

impl Block {
    pub(super) const fn new() -> Self {
        Self { name: None, data: Vec::new(), has_data: false, id: Move::Stay, size: 0 }
    }

    /// Begins a new block after an empty one.
    pub(super) const fn begin(&mut self) {
        self.size = 0;
    }

    /// Whether dispatch would have no effect.
    pub(super) const fn is_empty(&self) -> bool {
        !self.has_data && self.name.is_none() && matches!(self.id, Move::Stay)
    }

    pub(super) const fn has_data(&self) -> bool {
        self.has_data
    }

    /// Bytes held by the block.
    pub(super) fn held(&self) -> usize {
        let id = if let Move::To(Some(id)) = &self.id { id.as_str().len() } else { 0 };
        self.data.len() + self.name.as_ref().map_or(0, |name| name.as_str().len()) + id
    }

    /// EV-22: adds a value of `length` bytes to the size; `false` if the event is then larger than `limit`.
    #[must_use]
    pub(super) const fn admit(&mut self, length: usize, limit: usize) -> bool {
        self.size = self.size.saturating_add(length);
        self.size <= limit
    }

    /// Whether a value of `length` bytes would still be admitted.
    pub(super) const fn has_room(&self, length: usize, limit: usize) -> bool {
        self.size.saturating_add(length) <= limit
    }

    /// EV-10: an empty type counts as unset.
    pub(super) fn set_name(&mut self, value: &[u8], field_limit: usize) {
        self.name = match value {
            b"" => None,
            b"message" => Some(EventName::MESSAGE),
            _ => {
                let value = value.get(..field_limit).unwrap_or(value);
                Some(EventName::from_text(String::from_utf8_lossy(value)))
            }
        };
    }

    /// EV-12, EV-18: an id with a NUL is ignored; an empty or too long one resets the cursor to none.
    pub(super) fn set_id(&mut self, value: &[u8], field_limit: usize) {
        if !value.contains(&0) {
            let usable = !value.is_empty() && value.len() <= field_limit;
            self.id = Move::To(usable.then(|| EventId::from_value(value)));
        }
    }

    /// EV-11: begins a data line, joined with a LF if it is not the first; returns the number of bytes added.
    pub(super) fn begin_data(&mut self, limit: usize) -> usize {
        let joins = std::mem::replace(&mut self.has_data, true);
        if joins {
            extend_within(&mut self.data, b"\n", limit.saturating_add(1));
        }
        usize::from(joins)
    }

    /// Appends data that was admitted.
    pub(super) fn push_data(&mut self, value: &[u8], limit: usize) {
        extend_within(&mut self.data, value, limit);
    }

    /// EV-14 to EV-16: ends the block. Its data is `lent`, if that could be borrowed from the input.
    #[inline]
    pub(super) fn dispatch<'i>(&mut self, lent: Option<&'i [u8]>, cursor: &mut Option<EventId>) -> Option<Item<'i>> {
        self.size = 0;
        if lent.is_none() && self.is_empty() {
            return None;
        }
        let has_moved = match std::mem::take(&mut self.id) {
            Move::Stay => false,
            Move::To(id) => {
                *cursor = id;
                true
            }
        };
        let name = self.name.take();
        let data = match lent {
            Some(data) => CowBytes::Borrowed(data),
            None if self.has_data => CowBytes::Owned(self.take_data()),
            None => return has_moved.then(|| Item::Cursor(cursor.clone())),
        };
        Some(Item::Event(Event { name: name.unwrap_or(EventName::MESSAGE), data, id: cursor.clone() }))
    }

    fn take_data(&mut self) -> Bytes {
        self.has_data = false;
        if self.data.len() > SMALL {
            return into_bytes(std::mem::take(&mut self.data));
        }
        let data = Bytes::copy_from_slice(&self.data);
        self.data.clear();
        data
    }
}

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
