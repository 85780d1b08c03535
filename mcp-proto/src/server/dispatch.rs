//! Handles what a transport has received: finds the session or the stateless requests that it belongs to.

use super::session::{Phase, Session, Source};
use super::shared::Shared;
use super::snapshot::SessionState;
use super::stateless::Stateless;
use super::transport::{Envelope, Inbound, ReplyTo, ServerTimer, ServerTransport, TransportNotice, TransportOutput};
use super::{Event, Server};
use crate::Instant;
use crate::conversation::cancellation;
use crate::conversation::keys::{SessionKey, TicketKey};
use crate::conversation::outcome::CloseReason;
use crate::error::Fault;
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, ParseError, Request};
use crate::spec::{Method, code};

impl<T: ServerTransport> Server<T> {
    /// Handles all that the transport has received, and lets the transport continue after it.
    pub(super) fn settle(&mut self, now: Instant) {
        while let Some(inbound) = self.inbound.pop_front() {
            self.on_inbound(inbound, now);
        }
        self.close_if_drained(now);
    }

    pub(super) fn with_transport<R>(
        &mut self,
        now: Instant,
        call: impl FnOnce(&mut T, &mut TransportOutput<'_, T>) -> R,
    ) -> R {
        let Self { transport, out, inbound, timers, .. } = self;
        call(transport, &mut TransportOutput { out, inbound, timers, now })
    }

    /// Notifies the transport of what has become of a session, or of the server.
    pub(super) fn notice(&mut self, notice: TransportNotice<'_>, now: Instant) {
        self.with_transport(now, |transport, output| transport.on_notice(notice, output));
    }

    pub(super) fn on_inbound(&mut self, inbound: Inbound<T::Step>, now: Instant) {
        match inbound {
            Inbound::Opened { session, request } => self.on_opened(session, request, now),
            Inbound::Restored { session, state } => self.on_restored(session, &state, now),
            Inbound::Updated { session, state } => {
                let (session, _, shared) = &mut self.split_at(session, now);
                if let Some(session) = session {
                    session.set_all(&state, shared);
                }
            }
            // A later version may publish changes that this version does not know.
            Inbound::Published(change) => drop(self.publish_here(&change, now)),
            Inbound::Message { session, message, reply_to } => {
                self.on_message(session, message, Source { reply_to, batch: None }, now);
            }
            Inbound::Batch { session, items, reply_to } => self.on_batch(session, items, reply_to, now),
            Inbound::Invalid { session, error, reply_to } => {
                let (session, _, shared) = &mut self.split_at(session, now);
                if let Some(session) = session {
                    session.on_invalid(&error, Source { reply_to, batch: None }, shared);
                }
            }
            Inbound::TooLong { session, subject } => {
                let (session, _, shared) = &mut self.split_at(session, now);
                if let Some(session) = session {
                    session.on_too_long(subject, Source::default(), shared);
                }
            }
            Inbound::Stateless { request, meta, envelope, reply_to } => {
                let (_, stateless, shared) = &mut self.split(now);
                stateless.on_request(request, meta, *envelope, reply_to, None, shared);
            }
            Inbound::Sessionless { request, version, principal, reply_to } => {
                let (_, stateless, shared) = &mut self.split(now);
                stateless.on_sessionless(request, version, principal, reply_to, shared);
            }
            Inbound::Disconnected { reply_to } => {
                let (_, stateless, shared) = &mut self.split(now);
                stateless.on_disconnect(reply_to, shared);
            }
            Inbound::Ended { session, reason } => self.end_session(session, reason, now),
            Inbound::Step(step) => self.with_transport(now, |transport, output| transport.proceed(step, output)),
        }
    }

    fn on_opened(&mut self, key: SessionKey, request: Option<(Request, ReplyTo)>, now: Instant) {
        let session = Session::new(key, self.transport.sharing(Some(key)).instance, &self.config().limits);
        self.sessions.insert(key, Box::new(session));
        let Some((request, reply_to)) = request else { return };
        self.on_message(key, Message::Request(request), Source { reply_to, batch: None }, now);
        // If `initialize` was refused, there is no session.
        if self.sessions.get(&key).is_some_and(|session| session.phase == Phase::Awaiting) {
            self.sessions.remove(&key);
            self.notice(TransportNotice::Ended(key, CloseReason::Local), now);
        }
    }

    fn on_restored(&mut self, key: SessionKey, state: &SessionState, now: Instant) {
        let mut session = Session::new(key, self.transport.sharing(Some(key)).instance, &self.config().limits);
        let version = state.version;
        let next_request = self.next_request;
        session.continue_from(state, next_request, &mut self.split(now).2);
        self.sessions.insert(key, Box::new(session));
        self.out.report(Event::Restored { session: key, version });
    }

    /// Ends a session whose `initialize` the application has answered with an error: over HTTP, its client has no id for
    /// it.
    pub(super) fn end_unopened(&mut self, session: Option<SessionKey>, now: Instant) {
        if T::IS_ONE_CONNECTION {
            return;
        }
        let Some(session) = session.and_then(|session| self.sessions.get(&session)) else { return };
        if session.phase == Phase::Awaiting && session.incoming.len() == 0 {
            self.end_session(session.key, CloseReason::Local, now);
        }
    }

    pub(super) fn on_message(&mut self, session: SessionKey, message: Message, source: Source, now: Instant) {
        let (session, stateless, shared) = &mut self.split_at(session, now);
        let Some(session) = session else { return };
        match message {
            Message::Request(request) => on_request(session, stateless, request, source, shared),
            Message::Notification(notification) => {
                if shared.check_members(notification.params.as_ref()).is_err() {
                    return;
                }
                // A reader that looks only at the method could serve it as a request that was not checked (JR-11).
                if notification.method.is_request() {
                    shared.fault(Fault::MissingId { method: notification.method });
                } else if notification.method == Method::CANCELLED {
                    on_cancelled(session, stateless, notification.params.as_ref(), shared);
                } else {
                    session.on_notification(notification, shared);
                }
            }
            Message::Response(response) => session.on_response(response, shared),
        }
    }

    fn on_batch(&mut self, key: SessionKey, items: Vec<Result<Message, ParseError>>, reply_to: ReplyTo, now: Instant) {
        let (session, _, shared) = &mut self.split_at(key, now);
        let Some(session) = session else { return };
        if !session.version.is_some_and(|version| version.rules().batches) {
            // The negotiated revision has no batches (JR-37, JR-38).
            shared.fault(Fault::UnexpectedBatch);
            let error = ErrorObject::new(code::INVALID_REQUEST, &Fault::UnexpectedBatch.to_string());
            return session.refuse(None, error, Source { reply_to, batch: None }, shared);
        }
        let batch = session.batches.begin();
        let source = Source { reply_to, batch: Some(batch) };
        for item in items {
            match item {
                Ok(message) => self.on_message(key, message, source, now),
                Err(error) => {
                    let (session, _, shared) = &mut self.split_at(key, now);
                    if let Some(session) = session {
                        session.on_invalid(&error, source, shared);
                    }
                }
            }
        }
        let (session, _, shared) = &mut self.split_at(key, now);
        if let Some(session) = session {
            session.settle_batch(batch, None, reply_to, shared);
        }
    }

    /// Ends a session. The one of a byte stream remains, so that its revision is still known.
    pub(super) fn end_session(&mut self, key: SessionKey, reason: CloseReason, now: Instant) {
        if T::IS_ONE_CONNECTION {
            self.end_drain();
        }
        let (session, stateless, shared) = &mut self.split_at(key, now);
        if let Some(session) = session {
            close(session, stateless, reason, shared);
        }
        if !T::IS_ONE_CONNECTION {
            if let Some(session) = self.sessions.remove(&key) {
                self.next_request = self.next_request.max(session.next_request());
            }
            self.served_sessions.remove(&key);
        }
    }

    /// The application has answered a request.
    pub(super) fn on_answered(&mut self, is_stateless: bool, now: Instant) {
        if T::IS_ONE_CONNECTION && is_stateless {
            // An early confirmation takes effect with the next answer on the connection or not at all.
            let (session, _, shared) = &mut self.split_at(SessionKey::FIRST, now);
            if let Some(session) = session {
                session.take_early_confirmation(shared);
            }
        }
        self.close_if_drained(now);
    }

    /// Closes a server that is draining, or the session of a byte stream whose input has ended (FR15), as soon as all
    /// requests are answered.
    pub(super) fn close_if_drained(&mut self, now: Instant) {
        if self.usage.requests > 0 {
            return;
        }
        if self.is_draining {
            if self.transport.is_drained() {
                self.close(now);
            }
        } else if T::IS_ONE_CONNECTION {
            self.close_if_input_ended(now);
        }
    }

    /// Ends the session of a byte stream if its input has ended.
    pub(super) fn close_if_input_ended(&mut self, now: Instant) {
        let key = SessionKey::FIRST;
        if self.sessions.get(&key).is_some_and(|session| session.input_ended) {
            self.end_session(key, CloseReason::Peer, now);
        }
    }
}

fn on_request<T: ServerTransport>(
    session: &mut Session,
    stateless: &mut Stateless,
    request: Request,
    source: Source,
    shared: &mut Shared<'_, T>,
) {
    if !T::IS_ONE_CONNECTION {
        return session.on_request(request, source, false, shared);
    }
    let Some(meta) = session.stateless_meta(&request, shared) else {
        let is_duplicate = stateless.incoming.is_in_use(&request.id);
        return session.on_request(request, source, is_duplicate, shared);
    };
    if source.batch.is_some() {
        // The revisions of stateless requests have no batches (JR-38).
        let error = ErrorObject::new(code::INVALID_REQUEST, "a request of this revision in a batch");
        return session.refuse(Some(request.id), error, source, shared);
    }
    stateless.on_request(request, meta, Envelope::NONE, source.reply_to, Some(&*session), shared);
}

/// The client cancels a request. A malformed notification or an unknown id is ignored (CX-03).
fn on_cancelled<T: ServerTransport>(
    session: &mut Session,
    stateless: &mut Stateless,
    params: Option<&Json>,
    shared: &mut Shared<'_, T>,
) {
    let Some(id) = params.and_then(cancellation::cancelled_id) else { return };
    // If several requests have this id, it is ambiguous, so that all of them are cancelled (RP4).
    let mut tickets = session.incoming.with_id(&id);
    if T::IS_ONE_CONNECTION {
        tickets.extend(stateless.incoming.with_id(&id));
        tickets.sort_unstable_by_key(|ticket| ticket.number());
    }
    for ticket in tickets {
        match ticket.session() {
            Some(_) => session.cancel(ticket, params, shared),
            None => stateless.cancel(ticket, params, shared),
        }
    }
    // On a byte stream, a client ends a subscription by cancelling it (MD-L-08).
    if T::IS_ONE_CONNECTION {
        for listen in stateless.listens.with_id(&id) {
            stateless.unlisten(listen, shared);
        }
    }
}

/// Answers all open requests of a session with an error and ends all requests to the client and subscriptions, because
/// each request has exactly one outcome (invariant 1). On a byte stream, this includes the stateless requests.
fn close<T: ServerTransport>(
    session: &mut Session,
    stateless: &mut Stateless,
    reason: CloseReason,
    shared: &mut Shared<'_, T>,
) {
    if !session.begin_close() {
        return;
    }
    let mut tickets = session.incoming.keys();
    if T::IS_ONE_CONNECTION {
        tickets.extend(stateless.incoming.keys());
        tickets.sort_unstable_by_key(|ticket| ticket.number());
    }
    for ticket in tickets {
        refuse_open(session, stateless, ticket, shared);
    }
    session.fail_pending(shared);
    if T::IS_ONE_CONNECTION {
        stateless.end_listens(shared);
    }
    session.end_subscriptions(shared);
    shared.output.timers.clear(ServerTimer::InputEnded);
    shared.notice(TransportNotice::Ended(session.key, reason));
    shared.report(Event::Closed { session: session.key, reason });
}

fn refuse_open<T: ServerTransport>(
    session: &mut Session,
    stateless: &mut Stateless,
    ticket: TicketKey,
    shared: &mut Shared<'_, T>,
) {
    match ticket.session() {
        Some(_) => session.refuse_open(ticket, shared),
        None => stateless.refuse_open(ticket, shared),
    }
}
