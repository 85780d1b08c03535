//! Sessions in a store that the instances of a server share: their records, and what waits for the store.
//!
//! ```text
//!   request ──▶ LookUp ── Load ──▶ restored or updated here ──▶ admitted as any request
//!                                                                  │ changes a setting, opens or ends the session
//!                                                                  ▼
//!                           response ◀── Done ── Save, Forget ◀── Storing
//! ```

use std::collections::BTreeMap;
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Response, StatusCode};

use super::exchange::{Asked, Exchange, Then};
use super::instances::Notice;
use super::refusal::{Refusal, empty};
use super::stored_stream::Reader;
use super::{ExchangeKey, Http, HttpAction, Plan, RequestInfo, Stage, Step, Timer, admission, header_check};
use crate::codec::json::Json;
use crate::conversation::keys::SessionKey;
use crate::conversation::outcome::CloseReason;
use crate::server::principal::Principal;
use crate::server::snapshot::{Home, Kept, SessionState, Setting};
use crate::server::transport::{Inbound, TransportOutput};
use crate::spec::header::SESSION_ID;
use crate::store::{InstanceId, Record, StoreAction, StoreKey, StoreResult, StreamId};

/// How often a change is written again because another instance has written in between.
const TRIES: u32 = 16;

/// A session in use is kept in the store again after this part of the time after which it expires, if that has failed.
const TOUCHES: u32 = 16;

/// Sessions in a store ([`store`](crate::store)), so that every instance with the same store serves them: requests, streams,
/// resumptions, cancellations, and answers to requests of the server reach a session wherever they arrive, and changes
/// that one instance publishes reach the clients of all.
///
/// Each request of a session begins with reading its record. The response to what changes the record is sent after it was
/// written. Events of streams are stored before they are sent. If the store cannot be reached, requests of sessions are
/// answered with 503 and `Retry-After`.
///
/// # Example
///
/// ```
/// use mcp_proto::server::{HttpConfig, SessionMode, StoredSessions};
/// use mcp_proto::store::InstanceId;
///
/// # let random = 7;
/// let mut http = HttpConfig::new();
/// http.sessions = SessionMode::Stored(StoredSessions::new(InstanceId::new(random)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSessions {
    /// This instance.
    pub instance: InstanceId,
    /// How long the store may take for an action, after which it counts as unreachable. Default 5 s.
    pub timeout: Duration,
}

impl StoredSessions {
    /// The sessions that this instance shares with others.
    #[must_use]
    pub const fn new(instance: InstanceId) -> Self {
        Self { instance, timeout: Duration::from_secs(5) }
    }
}

/// What a session in the store has here.
pub(super) struct StoredSession {
    /// As it was read or written last.
    state: SessionState,
    /// The version of that record; zero before the first one is written.
    version: u64,
    saving: Option<Saving>,
    /// Changes that are written next.
    queue: Vec<Change>,
    /// The streams that clients read here, by their tags.
    pub(super) readers: BTreeMap<u64, ExchangeKey>,
}

/// A record that is being written.
struct Saving {
    state: SessionState,
    changes: Vec<Change>,
    tries: u32,
}

/// A change of a record, and the exchange that waits until it is written.
struct Change {
    what: What,
    waiting: Option<ExchangeKey>,
}

enum What {
    /// The session is opened.
    Opened,
    Settings(Vec<Setting>),
    Home(Home),
}

/// An action of the store whose result is awaited.
#[derive(Debug, Clone, Copy)]
pub(super) enum Pending {
    /// The record of the session that a request names.
    LookUp(ExchangeKey),
    /// The record of a session that has been in use for long.
    Touch(SessionKey),
    Save(SessionKey),
    /// The record, to apply changes to it again.
    Reload(SessionKey),
    /// The record is removed, for this DELETE if there is one.
    Forget(Option<(SessionKey, ExchangeKey)>),
    /// Whether the instance runs that has the GET stream which this exchange is to have.
    Holder(ExchangeKey),
    /// Events of the stream of a request.
    Append(SessionKey, ExchangeKey),
    /// A message for the GET stream.
    AppendMessage(SessionKey),
    /// The errors that end the stream of an instance that has ended, read on this exchange.
    AppendErrors(ExchangeKey),
    Read(ExchangeKey),
    /// Whether the instance runs that adds to the stream which is read on this exchange.
    Producer(ExchangeKey),
}

