//! Events of requests that are served here: they are stored, then written to the client.
//!
//! ```text
//!   message ──▶ queue ── Append ──▶ Done ──▶ written to the client that is connected here
//!                                      └───▶ the instances that read the stream for a client read again
//! ```

use std::collections::BTreeSet;

use bytes::Bytes;

use super::exchange::Exchange;
use super::instances::Notice;
use super::replay::id_text;
use super::store_work::Pending;
use super::stored_label::Label;
use super::stored_session::TOUCHES;
use super::{ExchangeKey, Http, HttpAction, HttpTimer, Output};
use crate::conversation::keys::{InstanceId, SessionKey};
use crate::sse::{EventId, EventName, encode_event};
use crate::store::{StoreAction, StoreResult, StreamId};

/// The maximum number of other instances that are notified of new events of one stream. A client resumes the stream at
/// one of them.
const WATCHERS: usize = 16;

/// The events of a request that are being added to the store.
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(super) struct Appending {
    /// The label of the stream, for readers at other instances.
    label: Bytes,
    /// The number of the first event that is not known to be stored.
    next: u64,
    /// The events of an action that the store has not answered.
    in_flight: Option<InFlight>,
    /// Events that are stored next.
    queue: Vec<Bytes>,
    /// The stream exists in the store.
    is_created: bool,
    /// The response has begun as a stream.
    has_begun: bool,
    /// The store has failed: events are only written to the client that is connected.
    is_broken: bool,
    /// The response ends after the next action of the store, and its client resumes the stream.
    releases: bool,
    /// The queue ends with the last event of the stream.
    is_ending: bool,
    /// The instances that read the stream for a client.
    watchers: BTreeSet<InstanceId>,
}

/// Events that are being stored.
struct InFlight {
    events: Vec<Bytes>,
    /// The stream ends with them.
    is_last: bool,
}

impl Appending {
    pub(super) fn new(label: &Label) -> Self {
        Self {
            label: label.to_bytes(),
            next: 1,
            in_flight: None,
            queue: Vec::new(),
            is_created: false,
            has_begun: false,
            is_broken: false,
            releases: false,
            is_ending: false,
            watchers: BTreeSet::new(),
        }
    }
}

impl Http {
    /// Adds a message to the stream of a request; with `is_last`, the stream ends with it.
    pub(super) fn append(
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
    pub(super) fn end_append(&mut self, session: SessionKey, of: ExchangeKey, output: &mut Output<'_>) {
        if let Some(appending) = self.appending_mut(session, of) {
            appending.is_ending = true;
        }
        self.store_settings_of(session, of, output);
        self.flush(session, of, output);
    }

    /// Ends the response early, so that the client resumes the stream for the rest.
    pub(super) fn release_append(&mut self, session: SessionKey, of: ExchangeKey, output: &mut Output<'_>) {
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

    /// Whether the events of a request are stored.
    pub(super) fn is_appended(&mut self, session: SessionKey, of: ExchangeKey) -> bool {
        self.appending_mut(session, of).is_some()
    }

    fn appending_mut(&mut self, session: SessionKey, of: ExchangeKey) -> Option<&mut Appending> {
        self.sessions.get_mut(session)?.streams.get_mut(&of)?.appending.as_deref_mut()
    }

    /// Whether events of the stream of a request are added here.
    pub(super) fn adds_to(&self, session: SessionKey, tag: u64) -> bool {
        let stream = self.sessions.get(session).and_then(|found| {
            let mut streams = found.streams.values();
            streams.find(|stream| stream.tag() == tag)
        });
        stream.and_then(|stream| stream.appending.as_deref()).is_some_and(|appending| !appending.is_broken)
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
            keep = keep.max(self.limits.message);
        }
        let Some(appending) = stream.appending.as_deref_mut() else { return };
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
    pub(super) fn touch_stream(&mut self, session: SessionKey, of: ExchangeKey, output: &mut Output<'_>) {
        if let Some(appending) = self.appending_mut(session, of).filter(|appending| appending.in_flight.is_none()) {
            // Without this, `flush` would store nothing, because there are no events.
            appending.is_created = false;
            self.flush(session, of, output);
        }
    }

    pub(super) fn on_appended(
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
        let Some(appending) = stream.appending.as_deref_mut() else { return };
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
        let Some(appending) = stream.appending.as_deref_mut() else { return };
        let first = appending.next;
        appending.next += events.len() as u64;
        let begins = !std::mem::replace(&mut appending.has_begun, true);
        let ends = is_last || std::mem::take(&mut appending.releases);
        let watchers: Vec<_> = appending.watchers.iter().copied().collect();
        if begins && exchange.is_some() {
            let priming = self.priming_of(session, of);
            self.open_stream(of, output);
            if let Some(chunk) = priming {
                self.write_chunk(of, chunk, output);
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
    pub(super) fn end_appending(&mut self, session: SessionKey, output: &mut Output<'_>) {
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
    pub(super) fn on_watched(&mut self, session: SessionKey, tag: u64, by: InstanceId, output: &mut Output<'_>) {
        self.detach(session, tag, output);
        if !self.adds_to(session, tag) {
            return self.send_to(by, session, Notice::Over { tag }, output);
        }
        let Some(found) = self.sessions.get_mut(session) else { return };
        let stream = found.streams.values_mut().find(|stream| stream.tag() == tag);
        if let Some(appending) = stream.and_then(|stream| stream.appending.as_deref_mut()) {
            if appending.watchers.len() < WATCHERS {
                appending.watchers.insert(by);
            }
        }
        // The other instance does not know of events that were added before its message arrived.
        self.send_to(by, session, Notice::Added { tag }, output);
    }

    /// A client has resumed the stream of a request: new events are not written to its old connection any more.
    pub(super) fn detach(&mut self, session: SessionKey, tag: u64, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let old = found.streams.values_mut().find(|stream| stream.tag() == tag).and_then(|stream| {
            let begun = stream.appending.as_ref().is_some_and(|appending| appending.has_begun);
            if begun { stream.exchange.take() } else { None }
        });
        if let Some(old) = old {
            self.finish(old, output);
        }
    }

    /// Writes a message as an event; with a number if it may be resumed after it.
    pub(super) fn write_stored(
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
        self.write_chunk(exchange, chunk.into(), output);
        output.set_timer(HttpTimer::KeepAlive(exchange), output.now + self.config.keep_alive);
    }
}
