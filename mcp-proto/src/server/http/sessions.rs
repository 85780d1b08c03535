//! Sessions over HTTP: how they are opened, found and ended, wherever their state is.
//!
//! How a session is opened and ended, at the limit and after its idle time, is in this file.
//!
//! | file | what it does |
//! |---|---|
//! | `session` | sessions by their ids, and what is stored for each |
//! | `named_session` | which session a request names, and what it does there |
//! | `streams` | the streams of a session, and how messages are written to them (in a store: `stored/append`) |
//! | `get` | streams that clients open by GET |
//! | `sealed` | sessions whose ids contain their state |
//! | `stored` | sessions in a store that instances share |
//! | `snapshot` | sessions as values |
//! | `open_sessions` | the open sessions of a server at one moment |

pub(crate) mod get;
pub(crate) mod named_session;
pub(crate) mod open_sessions;
pub(crate) mod sealed;
pub(crate) mod session;
pub(crate) mod snapshot;
pub(crate) mod stored;
pub(crate) mod streams;

use http::StatusCode;
use http::request::Parts;

use self::sealed::Nonce;
use self::session::SessionKind;
use self::stored::record::StoredSession;
use crate::conversation::keys::{InstanceId, SessionKey};
use crate::conversation::outcome::CloseReason;
use crate::json::Json;
use crate::server::http::config::SessionMode;
use crate::server::http::exchange::refusal::Refusal;
use crate::server::http::exchange::request_info::RequestInfo;
use crate::server::http::exchange::{ExchangeKey, head, header_check};
use crate::server::http::{Http, HttpStep, HttpTimer, Output, Stage};
use crate::server::shares::Holder;
use crate::server::snapshot::SessionState;
use crate::server::transport::{Inbound, ReplyTo};
use crate::spec::header::SESSION_ID;

/// How many unused sessions or streams are checked to find one that can be ended.
pub(crate) const CANDIDATES: usize = 16;

/// A request that waits for its session, with the part of its body that has arrived.
pub(crate) struct Arriving {
    pub(crate) exchange: ExchangeKey,
    pub(crate) head: Box<Parts>,
    pub(crate) info: RequestInfo,
    pub(crate) body: Vec<u8>,
    /// The request has arrived in full.
    pub(crate) is_whole: bool,
}

impl Http {
    /// The kind of a session over Streamable HTTP that this request opens. Its record is written to the store, or its
    /// state put into its id, when its revision is known.
    pub(crate) fn kind_of_new_session(&self, info: &RequestInfo) -> SessionKind {
        match &self.config.sessions {
            SessionMode::Sealed(_) => SessionKind::Unsealed { nonce: info.session_nonce(), opened: info.unix_time },
            SessionMode::None | SessionMode::InMemory | SessionMode::Stored(_) => SessionKind::Memory,
        }
    }

    pub(crate) fn open_session(
        &mut self,
        info: &RequestInfo,
        kind: SessionKind,
        output: &mut Output<'_>,
    ) -> Result<SessionKey, Refusal> {
        let collision = Refusal::new(StatusCode::INTERNAL_SERVER_ERROR, "no unique session id could be created");
        let key = self.sessions.open(info, kind, output.now).ok_or(collision)?;
        // A session in the store must be renewed there before it expires.
        let idle = self.config.session_idle;
        output
            .set_timer(HttpTimer::Idle(key), output.now + if self.config.stored().is_some() { idle / 2 } else { idle });
        Ok(key)
    }

    /// The id of this instance, if the session is in the store.
    pub(crate) fn stored_at(&self, session: SessionKey) -> Option<InstanceId> {
        self.sessions.get(session)?.stored()?;
        Some(self.config.stored()?.instance)
    }

    pub(crate) fn stored_mut(&mut self, session: SessionKey) -> Option<&mut StoredSession> {
        self.sessions.get_mut(session)?.stored_mut()
    }

    /// The state that the session id of a request contains, if it belongs to the sender and was not ended here.
    pub(crate) fn sealed_state(&self, head: &Parts, info: &RequestInfo) -> Option<(Nonce, SessionState)> {
        let (sealed, now) = (self.config.sealed()?, info.unix_time?);
        let id = head::single(&head.headers, &SESSION_ID).ok()??;
        let (nonce, state) = sealed.open(id, info.principal(), now)?;
        // Another instance may serve other revisions.
        (!self.sessions.has_ended(&nonce) && self.versions.contains(state.version)).then_some((nonce, state))
    }

    /// A request names a session that another instance has opened, or that was ended here for lack of use.
    pub(crate) fn make_room_to_restore(
        &mut self,
        exchange: ExchangeKey,
        head: Parts,
        info: RequestInfo,
        nonce: Nonce,
        state: SessionState,
        output: &mut Output<'_>,
    ) {
        match self.make_room_for_session(&info.holder(), output) {
            Ok(()) => {
                let head = Box::new(head);
                let arriving = Arriving { exchange, head, info, body: Vec::new(), is_whole: false };
                output.defer(HttpStep::Restore { arriving, nonce, state });
            }
            Err(refusal) => {
                self.exchanges.refuse(exchange, refusal, header_check::unreadable_id(&head.headers), output);
            }
        }
    }

    pub(crate) fn restore(&mut self, arriving: Arriving, nonce: Nonce, state: SessionState, output: &mut Output<'_>) {
        let id = arriving.head.headers.get(SESSION_ID).and_then(|id| id.to_str().ok());
        let kind = SessionKind::Sealed { nonce };
        let session = id.and_then(|id| self.sessions.restore(id, kind, state.version, &arriving.info, output.now));
        if let Some(session) = session {
            output.set_timer(HttpTimer::Idle(session), output.now + self.config.session_idle);
            output.inbound.push_back(Inbound::Restored { session, state });
        }
        output.defer(HttpStep::Admit(arriving));
    }

