//! The events of one stream, stored for clients that resume it.

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use super::ExchangeKey;
use super::stored_append::Appending;
use crate::sse::{EventId, EventName, encode_cursor, encode_event, encode_retry};

/// The stream of a request, or the GET stream of a session.
///
/// Event ids contain the random tag of their stream, so that no id of another stream matches (SE8).
pub(super) struct Stream {
    tag: u64,
    /// The number of the next event.
    next: u64,
    /// The exchange that the stream is written to at present.
    pub(super) exchange: Option<ExchangeKey>,
    kept: VecDeque<Kept>,
    /// Events with lower numbers are no longer stored.
    evicted: u64,
    /// The stream has ended with the answer.
    pub(super) is_over: bool,
    /// Present if the events are in the store.
    pub(super) appending: Option<Box<Appending>>,
}

struct Kept {
    number: u64,
    text: Bytes,
    /// The event was written to an exchange.
    is_written: bool,
}

impl Stream {
    pub(super) const fn new(tag: u64) -> Self {
        Self { tag, next: 0, exchange: None, kept: VecDeque::new(), evicted: 0, is_over: false, appending: None }
    }

    /// Continues the stream at this number; no event before it is stored.
    pub(super) const fn continue_at(&mut self, number: u64) {
        (self.next, self.evicted) = (number, number);
    }

    /// The number of the next event.
    pub(super) const fn next(&self) -> u64 {
        self.next
    }

    /// An event with an id but without data, so that a client can resume before the first message (SH-S-53).
    pub(super) fn priming(&mut self, retry: Option<Duration>) -> Bytes {
        let mut text = Vec::new();
        if let Some(retry) = retry {
            encode_retry(retry, &mut text);
        }
        let number = self.take_number();
        if let Some(id) = self.id(number) {
            encode_cursor(&id, &mut text);
        }
        self.evicted = self.next;
        text.into()
    }

    /// An event with a message. If `is_kept`, it has an id and is stored. Returns its text and the number of bytes
    /// stored.
    pub(super) fn event(&mut self, message: &[u8], is_kept: bool) -> (Bytes, usize) {
        let mut text = Vec::with_capacity(message.len() + 80);
        if !is_kept {
            encode_event(&EventName::MESSAGE, message, None, &mut text);
            return (text.into(), 0);
        }
        let number = self.take_number();
        encode_event(&EventName::MESSAGE, message, self.id(number).as_ref(), &mut text);
        let text = Bytes::from(text);
        self.kept.push_back(Kept { number, text: text.clone(), is_written: self.exchange.is_some() });
        let size = text.len();
        (text, size)
    }

    /// Drops the oldest stored event and returns its size in bytes.
    pub(super) fn evict(&mut self) -> Option<usize> {
        let oldest = self.kept.pop_front()?;
        self.evicted = oldest.number + 1;
        Some(oldest.text.len())
    }

    pub(super) fn is_empty(&self) -> bool {
        self.kept.is_empty()
    }

    pub(super) fn kept_bytes(&self) -> usize {
        self.kept.iter().map(|kept| kept.text.len()).sum()
    }

    /// The number of the event with this id, if it is one of this stream.
    pub(super) fn number_of(&self, id: &str) -> Option<u64> {
        let number = id.split_once('-')?.1.parse().ok().filter(|&number| number < self.next)?;
        // A client returns ids unchanged, so that other spellings of the number are refused.
        (id == self.id_text(number)).then_some(number)
    }

    /// The events after this one; `None` if some of them are no longer stored.
    pub(super) fn after(&mut self, number: u64) -> Option<Vec<Bytes>> {
        if number + 1 < self.evicted {
            return None;
        }
        Some(self.take(|kept| kept.number > number))
    }

    /// The stored events that were not written to any exchange.
    pub(super) fn unwritten(&mut self) -> Vec<Bytes> {
        self.take(|kept| !kept.is_written)
    }

    fn take(&mut self, wanted: impl Fn(&Kept) -> bool) -> Vec<Bytes> {
        let mut texts = Vec::new();
        for kept in &mut self.kept {
            if wanted(kept) {
                kept.is_written = true;
                texts.push(kept.text.clone());
            }
        }
        texts
    }

    fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    pub(super) fn id(&self, number: u64) -> Option<EventId> {
        EventId::new(&self.id_text(number))
    }

    fn id_text(&self, number: u64) -> String {
        id_text(self.tag, number)
    }

    pub(super) const fn tag(&self) -> u64 {
        self.tag
    }
}

/// The id of an event of a stream.
pub(super) fn id_text(tag: u64, number: u64) -> String {
    format!("{tag:016x}-{number}")
}

/// The tag of the stream and the number of the event with this id. A client returns ids unchanged, so that other
/// spellings are refused.
pub(super) fn read_id(id: &str) -> Option<(u64, u64)> {
    let (tag, number) = id.split_once('-')?;
    let (tag, number) = (u64::from_str_radix(tag, 16).ok()?, number.parse().ok()?);
    (id == id_text(tag, number)).then_some((tag, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn defect_b17_an_event_id_has_one_spelling() {
        let mut stream = Stream::new(0xfeed);
        for text in ["0", "1", "2"] {
            stream.event(text.as_bytes(), true);
        }
        assert_eq!(stream.number_of("000000000000feed-1"), Some(1));
        for id in ["000000000000feed-+1", "000000000000feed-001", "000000000000FEED-1", "+00000000000feed-1"] {
            assert_eq!(stream.number_of(id), None, "{id}");
        }
    }

    #[test]
    fn se8_only_ids_of_this_stream_are_known_to_it() {
        let mut stream = Stream::new(0xfeed);
        stream.priming(None);
        stream.event(b"{}", true);
        for (id, number) in [
            ("000000000000feed-0", Some(0)),
            ("000000000000feed-1", Some(1)),
            ("000000000000feed-2", None),
            ("000000000000feee-1", None),
            ("feed-1", None),
            ("000000000000feed--1", None),
            ("000000000000feed", None),
            ("", None),
            ("é-1", None),
        ] {
            assert_eq!(stream.number_of(id), number, "{id}");
        }
    }

    #[test]
    fn se9_what_was_evicted_cannot_be_resumed_after() {
        let mut stream = Stream::new(1);
        for text in ["0", "1", "2"] {
            stream.event(text.as_bytes(), true);
        }
        assert_eq!(stream.after(0).map(|texts| texts.len()), Some(2));
        stream.evict();
        stream.evict();
        assert_eq!(stream.after(0), None);
        assert_eq!(stream.after(1).map(|texts| texts.len()), Some(1));
    }
}
