//! Events of requests that are served here: they are stored, then written to the client.
//!
//! ```text
//!   message ──▶ queue ── Append ──▶ Done ──▶ written to the client that is connected here
//!                                      └───▶ the instances that read the stream for a client read again
//! ```

use bytes::Bytes;

use crate::conversation::keys::{InstanceId, SessionKey};
use crate::server::http::purpose::Exchange;
use crate::server::http::sessions::stored::instances::Notice;
use crate::server::http::sessions::stored::pending::{Pending, TOUCHES};
use crate::server::http::stream::appending::{Appending, InFlight};
use crate::server::http::stream::id_text;
use crate::server::http::{ExchangeKey, Http, HttpAction, HttpTimer, Output};
use crate::sse::{EventId, EventName, encode_event};
use crate::store::{StoreAction, StoreResult, StreamId};

/// The maximum number of other instances that are notified of new events of one stream. A client resumes the stream at
/// one of them.
const WATCHERS: usize = 16;

impl Http {
    /// Adds a message to the stream of a request; with `is_last`, the stream ends with it.
    pub(crate) fn append(
        &mut self,
        session: SessionKey,
        of: ExchangeKey,
        message: &Bytes,
        is_last: bool,
        output: &mut Output<'_>,
    ) {
        if let Some(appending) = self.appending_mut(session, of) {
            appending.queue.push(message.clone());
            appending.is_ending |= is_last;
            self.store.queued += message.len();
        }
        if is_last {
            self.store_settings_of(session, of, output);
        }
        self.flush(session, of, output);
    }

    /// The last message of a stream was added.
    pub(crate) fn end_append(&mut self, session: SessionKey, of: ExchangeKey, output: &mut Output<'_>) {
        if let Some(appending) = self.appending_mut(session, of) {
            appending.is_ending = true;
        }
        self.store_settings_of(session, of, output);
        self.flush(session, of, output);
    }

    /// Ends the response early, so that the client resumes the stream for the rest.
    pub(crate) fn release_append(&mut self, session: SessionKey, of: ExchangeKey, output: &mut Output<'_>) {
        let Some(appending) = self.appending_mut(session, of) else { return };
        // A stream that is not stored cannot be resumed.
        if appending.is_broken {
            return;
        }
        appending.releases = true;
        if appending.is_created && appending.in_flight.is_none() && appending.queue.is_empty() {
            self.on_events_stored(session, of, &[], false, output);
        } else {
            self.flush(session, of, output);
        }
    }

    fn appending_mut(&mut self, session: SessionKey, of: ExchangeKey) -> Option<&mut Appending> {
        self.sessions.get_mut(session)?.streams.get_mut(&of)?.appending_mut()
    }

    /// Whether events of the stream of a request are added here.
    pub(crate) fn adds_to(&self, session: SessionKey, tag: u64) -> bool {
        let stream = self.sessions.get(session).and_then(|found| {
            let mut streams = found.streams.values();
            streams.find(|stream| stream.tag() == tag)
        });
        stream.and_then(|stream| stream.appending()).is_some_and(|appending| !appending.is_broken)
    }

    /// Stores what is queued, unless something is being stored.
    fn flush(&mut self, session: SessionKey, of: ExchangeKey, output: &mut Output<'_>) {
        let (mut keep, while_open, replay_for) = (self.config.replay, self.config.session_idle, self.config.replay_for);
        let Some(found) = self.sessions.get_mut(session) else { return };
        let id = found.id.clone();
        let Some(stream) = found.streams.get_mut(&of) else { return };
        let tag = stream.tag();
        if stream.exchange.is_none() {
            // A client that has resumed the stream reads from the store what it has not received before.
            keep = keep.max(self.exchanges.limits.message);
        }
        let Some(appending) = stream.appending_mut() else { return };
        if appending.in_flight.is_some() {
            return;
        }
        let (events, is_last) = (std::mem::take(&mut appending.queue), appending.is_ending);
        if appending.is_broken {
            return self.on_events_stored(session, of, &events, is_last, output);
        }
        if events.is_empty() && appending.is_created && !is_last {
            return;
        }
        appending.in_flight = Some(InFlight { events: events.clone(), is_last });
        let (label, first) = (appending.label.clone(), appending.next);
        let expires_in = if is_last { replay_for } else { while_open };
        self.ask_store(Pending::Append(session, of), output, |key| StoreAction::Append {
            key,
            stream: StreamId { session: id, tag },
            first: Some(first),
            events,
            label,
            is_last,
            keep,
            expires_in,
        });
    }

