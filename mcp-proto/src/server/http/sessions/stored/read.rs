//! Streams that are read from the store for clients, wherever their events are added: GET streams, and streams of requests
//! that were resumed.
//!
//! If no instance adds to the stream of a request any more, its requests are answered with errors.

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;

use crate::conversation::keys::SessionKey;
use crate::jsonrpc::{ErrorObject, Message, RequestId, Response};
use crate::server::http::exchange::refusal::Refusal;
use crate::server::http::purpose::{Asked, Exchange, StreamOf, Then};
use crate::server::http::sessions::stored::instances::Notice;
use crate::server::http::sessions::stored::pending::Pending;
use crate::server::http::sessions::stored::reader::{Reader, Start, TakesOver};
use crate::server::http::stream::label::Label;
use crate::server::http::{ExchangeKey, Http, HttpTimer, Output, RequestInfo};
use crate::spec::code;
use crate::store::{After, StoreAction, StoreResult, StoredEvents, StreamId};

/// How long a stream is not read again if no instance reports new events: such a report may be lost.
const POLL: Duration = Duration::from_secs(5);
/// The bytes of events that are read at once.
const AT_ONCE: usize = 256 * 1024;

impl Http {
    /// A client resumes a stream after an event.
    pub(crate) fn resume_stored(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        after: &str,
        info: &RequestInfo,
        output: &mut Output<'_>,
    ) {
        let unreadable_id = self.unreadable_id(session);
        let read = crate::server::http::stream::read_id(after);
        let (Some((tag, number)), Some(mut stream)) = (read, self.get_stream_id(session)) else {
            return self.exchanges.refuse(exchange, Refusal::unknown_event(), unreadable_id, output);
        };
        let is_get_stream = self.get_stream_tag(session) == Some(tag);
        if self.config.replay == 0 || tag == StreamId::OF_SESSION {
            return self.exchanges.refuse(exchange, Refusal::unknown_event(), unreadable_id, output);
        }
        if self.stage != crate::server::http::Stage::Serving && is_get_stream {
            return self.exchanges.refuse(exchange, Refusal::stopped(), unreadable_id, output);
        }
        if !is_get_stream {
            stream.tag = tag;
        }
        self.begin_reading(exchange, session, stream, After::Number(number), info, output);
        self.read(exchange, output);
    }

    /// Inserts the exchange of a stream that is to be read. Returns `false` if it was refused.
    pub(crate) fn begin_reading(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        stream: StreamId,
        after: After,
        info: &RequestInfo,
        output: &mut Output<'_>,
    ) -> bool {
        if let Err(refusal) = self.make_room_for_stream(&info.holder(), output) {
            self.exchanges.refuse(exchange, refusal, self.unreadable_id(session), output);
            return false;
        }
        let is_get_stream = self.get_stream_id(session).is_some_and(|get_stream| get_stream == stream);
        let asked = Asked::InSession(session);
        self.insert_exchange(exchange, Exchange::Storing { asked, then: Then::Resume });
        self.hold_stream(exchange, info.holder(), output.now);
        let reader = Reader {
            stream,
            is_get_stream,
            after,
            is_reading: false,
            has_more: false,
            is_behind: false,
            is_polling: true,
            label: None,
            replaces: None,
            takes_over: TakesOver::All,
            start: Start::Unread,
        };
        let old = self.stored_mut(session).and_then(|stored| stored.readers.insert(reader.stream.tag, exchange));
        let is_open = |old: &ExchangeKey| matches!(self.exchanges.get(*old), Some(Exchange::Streaming(_)));
        let waiting = old.filter(|old| !is_open(old));
        let replaces = match waiting.and_then(|waiting| self.store.readers.get_mut(&waiting)) {
            Some(waiting) => waiting.replaces.take(),
            None => old,
        };
        self.store.readers.insert(exchange, Reader { replaces, ..reader });
        if let Some(waiting) = waiting {
            self.finish_reading(waiting, Refusal::has_get_stream(), output);
        }
        true
    }

