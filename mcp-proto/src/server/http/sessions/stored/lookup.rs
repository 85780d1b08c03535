//! Sessions in a store that the instances of a server share: how a request finds its session, and how sessions end.
//!
//! ```text
//!   request ──▶ LookUp ── Load ──▶ restored or updated here ──▶ admitted as any request
//!                                                                  │ changes a setting, opens or ends the session
//!                                                                  ▼
//!                           response ◀── Done ── Save, Forget ◀── Storing
//! ```

use std::sync::Arc;

use http::StatusCode;
use http::request::Parts;

use crate::conversation::keys::SessionKey;
use crate::conversation::outcome::CloseReason;
use crate::json::Json;
use crate::server::http::exchange::refusal::{Refusal, empty};
use crate::server::http::exchange::{head, header_check};
use crate::server::http::purpose::{Asked, Exchange, Then};
use crate::server::http::sessions::Arriving;
use crate::server::http::sessions::session::SessionKind;
use crate::server::http::sessions::stored::instances::Notice;
use crate::server::http::sessions::stored::pending::{Pending, TOUCHES};
use crate::server::http::sessions::stored::record::StoredSession;
use crate::server::http::{ExchangeKey, Http, HttpStep, HttpTimer, Output, Plan, RequestInfo, Stage};
use crate::server::principal::Principal;
use crate::server::snapshot::{GetStreamPlace, Kept, SessionState};
use crate::server::transport::Inbound;
use crate::spec::header::SESSION_ID;
use crate::store::{LAST_NUMBER, Record, StoreAction, StoreKey, StoreResult};

impl Http {
    /// A session is opened here. Its record is written before the client receives its id.
    pub(crate) fn store_opened(&mut self, session: SessionKey, client: Option<&Json>) {
        let (Some(config), Some(found)) = (self.config.stored(), self.sessions.get_mut(session)) else { return };
        let Some(version) = found.version else { return };
        let kept = Kept {
            principal: found.principal.as_ref().map(|principal| principal.as_str().into()),
            get_stream: found.get_stream.tag(),
            place: Some(GetStreamPlace { instance: config.instance, is_open: false, sent: 0 }),
            next_request: 0,
            next_event: 0,
        };
        let state = SessionState { kept: Some(kept), ..SessionState::opened(version, client.cloned()) };
        found.kind = SessionKind::Stored(StoredSession::new(state, 0));
    }

    /// The id of the session whose record has to be read before the request can be admitted.
    pub(crate) fn id_to_look_up(&self, head: &Parts, planned: &Result<Plan, Refusal>) -> Option<Box<str>> {
        self.config.stored()?;
        let is_stored = |session| self.sessions.get(session).is_some_and(|session| session.stored().is_some());
        let needs = match planned {
            Ok(plan) => plan.session().is_some_and(is_stored),
            Err(refusal) => *refusal == Refusal::unknown_session(),
        };
        let id = head::single(&head.headers, &SESSION_ID).ok()?.filter(|_| needs)?;
        // The store is asked only for a text that can be the id of a session.
        let is_id = id.len() == 32 && id.bytes().all(|byte| matches!(byte, b'0'..=b'9' | b'a'..=b'f'));
        // A session that has ended here may still be in the store.
        (is_id && !self.store.ended.contains_key(id)).then(|| id.into())
    }