/// All that waits for the store.
#[derive(Default)]
pub(super) struct StoreWork {
    next: u64,
    pending: BTreeMap<StoreKey, Pending>,
    /// What clients have set with requests that are not answered yet.
    pub(super) changes: BTreeMap<ExchangeKey, Vec<Setting>>,
    /// The streams that are read from the store.
    pub(super) readers: BTreeMap<ExchangeKey, Reader>,
    /// Bytes of events that are not stored yet.
    pub(super) queued: usize,
    /// Sessions whose GET stream has been closed here.
    pub(super) closed_streams: Vec<SessionKey>,
}

impl StoreWork {
    /// Whether something is being written.
    pub(super) fn is_writing(&self) -> bool {
        self.pending.values().any(|pending| match pending {
            Pending::Save(_)
            | Pending::Reload(_)
            | Pending::Forget(_)
            | Pending::Append(..)
            | Pending::AppendMessage(_)
            | Pending::AppendErrors(_) => true,
            Pending::LookUp(_) | Pending::Touch(_) | Pending::Holder(_) | Pending::Read(_) | Pending::Producer(_) => {
                false
            }
        })
    }
}

impl StoredSession {
    /// A session that is not in the store yet.
    pub(super) fn new(state: SessionState, version: u64) -> Box<Self> {
        Box::new(Self { state, version, saving: None, queue: Vec::new(), readers: BTreeMap::new() })
    }

    fn kept(&self) -> Option<&Kept> {
        self.state.kept.as_ref()
    }

    /// The instance that has the GET stream.
    pub(super) fn home(&self) -> Option<Home> {
        self.kept().and_then(|kept| kept.home)
    }

    fn set_home(&mut self, home: Home) {
        if let Some(kept) = &mut self.state.kept {
            kept.home = Some(home);
        }
    }

    /// Whether its GET stream is open here, or about to be.
    pub(super) fn has_get_stream(&self) -> bool {
        self.readers.contains_key(&StreamId::OF_SESSION)
    }

    /// A stream is no longer read on this exchange. Returns whether it is the GET stream.
    pub(super) fn on_reader_closed(&mut self, exchange: ExchangeKey, reader: &Reader) -> bool {
        if self.readers.get(&reader.stream.tag) == Some(&exchange) {
            self.readers.remove(&reader.stream.tag);
        }
        let home = self.home().filter(|_| reader.is_get_stream);
        if let (Some(home), Some(sent)) = (home, reader.sent()) {
            self.set_home(Home { sent, ..home });
        }
        home.is_some()
    }
}

impl Http {
    /// The id of this instance, if the session is in the store.
    pub(super) fn stored_at(&self, session: SessionKey) -> Option<InstanceId> {
        self.sessions.get(session)?.stored.as_ref()?;
        Some(self.config.stored()?.instance)
    }

    /// Passes an action to the driver, and waits for its result.
    pub(super) fn ask_store(
        &mut self,
        pending: Pending,
        output: &mut TransportOutput<'_, HttpAction>,
        action: impl FnOnce(StoreKey) -> StoreAction,
    ) {
        let Some(stored) = self.config.stored() else { return };
        let at = output.now + stored.timeout;
        let key = StoreKey(self.store.next);
        self.store.next += 1;
        self.store.pending.insert(key, pending);
        self.timers.set(Timer::Store(key), at);
        output.out.act(HttpAction::Store(action(key)));
    }

    /// The store has answered, or has not answered in time.
    pub(super) fn on_stored(
        &mut self,
        key: StoreKey,
        result: StoreResult,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(pending) = self.store.pending.remove(&key) else { return };
        self.timers.clear(Timer::Store(key));
        match pending {
            Pending::LookUp(exchange) => self.on_looked_up(exchange, result, output),
            Pending::Touch(session) => self.on_touched(session, result, output),
            Pending::Save(session) => self.on_saved(session, &result, output),
            Pending::Reload(session) => self.on_reloaded(session, result, output),
            Pending::Forget(Some((session, exchange))) => self.on_forgotten(session, exchange, &result, output),
            Pending::Forget(None) => {}
            Pending::Holder(exchange) => self.on_holder_found(exchange, &result, output),
            Pending::Append(session, of) => self.on_appended(session, of, &result, output),
            Pending::AppendMessage(session) => self.on_message_appended(session, &result, output),
            Pending::AppendErrors(exchange) => self.read(exchange, output),
            Pending::Read(exchange) => self.on_read(exchange, result, output),
            Pending::Producer(exchange) => self.on_producer_found(exchange, &result, output),
        }
    }

