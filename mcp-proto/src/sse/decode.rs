//! Bytes to events.

use std::borrow::Cow;
use std::fmt;
use std::time::Duration;

use super::block::{Block, Field, LineEnd, split_line};
use super::{EventId, EventName};
use crate::collections::buffer::{CowBytes, extend_within};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// The largest line buffer, in bytes, that is reused for the next line.
const REUSED: usize = 4096;

/// One item of a stream of server-sent events, in the order in which they take effect.
///
/// Rules: EV-25.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'i> {
    /// A block with data ended: an event is dispatched.
    ///
    /// Rules: EV-16.
    Event(Event<'i>),
    /// A block without data set the cursor; `None` resets it to "no id".
    ///
    /// Rules: EV-14, EV-15, EV-18.
    Cursor(Option<EventId>),
    /// The server asks to wait this long before reconnecting.
    ///
    /// Rules: EV-13.
    Retry(Duration),
    /// A comment of any length, which shows only that the connection works.
    ///
    /// Rules: EV-06.
    Comment,
}

/// A dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'i> {
    /// Its type.
    pub name: EventName,
    /// Its data lines, joined with LF. The bytes are passed on as they arrived, so that JSON that is not UTF-8 fails
    /// this event and not the stream.
    ///
    /// Rules: SS5.
    pub data: CowBytes<'i>,
    /// The cursor after this event. It may have been set by an earlier one.
    ///
    /// Rules: EV-16.
    pub id: Option<EventId>,
}

impl Event<'_> {
    /// The data as a browser decodes it: invalid UTF-8 becomes U+FFFD.
    ///
    /// Rules: EV-01.
    #[must_use]
    pub fn data_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.data)
    }
}

/// Decodes a stream of server-sent events.
///
/// It follows WHATWG HTML 9.2.5 and 9.2.6: LF, CRLF and CR end lines, one byte order mark is dropped, fields may lack
/// their colon, and an unfinished event is discarded at the end. The items do not depend on how the stream is split
/// into chunks, and a CR ends its line without waiting for the next byte.
///
/// Memory: at most the limit for the data, type and id of one event together, and one more id for the cursor. Comments
/// and unknown fields of any length are not kept. Time: linear.
///
/// # Example: one event in two chunks
///
/// ```
/// use mcp_proto::sse::{Decoder, EventName, Item};
///
/// let mut decoder = Decoder::new(1024, 64);
/// let mut events = Vec::new();
/// for mut chunk in [&b": ping\r\nid: 7\r\ndata: {\"a\""[..], b":1}\r\n\r\n"] {
///     while let Some(item) = decoder.decode(&mut chunk) {
///         if let Item::Event(event) = item? {
///             events.push((event.name, event.data.into_bytes(), event.id));
///         }
///     }
/// }
/// let [(name, data, Some(id))] = &events[..] else { panic!() };
/// assert_eq!((name, &data[..], id.as_str()), (&EventName::MESSAGE, &b"{\"a\":1}"[..], "7"));
/// # Ok::<(), mcp_proto::sse::TooLarge>(())
/// ```
///
/// Rules: EV-04, SS2, SS3.
pub struct Decoder {
    limit: usize,
    field_limit: usize,
    place: Place,
    /// The beginning of a line that is neither data nor skipped.
    partial: Vec<u8>,
    block: Block,
    cursor: Option<EventId>,
}

/// Shows the number of stored bytes only, because they may be a payload.
impl fmt::Debug for Decoder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Decoder")
            .field("limit", &self.limit)
            .field("partial", &self.partial.len())
            .field("held", &self.block.held())
            .finish_non_exhaustive()
    }
}

/// The position of the next byte in the stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the start of the stream, after this many bytes of a possible byte order mark.
    Mark(usize),
    LineStart,
    /// After a line that ended with CR: a directly following LF belongs to its end (EV-03).
    AfterCr,
    /// In a line that began with `partial`.
    Field,
    /// In the value of a data line.
    Data,
    /// In a line whose content is ignored.
    Skipped {
        is_comment: bool,
    },
    /// After an event over the limit.
    Over,
}

