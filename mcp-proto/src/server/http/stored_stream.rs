//! Streams of events in the store: what is added here, and what clients read here.
//!
//! The events of a request are added by the instance that serves it, and are written to its client after they are stored.
//! Each other stream that a client reads, the GET stream or one that was resumed, is read from the store, wherever its
//! events are added.
//!
//! ```text
//!   message ──▶ queue ── Append ──▶ Done ──▶ written to the client that is connected here
//!                                      └───▶ the instances that read the stream for a client read again
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use bytes::Bytes;

use super::exchange::{Asked, Exchange, Then};
use super::instances::Notice;
use super::replay::id_text;
use super::stored_session::Pending;
use super::{ExchangeKey, Http, HttpAction, RequestInfo, Timer, admission};
use crate::codec::json::Json;
use crate::codec::jsonrpc::{ErrorObject, Frame, Message, ParseError, RequestId, Response};
use crate::codec::sse::{EventId, EventName, encode_event};
use crate::conversation::keys::SessionKey;
use crate::server::snapshot::read_hex;
use crate::server::transport::TransportOutput;
use crate::spec::code;
use crate::store::{After, InstanceId, StoreAction, StoreResult, StoredEvents, StreamId};

/// How long a stream is not read again if no instance reports new events: such a report may be lost.
const POLL: Duration = Duration::from_secs(5);
/// The other instances that are notified of new events of one stream. A client resumes it at one of them.
const WATCHERS: usize = 16;
/// The bytes of events that are read at once.
const AT_ONCE: usize = 256 * 1024;