    /// The id of the session whose record has to be read before the request can be admitted.
    pub(super) fn id_to_look_up(&self, head: &Parts, planned: &Result<Plan, Refusal>) -> Option<Box<str>> {
        self.config.stored()?;
        let is_stored = |session| self.sessions.get(session).is_some_and(|session| session.stored.is_some());
        let needs = match planned {
            Ok(plan) => plan.session().is_some_and(is_stored),
            Err(refusal) => *refusal == admission::unknown_session(),
        };
        let id = admission::single(&head.headers, &SESSION_ID).ok()?.filter(|_| needs)?;
        // No other text is the id of a session, so that nothing else is asked for.
        let is_id = id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        is_id.then(|| id.into())
    }

    pub(super) fn look_up(
        &mut self,
        exchange: ExchangeKey,
        id: &str,
        head: Parts,
        info: RequestInfo,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let plan = Plan::LookUp { is_whole: false };
        self.insert_exchange(exchange, Exchange::Receiving { head: Box::new(head), plan, info, body: Vec::new() });
        self.timers.set(Timer::Body(exchange), output.now + self.config.body_timeout);
        let (session, expires_in) = (id.into(), self.config.session_idle);
        self.ask_store(Pending::LookUp(exchange), output, |key| StoreAction::Load { key, session, expires_in });
    }

    fn on_looked_up(
        &mut self,
        exchange: ExchangeKey,
        result: StoreResult,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(Exchange::Receiving { head, plan: Plan::LookUp { is_whole }, info, body }) =
            self.close_exchange(exchange, output.now)
        else {
            return;
        };
        let StoreResult::Loaded(record) = result else {
            let unreadable_id = header_check::unreadable_id(&head.headers);
            return self.refuse(exchange, admission::store_unavailable(), unreadable_id, output);
        };
        let id = admission::single(&head.headers, &SESSION_ID).ok().flatten().map(Box::<str>::from);
        let Some(id) = id else { return };
        let record = record.and_then(|record| self.read_record(&record).map(|state| (record.version, state)));
        if record.is_none() {
            // What is here of a session that has ended elsewhere is ended before the request is refused.
            self.end_if_gone(&id, output);
        }
        let mine = record.filter(|(_, state)| {
            let principal = state.kept.as_ref().and_then(|kept| kept.principal.as_deref());
            principal == info.principal().map(Principal::as_str)
        });
        let arriving = Arriving { exchange, head, info, body, is_whole };
        let Some((version, state)) = mine else {
            self.deferred = Some(Step::Admit(arriving));
            return;
        };
        if let Some((session, _)) = self.sessions.of_id(&id) {
            self.update(session, version, state, output);
            self.deferred = Some(Step::Admit(arriving));
            return;
        }
        match self.make_room_for_session(&arriving.info.holder(), output) {
            Ok(()) => self.deferred = Some(Step::RestoreStored { arriving, version, state }),
            Err(refusal) => {
                let unreadable_id = header_check::unreadable_id(&arriving.head.headers);
                self.refuse(exchange, refusal, unreadable_id, output);
            }
        }
    }

    /// The state in a record; `None` if this version cannot read it, or does not serve its revision.
    fn read_record(&self, record: &Record) -> Option<SessionState> {
        let state = SessionState::read(record.bytes.to_vec())?;
        (state.kept.is_some() && self.versions.contains(state.version)).then_some(state)
    }

    pub(super) fn restore_stored(
        &mut self,
        arriving: Arriving,
        version: u64,
        state: SessionState,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let id = admission::single(&arriving.head.headers, &SESSION_ID).ok().flatten();
        let session = id.and_then(|id| self.sessions.restore(id, state.version, &arriving.info, output.now));
        if let Some(session) = session {
            self.set_stored(session, version, state.clone(), output);
            output.inbound.push_back(Inbound::Restored { session, state });
        }
        self.deferred = Some(Step::Admit(arriving));
    }

