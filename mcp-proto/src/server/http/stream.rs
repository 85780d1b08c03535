//! Streams: events, their ids, and the cursors with which clients resume. Events are kept in memory, or added to a store.

pub(crate) mod appending;
pub(crate) mod label;

use std::collections::VecDeque;
use std::time::Duration;

use bytes::Bytes;

use crate::server::http::exchange::ExchangeKey;
use crate::server::http::stream::appending::Appending;
use crate::sse::{EventId, EventName, encode_cursor, encode_event, encode_retry};

/// The stream of a request, or the GET stream of a session.
///
/// Event ids contain the random tag of their stream, so that no id of another stream matches (SE8).
pub(crate) struct Stream {
    tag: u64,
    /// The number of the next event.
    next: u64,
    /// The exchange that the stream is written to at present.
    pub(crate) exchange: Option<ExchangeKey>,
    /// The stream has ended with the answer.
    pub(crate) is_over: bool,
    events: Events,
}

/// Where the events of a stream are.
enum Events {
    /// In memory.
    Kept(KeptEvents),
    /// In the store.
    Appended(Box<Appending>),
}

#[derive(Default)]
struct KeptEvents {
    events: VecDeque<Kept>,
    /// Events with lower numbers are no longer stored.
    evicted: u64,
}

struct Kept {
    number: u64,
    text: Bytes,
    /// The event was written to an exchange.
    is_written: bool,
}

impl Stream {
    pub(crate) const fn new(tag: u64) -> Self {
        let events = KeptEvents { events: VecDeque::new(), evicted: 0 };
        Self { tag, next: 0, exchange: None, is_over: false, events: Events::Kept(events) }
    }

    /// A stream whose events are added to the store.
    pub(crate) fn appended(tag: u64, appending: Appending) -> Self {
        Self { events: Events::Appended(Box::new(appending)), ..Self::new(tag) }
    }

    /// The events that are being added to the store, if the stream is there.
    pub(crate) fn appending(&self) -> Option<&Appending> {
        if let Events::Appended(appending) = &self.events { Some(appending) } else { None }
    }

    pub(crate) fn appending_mut(&mut self) -> Option<&mut Appending> {
        if let Events::Appended(appending) = &mut self.events { Some(appending) } else { None }
    }

    fn kept_mut(&mut self) -> Option<&mut KeptEvents> {
        if let Events::Kept(kept) = &mut self.events { Some(kept) } else { None }
    }

    /// The events that are kept in memory.
    fn kept(&self) -> impl Iterator<Item = &Kept> {
        let kept = if let Events::Kept(kept) = &self.events { Some(kept) } else { None };
        kept.into_iter().flat_map(|kept| &kept.events)
    }

    /// Continues the stream at this number; no event before it is stored.
    pub(crate) fn continue_at(&mut self, number: u64) {
        self.next = number;
        self.evict_before(number);
    }

    fn evict_before(&mut self, number: u64) {
        if let Some(kept) = self.kept_mut() {
            kept.evicted = number;
        }
    }

    /// The number of the next event.
    pub(crate) const fn next(&self) -> u64 {
        self.next
    }

    /// An event with an id but without data, so that a client can resume before the first message (SH-S-53).
    pub(crate) fn priming(&mut self, retry: Option<Duration>) -> Bytes {
        let mut text = Vec::new();
        if let Some(retry) = retry {
            encode_retry(retry, &mut text);
        }
        let number = self.take_number();
        if let Some(id) = self.id(number) {
            encode_cursor(&id, &mut text);
        }
        self.evict_before(self.next);
        text.into()
    }

    /// An event with a message. If `is_kept`, it has an id and is stored. Returns its text and the number of bytes
    /// stored.
    pub(crate) fn event(&mut self, message: &[u8], is_kept: bool) -> (Bytes, usize) {
        let mut text = Vec::with_capacity(message.len() + 80);
        if !is_kept {
            encode_event(&EventName::MESSAGE, message, None, &mut text);
            return (text.into(), 0);
        }
        let number = self.take_number();
        encode_event(&EventName::MESSAGE, message, self.id(number).as_ref(), &mut text);
        let text = Bytes::from(text);
        let event = Kept { number, text: text.clone(), is_written: self.exchange.is_some() };
        if let Some(kept) = self.kept_mut() {
            kept.events.push_back(event);
        }
        let size = text.len();
        (text, size)
    }

    /// Drops the oldest stored event and returns its size in bytes.
    pub(crate) fn evict(&mut self) -> Option<usize> {
        let kept = self.kept_mut()?;
        let oldest = kept.events.pop_front()?;
        kept.evicted = oldest.number + 1;
        Some(oldest.text.len())
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.kept().next().is_none()
    }

    pub(crate) fn kept_bytes(&self) -> usize {
        self.kept().map(|kept| kept.text.len()).sum()
    }

    /// The number of the event with this id, if it is one of this stream.
    pub(crate) fn number_of(&self, id: &str) -> Option<u64> {
        let number = id.split_once('-')?.1.parse().ok().filter(|&number| number < self.next)?;
        // A client returns ids unchanged, so that other spellings of the number are refused.
        (id == self.id_text(number)).then_some(number)
    }

    /// The events after this one; `None` if some of them are no longer stored.
    pub(crate) fn after(&mut self, number: u64) -> Option<Vec<Bytes>> {
        let kept = self.kept_mut()?;
        (number + 1 >= kept.evicted).then(|| kept.take(|kept| kept.number > number))
    }

    /// The stored events that were not written to any exchange.
    pub(crate) fn unwritten(&mut self) -> Vec<Bytes> {
        self.kept_mut().map(|kept| kept.take(|kept| !kept.is_written)).unwrap_or_default()
    }

    fn take_number(&mut self) -> u64 {
        let number = self.next;
        self.next += 1;
        number
    }

    pub(crate) fn id(&self, number: u64) -> Option<EventId> {
        EventId::new(&self.id_text(number))
    }

    fn id_text(&self, number: u64) -> String {
        id_text(self.tag, number)
    }

    pub(crate) const fn tag(&self) -> u64 {
        self.tag
    }
}

impl KeptEvents {
    /// The events that are wanted, which are then written to an exchange.
    fn take(&mut self, wanted: impl Fn(&Kept) -> bool) -> Vec<Bytes> {
        let mut texts = Vec::new();
        for kept in &mut self.events {
            if wanted(kept) {
                kept.is_written = true;
                texts.push(kept.text.clone());
            }
        }
        texts
    }
}

/// The id of an event of a stream.
pub(crate) fn id_text(tag: u64, number: u64) -> String {
    format!("{tag:016x}-{number}")
}

/// The tag of the stream and the number of the event with this id. A client returns ids unchanged, so that other
/// spellings are refused.
pub(crate) fn read_id(id: &str) -> Option<(u64, u64)> {
    let (tag, number) = id.split_once('-')?;
    let (tag, number) = (u64::from_str_radix(tag, 16).ok()?, number.parse().ok()?);
    (id == id_text(tag, number)).then_some((tag, number))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_id_has_one_spelling() {
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