    /// Admits a request after the search for its session, with the part of its body that has arrived.
    pub(crate) fn admit(&mut self, arriving: Arriving, output: &mut Output<'_>) {
        let Arriving { exchange, head, info, body, is_whole } = arriving;
        let planned = self.planned(&head, &info);
        self.on_planned(exchange, planned, *head, info, output);
        // The body was within the limits when it arrived.
        if self.exchanges.append(exchange, &body, 0).is_ok() && is_whole {
            self.on_body_end(exchange, output);
        }
    }

    /// Ends an unused session at the limit, so that idle sessions cannot lock out new ones (M4).
    pub(crate) fn make_room_for_session(&mut self, newcomer: &Holder, output: &mut Output<'_>) -> Result<(), Refusal> {
        if self.stage != Stage::Serving {
            return Err(Refusal::stopped());
        }
        if self.sessions.len() < self.config.max_sessions {
            return Ok(());
        }
        // A disconnected client may have a request that is still being served (SH-S-16).
        let is_idle = |key: &SessionKey| self.sessions.get(*key).is_none_or(|session| !session.is_serving);
        let candidates = self.sessions.to_evict(newcomer, self.config.evict_after, output.now).take(CANDIDATES);
        let session = candidates.into_iter().find(is_idle).ok_or(Refusal::too_many_sessions())?;
        output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Expired });
        Ok(())
    }

    pub(crate) fn on_idle(&mut self, session: SessionKey, output: &mut Output<'_>) {
        let Some(found) = self.sessions.get(session) else { return };
        let (now, idle) = (output.now, self.config.session_idle);
        let is_busy = found.exchanges > 0 || found.is_serving;
        let ends = if is_busy { now + idle } else { found.last_active + idle };
        if ends > now {
            let stored = found.stored();
            // The store does not know that the session is in use, or was until not long ago.
            let is_touched =
                stored.is_some_and(|stored| is_busy || found.last_active + idle / 2 > now || stored.closed.is_some());
            output.set_timer(HttpTimer::Idle(session), if stored.is_some() { ends.min(now + idle / 2) } else { ends });
            if is_touched {
                self.touch_stored(session, output);
            }
        } else {
            output.inbound.push_back(Inbound::Ended { session, reason: CloseReason::Expired });
        }
    }

    /// A session was opened by a client that has stated this about itself. The answer to its `initialize` follows.
    pub(crate) fn on_opened(&mut self, session: SessionKey, client: Option<&Json>) {
        let Some(found) = self.sessions.get(session) else { return };
        let Some(version) = found.version else { return };
        match (&found.kind, self.config.sealed()) {
            (SessionKind::Memory, _) if self.config.stored().is_some() => self.store_opened(session, client),
            (&SessionKind::Unsealed { nonce, opened: Some(opened) }, Some(sealed)) => {
                let state = SessionState::opened(version, client.cloned());
                if let Some(id) = sealed.seal(&nonce, found.principal.as_ref(), &state, opened) {
                    self.sessions.seal(session, nonce, &id);
                }
            }
            (
                SessionKind::Memory
                | SessionKind::Unsealed { .. }
                | SessionKind::Sealed { .. }
                | SessionKind::Stored(_)
                | SessionKind::TwoEndpoints { .. },
                _,
            ) => {}
        }
    }

    /// A session has unanswered requests from now on, or has none any more.
    pub(crate) fn set_serving(&mut self, session: SessionKey, is_serving: bool) {
        if let Some(session) = self.sessions.get_mut(session) {
            session.is_serving = is_serving;
        }
    }

    /// Ends the response of a request that is still being served, if its client can resume the stream.
    pub(crate) fn release(&mut self, session: SessionKey, reply_to: ReplyTo, output: &mut Output<'_>) {
        let Some(key) = ExchangeKey::from_reply(reply_to) else { return };
        let version = self.sessions.get(session).and_then(|session| session.version);
        let has_ids = version.is_some_and(|version| version.rules().resumable && version.rules().priming_event);
        if self.config.replay == 0 || !has_ids {
            return;
        }
        self.begin_stream(session, key, output);
        if self.sessions.is_stored(session) {
            return self.release_append(session, key, output);
        }
        // After a resumption, the stream is on another exchange.
        let stream = self.sessions.get(session).and_then(|session| session.streams.get(&key));
        if let Some(exchange) = stream.and_then(|stream| stream.exchange) {
            self.finish(exchange, output);
        }
    }

    /// A session has ended. All its open requests have been answered before.
    pub(crate) fn on_ended(&mut self, session: SessionKey, reason: CloseReason, output: &mut Output<'_>) {
        // The client of an unused session may return with an id that contains its state.
        let may_return = reason == CloseReason::Expired;
        if self.config.stored().is_some() {
            self.end_stored(session, may_return, output);
        }
        let Some(ended) = self.sessions.remove(session, may_return, self.config.max_sessions) else { return };
        output.clear_timer(HttpTimer::Idle(session));
        for key in ended.streams.keys() {
            output.clear_timer(HttpTimer::Forget(session, *key));
            self.unclaimed.remove(&(session, *key));
        }
        let open = ended.streams.values().chain([&ended.get_stream]).filter_map(|stream| stream.exchange);
        for exchange in open.collect::<Vec<_>>() {
            self.finish(exchange, output);
        }
    }

    /// Writes to the store what the client has set with a request whose response is not sent, or is a stream.
    pub(crate) fn keep_settings_of(&mut self, session: SessionKey, exchange: ExchangeKey, output: &mut Output<'_>) {
        if self.sessions.is_stored(session) {
            self.store_settings_of(session, exchange, output);
        }
    }
}