    /// Notes that a session is in the store.
    fn set_stored(
        &mut self,
        session: SessionKey,
        version: u64,
        state: SessionState,
        output: &TransportOutput<'_, HttpAction>,
    ) {
        let Some(found) = self.sessions.get_mut(session) else { return };
        found.stored = Some(StoredSession::new(state, version));
        self.timers.set(Timer::Idle(session), output.now + self.config.session_idle / 2);
    }

    /// A session is opened here. Its record is written before the client receives its id.
    pub(super) fn store_opened(&mut self, session: SessionKey, client: Option<&Json>) {
        let (Some(config), Some(found)) = (self.config.stored(), self.sessions.get_mut(session)) else { return };
        let (Some(version), false) = (found.version, found.is_two_endpoint) else { return };
        let kept = Kept {
            principal: found.principal.as_ref().map(|principal| principal.as_str().into()),
            get_stream: found.get_stream.tag(),
            home: Some(Home { instance: config.instance, is_open: false, sent: 0 }),
            next_request: 0,
            next_event: 0,
        };
        let state = SessionState { kept: Some(kept), ..SessionState::opened(version, client.cloned()) };
        found.stored = Some(StoredSession::new(state, 0));
    }

    /// Applies a record that was read, unless a later one is known.
    fn update(
        &mut self,
        session: SessionKey,
        version: u64,
        state: SessionState,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(stored) = self.stored_mut(session) else { return };
        if version <= stored.version {
            return;
        }
        let state = if let Some(saving) = &stored.saving {
            // What is being written is either in this record, or is written again after a conflict.
            applied(&applied(&state, &saving.changes), &stored.queue)
        } else {
            stored.version = version;
            stored.state = state.clone();
            state
        };
        output.inbound.push_back(Inbound::Updated { session, state });
    }

    /// Ends a session here that is not in the store any more.
    fn end_if_gone(&mut self, id: &str, output: &mut TransportOutput<'_, HttpAction>) {
        let Some((session, found)) = self.sessions.of_id(id) else { return };
        // A session that is being opened is not in the store yet.
        if found.stored.as_ref().is_some_and(|stored| stored.version > 0) {
            self.end_gone(session, output);
        }
    }