    /// Ends the exchanges on which the streams of a session are read.
    pub(crate) fn finish_readers(&mut self, session: SessionKey, refusal: fn() -> Refusal, output: &mut Output<'_>) {
        let readers = self.stored_mut(session).map(|stored| std::mem::take(&mut stored.readers));
        for exchange in readers.into_iter().flat_map(BTreeMap::into_values) {
            self.end_replaced(exchange, output);
            self.finish_reading(exchange, refusal(), output);
        }
    }

    /// Ends the stream that the stream on this exchange replaces.
    pub(crate) fn end_replaced(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        let reader = self.store.readers.get_mut(&exchange);
        if let Some(old) = reader.and_then(|reader| reader.replaces.take()) {
            self.finish(old, output);
        }
    }

    /// Ends an exchange on which a stream is read; with a refusal if its response has not begun.
    pub(crate) fn finish_reading(&mut self, exchange: ExchangeKey, refusal: Refusal, output: &mut Output<'_>) {
        if matches!(self.exchanges.get(exchange), Some(Exchange::Storing { .. })) {
            self.refuse_storing(exchange, refusal, output);
        } else {
            self.finish(exchange, output);
        }
    }

    pub(crate) fn refuse_storing(&mut self, exchange: ExchangeKey, refusal: Refusal, output: &mut Output<'_>) {
        if let Some(closed) = self.close_exchange(exchange, output) {
            let unreadable_id = closed.session().map(|session| self.unreadable_id(session));
            self.exchanges.refuse(exchange, refusal, unreadable_id.unwrap_or(crate::spec::UnreadableId::Null), output);
        }
    }

    /// Reads a stream, unless it is being read.
    pub(crate) fn read(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        let max_bytes = AT_ONCE.min(self.exchanges.limits.unwritten);
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        if reader.is_reading || reader.is_behind {
            reader.has_more = true;
            return;
        }
        (reader.is_reading, reader.has_more) = (true, false);
        let (stream, after) = (reader.stream.clone(), reader.after);
        output.clear_timer(HttpTimer::Poll(exchange));
        self.ask_store(Pending::Read(exchange), output, |key| StoreAction::Read { key, stream, after, max_bytes });
    }

    /// There are new events, if the stream is open.
    pub(crate) fn read_more(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        if matches!(self.exchanges.get(exchange), Some(Exchange::Streaming(_))) {
            self.read(exchange, output);
        }
    }

    /// Another instance has added events to a stream.
    pub(crate) fn on_added(&mut self, session: SessionKey, tag: u64, output: &mut Output<'_>) {
        let reader = self.stored_mut(session).and_then(|stored| stored.readers.get(&tag)).copied();
        if let Some(exchange) = reader {
            self.read_more(exchange, output);
        }
    }

    /// Nothing was reported for a while.
    pub(crate) fn on_poll(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        if let Some(reader) = self.store.readers.get_mut(&exchange) {
            (reader.is_polling, reader.is_behind) = (true, false);
        }
        self.read_more(exchange, output);
    }

    /// The client has taken some of what was written.
    pub(crate) fn on_reader_written(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        let is_small = self.exchanges.unwritten.of(exchange) <= AT_ONCE.min(self.exchanges.limits.unwritten) / 4;
        if let Some(reader) = self.store.readers.get_mut(&exchange).filter(|reader| reader.is_behind && is_small) {
            reader.is_behind = false;
            output.set_timer(HttpTimer::Poll(exchange), output.now);
        }
    }

