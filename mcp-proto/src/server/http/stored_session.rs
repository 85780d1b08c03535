//! Sessions in a store that the instances of a server share: how a request finds its session, and how sessions end.
//!
//! ```text
//!   request ──▶ LookUp ── Load ──▶ restored or updated here ──▶ admitted as any request
//!                                                                  │ changes a setting, opens or ends the session
//!                                                                  ▼
//!                           response ◀── Done ── Save, Forget ◀── Storing
//! ```

use std::sync::Arc;
use std::time::Duration;

use http::StatusCode;
use http::request::Parts;

use super::exchange::{Asked, Exchange, Then};
use super::instances::Notice;
use super::refusal::{Refusal, empty};
use super::session::SessionKind;
use super::store_work::Pending;
use super::stored_record::StoredSession;
use super::{ExchangeKey, Http, HttpStep, HttpTimer, Output, Plan, RequestInfo, Stage, admission, header_check};
use crate::conversation::keys::{InstanceId, SessionKey};
use crate::conversation::outcome::CloseReason;
use crate::server::principal::Principal;
use crate::server::snapshot::SessionState;
use crate::server::transport::Inbound;
use crate::spec::header::SESSION_ID;
use crate::store::{LAST_NUMBER, Record, StoreAction, StoreKey, StoreResult};

/// If a session in the store could not be kept from expiring, the next attempt follows after this fraction of its
/// lifetime.
pub(super) const TOUCHES: u32 = 16;

/// Sessions in a store ([`store`](crate::store)), so that every instance with the same store serves them: requests, streams,
/// resumptions, cancellations, and answers to requests of the server reach a session wherever they arrive, and changes
/// that one instance publishes reach the clients of all.
///
/// Each request of a session begins with reading the record of the session. If a request changes the record, its
/// response is sent after the record was written. Events of streams are stored before they are sent. If the store
/// cannot be reached, requests of sessions are answered with 503 and `Retry-After`.
///
/// # Example
///
/// ```
/// use mcp_proto::server::{HttpConfig, SessionMode, StoredSessions};
/// use mcp_proto::InstanceId;
///
/// # let random = 7;
/// let mut http = HttpConfig::new();
/// http.sessions = SessionMode::Stored(StoredSessions::new(InstanceId::new(random)));
/// ```
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct StoredSessions {
    /// The id of this instance among those that share the store.
    pub instance: InstanceId,
    /// How long the store may take for an action, after which it counts as unreachable. Default 5 s.
    pub timeout: Duration,
}

impl StoredSessions {
    /// The configuration of this instance, with the default timeout.
    #[must_use]
    pub const fn new(instance: InstanceId) -> Self {
        Self { instance, timeout: Duration::from_secs(5) }
    }
}

/// A request that waits for its session, with the part of its body that has arrived.
pub(super) struct Arriving {
    pub(super) exchange: ExchangeKey,
    pub(super) head: Box<Parts>,
    pub(super) info: RequestInfo,
    pub(super) body: Vec<u8>,
    /// The request has arrived in full.
    pub(super) is_whole: bool,
}

impl Http {
    /// The id of this instance, if the session is in the store.
    pub(super) fn stored_at(&self, session: SessionKey) -> Option<InstanceId> {
        self.sessions.get(session)?.stored()?;
        Some(self.config.stored()?.instance)
    }

    pub(super) fn stored_mut(&mut self, session: SessionKey) -> Option<&mut StoredSession> {
        self.sessions.get_mut(session)?.stored_mut()
    }

    /// The id of the session whose record has to be read before the request can be admitted.
    pub(super) fn id_to_look_up(&self, head: &Parts, planned: &Result<Plan, Refusal>) -> Option<Box<str>> {
        self.config.stored()?;
        let is_stored = |session| self.sessions.get(session).is_some_and(|session| session.stored().is_some());
        let needs = match planned {
            Ok(plan) => plan.session().is_some_and(is_stored),
            Err(refusal) => *refusal == admission::unknown_session(),
        };
        let id = admission::single(&head.headers, &SESSION_ID).ok()?.filter(|_| needs)?;
        // The store is asked only for a text that can be the id of a session.
        let is_id = id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        // A session that has ended here may still be in the store.
        (is_id && !self.store.ended.contains_key(id)).then(|| id.into())
    }