    /// Ends a session here that was ended elsewhere.
    pub(super) fn end_gone(&mut self, session: SessionKey, output: &mut TransportOutput<'_, HttpAction>) {
        self.fail_changes(session, admission::unknown_session, output);
        if let Some(found) = self.sessions.get_mut(session) {
            found.stored = None;
            output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Peer });
        }
    }

    pub(super) fn stored_mut(&mut self, session: SessionKey) -> Option<&mut StoredSession> {
        self.sessions.get_mut(session)?.stored.as_deref_mut()
    }

    /// Sends the response to a request that has changed its session, once the change is in the store.
    pub(super) fn respond_when_stored(
        &mut self,
        exchange: ExchangeKey,
        asked: Asked,
        response: Response<Bytes>,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(session) = asked.session() else { return };
        self.exchanges.insert(exchange, Exchange::Storing { asked, then: Then::Respond(response) });
        let what = match self.store.changes.remove(&exchange) {
            Some(settings) => What::Settings(settings),
            None => What::Opened,
        };
        self.change(session, what, Some(exchange), output);
    }

    /// Writes what the client has set with a request whose response is not sent, or is a stream.
    pub(super) fn store_settings_of(
        &mut self,
        session: SessionKey,
        exchange: ExchangeKey,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        if let Some(settings) = self.store.changes.remove(&exchange) {
            self.change(session, What::Settings(settings), None, output);
        }
    }

    fn change(
        &mut self,
        session: SessionKey,
        what: What,
        waiting: Option<ExchangeKey>,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(stored) = self.stored_mut(session) else { return };
        stored.queue.push(Change { what, waiting });
        self.begin_save(session, output);
    }

    fn begin_save(&mut self, session: SessionKey, output: &mut TransportOutput<'_, HttpAction>) {
        let Some(stored) = self.stored_mut(session) else { return };
        if stored.saving.is_some() || stored.queue.is_empty() {
            return;
        }
        let changes = std::mem::take(&mut stored.queue);
        let state = applied(&stored.state, &changes);
        stored.saving = Some(Saving { state, changes, tries: 0 });
        self.write_record(session, output);
    }

    fn write_record(&mut self, session: SessionKey, output: &mut TransportOutput<'_, HttpAction>) {
        let Some(found) = self.sessions.get(session) else { return };
        let Some(stored) = &found.stored else { return };
        let Some(saving) = &stored.saving else { return };
        let (expected, id, expires_in) = (stored.version, found.id.clone(), self.config.session_idle);
        let bytes = saving.state.to_text().to_bytes();
        self.ask_store(Pending::Save(session), output, |key| StoreAction::Save {
            key,
            session: id,
            expected,
            bytes,
            expires_in,
        });
    }

    fn on_saved(&mut self, session: SessionKey, result: &StoreResult, output: &mut TransportOutput<'_, HttpAction>) {
        let Some(stored) = self.stored_mut(session) else { return };
        let Some(mut saving) = stored.saving.take() else { return };
        match result {
            StoreResult::Done => {
                stored.version += 1;
                stored.state = saving.state;
                self.notify_home(session, &saving.changes, output);
                for change in saving.changes {
                    if let Some(exchange) = change.waiting {
                        self.proceed_with(exchange, output);
                    }
                }
                self.store.closed_streams.push(session);
                self.begin_save(session, output);
            }
            StoreResult::Conflict if saving.tries < TRIES && stored.version > 0 => {
                saving.tries += 1;
                stored.saving = Some(saving);
                let Some(found) = self.sessions.get(session) else { return };
                let (id, expires_in) = (found.id.clone(), self.config.session_idle);
                self.ask_store(Pending::Reload(session), output, |key| StoreAction::Load {
                    key,
                    session: id,
                    expires_in,
                });
            }
            StoreResult::Conflict
            | StoreResult::Failed
            | StoreResult::Loaded(_)
            | StoreResult::Events(_)
            | StoreResult::Found(_) => self.on_not_saved(session, saving, output),
        }
    }

    /// The instance that has the GET stream sends on it what the client has subscribed to, and reads no record for that.
    fn notify_home(&mut self, session: SessionKey, changes: &[Change], output: &mut TransportOutput<'_, HttpAction>) {
        if !changes.iter().any(|change| matches!(change.what, What::Settings(_))) {
            return;
        }
        let here = self.stored_at(session);
        let Some(stored) = self.stored_mut(session) else { return };
        let home = stored.home().map(|home| home.instance).filter(|home| Some(*home) != here);
        let (version, state) = (stored.version, stored.state.to_text());
        if let Some(home) = home {
            self.send_to(home, session, Notice::Changed { version, state }, output);
        }
    }

    /// Another instance has written a record with settings of the client.
    pub(super) fn on_changed(
        &mut self,
        session: SessionKey,
        record: &Record,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        if let Some(state) = self.read_record(record) {
            self.update(session, record.version, state, output);
        }
    }

    /// Another instance has written a record in between, to which the changes are applied.
    fn on_reloaded(&mut self, session: SessionKey, result: StoreResult, output: &mut TransportOutput<'_, HttpAction>) {
        let record = match result {
            StoreResult::Loaded(Some(record)) => self.read_record(&record).map(|state| (record.version, state)),
            StoreResult::Loaded(None) => return self.end_gone(session, output),
            StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Events(_)
            | StoreResult::Found(_)
            | StoreResult::Failed => None,
        };
        let Some(stored) = self.stored_mut(session) else { return };
        let Some(saving) = stored.saving.take() else { return };
        let Some((version, state)) = record else { return self.on_not_saved(session, saving, output) };
        let changed = applied(&state, &saving.changes);
        (stored.version, stored.state) = (version, state);
        let current = applied(&changed, &stored.queue);
        stored.saving = Some(Saving { state: changed, ..saving });
        output.inbound.push_back(Inbound::Updated { session, state: current });
        self.write_record(session, output);
    }

    /// Changes cannot be written: what is in the store stays in force.
    fn on_not_saved(&mut self, session: SessionKey, saving: Saving, output: &mut TransportOutput<'_, HttpAction>) {
        let Some(stored) = self.stored_mut(session) else { return };
        let (state, is_new) = (stored.state.clone(), stored.version == 0);
        stored.saving = Some(saving);
        self.fail_changes(session, admission::store_unavailable, output);
        output.inbound.push_back(if is_new {
            Inbound::Ended { session, reason: CloseReason::Local }
        } else {
            Inbound::Updated { session, state }
        });
    }

    /// Refuses the requests that wait until their changes are written.
    pub(super) fn fail_changes(
        &mut self,
        session: SessionKey,
        refusal: impl Fn() -> Refusal,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(stored) = self.stored_mut(session) else { return };
        let saving = stored.saving.take().map(|saving| saving.changes).unwrap_or_default();
        let waiting = saving.into_iter().chain(std::mem::take(&mut stored.queue)).filter_map(|change| change.waiting);
        let unreadable_id = self.unreadable_id(session);
        for exchange in waiting.collect::<Vec<_>>() {
            if self.close_exchange(exchange, output.now).is_some() {
                self.refuse(exchange, refusal(), unreadable_id, output);
            }
        }
    }

    /// What an exchange waits for is in the store.
    fn proceed_with(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, HttpAction>) {
        match self.exchanges.get(exchange) {
            Some(Exchange::Storing { then: Then::Respond(_), .. }) => {
                if let Some(Exchange::Storing { then: Then::Respond(response), .. }) =
                    self.close_exchange(exchange, output.now)
                {
                    self.act_response(exchange, response, output);
                }
            }
            Some(Exchange::Storing { asked, then: Then::OpenGetStream { from } }) => {
                if let Some(session) = asked.session() {
                    let from = *from;
                    self.open_stored_get_stream(exchange, session, from, output);
                }
            }
            Some(
                Exchange::Storing { then: Then::Resume, .. }
                | Exchange::Receiving { .. }
                | Exchange::Waiting { .. }
                | Exchange::Streaming { .. },
            )
            | None => {}
        }
    }

    /// Writes that GET streams are no longer open here.
    pub(super) fn store_closed_streams(&mut self, output: &mut TransportOutput<'_, HttpAction>) {
        while let Some(session) = self.store.closed_streams.pop() {
            let Some(instance) = self.stored_at(session) else { continue };
            let Some(stored) = self.stored_mut(session) else { continue };
            let is_open = |home: &Home| home.instance == instance && home.is_open;
            if let Some(home) = stored.home().filter(is_open).filter(|_| !stored.has_get_stream()) {
                let home = Home { is_open: false, ..home };
                stored.set_home(home);
                self.change(session, What::Home(home), None, output);
            }
        }
    }

    /// This instance has the GET stream of a session from now on, which is opened when that is in the store.
    pub(super) fn claim_get_stream(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, HttpAction>) {
        let Some(session) = self.exchanges.get(exchange).and_then(Exchange::session) else { return };
        let Some(instance) = self.stored_at(session) else { return };
        let home = self.stored_mut(session).and_then(|stored| stored.home());
        let from = home.map(|home| home.instance).filter(|home| *home != instance);
        if let Some(Exchange::Storing { then, .. }) = self.exchanges.get_mut(exchange) {
            *then = Then::OpenGetStream { from };
        }
        let home = Home { instance, is_open: true, sent: home.map_or(0, |home| home.sent) };
        self.change(session, What::Home(home), Some(exchange), output);
    }

    /// Another instance has the GET stream of a session from now on.
    pub(super) fn on_moved(
        &mut self,
        session: SessionKey,
        instance: InstanceId,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(stored) = self.stored_mut(session) else { return };
        let Some(home) = stored.home() else { return };
        stored.set_home(Home { instance, ..home });
        let open = stored.readers.get(&StreamId::OF_SESSION).copied();
        if let Some(exchange) = open {
            self.finish(exchange, output);
        }
    }

    /// A client ends its session by DELETE.
    pub(super) fn forget(
        &mut self,
        exchange: ExchangeKey,
        session: SessionKey,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let Some(found) = self.sessions.get(session) else { return };
        let id = found.id.clone();
        let then = Then::Respond(empty(StatusCode::NO_CONTENT));
        self.insert_exchange(exchange, Exchange::Storing { asked: Asked::InSession(session), then });
        let pending = Pending::Forget(Some((session, exchange)));
        self.ask_store(pending, output, |key| StoreAction::Forget { key, session: id });
    }

    fn on_forgotten(
        &mut self,
        session: SessionKey,
        exchange: ExchangeKey,
        result: &StoreResult,
        output: &mut TransportOutput<'_, HttpAction>,
    ) {
        let unreadable_id = self.unreadable_id(session);
        let closed = self.close_exchange(exchange, output.now);
        if *result == StoreResult::Done {
            self.send_to_all(session, Notice::Ended, output);
            self.end_gone(session, output);
            if let Some(Exchange::Storing { then: Then::Respond(response), .. }) = closed {
                self.deferred = Some(Step::Respond { exchange, response });
            }
        } else if closed.is_some() {
            self.refuse(exchange, admission::store_unavailable(), unreadable_id, output);
        }
    }

    /// A session has ended here for good, so that it ends everywhere.
    pub(super) fn forget_ended(&mut self, session: SessionKey, output: &mut TransportOutput<'_, HttpAction>) {
        let is_written = self.stored_mut(session).is_some_and(|stored| stored.version > 0);
        let Some(found) = self.sessions.get(session).filter(|_| is_written && self.stage != Stage::Closed) else {
            return;
        };
        let id = found.id.clone();
        self.send_to_all(session, Notice::Ended, output);
        self.ask_store(Pending::Forget(None), output, |key| StoreAction::Forget { key, session: id });
    }

    /// Keeps a session that is in use for long from expiring in the store, with the streams of its requests.
    pub(super) fn touch_stored(&mut self, session: SessionKey, output: &mut TransportOutput<'_, HttpAction>) {
        let Some(found) = self.sessions.get(session) else { return };
        let (id, expires_in) = (found.id.clone(), self.config.session_idle);
        let streams: Vec<_> = found.streams.keys().copied().collect();
        self.ask_store(Pending::Touch(session), output, |key| StoreAction::Load { key, session: id, expires_in });
        for of in streams {
            self.touch_stream(session, of, output);
        }
    }

    fn on_touched(&mut self, session: SessionKey, result: StoreResult, output: &mut TransportOutput<'_, HttpAction>) {
        match result {
            StoreResult::Loaded(Some(record)) => {
                if let Some(state) = self.read_record(&record) {
                    self.update(session, record.version, state, output);
                }
            }
            StoreResult::Loaded(None) => self.end_gone(session, output),
            StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Events(_)
            | StoreResult::Found(_)
            | StoreResult::Failed => {
                self.timers.set(Timer::Idle(session), output.now + self.config.session_idle / TOUCHES);
            }
        }
    }

    /// The tag of the GET stream of a session in the ids of its events.
    pub(super) fn get_stream_tag(&self, session: SessionKey) -> Option<u64> {
        Some(self.sessions.get(session)?.stored.as_ref()?.kept()?.get_stream)
    }

    /// The stream in the store for messages that relate to no request.
    pub(super) fn get_stream_id(&self, session: SessionKey) -> Option<StreamId> {
        let found = self.sessions.get(session)?;
        found.stored.as_ref()?;
        Some(StreamId { session: found.id.clone(), tag: StreamId::OF_SESSION })
    }
}

/// A request of which everything that has arrived waits for its session.
pub(super) struct Arriving {
    pub(super) exchange: ExchangeKey,
    pub(super) head: Box<Parts>,
    pub(super) info: RequestInfo,
    pub(super) body: Vec<u8>,
    /// It has arrived in full.
    pub(super) is_whole: bool,
}

fn applied(state: &SessionState, changes: &[Change]) -> SessionState {
    let mut state = state.clone();
    for change in changes {
        match &change.what {
            What::Opened => {}
            What::Settings(settings) => settings.iter().for_each(|setting| state.set(setting)),
            What::Home(home) => {
                if let Some(kept) = &mut state.kept {
                    kept.home = Some(*home);
                }
            }
        }
    }
    state
}
