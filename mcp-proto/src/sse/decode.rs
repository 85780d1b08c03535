//! Bytes to events.

use std::borrow::Cow;
use std::time::Duration;

use bytes::Bytes;

use super::{EventId, EventName};
use crate::buffer::{CowBytes, extend_within};

const BYTE_ORDER_MARK: &[u8] = b"\xef\xbb\xbf";

/// What a stream of server-sent events is made of, in the order in which it takes effect (EV-25).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Item<'i> {
    /// A block with data ended: an event is dispatched (EV-16).
    Event(Event<'i>),
    /// A block without data moved the cursor (EV-14, EV-15); `None` takes it back to "no id" (EV-18).
    Cursor(Option<EventId>),
    /// The server asks to wait this long before reconnecting (EV-13).
    Retry(Duration),
    /// A comment, of any length: the server lives, and says nothing (EV-06).
    Comment,
}

/// A dispatched event.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Event<'i> {
    /// Its type.
    pub name: EventName,
    /// Its data lines, joined with LF. They are handed on as they arrived: JSON that is not UTF-8 costs this event and
    /// not the stream (SS5).
    pub data: CowBytes<'i>,
    /// The cursor after this event. It may have been set by an earlier one (EV-16).
    pub id: Option<EventId>,
}

impl Event<'_> {
    /// The data as a browser would see it: invalid UTF-8 becomes U+FFFD (EV-01).
    #[must_use]
    pub fn data_lossy(&self) -> Cow<'_, str> {
        String::from_utf8_lossy(&self.data)
    }
}

/// Reads a stream of server-sent events.
///
/// Follows WHATWG HTML 9.2.5 and 9.2.6: LF, CRLF and CR end lines, one byte order mark is dropped, fields may lack
/// their colon, an unfinished event is discarded at the end. Any way of cutting the stream into chunks gives the same
/// items, and a CR ends its line without waiting for the next byte (EV-04).
///
/// Memory: at most the limit for one event with its unfinished line, its type and its id, and one more id for the
/// cursor. Comments and unknown fields are not kept, whatever their length (SS2, SS3). Time: linear.
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
#[derive(Debug)]
pub struct Decoder {
    limit: usize,
    field_limit: usize,
    /// How many bytes of a byte order mark the stream began with; `None` once that is over.
    mark: Option<usize>,
    /// The last line ended with CR: a LF that comes next belongs to it (EV-03).
    skip_lf: bool,
    /// The beginning of a line whose end has not arrived.
    partial: Vec<u8>,
    /// That line cannot become a field: its rest is dropped.
    skipping: Option<Skipped>,
    block: Block,
    cursor: Option<EventId>,
    failed: bool,
}

/// The event that is being put together.
#[derive(Debug, Default)]
struct Block {
    name: Option<EventName>,
    /// The data lines so far, joined with LF, from `data_start` on.
    data: Vec<u8>,
    data_start: usize,
    has_data: bool,
    id: Move,
}

/// What dispatch does to the cursor.
#[derive(Debug, Default)]
enum Move {
    #[default]
    Stay,
    To(Option<EventId>),
}

impl Decoder {
    /// A decoder for events of at most `limit` bytes, whose types and ids are used up to `field_limit` bytes (SS6, SS8).
    ///
    /// A longer id counts as none, a longer type is cut off there.
    #[must_use]
    pub const fn new(limit: usize, field_limit: usize) -> Self {
        Self {
            limit,
            field_limit,
            mark: Some(0),
            skip_lf: false,
            partial: Vec::new(),
            skipping: None,
            block: Block { name: None, data: Vec::new(), data_start: 0, has_data: false, id: Move::Stay },
            cursor: None,
            failed: false,
        }
    }