    pub(crate) fn look_up(
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

    pub(crate) fn on_looked_up(&mut self, exchange: ExchangeKey, result: StoreResult, output: &mut Output<'_>) {
        let Some(Exchange::Receiving { head, plan: Plan::LookUp { is_whole }, info, body }) =
            self.close_exchange(exchange, output)
        else {
            return;
        };
        let StoreResult::Loaded(record) = result else {
            let unreadable_id = header_check::unreadable_id(&head.headers);
            return self.exchanges.refuse(exchange, Refusal::store_unavailable(), unreadable_id, output);
        };
        let id = head::single(&head.headers, &SESSION_ID).ok().flatten().map(Box::<str>::from);
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
                self.exchanges.refuse(exchange, refusal, unreadable_id, output);
            }
        }
    }

    /// The state in a record; `None` if this version cannot read it, or does not serve its revision, or if no server has
    /// written it.
    pub(crate) fn read_record(&self, record: &Record) -> Option<SessionState> {
        if !(1..=LAST_NUMBER).contains(&record.version) {
            return None;
        }
        let state = SessionState::read(record.bytes.to_vec())?;
        (state.kept.is_some() && self.versions.contains(state.version)).then_some(state)
    }

    pub(crate) fn restore_stored(
        &mut self,
        arriving: Arriving,
        version: u64,
        state: SessionState,
        output: &mut Output<'_>,
    ) {
        let id = head::single(&arriving.head.headers, &SESSION_ID).ok().flatten();
        let kind = SessionKind::Stored(StoredSession::new(state.clone(), version));
        let session = id.and_then(|id| self.sessions.restore(id, kind, state.version, &arriving.info, output.now));
        if let Some(session) = session {
            output.set_timer(HttpTimer::Idle(session), output.now + self.config.session_idle / 2);
            output.inbound.push_back(Inbound::Restored { session, state });
        }
        output.defer(HttpStep::Admit(arriving));
    }

    /// Keeps a session that is in use for long from expiring in the store, with the streams of its requests.
    pub(crate) fn touch_stored(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get(session) else { return };
        let (id, expires_in) = (found.id.clone(), self.config.session_idle);
        let streams: Vec<_> = found.streams.keys().copied().collect();
        self.ask_store(Pending::Touch(session), output, |key| StoreAction::Load { key, session: id, expires_in });
        for of in streams {
            self.touch_stream(session, of, output);
        }
    }

    pub(crate) fn on_touched(&mut self, session: SessionKey, result: StoreResult, output: &mut Output<'_>) {
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
    pub(crate) fn forget(&mut self, exchange: ExchangeKey, session: SessionKey, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get(session) else { return };
        let id = found.id.clone();
        let then = Then::Respond(empty(StatusCode::NO_CONTENT));
        self.insert_exchange(exchange, Exchange::Storing { asked: Asked::InSession(session), then });
        let pending = Pending::Forget(session, exchange);
        self.ask_store(pending, output, |key| StoreAction::Forget { key, session: id });
    }

    pub(crate) fn on_forgotten(
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
            self.exchanges.refuse(exchange, Refusal::store_unavailable(), unreadable_id, output);
        }
    }

    /// The exchange of a request, or of a stream that is read from the store, has ended.
    pub(crate) fn end_stored_exchange(&mut self, key: ExchangeKey, exchange: &Exchange, output: &mut Output<'_>) {
        output.clear_timer(HttpTimer::Poll(key));
        self.take_task_request(key);
        let Some(mut reader) = self.store.readers.remove(&key) else { return };
        reader.replaces = reader.replaces.filter(|old| self.store.readers.contains_key(old));
        let was_open = matches!(exchange, Exchange::Streaming(_));
        let Some(session) = exchange.session() else { return };
        let Some(stored) = self.stored_mut(session) else { return };
        if stored.on_reader_closed(key, &reader, was_open) {
            output.defer(HttpStep::RecordClosedStream(session));
        }
    }

    /// A session has ended here. If it `may_return`, it goes on at other instances.
    pub(crate) fn end_stored(&mut self, session: SessionKey, may_return: bool, output: &mut Output<'_>) {
        if !may_return {
            self.forget_ended(session, output);
        }
        // A session in the store goes on when this instance is stopped.
        let refusal = if self.stage == Stage::Closed { Refusal::stopped } else { Refusal::unknown_session };
        self.fail_changes(session, refusal, output);
        self.end_appending(session, output);
        self.finish_readers(session, refusal, output);
    }

    /// Ends a session everywhere, because it has ended here for good.
    pub(crate) fn forget_ended(&mut self, session: SessionKey, output: &mut Output<'_>) {
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
    pub(crate) fn on_record_ended(&mut self, key: StoreKey, result: &StoreResult, output: &mut Output<'_>) {
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
    pub(crate) fn end_record_again(&mut self, key: StoreKey, output: &mut Output<'_>) {
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
    pub(crate) fn end_gone(&mut self, session: SessionKey, output: &mut Output<'_>) {
        self.fail_changes(session, Refusal::unknown_session, output);
        self.finish_readers(session, Refusal::unknown_session, output);
        if let Some(found) = self.sessions.get_mut(session) {
            found.kind = SessionKind::Memory;
            output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Peer });
        }
    }
}