impl Decoder {
    /// A decoder for events of at most `limit` bytes of data, type and id together, with types and ids of at most
    /// `field_limit` bytes.
    ///
    /// A longer id is treated as no id; a longer type is truncated.
    ///
    /// Rules: SS6, SS8.
    #[must_use]
    pub const fn new(limit: usize, field_limit: usize) -> Self {
        Self { limit, field_limit, place: Place::Mark(0), partial: Vec::new(), block: Block::new(), cursor: None }
    }

    /// The decoder for a stream that is resumed after `cursor`: events without an id keep it.
    #[must_use]
    pub fn resuming(mut self, cursor: Option<EventId>) -> Self {
        self.cursor = cursor;
        self
    }

    /// Takes bytes from the front of `input` up to the end of the next item, and returns the item.
    ///
    /// `None` means that all of `input` was taken and no item has ended.
    ///
    /// # Errors
    ///
    /// [`TooLarge`] if an event exceeded the limit. The stream then ends: the rest of the input is ignored.
    ///
    /// Rules: EV-22.
    pub fn decode<'i>(&mut self, input: &mut &'i [u8]) -> Option<Result<Item<'i>, TooLarge>> {
        while self.place != Place::LineStart {
            if input.is_empty() {
                return None;
            }
            match self.place {
                Place::Mark(matched) => self.skip_byte_order_mark(matched, input),
                Place::AfterCr => {
                    *input = input.strip_prefix(b"\n").unwrap_or(input);
                    self.place = Place::LineStart;
                }
                Place::Over => *input = &[],
                Place::LineStart => {}
                Place::Field | Place::Data | Place::Skipped { .. } => {
                    let Some((part, end, rest)) = split_line(input) else {
                        return self.unfinished(std::mem::take(input)).err().map(Err);
                    };
                    *input = rest;
                    match self.end_line(part, end) {
                        Ok(None) => {}
                        Ok(Some(item)) => return Some(Ok(item)),
                        Err(error) => return Some(Err(error)),
                    }
                }
            }
        }
        // Fast path: an idle stream consists of comments.
        if let [b':', rest @ ..] = *input {
            if let Some((_, end, rest)) = split_line(rest) {
                *input = rest;
                if end == LineEnd::Open {
                    self.place = Place::AfterCr;
                }
                self.end_comment(input);
                return Some(Ok(Item::Comment));
            }
        }
        self.lines(input)
    }

    /// The current value for `Last-Event-ID`.
    ///
    /// Rules: EV-14.
    #[must_use]
    pub const fn cursor(&self) -> Option<&EventId> {
        self.cursor.as_ref()
    }

    /// Bytes held of an event that has not ended.
    pub(crate) fn held(&self) -> usize {
        self.partial.len() + self.block.held()
    }

    /// Ends the stream. An unfinished event is discarded, including its id.
    ///
    /// Rules: EV-17.
    #[must_use]
    pub fn finish(self) -> End {
        let between = matches!(self.place, Place::Mark(0) | Place::LineStart | Place::AfterCr | Place::Over);
        if between && self.block.is_empty() { End::Clean } else { End::InsideEvent }
    }

    /// Continues at the start of a line.
    fn lines<'i>(&mut self, input: &mut &'i [u8]) -> Option<Result<Item<'i>, TooLarge>> {
        // The event's only data line so far, borrowed while it lies in this input.
        let mut lent: Option<&'i [u8]> = None;
        while let Some((line, end, rest)) = split_line(input) {
            *input = rest;
            if end == LineEnd::Open {
                self.place = Place::AfterCr;
            }
            // A blank line dispatches the event (EV-05).
            if line.is_empty() {
                if let Some(item) = self.block.dispatch(lent.take(), &mut self.cursor) {
                    return Some(Ok(item));
                }
                continue;
            }
            let (field, value) = Field::split(line);
            let outcome = match field {
                Field::Comment => {
                    self.keep(lent);
                    self.end_comment(input);
                    return Some(Ok(Item::Comment));
                }
                Field::Data if lent.is_none() && !self.block.has_data() => {
                    lent = Some(value);
                    self.admit(value.len()).map(|()| None)
                }
                Field::Data => {
                    self.keep(lent.take());
                    self.begin_data().and_then(|()| self.data(value)).map(|()| None)
                }
                Field::Event | Field::Id | Field::Retry | Field::Unknown => self.field(field, value),
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(item)) => {
                    // The event continues in a later call, so its borrowed data is copied.
                    self.keep(lent);
                    return Some(Ok(item));
                }
                Err(error) => return Some(Err(error)),
            }
        }
        self.keep(lent);
        let part = std::mem::take(input);
        if part.is_empty() {
            return None;
        }
        self.unfinished(part).err().map(Err)
    }

    /// EV-02: drops one byte order mark at the very start, which may be split across chunks.
    fn skip_byte_order_mark(&mut self, matched: usize, input: &mut &[u8]) {
        let expected = BYTE_ORDER_MARK.get(matched..).unwrap_or_default();
        let found = input.iter().zip(expected).take_while(|(byte, mark)| byte == mark).count();
        *input = input.get(found..).unwrap_or_default();
        let matched = matched + found;
        self.place = if matched == BYTE_ORDER_MARK.len() || matched == 0 {
            Place::LineStart
        } else if input.is_empty() {
            Place::Mark(matched)
        } else {
            self.partial.extend_from_slice(BYTE_ORDER_MARK.get(..matched).unwrap_or_default());
            Place::Field
        };
    }

    /// Processes a part of a line.
    fn unfinished(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        match self.place {
            Place::Skipped { .. } | Place::Over => Ok(()),
            Place::Data => self.data(part),
            Place::Mark(_) | Place::LineStart | Place::AfterCr | Place::Field => self.start_of_line(part),
        }
    }

    /// Processes a part of a line whose field may not be determined yet.
    fn start_of_line(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        if self.partial.is_empty() && part.len() >= Field::TELLING {
            // The field can be determined without copying the beginning of the line.
            let (field, value) = Field::split(part);
            match field {
                Field::Data => {
                    self.place = Place::Data;
                    self.begin_data()?;
                    return self.data(value);
                }
                Field::Comment | Field::Unknown => {
                    self.place = Place::Skipped { is_comment: field == Field::Comment };
                    return Ok(());
                }
                Field::Event | Field::Id | Field::Retry => {}
            }
        }
        self.place = Place::Field;
        let missing = Field::TELLING.saturating_sub(self.partial.len());
        let (start, rest) = part.split_at_checked(missing).unwrap_or((part, &[]));
        self.partial.extend_from_slice(start);
        if self.partial.len() < Field::TELLING && self.partial.first() != Some(&b':') {
            return Ok(());
        }
        let (field, value) = Field::split(&self.partial);
        match field {
            Field::Event | Field::Id | Field::Retry => {
                if !self.block.has_room(value.len() + rest.len(), self.limit) {
                    return Err(self.end_over_limit());
                }
                extend_within(&mut self.partial, rest, self.limit.saturating_add(Field::TELLING));
            }
            Field::Data => {
                self.place = Place::Data;
                self.end_partial()?;
                self.data(rest)?;
            }
            Field::Comment | Field::Unknown => {
                self.place = Place::Skipped { is_comment: field == Field::Comment };
                self.partial.clear();
            }
        }
        Ok(())
    }

    /// Processes the last part of the current line.
    fn end_line<'i>(&mut self, part: &[u8], end: LineEnd) -> Result<Option<Item<'i>>, TooLarge> {
        if !part.is_empty() {
            self.unfinished(part)?;
        }
        let line =
            std::mem::replace(&mut self.place, if end == LineEnd::Open { Place::AfterCr } else { Place::LineStart });
        match line {
            Place::Field => self.end_partial(),
            Place::Skipped { is_comment: true } => Ok(Some(Item::Comment)),
            Place::Skipped { is_comment: false }
            | Place::Data
            | Place::Mark(_)
            | Place::LineStart
            | Place::AfterCr
            | Place::Over => Ok(None),
        }
    }

    /// A keep-alive is a comment and a blank line. The blank line has no effect, so it is consumed together with the
    /// comment.
    #[inline]
    fn end_comment(&mut self, input: &mut &[u8]) {
        if let [b'\n', rest @ ..] = *input {
            if self.block.is_empty() {
                *input = rest;
                self.block.begin();
            }
        }
    }

    /// Processes the line in `partial`.
    fn end_partial<'i>(&mut self) -> Result<Option<Item<'i>>, TooLarge> {
        let mut line = std::mem::take(&mut self.partial);
        let (field, value) = Field::split(&line);
        let item = if field == Field::Data {
            self.begin_data()?;
            self.data(value)?;
            None
        } else {
            self.field(field, value)?
        };
        // M3: the buffer of a long line is released, because its capacity would not be counted.
        if line.capacity() <= REUSED {
            line.clear();
            self.partial = line;
        }
        Ok(item)
    }

    fn field<'i>(&mut self, field: Field, value: &[u8]) -> Result<Option<Item<'i>>, TooLarge> {
        self.admit(value.len())?;
        match field {
            Field::Comment => return Ok(Some(Item::Comment)),
            Field::Event => self.block.set_name(value, self.field_limit),
            Field::Id => self.block.set_id(value, self.field_limit),
            // A value that is not all ASCII digits is ignored (EV-13).
            Field::Retry if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let milliseconds = value
                    .iter()
                    .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
                return Ok(Some(Item::Retry(Duration::from_millis(milliseconds))));
            }
            Field::Retry | Field::Data | Field::Unknown => {}
        }
        Ok(None)
    }

    /// Copies a borrowed data line, which was admitted, into the event's buffer.
    fn keep(&mut self, lent: Option<&[u8]>) {
        if let Some(value) = lent {
            self.block.begin_data(self.limit);
            self.block.push_data(value, self.limit);
        }
    }

    fn begin_data(&mut self) -> Result<(), TooLarge> {
        let joined = self.block.begin_data(self.limit);
        self.admit(joined)
    }

    fn data(&mut self, value: &[u8]) -> Result<(), TooLarge> {
        self.admit(value.len())?;
        self.block.push_data(value, self.limit);
        Ok(())
    }

    /// EV-22: refuses `length` bytes if they make the event larger than the limit.
    fn admit(&mut self, length: usize) -> Result<(), TooLarge> {
        if self.block.admit(length, self.limit) { Ok(()) } else { Err(self.end_over_limit()) }
    }

    /// Ends the stream and releases its buffers.
    #[cold]
    fn end_over_limit(&mut self) -> TooLarge {
        self.place = Place::Over;
        self.partial = Vec::new();
        self.block = Block::new();
        TooLarge { limit: self.limit }
    }
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Between two events.
    Clean,
    /// Inside an event, which is discarded.
    InsideEvent,
}

/// An event was larger than the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit in bytes.
    pub limit: usize,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ev_22_nothing_is_held_of_an_event_over_the_limit() {
        for (begun, last) in [
            ("data: 12345\n", "data: 123456\n"),
            ("event: 12345\n", "data: 123456\n"),
            ("id: 12345\ndata: 1\n", "data: 123456\n"),
            ("data: 12345\ndata: 12", "345678"),
        ] {
            let mut decoder = Decoder::new(10, 10);
            let mut input = begun.as_bytes();
            assert!(decoder.decode(&mut input).is_none(), "{begun:?}");
            assert!(decoder.held() > 0, "{begun:?}");
            let mut input = last.as_bytes();
            assert_eq!(decoder.decode(&mut input), Some(Err(TooLarge { limit: 10 })), "{begun:?}");
            assert_eq!((decoder.held(), decoder.finish()), (0, End::Clean), "{begun:?}");
        }
    }
}