    /// The decoder for a stream that goes on after `cursor`: events without an id keep it.
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
    /// [`TooLarge`] if an event grew over the limit (EV-22). The stream is over then: nothing more comes from it.
    pub fn decode<'i>(&mut self, input: &mut &'i [u8]) -> Option<Result<Item<'i>, TooLarge>> {
        if self.failed {
            *input = &[];
            return None;
        }
        if self.mark.is_some() {
            self.skip_byte_order_mark(input);
        }
        // The only data line so far of the event, as long as all of it lies in this input.
        let mut lent: Option<&'i [u8]> = None;
        loop {
            if self.skip_lf && !input.is_empty() {
                self.skip_lf = false;
                *input = input.strip_prefix(b"\n").unwrap_or(input);
            }
            let Some(end) = memchr::memchr2(b'\n', b'\r', input) else { break };
            let Some((part, rest)) = input.split_at_checked(end) else { break };
            self.skip_lf = rest.first() == Some(&b'\r');
            *input = rest.get(1..).unwrap_or_default();

            let outcome = if let Some(skipped) = self.skipping.take() {
                Ok(skipped.item())
            } else if self.partial.is_empty() {
                self.line(part, &mut lent)
            } else {
                self.joined_line(part)
            };
            match outcome {
                Ok(None) => {}
                Ok(Some(item)) => {
                    // A comment or retry time inside of an event: what was lent of it must be kept.
                    return Some(self.keep(lent).map(|()| item).map_err(|error| self.fail(error)));
                }
                Err(error) => return Some(Err(self.fail(error))),
            }
        }
        let part = std::mem::take(input);
        match self.keep(lent).and_then(|()| self.keep_partial(part)) {
            Ok(()) => None,
            Err(error) => Some(Err(self.fail(error))),
        }
    }

    /// The id that `Last-Event-ID` would carry now (EV-14).
    #[must_use]
    pub const fn cursor(&self) -> Option<&EventId> {
        self.cursor.as_ref()
    }

    /// Ends the stream. What there is of an unfinished event is discarded, its id with it (EV-17).
    #[must_use]
    pub fn finish(self) -> End {
        let block = &self.block;
        let clean = self.partial.is_empty()
            && self.skipping.is_none()
            && matches!(self.mark, None | Some(0))
            && !block.has_data
            && block.name.is_none()
            && matches!(block.id, Move::Stay);
        if clean { End::Clean } else { End::InsideEvent }
    }

    /// EV-02: one mark at the very start, in however many pieces.
    fn skip_byte_order_mark(&mut self, input: &mut &[u8]) {
        while let (Some(matched), Some(&byte)) = (self.mark, input.first()) {
            if BYTE_ORDER_MARK.get(matched) == Some(&byte) {
                *input = input.get(1..).unwrap_or_default();
                self.mark = (matched + 1 < BYTE_ORDER_MARK.len()).then_some(matched + 1);
            } else {
                self.mark = None;
                self.partial.extend_from_slice(BYTE_ORDER_MARK.get(..matched).unwrap_or_default());
            }
        }
    }

    /// A line that lies whole in the input.
    fn line<'i>(&mut self, line: &'i [u8], lent: &mut Option<&'i [u8]>) -> Result<Option<Item<'i>>, TooLarge> {
        // EV-05
        if line.is_empty() {
            return Ok(self.dispatch(lent.take()));
        }
        let (field, value) = Field::split(line);
        self.admit(field, line.len() + lent.map_or(0, <[u8]>::len))?;
        if field == Field::Data {
            if self.block.has_data || lent.is_some() {
                self.keep(lent.take())?;
                self.append(value);
            } else {
                *lent = Some(value);
            }
            return Ok(None);
        }
        Ok(self.field(field, value))
    }

    /// A line whose beginning came with earlier input.
    fn joined_line<'i>(&mut self, part: &[u8]) -> Result<Option<Item<'i>>, TooLarge> {
        if let Some(skipped) = skippable(&self.partial, part) {
            self.partial = Vec::new();
            return Ok(skipped.item());
        }
        let mut line = std::mem::take(&mut self.partial);
        let field = Field::of_start(&line, part);
        self.admit(field, line.len() + part.len())?;
        extend_within(&mut line, part, self.limit);
        let (field, value) = Field::split(&line);
        if field == Field::Data {
            if self.block.has_data {
                self.append(value);
            } else {
                // The only data line so far: its buffer becomes the event's.
                self.block.data_start = line.len() - value.len();
                self.block.data = line;
                self.block.has_data = true;
            }
            return Ok(None);
        }
        Ok(self.field(field, value))
    }

    fn field<'i>(&mut self, field: Field, value: &[u8]) -> Option<Item<'i>> {
        match field {
            Field::Comment => return Some(Item::Comment),
            // EV-10
            Field::Event => {
                self.block.name = match value {
                    b"" => None,
                    b"message" => Some(EventName::MESSAGE),
                    _ => {
                        let value = value.get(..self.field_limit).unwrap_or(value);
                        Some(EventName::from_text(String::from_utf8_lossy(value)))
                    }
                };
            }
            // EV-12
            Field::Id if !value.contains(&0) => {
                let usable = !value.is_empty() && value.len() <= self.field_limit;
                self.block.id = Move::To(usable.then(|| EventId(String::from_utf8_lossy(value).into())));
            }
            // EV-13
            Field::Retry if !value.is_empty() && value.iter().all(u8::is_ascii_digit) => {
                let milliseconds = value
                    .iter()
                    .fold(0_u64, |sum, digit| sum.saturating_mul(10).saturating_add(u64::from(digit - b'0')));
                return Some(Item::Retry(Duration::from_millis(milliseconds)));
            }
            Field::Id | Field::Retry | Field::Data | Field::Unknown => {}
        }
        None
    }

    fn dispatch<'i>(&mut self, lent: Option<&'i [u8]>) -> Option<Item<'i>> {
        let block = &mut self.block;
        let has_moved = match std::mem::take(&mut block.id) {
            Move::Stay => false,
            Move::To(cursor) => {
                self.cursor = cursor;
                true
            }
        };
        let name = block.name.take();
        let data = if let Some(data) = lent {
            CowBytes::Borrowed(data)
        } else if std::mem::take(&mut block.has_data) {
            let mut data = Bytes::from(std::mem::take(&mut block.data));
            CowBytes::Owned(data.split_off(std::mem::take(&mut block.data_start)))
        } else {
            return has_moved.then(|| Item::Cursor(self.cursor.clone()));
        };
        Some(Item::Event(Event { name: name.unwrap_or(EventName::MESSAGE), data, id: self.cursor.clone() }))
    }

    /// Moves a lent data line into the event's buffer.
    fn keep(&mut self, lent: Option<&[u8]>) -> Result<(), TooLarge> {
        if let Some(line) = lent {
            if self.size() + line.len() > self.limit {
                return Err(TooLarge { limit: self.limit });
            }
            self.append(line);
        }
        Ok(())
    }

    /// EV-11
    fn append(&mut self, line: &[u8]) {
        let limit = self.limit + 1;
        if std::mem::replace(&mut self.block.has_data, true) {
            extend_within(&mut self.block.data, b"\n", limit);
        }
        extend_within(&mut self.block.data, line, limit);
    }

    fn keep_partial(&mut self, part: &[u8]) -> Result<(), TooLarge> {
        if self.skipping.is_some() || part.is_empty() {
            return Ok(());
        }
        if let Some(skipped) = skippable(&self.partial, part) {
            self.skipping = Some(skipped);
            self.partial = Vec::new();
            return Ok(());
        }
        let length = self.partial.len() + part.len();
        if length >= Field::LONGEST {
            self.admit(Field::of_start(&self.partial, part), length)?;
        }
        extend_within(&mut self.partial, part, self.limit);
        Ok(())
    }

    /// EV-22: refuses a line of `length` bytes if the event grows over the limit by it. Lines that are not kept do not
    /// count.
    fn admit(&self, field: Field, length: usize) -> Result<(), TooLarge> {
        match field {
            Field::Comment | Field::Unknown => Ok(()),
            Field::Data | Field::Event | Field::Id | Field::Retry => {
                if self.size() + length > self.limit {
                    return Err(TooLarge { limit: self.limit });
                }
                Ok(())
            }
        }
    }

    /// Bytes that are kept for the event that is being read, apart from its unfinished line.
    fn size(&self) -> usize {
        let block = &self.block;
        let name = block.name.as_ref().map_or(0, |name| name.as_str().len());
        let id = match &block.id {
            Move::Stay | Move::To(None) => 0,
            Move::To(Some(id)) => id.as_str().len(),
        };
        block.data.len() - block.data_start + name + id
    }

    fn fail(&mut self, error: TooLarge) -> TooLarge {
        self.failed = true;
        self.partial = Vec::new();
        self.block = Block::default();
        error
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Field {
    Comment,
    Data,
    Event,
    Id,
    Retry,
    Unknown,
}

impl Field {
    /// Bytes of the longest field name and its colon.
    const LONGEST: usize = 6;

    /// The field of a line that begins with `partial` and goes on with `part`, as far as that can be told.
    fn of_start(partial: &[u8], part: &[u8]) -> Self {
        let mut line = [0; Self::LONGEST];
        let mut length = 0;
        for (slot, byte) in line.iter_mut().zip(partial.iter().chain(part)) {
            *slot = *byte;
            length += 1;
        }
        Self::split(line.get(..length).unwrap_or_default()).0
    }

    /// EV-06 to EV-09: the field that a line sets, and its value without the one blank after the colon.
    fn split(line: &[u8]) -> (Self, &[u8]) {
        let (field, rest) = match line {
            [b':', ..] => return (Self::Comment, &[]),
            [b'd', b'a', b't', b'a', rest @ ..] => (Self::Data, rest),
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

/// A line of which nothing is kept.
#[derive(Debug, Clone, Copy)]
enum Skipped {
    Comment,
    Unknown,
}

impl Skipped {
    const fn item<'i>(self) -> Option<Item<'i>> {
        match self {
            Self::Comment => Some(Item::Comment),
            Self::Unknown => None,
        }
    }
}

/// Whether a line that begins with `partial` and goes on with `part` can no longer become a field that matters.
fn skippable(partial: &[u8], part: &[u8]) -> Option<Skipped> {
    match Field::of_start(partial, part) {
        Field::Comment => Some(Skipped::Comment),
        // Six bytes hold every field's name and its colon; fewer are too short to tell.
        Field::Unknown if partial.len() + part.len() >= Field::LONGEST => Some(Skipped::Unknown),
        Field::Unknown | Field::Data | Field::Event | Field::Id | Field::Retry => None,
    }
}

/// How a stream ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Between two events.
    Clean,
    /// Inside of one, which is lost.
    InsideEvent,
}

/// An event grew over the limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("a server-sent event larger than {limit} bytes")]
pub struct TooLarge {
    /// The limit in bytes.
    pub limit: usize,
}
