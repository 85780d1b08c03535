//! The session with the server: begun, accepted, lost, ended (RULES 4.1, 5.3).

use http::response::Parts;
use http::{HeaderMap, StatusCode};

use super::delivery::{Deliveries, DeliveryKey, Queue};
use super::exchange::{Exchange, OpenedIn, Purpose};
use super::headers::{Common, SessionId, refusal};
use super::lost_session::is_gone;
use super::{Http, HttpTimer};
use crate::Instant;
use crate::auth::Credentials;
use crate::client::transport::{Inbound, Role, TransportOutput};
use crate::error::{Failed, Fault, Quirk};
use crate::spec::ProtocolVersion;

/// The session, which the server may lose and the client then opens again.
///
/// ```text
/// Opening ◀───────▶ Ready
///    │     lost       │
///    └───────┬────────┘ close
///            ▼
///        Flushing ──▶ Ending ──▶ Closed
/// ```
#[derive(Debug)]
pub(super) struct HttpSession {
    phase: SessionPhase,
    id: Option<SessionId>,
    /// The id of the session before.
    former_id: Option<SessionId>,
    /// The id in the response to `initialize`, until the result is accepted.
    offered: Option<SessionId>,
    version: Option<ProtocolVersion>,
    /// The number of sessions so far.
    generation: u64,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum SessionPhase {
    /// The handshake is not over.
    Opening,
    Ready,
    /// The connection ends: notifications and answers are still being delivered, and the id of a session that the server
    /// is opening has not arrived.
    Flushing,
    /// The session is being ended with DELETE (SH-C-09).
    Ending,
    Closed,
}

impl HttpSession {
    pub(super) const fn new() -> Self {
        Self { phase: SessionPhase::Opening, id: None, former_id: None, offered: None, version: None, generation: 0 }
    }

    /// Discards the session: the handshake of the next one begins.
    fn begin(&mut self) {
        self.generation += 1;
        if self.phase == SessionPhase::Ready {
            self.phase = SessionPhase::Opening;
        }
        (self.id, self.offered, self.version) = (None, None, None);
    }

    /// The response to `initialize` has this session id. If that request was abandoned for another one, the id is not
    /// used, and returned.
    fn offer(&mut self, id: SessionId, opened_in: OpenedIn) -> Option<SessionId> {
        if opened_in.generation != self.generation {
            return Some(id);
        }
        self.offered = Some(id);
        None
    }

    /// The answer to `initialize` is an error, so that an id in its response is of no session (SH-C-06).
    pub(super) fn refuse(&mut self) {
        self.offered = None;
    }

    /// The id of the session that the server has opened, whether or not its result was accepted.
    fn take_id(&mut self) -> Option<SessionId> {
        let offered = self.offered.take();
        self.id.take().or(offered)
    }

    /// The result of `initialize` or `server/discover` was accepted: this revision is in force now.
    fn accept(&mut self, version: ProtocolVersion) {
        self.id = self.offered.take().filter(|_| version.rules().sessions);
        self.version = Some(version);
    }

    /// The handshake is over.
    pub(super) fn ready(&mut self) {
        if self.phase == SessionPhase::Opening {
            self.phase = SessionPhase::Ready;
        }
    }

    /// The session of this generation is lost. Returns whether it is the current one.
    fn lose(&mut self, generation: u64) -> bool {
        let is_current = generation == self.generation && !self.is_closing();
        if is_current {
            self.phase = SessionPhase::Opening;
            self.former_id = self.id.take();
        }
        is_current
    }

    /// The revision in force.
    pub(super) const fn version(&self) -> Option<ProtocolVersion> {
        self.version
    }

    pub(super) const fn generation(&self) -> u64 {
        self.generation
    }

    pub(super) fn is_ready(&self) -> bool {
        self.phase == SessionPhase::Ready
    }

    /// Whether the connection ends or has ended.
    pub(super) fn is_closing(&self) -> bool {
        matches!(self.phase, SessionPhase::Flushing | SessionPhase::Ending | SessionPhase::Closed)
    }

    pub(super) fn is_closed(&self) -> bool {
        self.phase == SessionPhase::Closed
    }

    /// Whether a response names another session than the one in which its request was sent, and this one still exists.
    pub(super) fn is_changed_by(&self, id: &SessionId, opened_in: OpenedIn) -> bool {
        opened_in.in_session && opened_in.generation == self.generation && self.id.as_ref() != Some(id)
    }