    /// Keeps the stream of a request that is still being served from expiring.
    pub(crate) fn touch_stream(&mut self, session: SessionKey, of: ExchangeKey, output: &mut Output<'_>) {
        if let Some(appending) = self.appending_mut(session, of).filter(|appending| appending.in_flight.is_none()) {
            // Without this, `flush` would store nothing, because there are no events.
            appending.is_created = false;
            self.flush(session, of, output);
        }
    }

    pub(crate) fn on_appended(
        &mut self,
        session: SessionKey,
        of: ExchangeKey,
        result: &StoreResult,
        output: &mut Output<'_>,
    ) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let id = found.id.clone();
        let Some(stream) = found.streams.get_mut(&of) else { return };
        let tag = stream.tag();
        let Some(appending) = stream.appending_mut() else { return };
        let Some(InFlight { events, is_last }) = appending.in_flight.take() else { return };
        // If only the renewal of the expiry failed, no event is missing, and the renewal is tried again.
        let is_tried_again = *result == StoreResult::Failed && events.is_empty() && !is_last && appending.next > 1;
        if *result == StoreResult::Done || is_tried_again {
            appending.is_created = true;
            if is_tried_again {
                output.set_timer(HttpTimer::Idle(session), output.now + self.config.session_idle / TOUCHES);
            }
        } else {
            // Later events are not stored. The store drops the stream, so that no client resumes a part of it.
            appending.is_broken = true;
            output.out.act(HttpAction::Store(StoreAction::ForgetStream { stream: StreamId { session: id, tag } }));
        }
        self.on_events_stored(session, of, &events, is_last, output);
    }

    /// Writes events to the connected client after they were stored, or if they cannot be.
    fn on_events_stored(
        &mut self,
        session: SessionKey,
        of: ExchangeKey,
        events: &[Bytes],
        is_last: bool,
        output: &mut Output<'_>,
    ) {
        let Some(stream) = self.sessions.get_mut(session).and_then(|found| found.streams.get_mut(&of)) else { return };
        let (exchange, tag) = (stream.exchange, stream.tag());
        let Some(appending) = stream.appending_mut() else { return };
        let first = appending.next;
        appending.next += events.len() as u64;
        let begins = !std::mem::replace(&mut appending.has_begun, true);
        let ends = is_last || std::mem::take(&mut appending.releases);
        let watchers: Vec<_> = appending.watchers.iter().copied().collect();
        if begins && exchange.is_some() {
            let priming = self.priming_of(session, of);
            self.exchanges.open_stream(of, output);
            if let Some(chunk) = priming {
                self.exchanges.write_chunk(of, chunk, output);
            }
        }
        for (number, event) in (first..).zip(events) {
            self.store.queued = self.store.queued.saturating_sub(event.len());
            if let Some(exchange) = exchange {
                self.write_stored(exchange, tag, Some(number), event, output);
            }
        }
        if let Some(exchange) = exchange.filter(|_| ends) {
            self.finish(exchange, output);
        }
        if let Some(found) = self.sessions.get_mut(session).filter(|_| is_last) {
            found.streams.remove(&of);
        }
        for watcher in watchers {
            self.send_to(watcher, session, Notice::Added { tag }, output);
        }
        let reader = self.stored_mut(session).and_then(|stored| stored.readers.get(&tag)).copied();
        if let Some(reader) = reader {
            self.read_more(reader, output);
        }
        let has_more = |appending: &mut Appending| !appending.queue.is_empty() || appending.is_ending;
        if self.appending_mut(session, of).is_some_and(has_more) {
            self.flush(session, of, output);
        }
    }

    /// Writes the events of an ending session to its clients without waiting for the store.
    pub(crate) fn end_appending(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let streams = self.sessions.get(session).map(|found| found.streams.keys().copied().collect::<Vec<_>>());
        for of in streams.unwrap_or_default() {
            let Some(appending) = self.appending_mut(session, of) else { continue };
            let mut events = appending.in_flight.take().map(|in_flight| in_flight.events).unwrap_or_default();
            let first = appending.next + events.len() as u64;
            let queue = std::mem::take(&mut appending.queue);
            let (is_broken, label) = (appending.is_broken, appending.label.clone());
            let stream = self.sessions.get(session).and_then(|found| {
                let tag = found.streams.get(&of)?.tag();
                Some(StreamId { session: found.id.clone(), tag })
            });
            if let Some(stream) = stream.filter(|_| !is_broken && !queue.is_empty()) {
                let (events, keep, expires_in) = (queue.clone(), self.config.replay, self.config.replay_for);
                self.ask_store(Pending::LastAppend, output, |key| StoreAction::Append {
                    key,
                    stream,
                    first: Some(first),
                    events,
                    label,
                    is_last: true,
                    keep,
                    expires_in,
                });
            }
            events.extend(queue);
            self.on_events_stored(session, of, &events, true, output);
        }
    }

    fn priming_of(&mut self, session: SessionKey, of: ExchangeKey) -> Option<Bytes> {
        let retry = self.config.retry;
        let found = self.sessions.get_mut(session)?;
        let primes = found.version.is_some_and(|version| version.rules().priming_event);
        let stream = found.streams.get_mut(&of)?;
        primes.then(|| stream.priming(retry))
    }

    /// Another instance reads the stream of a request that is served here.
    pub(crate) fn on_watched(&mut self, session: SessionKey, tag: u64, by: InstanceId, output: &mut Output<'_>) {
        self.detach(session, tag, output);
        if !self.adds_to(session, tag) {
            return self.send_to(by, session, Notice::Over { tag }, output);
        }
        let Some(found) = self.sessions.get_mut(session) else { return };
        let stream = found.streams.values_mut().find(|stream| stream.tag() == tag);
        if let Some(appending) = stream.and_then(|stream| stream.appending_mut()) {
            if appending.watchers.len() < WATCHERS {
                appending.watchers.insert(by);
            }
        }
        // The other instance does not know of events that were added before its message arrived.
        self.send_to(by, session, Notice::Added { tag }, output);
    }

    /// A client has resumed the stream of a request: new events are not written to its old connection any more.
    pub(crate) fn detach(&mut self, session: SessionKey, tag: u64, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let old = found.streams.values_mut().find(|stream| stream.tag() == tag).and_then(|stream| {
            let begun = stream.appending().is_some_and(|appending| appending.has_begun);
            if begun { stream.exchange.take() } else { None }
        });
        if let Some(old) = old {
            self.finish(old, output);
        }
    }

    /// Writes a message as an event; with a number if it may be resumed after it.
    pub(crate) fn write_stored(
        &mut self,
        exchange: ExchangeKey,
        tag: u64,
        number: Option<u64>,
        message: &Bytes,
        output: &mut Output<'_>,
    ) {
        let session = self.exchanges.get(exchange).and_then(Exchange::session);
        let version = session.and_then(|session| self.sessions.get(session)).and_then(|session| session.version);
        let is_resumable = self.config.replay > 0 && version.is_some_and(|version| version.rules().resumable);
        let id = number.filter(|_| is_resumable).and_then(|number| EventId::new(&id_text(tag, number)));
        let mut chunk = Vec::with_capacity(message.len() + 80);
        encode_event(&EventName::MESSAGE, message, id.as_ref(), &mut chunk);
        self.exchanges.write_chunk(exchange, chunk.into(), output);
        self.exchanges.keep_alive(exchange, output);
    }
}