/// The events of a request that are being added to the store.
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(super) struct Appending {
    /// What readers need to know.
    label: Bytes,
    /// The number of the first event that is not known to be stored.
    next: u64,
    /// What is being stored, if an action is not answered.
    in_flight: Option<InFlight>,
    /// Events that are stored next.
    queue: Vec<Bytes>,
    /// The stream exists in the store.
    is_created: bool,
    /// The response has begun as a stream.
    has_begun: bool,
    /// The store has failed: events are only written to the client that is connected.
    is_broken: bool,
    /// The response ends with what is stored next, and its client resumes the stream.
    releases: bool,
    /// What is queued ends with the last event.
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

/// A stream that is read from the store for a client.
#[expect(clippy::struct_excessive_bools, reason = "each is independent of the others")]
pub(super) struct Reader {
    pub(super) stream: StreamId,
    pub(super) is_get_stream: bool,
    after: After,
    /// An action is not answered.
    is_reading: bool,
    /// There is more since that action.
    has_more: bool,
    /// The client has not taken what was written.
    is_behind: bool,
    /// If the next read finds no events, it is asked whether the instance that adds them runs.
    is_polling: bool,
    /// The instance that adds the events, and the requests that it answers.
    label: Option<Label>,
}

/// What readers of a stream need to know if the instance that adds its events has ended.
struct Label {
    instance: InstanceId,
    requests: Vec<Json>,
}

impl Appending {
    pub(super) fn new(instance: InstanceId, requests: &[RequestId]) -> Self {
        let requests: Vec<u8> = requests.iter().fold(Vec::new(), |mut array, id| {
            array.push(if array.is_empty() { b'[' } else { b',' });
            array.extend_from_slice(id.to_json().as_bytes());
            array
        });
        let label = Json::empty_object().with_member("i", &Json::from(instance.to_string()));
        let label = match Json::parse([requests, b"]".to_vec()].concat()) {
            Ok(requests) => label.with_member("r", &requests),
            Err(_) => label,
        };
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

impl Reader {
    /// The number of the last event that was written, if it is known.
    pub(super) const fn sent(&self) -> Option<u64> {
        match self.after {
            After::Number(number) => Some(number),
            After::Latest => None,
        }
    }
}

impl Label {
    fn read(text: &Bytes) -> Option<Self> {
        let label = Json::parse(text.to_vec()).ok()?;
        let [instance, requests] = label.first_members(["i", "r"]);
        let requests = requests.iter().flat_map(Json::elements).collect();
        Some(Self { instance: InstanceId::new(read_hex(&instance?)?), requests })
    }
}

impl Http {
    /// The ids that the label of a stream names, if the events of requests are stored.
    pub(super) fn requests_to_label(&self, frame: &Result<Frame, ParseError>) -> Box<[RequestId]> {
        if self.config.stored().is_none() || self.config.replay == 0 {
            return Box::default();
        }
        let id_of = |message: &Message| match message {
            Message::Request(request) => Some(request.id.clone()),
            Message::Notification(_) | Message::Response(_) => None,
        };
        match frame {
            Ok(Frame::Single(message)) => id_of(message).into_iter().collect(),
            Ok(Frame::Batch(items)) => items.iter().flatten().filter_map(id_of).collect(),
            Err(_) => Box::default(),
        }
    }

    /// Adds a message to the stream of a request, which perhaps ends with it.
    pub(super) fn append(
        &mut self,
        session: SessionKey,
        of: ExchangeKey,
        message: &Bytes,
        is_last: bool,
        output: &mut TransportOutput<'_, HttpAction>,
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
    pub(super) fn end_append(
        &mut self,
        session: SessionKey,
        of: ExchangeKey,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        if let Some(appending) = self.appending_mut(session, of) {
            appending.is_ending = true;
        }
        self.store_settings_of(session, of, output);
        self.flush(session, of, output);
    }

    /// The client is to come again for the rest of the stream.
    pub(super) fn release_append(
        &mut self,
        session: SessionKey,
        of: ExchangeKey,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(appending) = self.appending_mut(session, of) else { return };
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

    /// Stores what is queued, unless something is being stored.
    fn flush(&mut self, session: SessionKey, of: ExchangeKey, output: &mut TransportOutput<'_, HttpAction>) {
        let (keep, while_open, replay_for) = (self.config.replay, self.config.session_idle, self.config.replay_for);
        let Some(found) = self.sessions.get_mut(session) else { return };
        let id = found.id.clone();
        let Some(stream) = found.streams.get_mut(&of) else { return };
        let tag = stream.tag();
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
    pub(super) fn touch_stream(
        &mut self,
        session: SessionKey,
        of: ExchangeKey,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        if let Some(appending) = self.appending_mut(session, of).filter(|appending| appending.in_flight.is_none()) {
            // The action has no events.
            appending.is_created = false;
            self.flush(session, of, output);
        }
    }

    pub(super) fn on_appended(
        &mut self,
        session: SessionKey,
        of: ExchangeKey,
        result: &StoreResult,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let id = found.id.clone();
        let Some(stream) = found.streams.get_mut(&of) else { return };
        let tag = stream.tag();
        let Some(appending) = stream.appending.as_deref_mut() else { return };
        let Some(InFlight { events, is_last }) = appending.in_flight.take() else { return };
        if *result == StoreResult::Done {
            appending.is_created = true;
        } else {
            // What the client receives from now on is not stored, so that no resumption may find a part of it.
            appending.is_broken = true;
            output.out.act(HttpAction::Store(StoreAction::ForgetStream { stream: StreamId { session: id, tag } }));
        }
        self.on_events_stored(session, of, &events, is_last, output);
    }

    /// Writes events that are stored, or will not be, to the client that is connected.
    fn on_events_stored(
        &mut self,
        session: SessionKey,
        of: ExchangeKey,
        events: &[Bytes],
        is_last: bool,
        output: &mut TransportOutput<'_, HttpAction>,
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

    /// A session ends while events of its requests are being stored: they are written without waiting for the store.
    pub(super) fn end_appending(&mut self, session: SessionKey, output: &mut TransportOutput<'_, HttpAction>) {
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
                self.ask_store(Pending::Forget(None), output, |key| StoreAction::Append {
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

    /// Adds a message that relates to no request to the GET stream of a session.
    pub(super) fn append_message(
        &mut self,
        session: SessionKey,
        message: &Bytes,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(stream) = self.get_stream_id(session).filter(|_| self.config.get_stream) else { return };
        // Without replay, the message waits for the client for a while all the same.
        let keep = self.config.replay.max(self.limits.message);
        let (events, expires_in) = (vec![message.clone()], self.config.session_idle);
        self.ask_store(Pending::AppendMessage(session), output, |key| StoreAction::Append {
            key,
            stream,
            first: None,
            events,
            label: Bytes::new(),
            is_last: false,
            keep,
            expires_in,
        });
    }

    pub(super) fn on_message_appended(
        &mut self,
        session: SessionKey,
        result: &StoreResult,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(stored) = self.stored_mut(session).filter(|_| *result == StoreResult::Done) else { return };
        let Some(home) = stored.home() else { return };
        match self.stored_at(session) {
            Some(instance) if instance == home.instance => {
                let stored = self.stored_mut(session);
                let reader = stored.and_then(|stored| stored.readers.get(&StreamId::OF_SESSION)).copied();
                if let Some(reader) = reader {
                    self.read_more(reader, output);
                }
            }
            Some(_) | None => {
                self.send_to(home.instance, session, Notice::Added { tag: StreamId::OF_SESSION }, output);
            }
        }
    }

    /// A client opens the GET stream of a session.
    pub(super) fn open_get_stream_stored(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        info: &RequestInfo,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let unreadable_id = self.unreadable_id(session);
        let Some(stream) = self.get_stream_id(session) else { return };
        if self.stored_mut(session).is_some_and(|stored| stored.has_get_stream()) {
            return self.refuse(exchange, admission::has_get_stream(), unreadable_id, output);
        }
        let (home, here) = (self.stored_mut(session).and_then(|stored| stored.home()), self.stored_at(session));
        let after = home.map_or(0, |home| home.sent);
        if !self.begin_reading(exchange, session, stream, After::Number(after), info, output) {
            return;
        }
        match home.filter(|home| home.is_open && Some(home.instance) != here) {
            Some(home) => {
                let instance = home.instance;
                self.ask_store(Pending::Holder(exchange), output, |key| StoreAction::Find { key, instance });
            }
            None => self.claim_get_stream(exchange, output),
        }
    }

    /// Whether another instance has the GET stream of the session. If it has ended, what it has sent is not known.
    pub(super) fn on_holder_found(
        &mut self,
        exchange: ExchangeKey,
        result: &StoreResult,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let refusal = match result {
            StoreResult::Found(true) => admission::has_get_stream(),
            StoreResult::Found(false) => {
                if let Some(reader) = self.store.readers.get_mut(&exchange) {
                    reader.after = After::Latest;
                }
                return self.claim_get_stream(exchange, output);
            }
            StoreResult::Loaded(_)
            | StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Events(_)
            | StoreResult::Failed => admission::store_unavailable(),
        };
        self.refuse_storing(exchange, refusal, output);
    }

    fn refuse_storing(
        &mut self,
        exchange: ExchangeKey,
        refusal: super::Refusal,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        if let Some(closed) = self.close_exchange(exchange, output.now) {
            let unreadable_id = closed.session().map(|session| self.unreadable_id(session));
            self.refuse(exchange, refusal, unreadable_id.unwrap_or(crate::spec::UnreadableId::Null), output);
        }
    }

    /// A client resumes a stream after an event.
    pub(super) fn resume_stored(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        after: &str,
        info: &RequestInfo,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let unreadable_id = self.unreadable_id(session);
        let read = super::replay::read_id(after);
        let (Some((tag, number)), Some(mut stream)) = (read, self.get_stream_id(session)) else {
            return self.refuse(exchange, admission::unknown_event(), unreadable_id, output);
        };
        let is_get_stream = self.get_stream_tag(session) == Some(tag);
        if self.config.replay == 0 || tag == StreamId::OF_SESSION {
            return self.refuse(exchange, admission::unknown_event(), unreadable_id, output);
        }
        if self.stage != super::Stage::Serving && is_get_stream {
            return self.refuse(exchange, admission::stopped(), unreadable_id, output);
        }
        if !is_get_stream {
            stream.tag = tag;
        }
        self.begin_reading(exchange, session, stream, After::Number(number), info, output);
        self.read(exchange, output);
    }

    /// Inserts the exchange of a stream that is to be read. Returns `false` if it was refused.
    fn begin_reading(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        stream: StreamId,
        after: After,
        info: &RequestInfo,
        output: &mut TransportOutput<'_, HttpAction>,
    ) -> bool {
        if let Err(refusal) = self.make_room_for_stream(&info.holder(), output) {
            self.refuse(exchange, refusal, self.unreadable_id(session), output);
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
        };
        // A client that resumes has lost the old connection, even if the server has not detected that.
        let old = self.stored_mut(session).and_then(|stored| stored.readers.insert(reader.stream.tag, exchange));
        self.store.readers.insert(exchange, reader);
        if let Some(old) = old {
            self.finish_reading(old, output);
        }
        true
    }

    /// Ends the GET streams that are open here. Their clients open them at another instance.
    pub(super) fn finish_get_readers(&mut self, output: &mut TransportOutput<'_, HttpAction>) {
        let of_get_streams = self.store.readers.iter().filter(|(_, reader)| reader.is_get_stream);
        for exchange in of_get_streams.map(|(exchange, _)| *exchange).collect::<Vec<_>>() {
            self.finish_reading(exchange, output);
        }
    }

    /// Ends an exchange on which a stream is read.
    pub(super) fn finish_reading(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, HttpAction>) {
        if matches!(self.exchanges.get(exchange), Some(Exchange::Storing { .. })) {
            self.refuse_storing(exchange, admission::has_get_stream(), output);
        } else {
            self.finish(exchange, output);
        }
    }

    /// Opens a GET stream that this instance has from now on.
    pub(super) fn open_stored_get_stream(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        from: Option<InstanceId>,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        self.exchanges.insert(exchange, Exchange::Streaming { session: Some(session), stream: None });
        if let (Some(from), Some(instance)) = (from, self.stored_at(session)) {
            self.send_to(from, session, Notice::Moved { instance }, output);
        }
        self.open_stream(exchange, output);
        self.read(exchange, output);
    }

    /// Reads a stream, unless it is being read.
    pub(super) fn read(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, HttpAction>) {
        let max_bytes = AT_ONCE.min(self.limits.unwritten);
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        if reader.is_reading || reader.is_behind {
            reader.has_more = true;
            return;
        }
        (reader.is_reading, reader.has_more) = (true, false);
        let (stream, after) = (reader.stream.clone(), reader.after);
        self.timers.clear(Timer::Poll(exchange));
        self.ask_store(Pending::Read(exchange), output, |key| StoreAction::Read { key, stream, after, max_bytes });
    }

    /// There are new events, if the stream is open.
    pub(super) fn read_more(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, HttpAction>) {
        if matches!(self.exchanges.get(exchange), Some(Exchange::Streaming { .. })) {
            self.read(exchange, output);
        }
    }

    /// Nothing was reported for a while.
    pub(super) fn on_poll(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, HttpAction>) {
        if let Some(reader) = self.store.readers.get_mut(&exchange) {
            (reader.is_polling, reader.is_behind) = (true, false);
        }
        self.read_more(exchange, output);
    }

    pub(super) fn on_read(
        &mut self,
        exchange: ExchangeKey,
        result: StoreResult,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        reader.is_reading = false;
        let is_get_stream = reader.is_get_stream;
        let events = match result {
            StoreResult::Events(events) => Some(events),
            StoreResult::Loaded(_)
            | StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Found(_)
            | StoreResult::Failed => None,
        };
        let is_open = matches!(self.exchanges.get(exchange), Some(Exchange::Streaming { .. }));
        match (events, is_open) {
            // A replay is complete or refused.
            (Some(None), false) => self.refuse_storing(exchange, admission::unknown_event(), output),
            (Some(Some(_)), false) if is_get_stream => self.claim_get_stream(exchange, output),
            (Some(Some(events)), false) => self.open_resumed(exchange, &events, output),
            (None, false) => self.refuse_storing(exchange, admission::store_unavailable(), output),
            (Some(Some(events)), true) => self.write_read(exchange, &events, output),
            // The GET stream has no events yet, or has lost some while nothing was read.
            (Some(None), true) if is_get_stream => {
                if let Some(reader) = self.store.readers.get_mut(&exchange) {
                    if reader.after != After::Number(0) {
                        reader.after = After::Latest;
                    }
                }
                self.wait_for_more(exchange, output);
            }
            (Some(None), true) => self.finish(exchange, output),
            (None, true) => self.wait_for_more(exchange, output),
        }
    }

    fn wait_for_more(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, HttpAction>) {
        if self.store.readers.get(&exchange).is_some_and(|reader| reader.has_more) {
            self.read(exchange, output);
        } else {
            self.timers.set(Timer::Poll(exchange), output.now + POLL);
        }
    }

    fn open_resumed(
        &mut self,
        exchange: ExchangeKey,
        events: &StoredEvents,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(session) = self.exchanges.get(exchange).and_then(Exchange::session) else { return };
        // The exchange is that of no request, so that the stream is only in the table of readers.
        self.exchanges.insert(exchange, Exchange::Streaming { session: Some(session), stream: Some(exchange) });
        self.exchanges.streams.set_used(exchange);
        self.open_stream(exchange, output);
        let label = Label::read(&events.label);
        let producer = label.as_ref().map(|label| label.instance);
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        reader.label = label;
        let tag = reader.stream.tag;
        if producer == self.stored_at(session) {
            self.detach(session, tag, output);
            if !self.adds_to(session, tag) && !events.is_last {
                self.append_errors(exchange, output);
            }
        } else if let Some(producer) = producer.filter(|_| !events.is_last) {
            self.send_to(producer, session, Notice::Watched { tag }, output);
        }
        self.write_read(exchange, events, output);
    }

    /// A client has resumed the stream of a request: what is added is not written to its old connection any more.
    pub(super) fn detach(&mut self, session: SessionKey, tag: u64, output: &mut TransportOutput<'_, HttpAction>) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        let old = found.streams.values_mut().find(|stream| stream.tag() == tag).and_then(|stream| {
            let begun = stream.appending.as_ref().is_some_and(|appending| appending.has_begun);
            if begun { stream.exchange.take() } else { None }
        });
        if let Some(old) = old {
            self.finish(old, output);
        }
    }

    /// Another instance reads the stream of a request that is served here.
    pub(super) fn on_watched(
        &mut self,
        session: SessionKey,
        tag: u64,
        by: InstanceId,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
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
        // What was added before this message arrived.
        self.send_to(by, session, Notice::Added { tag }, output);
    }

    /// Whether events of the stream of a request are added here.
    fn adds_to(&self, session: SessionKey, tag: u64) -> bool {
        let stream = self.sessions.get(session).and_then(|found| {
            let mut streams = found.streams.values();
            streams.find(|stream| stream.tag() == tag)
        });
        stream.and_then(|stream| stream.appending.as_deref()).is_some_and(|appending| !appending.is_broken)
    }

    /// The instance that was adding to a stream adds no more. If it has not ended the stream, the store has failed.
    pub(super) fn on_stream_over(
        &mut self,
        session: SessionKey,
        tag: u64,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let reader = self.stored_mut(session).and_then(|stored| stored.readers.get(&tag)).copied();
        if let Some(exchange) = reader {
            self.append_errors(exchange, output);
        }
    }

    /// Another instance has added events to a stream.
    pub(super) fn on_added(&mut self, session: SessionKey, tag: u64, output: &mut TransportOutput<'_, HttpAction>) {
        let reader = self.stored_mut(session).and_then(|stored| stored.readers.get(&tag)).copied();
        if let Some(exchange) = reader {
            self.read_more(exchange, output);
        }
    }

    /// Writes events that were read.
    fn write_read(
        &mut self,
        exchange: ExchangeKey,
        events: &StoredEvents,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(reader) = self.store.readers.get_mut(&exchange) else { return };
        let (mut tag, is_get_stream) = (reader.stream.tag, reader.is_get_stream);
        reader.after = After::Number((events.first + events.events.len() as u64).saturating_sub(1));
        let is_silent = events.events.is_empty() && std::mem::take(&mut reader.is_polling);
        let producer = reader.label.as_ref().map(|label| label.instance);
        let session = self.exchanges.get(exchange).and_then(Exchange::session);
        if is_get_stream {
            tag = session.and_then(|session| self.get_stream_tag(session)).unwrap_or(tag);
        }
        for (number, event) in (events.first..).zip(&events.events) {
            if !self.makes_room(event.len(), output) {
                return self.abort_unread(exchange, output);
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
        if self.unwritten.of(exchange) > AT_ONCE.min(self.limits.unwritten) / 4 {
            reader.is_behind = true;
            self.timers.set(Timer::Poll(exchange), output.now + POLL);
        } else {
            self.read(exchange, output);
        }
    }

    /// The client has taken some of what was written.
    pub(super) fn on_reader_written(&mut self, exchange: ExchangeKey, now: crate::Instant) {
        let is_small = self.unwritten.of(exchange) <= AT_ONCE.min(self.limits.unwritten) / 4;
        if let Some(reader) = self.store.readers.get_mut(&exchange).filter(|reader| reader.is_behind && is_small) {
            reader.is_behind = false;
            self.timers.set(Timer::Poll(exchange), now);
        }
    }

    /// Whether the instance runs that adds to a stream on which nothing was reported for a while.
    pub(super) fn on_producer_found(
        &mut self,
        exchange: ExchangeKey,
        result: &StoreResult,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        match result {
            StoreResult::Found(false) => self.append_errors(exchange, output),
            // It may not have received that the stream is read here.
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

    /// The requests of a stream to which no instance adds any more are answered with errors, once.
    fn append_errors(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, HttpAction>) {
        let Some(reader) = self.store.readers.get(&exchange) else { return };
        let Some(label) = &reader.label else { return };
        let text = "the answer is lost: the instance of the server that was answering has ended, or could not store it";
        let error = || ErrorObject::new(code::INTERNAL_ERROR, text);
        let ids = label.requests.iter().filter_map(|id| RequestId::from_json_text(id.as_bytes()));
        let errors = ids.map(|id| Message::Response(Response::Error { id: Some(id), error: error() }).to_bytes());
        let (events, stream) = (errors.collect(), reader.stream.clone());
        let (keep, expires_in) = (self.config.replay, self.config.replay_for);
        self.ask_store(Pending::AppendErrors(exchange), output, |key| StoreAction::Append {
            key,
            stream,
            // After events that this client has not received yet. If the stream has ended, nothing is added.
            first: None,
            events,
            label: Bytes::new(),
            is_last: true,
            keep,
            expires_in,
        });
    }

    /// Writes a message as an event; with a number if it may be resumed after it.
    fn write_stored(
        &mut self,
        exchange: ExchangeKey,
        tag: u64,
        number: Option<u64>,
        message: &Bytes,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let session = self.exchanges.get(exchange).and_then(Exchange::session);
        let version = session.and_then(|session| self.sessions.get(session)).and_then(|session| session.version);
        let is_resumable = self.config.replay > 0 && version.is_some_and(|version| version.rules().resumable);
        let id = number.filter(|_| is_resumable).and_then(|number| EventId::new(&id_text(tag, number)));
        let mut chunk = Vec::with_capacity(message.len() + 80);
        encode_event(&EventName::MESSAGE, message, id.as_ref(), &mut chunk);
        self.write_chunk(exchange, chunk.into(), output);
        self.timers.set(Timer::KeepAlive(exchange), output.now + self.config.keep_alive);
    }
}