    pub(crate) fn on_read(&mut self, exchange: ExchangeKey, result: StoreResult, output: &mut Output<'_>) {
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        reader.is_reading = false;
        let is_get_stream = reader.is_get_stream;
        let events = match result {
            // If the number of the next event overflows, the events are damaged.
            StoreResult::Events(events) => Some(events.and_then(|events| Some((events.next()?, events)))),
            StoreResult::Loaded(_)
            | StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Found(_)
            | StoreResult::Failed => None,
        };
        let is_open = matches!(self.exchanges.get(exchange), Some(Exchange::Streaming(_)));
        match (events, is_open) {
            // The ended instance can have sent nothing, because no event is stored.
            (Some(None), false) if is_get_stream && reader.after == After::Latest => {
                reader.after = After::Number(0);
                self.claim_get_stream(exchange, output);
            }
            // A replay is complete or refused.
            (Some(None), false) => self.refuse_storing(exchange, Refusal::unknown_event(), output),
            (Some(Some((next, _))), false) if is_get_stream => {
                if reader.after == After::Latest {
                    reader.after = After::Number(next.saturating_sub(1));
                }
                self.claim_get_stream(exchange, output);
            }
            (Some(Some((next, events))), false) => self.open_resumed(exchange, &events, next, output),
            (None, false) => self.refuse_storing(exchange, Refusal::store_unavailable(), output),
            (Some(Some((next, events))), true) => self.on_events_read(exchange, &events, next, output),
            (Some(None), true) if is_get_stream => self.on_nothing_read(exchange, output),
            (Some(None), true) => self.finish(exchange, output),
            (None, true) => self.wait_for_more(exchange, output),
        }
    }

    /// A GET stream has no events yet, or some were removed before they were read.
    fn on_nothing_read(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        (reader.after, reader.start) = match (reader.after, reader.start) {
            (After::Number(0), Start::Unread) => (After::Latest, Start::Sought),
            (After::Number(0), Start::Lost(until)) => (After::Number(until), Start::Known),
            (After::Number(1..), _) => (After::Latest, Start::Known),
            (After::Number(0), Start::Sought | Start::Known) | (After::Latest, _) => {
                (reader.after, reader.start) = (After::Number(0), Start::Known);
                return self.wait_for_more(exchange, output);
            }
        };
        self.read(exchange, output);
    }

    /// Events of an open stream were read.
    fn on_events_read(&mut self, exchange: ExchangeKey, events: &StoredEvents, next: u64, output: &mut Output<'_>) {
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        if matches!(reader.start, Start::Sought) {
            // The first event was added after the read that found nothing, or is lost.
            (reader.after, reader.start) = (After::Number(0), Start::Lost(events.first.saturating_sub(1)));
            return self.read(exchange, output);
        }
        reader.start = Start::Known;
        self.write_read(exchange, events, next, output);
    }

    fn open_resumed(&mut self, exchange: ExchangeKey, events: &StoredEvents, next: u64, output: &mut Output<'_>) {
        let Some(session) = self.exchanges.get(exchange).and_then(Exchange::session) else { return };
        // This exchange belongs to no request, so that the stream is only in the table of readers.
        self.exchanges.insert(exchange, Exchange::Streaming(StreamOf::Request(session, exchange)));
        self.exchanges.streams.set_used(exchange);
        self.end_replaced(exchange, output);
        self.exchanges.open_stream(exchange, output);
        let label = Label::read(&events.label);
        let producer = label.as_ref().map(|label| label.instance);
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        reader.label = label;
        let tag = reader.stream.tag;
        if producer == self.stored_at(session) {
            self.detach(session, tag, output);
        } else if let Some(producer) = producer.filter(|_| !events.is_last) {
            self.send_to(producer, session, Notice::Watched { tag }, output);
        }
        self.write_read(exchange, events, next, output);
    }