    pub(super) fn look_up(
        &mut self,
        exchange: ExchangeKey,
        id: &str,
        head: Parts,
        info: RequestInfo,
        output: &mut Output<'_>,
    ) {
        let plan = Plan::LookUp { is_whole: false };
        self.insert_exchange(exchange, Exchange::Receiving { head: Box::new(head), plan, info, body: Vec::new() });
        output.set_timer(HttpTimer::Body(exchange), output.now + self.config.body_timeout);
        let (session, expires_in) = (id.into(), self.config.session_idle);
        self.ask_store(Pending::LookUp(exchange), output, |key| StoreAction::Load { key, session, expires_in });
    }

    pub(super) fn on_looked_up(&mut self, exchange: ExchangeKey, result: StoreResult, output: &mut Output<'_>) {
        let Some(Exchange::Receiving { head, plan: Plan::LookUp { is_whole }, info, body }) =
            self.close_exchange(exchange, output)
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
            // If the session has ended elsewhere, it ends here before the request is refused.
            self.end_if_gone(&id, output);
        }
        let mine = record.filter(|(_, state)| {
            let principal = state.kept.as_ref().and_then(|kept| kept.principal.as_deref());
            principal == info.principal().map(Principal::as_str)
        });
        let arriving = Arriving { exchange, head, info, body, is_whole };
        let Some((version, state)) = mine else {
            output.defer(HttpStep::Admit(arriving));
            return;
        };
        if let Some((session, _)) = self.sessions.of_id(&id) {
            self.update(session, version, state, output);
            output.defer(HttpStep::Admit(arriving));
            return;
        }
        match self.make_room_for_session(&arriving.info.holder(), output) {
            Ok(()) => output.defer(HttpStep::RestoreStored { arriving, version, state }),
            Err(refusal) => {
                let unreadable_id = header_check::unreadable_id(&arriving.head.headers);
                self.refuse(exchange, refusal, unreadable_id, output);
            }
        }
    }

    /// The state in a record; `None` if this version cannot read it, or does not serve its revision, or if no server has
    /// written it.
    pub(super) fn read_record(&self, record: &Record) -> Option<SessionState> {
        if !(1..=LAST_NUMBER).contains(&record.version) {
            return None;
        }
        let state = SessionState::read(record.bytes.to_vec())?;
        (state.kept.is_some() && self.versions.contains(state.version)).then_some(state)
    }

    pub(super) fn restore_stored(
        &mut self,
        arriving: Arriving,
        version: u64,
        state: SessionState,
        output: &mut Output<'_>,
    ) {
        let id = admission::single(&arriving.head.headers, &SESSION_ID).ok().flatten();
        let kind = SessionKind::Stored(StoredSession::new(state.clone(), version));
        let session = id.and_then(|id| self.sessions.restore(id, kind, state.version, &arriving.info, output.now));
        if let Some(session) = session {
            output.set_timer(HttpTimer::Idle(session), output.now + self.config.session_idle / 2);
            output.inbound.push_back(Inbound::Restored { session, state });
        }
        output.defer(HttpStep::Admit(arriving));
    }

    /// Keeps a session that is in use for long from expiring in the store, with the streams of its requests.
    pub(super) fn touch_stored(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get(session) else { return };
        let (id, expires_in) = (found.id.clone(), self.config.session_idle);
        let streams: Vec<_> = found.streams.keys().copied().collect();
        self.ask_store(Pending::Touch(session), output, |key| StoreAction::Load { key, session: id, expires_in });
        for of in streams {
            self.touch_stream(session, of, output);
        }
    }

    pub(super) fn on_touched(&mut self, session: SessionKey, result: StoreResult, output: &mut Output<'_>) {
        match result {
            StoreResult::Loaded(Some(record)) => {
                if let Some(state) = self.read_record(&record) {
                    self.update(session, record.version, state, output);
                }
                self.close_stream_again(session, output);
            }
            StoreResult::Loaded(None) => self.end_gone(session, output),
            StoreResult::Done
            | StoreResult::Conflict
            | StoreResult::Events(_)
            | StoreResult::Found(_)
            | StoreResult::Failed => {
                output.set_timer(HttpTimer::Idle(session), output.now + self.config.session_idle / TOUCHES);
            }
        }
    }

    /// A client ends its session by DELETE.
    pub(super) fn forget(&mut self, exchange: ExchangeKey, session: SessionKey, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get(session) else { return };
        let id = found.id.clone();
        let then = Then::Respond(empty(StatusCode::NO_CONTENT));
        self.insert_exchange(exchange, Exchange::Storing { asked: Asked::InSession(session), then });
        let pending = Pending::Forget(session, exchange);
        self.ask_store(pending, output, |key| StoreAction::Forget { key, session: id });
    }

    pub(super) fn on_forgotten(
        &mut self,
        session: SessionKey,
        exchange: ExchangeKey,
        result: &StoreResult,
        output: &mut Output<'_>,
    ) {
        let unreadable_id = self.unreadable_id(session);
        let closed = self.close_exchange(exchange, output);
        if *result == StoreResult::Done {
            self.send_to_all(session, Notice::Ended, output);
            self.end_gone(session, output);
            if let Some(Exchange::Storing { then: Then::Respond(response), .. }) = closed {
                output.defer(HttpStep::Respond { exchange, response });
            }
        } else if closed.is_some() {
            self.refuse(exchange, admission::store_unavailable(), unreadable_id, output);
        }
    }

    /// Ends a session everywhere, because it has ended here for good.
    pub(super) fn forget_ended(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let is_written = self.stored_mut(session).is_some_and(|stored| stored.version > 0);
        let Some(found) = self.sessions.get(session).filter(|_| is_written && self.stage != Stage::Closed) else {
            return;
        };
        let id = found.id.clone();
        if self.store.ended.len() < self.config.max_sessions {
            self.store.ended.insert(id.clone(), output.now + self.config.session_idle);
        }
        self.end_record(id, output);
    }

    /// Removes the record of a session that has ended, and notifies the other instances.
    fn end_record(&mut self, id: Arc<str>, output: &mut Output<'_>) {
        self.send_notice_for(None, &id, Notice::Ended, output);
        let mut asked = None;
        self.ask_store(Pending::End, output, |key| {
            asked = Some(key);
            StoreAction::Forget { key, session: id.clone() }
        });
        if let Some(key) = asked {
            self.store.ending.insert(key, id);
        }
    }

    /// The store has removed a record, or has failed. After a failure, it is asked again until the record must have
    /// expired.
    pub(super) fn on_record_ended(&mut self, key: StoreKey, result: &StoreResult, output: &mut Output<'_>) {
        let Some(id) = self.store.ending.get(&key) else { return };
        let is_over = *result == StoreResult::Done || self.stage == Stage::Closed;
        let until = self.store.ended.get(id).copied().filter(|until| !is_over && *until > output.now);
        match (until, self.config.stored()) {
            (Some(until), Some(stored)) => {
                output.set_timer(HttpTimer::End(key), until.min(output.now + stored.timeout));
            }
            (None, _) | (_, None) => {
                if let Some(id) = self.store.ending.remove(&key) {
                    self.store.ended.remove(&id);
                }
            }
        }
    }

    /// The removal of a record is tried again.
    pub(super) fn end_record_again(&mut self, key: StoreKey, output: &mut Output<'_>) {
        if let Some(id) = self.store.ending.remove(&key) {
            self.end_record(id, output);
        }
    }

    /// Ends a session here that is not in the store any more.
    fn end_if_gone(&mut self, id: &str, output: &mut Output<'_>) {
        let Some((session, found)) = self.sessions.of_id(id) else { return };
        // A session that is being opened is not in the store yet.
        if found.stored().is_some_and(|stored| stored.version > 0) {
            self.end_gone(session, output);
        }
    }

    /// Ends a session here that was ended elsewhere.
    pub(super) fn end_gone(&mut self, session: SessionKey, output: &mut Output<'_>) {
        self.fail_changes(session, admission::unknown_session, output);
        self.finish_readers(session, admission::unknown_session, output);
        if let Some(found) = self.sessions.get_mut(session) {
            found.kind = SessionKind::Memory;
            output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Peer });
        }
    }
}