    /// The session of an exchange that is opened now. `is_session` is whether the transport has a session even without
    /// an id.
    pub(super) fn opened_in(&self, is_session: bool, opens_session: bool, credentials: Option<u64>) -> OpenedIn {
        OpenedIn {
            generation: self.generation,
            in_session: (self.id.is_some() || is_session) && !opens_session,
            credentials,
        }
    }

    /// The headers of a request in this session.
    pub(super) fn common<'a>(
        &'a self,
        user: &'a HeaderMap,
        former_user: &'a HeaderMap,
        credentials: Option<&'a Credentials>,
    ) -> Common<'a> {
        let (session, former_session) = (self.id.as_ref(), self.former_id.as_ref());
        Common { user, former_user, credentials, session, former_session, cookies: None, version: self.version }
    }
}

impl Http {
    /// Discards the session, because `initialize` is sent without one (SH-C-08).
    pub(super) fn begin_session(&mut self, now: Instant, output: &mut TransportOutput<'_, Http>) {
        if let Some(id) = self.session.take_id() {
            self.delete(&id, output);
        }
        self.session.begin();
        self.cookies = None;
        self.drop_streams(output);
        self.get_stream.begin();
        if !self.mode.is_streamable() {
            self.open_two_endpoint_stream(None, now, output);
        }
    }

    pub(super) fn accept_session(&mut self, version: ProtocolVersion, output: &mut TransportOutput<'_, Http>) {
        self.session.accept(version);
        if version.rules().two_endpoints && self.mode.is_streamable() {
            output.quirk(Quirk::FirstRevisionOverStreamableHttp);
        }
    }

    /// The handshake is over: messages that waited for it are sent, and the server's stream is opened.
    pub(super) fn session_ready(&mut self, now: Instant, output: &mut TransportOutput<'_, Http>) {
        self.session.ready();
        self.deliveries.enqueue_for_session(output.timers);
        let streams = self.session.version().is_some_and(|version| version.rules().get_stream);
        if streams && self.mode.is_streamable() {
            self.open_get_stream(output);
        }
        self.pump(now, output);
    }

    /// The server has lost the session: it answered 404, or the stream of a two-endpoint server has ended.
    ///
    /// `refused` is the message that the server refused for this reason, and certainly did not process, with the
    /// reason if it is not sent again.
    pub(super) fn lose_session(
        &mut self,
        generation: u64,
        refused: Option<(DeliveryKey, Failed)>,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        if let Some((message, reason)) = refused {
            self.refused_with_session(message, reason, output);
        }
        if !self.session.lose(generation) {
            self.pump(now, output);
            return;
        }
        self.fail_delivered(output);
        self.deliveries.keep_undelivered_for_next_session(output.timers);
        output.pass(Inbound::SessionLost);
    }

    /// A message was refused because its session is lost: it is sent once more in the next session.
    fn refused_with_session(&mut self, message: DeliveryKey, reason: Failed, output: &mut TransportOutput<'_, Http>) {
        let Some(role) = self.deliveries.post(message).map(|post| post.role) else { return };
        let again = match role {
            Role::Confirmation => {
                // Messages that wait for the confirmation wait for the next session, which has its own confirmation.
                self.deliveries.remove(message, output.timers);
                return output.fault(Fault::NotAccepted { reason });
            }
            Role::Request(_) | Role::Notification => self.deliveries.may_try_second_session(message),
            // These messages are of no use in another session (SH-C-08).
            Role::Initialize(_) | Role::Discover(..) | Role::Answer | Role::Cancellation => false,
        };
        if !again {
            self.undelivered(message, reason, output);
        } else if self.session.is_ready() {
            self.deliveries.enqueue(message, output.timers);
        } else {
            self.deliveries.wait_for_session(message, output.timers);
        }
    }

    /// Fails all requests that the server may have received, because it is unknown whether they were processed.
    fn fail_delivered(&mut self, output: &mut TransportOutput<'_, Http>) {
        let delivered: Vec<_> = self.deliveries.delivered().collect();
        for request in delivered {
            self.unanswered(request, Failed::SessionLost, output);
        }
        self.drop_streams(output);
        self.exchanges.abort_where(|exchange| exchange.purpose.request().is_some(), output);
    }