    /// Writes events that were read; `next` is the number after the last of them.
    fn write_read(&mut self, exchange: ExchangeKey, events: &StoredEvents, next: u64, output: &mut Output<'_>) {
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        let (mut tag, is_get_stream) = (reader.stream.tag, reader.is_get_stream);
        reader.after = After::Number(next.saturating_sub(1));
        let is_silent = events.events.is_empty() && std::mem::take(&mut reader.is_polling);
        let producer = reader.label.as_ref().map(|label| label.instance);
        let session = self.exchanges.get(exchange).and_then(Exchange::session);
        if is_get_stream {
            tag = session.and_then(|session| self.get_stream_tag(session)).unwrap_or(tag);
        }
        for (number, event) in (events.first..).zip(&events.events) {
            if !self.makes_room(event.len(), output) {
                return self.exchanges.abort_unread(exchange, output);
            }
            self.write_stored(exchange, tag, Some(number), event, output);
        }
        if events.is_last {
            return self.finish(exchange, output);
        }
        if is_get_stream && !events.events.is_empty() {
            self.exchanges.streams.set_unused(exchange, output.now);
        }
        let here = self.config.stored().map(|config| config.instance);
        if producer.is_some() && producer == here {
            if is_silent && !session.is_some_and(|session| self.adds_to(session, tag)) {
                self.append_errors(exchange, output);
            }
        } else if let Some(instance) = producer.filter(|_| is_silent) {
            self.ask_store(Pending::Producer(exchange), output, |key| StoreAction::Find { key, instance });
        }
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        if events.events.is_empty() {
            return self.wait_for_more(exchange, output);
        }
        // The rest is read when the client has taken most of this.
        if self.exchanges.unwritten.of(exchange) > AT_ONCE.min(self.exchanges.limits.unwritten) / 4 {
            reader.is_behind = true;
            output.set_timer(HttpTimer::Poll(exchange), output.now + POLL);
        } else {
            self.read(exchange, output);
        }
    }

    fn wait_for_more(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        if self.store.readers.get(&exchange).is_some_and(|reader| reader.has_more) {
            self.read(exchange, output);
        } else {
            output.set_timer(HttpTimer::Poll(exchange), output.now + POLL);
        }
    }

    /// The store has answered whether the producer of a stream without recent events runs.
    pub(crate) fn on_producer_found(&mut self, exchange: ExchangeKey, result: &StoreResult, output: &mut Output<'_>) {
        match result {
            StoreResult::Found(false) => self.append_errors(exchange, output),
            // The instance may have missed the notice that the stream is read here.
            StoreResult::Found(true) => {
                let session = self.exchanges.get(exchange).and_then(Exchange::session);
                let Some((session, reader)) = session.zip(self.store.readers.get(&exchange)) else { return };
                let Some(producer) = reader.label.as_ref().map(|label| label.instance) else { return };
                let tag = reader.stream.tag;
                self.send_to(producer, session, Notice::Watched { tag }, output);
            }
            StoreResult::Loaded(_)
            | StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Events(_)
            | StoreResult::Failed => {}
        }
    }

    /// The instance that was adding to a stream adds no more. If it has not ended the stream, the store has failed.
    pub(crate) fn on_stream_over(&mut self, session: SessionKey, tag: u64, output: &mut Output<'_>) {
        let reader = self.stored_mut(session).and_then(|stored| stored.readers.get(&tag)).copied();
        if let Some(exchange) = reader {
            self.append_errors(exchange, output);
        }
    }

    /// Answers the requests of an abandoned stream with errors, once: no instance adds to it any more.
    fn append_errors(&mut self, exchange: ExchangeKey, output: &mut Output<'_>) {
        let Some(reader) = self.store.readers.get(&exchange) else { return };
        let Some(label) = &reader.label else { return };
        let text = "the answer is lost: the instance of the server that was answering has ended, or could not store it";
        let error = || ErrorObject::new(code::INTERNAL_ERROR, text);
        let answer = |id: &RequestId| Message::Response(Response::Error { id: Some(id.clone()), error: error() });
        let errors = label.requests.iter().map(|id| answer(id).to_bytes());
        let (events, stream) = (errors.collect(), reader.stream.clone());
        let (keep, expires_in) = (self.config.replay, self.config.replay_for);
        self.ask_store(Pending::AppendErrors(exchange), output, |key| StoreAction::Append {
            key,
            stream,
            // The errors follow all stored events, because this client may not have received those yet. If the stream
            // has ended, nothing is added.
            first: None,
            events,
            label: Bytes::new(),
            is_last: true,
            keep,
            expires_in,
        });
    }
}