    /// Closes every stream that belongs to the session and not to a request.
    pub(super) fn drop_streams(&mut self, output: &mut TransportOutput<'_, Http>) {
        output.clear_timer(HttpTimer::GetStream);
        output.clear_timer(HttpTimer::Endpoint);
        self.exchanges.abort_where(|exchange| exchange.purpose.is_stream(), output);
        self.authorization.get_stream.reset();
        self.authorization.two_endpoint_stream.reset();
    }

    pub(super) fn begin_closing(&mut self, now: Instant, output: &mut TransportOutput<'_, Http>) {
        if self.session.is_closing() {
            return;
        }
        self.session.phase = SessionPhase::Flushing;
        self.stop_awaiting_authorization(output);
        let has_ids = self.mode.is_streamable();
        let is_aborted = |exchange: &Exchange| match exchange.opening() {
            // The id of a session that the server opens arrives with the response, unless that comes too late.
            Some(request) if has_ids => !self.deliveries.contains_request(request),
            Some(_) | None => exchange.purpose.request().is_some(),
        };
        self.exchanges.abort_where(is_aborted, output);
        self.deliveries.keep_messages_of_session(output.timers);
        output.set_timer(HttpTimer::Close, now + self.config.close_timeout);
        self.pump(now, output);
    }

    /// Takes the next step of closing, if the previous one is done.
    pub(super) fn go_on_closing(&mut self, output: &mut TransportOutput<'_, Http>) {
        if self.session.phase != SessionPhase::Flushing {
            return;
        }
        let is_busy = self.exchanges.any(|purpose| matches!(purpose, Purpose::Post(_)));
        if is_busy || (self.mode.is_open() && self.deliveries.first_queued(Queue::Others).is_some()) {
            return;
        }
        if let Some(id) = self.session.take_id() {
            self.session.phase = SessionPhase::Ending;
            self.delete(&id, output);
        } else {
            self.close_now(output);
        }
    }

    /// The server has opened the session of this id.
    pub(super) fn session_offered(
        &mut self,
        id: SessionId,
        opened_in: OpenedIn,
        output: &mut TransportOutput<'_, Http>,
    ) {
        if let Some(unused) = self.session.offer(id, opened_in) {
            self.delete(&unused, output);
        }
    }

    /// Ends a session (SH-C-09).
    fn delete(&mut self, id: &SessionId, output: &mut TransportOutput<'_, Http>) {
        let request = Common { session: Some(id), ..self.common() }.delete(&self.config.endpoint);
        self.open(request, Purpose::Delete, output);
    }

    pub(super) fn session_ended(&mut self, head: &Parts, output: &mut TransportOutput<'_, Http>) {
        // A server need not support DELETE, and one that has lost the session has ended it (SH-C-09).
        let fine = head.status.is_success() || (head.status == StatusCode::METHOD_NOT_ALLOWED || is_gone(head.status));
        if !fine {
            let reason = Failed::Refused(refusal(head.status, &head.headers, &self.limits));
            output.fault(Fault::SessionNotEnded { reason });
        }
        self.deleted(output);
    }

    pub(super) fn session_not_ended(&mut self, reason: Failed, output: &mut TransportOutput<'_, Http>) {
        output.fault(Fault::SessionNotEnded { reason });
        self.deleted(output);
    }

    fn deleted(&mut self, output: &mut TransportOutput<'_, Http>) {
        if self.session.phase == SessionPhase::Ending {
            self.close_now(output);
        }
    }

    /// The deadline for closing has passed (H6).
    pub(super) fn close_unended(&mut self, output: &mut TransportOutput<'_, Http>) {
        if self.session.phase == SessionPhase::Ending {
            let after = self.config.close_timeout;
            output.fault(Fault::SessionNotEnded { reason: Failed::TimedOut { after } });
        }
        self.close_now(output);
    }

    fn close_now(&mut self, output: &mut TransportOutput<'_, Http>) {
        if self.session.is_closed() {
            return;
        }
        self.session.phase = SessionPhase::Closed;
        (self.session.id, self.session.offered) = (None, None);
        // What waits is not sent any more.
        self.deliveries = Deliveries::new();
        self.exchanges.abort_where(|_| true, output);
        output.pass(Inbound::Closed);
    }
}
