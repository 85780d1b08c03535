//! The connection: opening it in either era, confirming, losing the session and opening it again (RULES section 7).

use std::time::Duration;

use super::connection::ConnectionPhase;
use super::detected_era::DetectedEra;
use super::detection::Step;
use super::event::{Event, Unavailable};
use super::transport::{ClientTransport, Role};
use super::{Client, ClientTimer, Purpose};
use crate::Instant;
use crate::conversation::call::AddedMeta;
use crate::conversation::keys::RequestKey;
use crate::conversation::outcome::{CloseReason, Outcome};
use crate::conversation::outgoing::NewRequest;
use crate::error::{Failed, InvalidResponse, Quirk};
use crate::json::Json;
use crate::jsonrpc::{Message, Notification, RequestId};
use crate::spec::status::is_temporary;
use crate::spec::{Method, ProtocolVersion};

/// How long early requests wait for the application to confirm the session.
const CONFIRMATION_PAUSE: Duration = Duration::from_millis(100);

/// The request with which an application opens a connection itself, with
/// [`Client::connect_with`](crate::Client::connect_with). The parameters are sent unchanged.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Opening {
    /// `initialize` with these parameters.
    Initialize(Json),
    /// `server/discover` with these parameters. The application makes its requests with
    /// [`Call::unchanged`](super::Call::unchanged), if they have their own `_meta`.
    Discover(Json),
}

/// What opened a session, kept to open the next one in the same way.
#[derive(Debug)]
pub(super) struct Handshake {
    /// The request of the application; `None` if the client opens the connection from its configuration.
    opening: Option<Opening>,
    /// The application opened the connection with its own request, and confirms the session.
    is_by_application: bool,
    /// The session is the client's own: it was not opened with the application's `initialize`, or the client has another
    /// identity since.
    is_own_session: bool,
    /// The confirmation, if one was sent.
    confirmed: Option<Notification>,
    /// The revision that the latest `initialize` offers, if it is a known one.
    offered: Option<ProtocolVersion>,
    /// The revision of its sessions, which must not change (BR-T-07).
    version: Option<ProtocolVersion>,
    /// The `initialize` that the server's process did not answer in time.
    unanswered: Option<RequestKey>,
}

impl Handshake {
    pub(super) const fn new(opening: Option<Opening>) -> Self {
        Self {
            is_by_application: opening.is_some(),
            opening,
            is_own_session: false,
            confirmed: None,
            offered: None,
            version: None,
            unanswered: None,
        }
    }

    /// The client opens the connection itself from now on, should that be necessary again.
    pub(super) fn take_over(&mut self) {
        self.opening = None;
        self.is_own_session = true;
    }

    pub(super) const fn is_own_session(&self) -> bool {
        self.is_own_session
    }
}

impl<T: ClientTransport> Client<T> {
    pub(super) fn open(&mut self, awaited: bool, now: Instant) {
        let step = self.connection.detection.begin();
        self.follow(step, awaited, now);
    }

    /// Carries out a step of the detection of the era.
    fn follow(&mut self, step: Step, awaited: bool, now: Instant) {
        match step {
            Step::Discover(version) => {
                let patience = if self.connection.detection.silence_means_legacy() {
                    self.config.discover_timeout
                } else {
                    self.config.initialize_timeout
                };
                let params = match &self.connection.handshake.opening {
                    Some(Opening::Discover(params)) => params.clone(),
                    Some(Opening::Initialize(_)) | None => {
                        self.connection.identity.stamped(None, version, AddedMeta::Identity)
                    }
                };
                self.send_opening(Method::SERVER_DISCOVER, params, patience, awaited, now, |request| {
                    Role::Discover(request, version)
                });
            }
            // `initialize` is the first interaction (LC-01, LC-02).
            Step::Initialize(version) => {
                let params = self.initialize_params(version);
                self.send_initialize(params, awaited, now);
            }
            Step::InitializeAs(version) => {
                let params = self.initialize_params(version);
                let params = params.with_member("protocolVersion", &Json::from(version.as_str()));
                self.report_quirk(Quirk::VersionRefused);
                self.send_initialize(params, awaited, now);
            }
            Step::Fail(reason) => {
                let is_final = matches!(reason, Unavailable::Failed(Failed::NoCommonVersion { .. }));
                self.opening_failed(reason, now);
                if is_final {
                    self.close_because(CloseReason::NoCommonVersion, now);
                }
            }
            // `on_opening_outcome` handles this step, because it has the result.
            Step::Adopt(_) => {}
        }
    }

    /// The parameters of `initialize`: those of the application, or for this revision.
    fn initialize_params(&self, version: ProtocolVersion) -> Json {
        match &self.connection.handshake.opening {
            Some(Opening::Initialize(params)) => params.clone(),
            Some(Opening::Discover(_)) | None => self.connection.identity.initialize_params(version),
        }
    }

    fn send_initialize(&mut self, params: Json, awaited: bool, now: Instant) {
        let offered = params.first_member("protocolVersion").and_then(|version| {
            let version = version.as_string()?;
            ProtocolVersion::from_text(&version)
        });
        self.connection.handshake.offered = offered;
        let timeout = self.config.initialize_timeout;
        self.send_opening(Method::INITIALIZE, params, timeout, awaited, now, Role::Initialize);
    }

    fn send_opening(
        &mut self,
        method: Method,
        params: Json,
        timeout: Duration,
        awaited: bool,
        now: Instant,
        role: impl FnOnce(RequestKey) -> Role,
    ) {
        self.abandon_opening(now);
        let opening = NewRequest {
            method,
            params: Some(params),
            purpose: Purpose::Opening,
            meta: AddedMeta::Nothing,
            timeout,
            max_timeout: self.config.max_timeout,
        };
        let sending = self.outgoing.send(opening, false, &mut self.timers, now);
        let request = sending.wire;
        let message = sending.into_message();
        self.connection.phase = ConnectionPhase::Opening { request, awaited };
        let role = role(request);
        self.with_transport(now, |transport, output| {
            transport.begin(now, output);
            transport.send(&message, role, now, output);
        });
    }

    /// The request that opens the connection has ended.
    pub(super) fn on_opening_outcome(&mut self, outcome: Outcome, now: Instant) {
        let ConnectionPhase::Opening { request, awaited } = self.connection.phase else { return };
        let opening = match outcome {
            Outcome::Failed(_) => self.outgoing.give_up(request, &mut self.timers),
            Outcome::Result(_) | Outcome::Error(_) => self.outgoing.remove(request, &mut self.timers),
        };
        if opening.is_none_or(|opening| opening.method != Method::SERVER_DISCOVER) {
            if T::SILENCE_MEANS_LEGACY && matches!(outcome, Outcome::Failed(Failed::TimedOut { .. })) {
                // The first `initialize` is kept: the server refuses those that it receives later.
                self.connection.handshake.unanswered.get_or_insert(request);
            }
            return self.on_initialize_outcome(outcome, awaited, now);
        }
        match (self.connection.detection.on_discovered(&outcome), outcome) {
            (Step::Adopt(version), Outcome::Result(result)) => self.on_adopted(version, result, now),
            (step, _) => self.follow(step, awaited, now),
        }
    }

    /// The request that opens the connection waits for authorization, which may need a person. Its deadline is cleared,
    /// because the transport limits the wait.
    pub(super) fn on_opening_waits(&mut self, request: RequestKey) {
        if self.connection.phase.opening() == Some(request) {
            self.timers.clear(ClientTimer::Answer(request));
        }
    }

    /// The request that opens the connection is sent again, and has all of its time for the answer.
    pub(super) fn on_opening_continues(&mut self, request: RequestKey, now: Instant) {
        if self.connection.phase.opening() == Some(request) {
            self.outgoing.restart(request, &mut self.timers, now);
        }
    }

    /// The server is a modern one: there is nothing to confirm.
    fn on_adopted(&mut self, version: ProtocolVersion, result: Json, now: Instant) {
        if self.connection.handshake.version.is_some() {
            // A session cannot be replaced by a revision without sessions (BR-T-07).
            return self.opening_failed(Unavailable::Failed(Failed::VersionChanged { version }), now);
        }
        self.connection.establish_stateless(version);
        self.connection.backoff.reset();
        self.connection.detection.settle();
        self.connection.phase = ConnectionPhase::Ready;
        self.with_transport(now, |transport, output| transport.negotiated(version, output));
        self.report_connected(version, result, false);
        self.with_transport(now, |transport, output| transport.ready(now, output));
        self.send_held(now);
        self.open_subscriptions(now);
    }

    fn report_connected(&mut self, version: ProtocolVersion, result: Json, is_reconnect: bool) {
        let detected_era = self.connection.detection.detected_era().unwrap_or(DetectedEra::known(version.rules().era));
        let is_own = !self.connection.handshake.is_by_application;
        let is_downgrade = is_own && self.config.newest() != Some(version);
        if let Some(cache) = &mut self.cache {
            cache.clear_entries();
        }
        self.out.report(Event::Connected { version, result, is_reconnect, detected_era, is_downgrade });
    }

    /// Gives up the request that opens the connection, or the plan to send one.
    fn abandon_opening(&mut self, now: Instant) {
        if let Some(request) = self.connection.phase.opening() {
            self.outgoing.give_up(request, &mut self.timers);
            self.with_transport(now, |transport, output| transport.abandon(request, now, output));
        }
        self.timers.clear(ClientTimer::Reconnect);
    }

    /// A response to a request that was given up has arrived. Opens the session if it is the result of `initialize` on a byte
    /// stream: the server has begun the session (LC-14), and would refuse another `initialize` (LC-21).
    pub(super) fn on_late_result(&mut self, id: &RequestId, result: Json, now: Instant) {
        let is_session =
            self.connection.handshake.unanswered.is_some_and(|request| self.outgoing.is_named(request, id));
        let is_without_session =
            matches!(self.connection.phase, ConnectionPhase::Opening { .. } | ConnectionPhase::Down);
        if !is_session || !is_without_session {
            return;
        }
        self.abandon_opening(now);
        self.on_initialize_outcome(Outcome::Result(result), false, now);
    }

    fn on_initialize_outcome(&mut self, outcome: Outcome, awaited: bool, now: Instant) {
        let result = match outcome {
            Outcome::Result(result) => result,
            Outcome::Error(error) => return self.on_initialize_refused(Unavailable::Error(error), awaited, now),
            Outcome::Failed(reason) => return self.on_initialize_refused(Unavailable::Failed(reason), awaited, now),
        };
        self.connection.handshake.unanswered = None;
        let Some(version) = result.first_member("protocolVersion").filter(|_| result.is_object()) else {
            let reason = InvalidResponse::Incomplete { method: "initialize" };
            return self.opening_failed(Unavailable::Failed(Failed::InvalidResponse { reason }), now);
        };
        let version = version.as_string().and_then(|version| ProtocolVersion::from_text(&version));
        let Some(version) = version.filter(|version| self.is_acceptable(*version)) else {
            // The client disconnects if the server chose a revision that it does not support (LC-06, A1).
            let supported = self.config.versions.as_slice().into();
            self.opening_failed(Unavailable::Failed(Failed::NoCommonVersion { supported }), now);
            return self.close_because(CloseReason::NoCommonVersion, now);
        };
        let handshake = &mut self.connection.handshake;
        let confirmed = handshake.confirmed.clone();
        let is_configured = !handshake.is_by_application;
        if *handshake.version.get_or_insert(version) != version {
            // A session cannot be replaced by one in another revision (BR-T-07).
            return self.opening_failed(Unavailable::Failed(Failed::VersionChanged { version }), now);
        }
        if !matches!(handshake.opening, Some(Opening::Initialize(_))) {
            handshake.take_over();
        }
        self.connection.detection.settle();
        self.connection.establish_session(version);
        self.connection.backoff.reset();
        self.with_transport(now, |transport, output| transport.negotiated(version, output));
        let is_reconnect = confirmed.is_some();
        self.connection.phase = ConnectionPhase::Unconfirmed;
        self.report_connected(version, result, is_reconnect);
        match confirmed {
            Some(notification) => self.send_confirmation(notification, now),
            None if is_configured => self.send_confirmation(Notification::new(Method::INITIALIZED), now),
            // The confirmation should be sent first, but the application need not send it at all (LC-11).
            None => self.timers.set(ClientTimer::Unconfirmed, now + CONFIRMATION_PAUSE),
        }
    }

    fn on_initialize_refused(&mut self, reason: Unavailable, awaited: bool, now: Instant) {
        let offered = self.connection.handshake.offered;
        match self.connection.detection.on_initialize_refused(reason, offered) {
            Ok(step) => self.follow(step, awaited, now),
            Err(reason) => self.opening_failed(reason, now),
        }
    }

    /// Whether the client supports this revision of an answer to `initialize` (LC-06).
    fn is_acceptable(&self, version: ProtocolVersion) -> bool {
        !version.is_stateless() && self.config.versions.contains(&version)
    }

    /// Confirms the session (LC-08).
    pub(super) fn send_confirmation(&mut self, notification: Notification, now: Instant) {
        self.connection.handshake.confirmed = Some(notification.clone());
        self.connection.phase = ConnectionPhase::Confirming;
        self.timers.clear(ClientTimer::Unconfirmed);
        let message = Message::Notification(notification);
        self.with_transport(now, |transport, output| transport.send(&message, Role::Confirmation, now, output));
    }

    pub(super) fn on_confirmed(&mut self, now: Instant) {
        if self.connection.phase != ConnectionPhase::Confirming {
            return;
        }
        self.connection.phase = ConnectionPhase::Ready;
        self.with_transport(now, |transport, output| transport.ready(now, output));
        self.serve_requests(now);
        self.open_subscriptions(now);
    }

    /// Starts to send requests: the handshake is over, or the wait for the confirmation has ended.
    pub(super) fn serve_requests(&mut self, now: Instant) {
        self.restore_settings(now);
        self.send_held(now);
    }

    /// Sends the requests that wait, except those that must wait longer.
    pub(super) fn send_held(&mut self, now: Instant) {
        let mut last = None;
        while self.connection.phase.takes_requests() {
            let Some((request, waiting)) = self.outgoing.next_waiting(last) else { break };
            last = Some(request);
            if !self.waits_for_settings(&waiting.method) {
                self.send_waiting(request, now);
            }
        }
    }

    /// The byte stream has ended, for this reason. A server that exited during discovery is restarted if the driver can do that (ER-06).
    pub(super) fn on_ended(&mut self, reason: CloseReason, now: Instant) {
        if let ConnectionPhase::Opening { awaited, .. } = self.connection.phase {
            if let Some(step) = self.connection.detection.on_exit().filter(|_| self.config.respawn) {
                self.connection.handshake.unanswered = None;
                self.with_transport(now, ClientTransport::respawn);
                return self.follow(step, awaited, now);
            }
        }
        // All pending requests get their outcome at once (H1, H4).
        self.close_because(reason, now);
    }

    /// The connection could not be opened. Everything that waited for it fails.
    pub(super) fn opening_failed(&mut self, reason: Unavailable, now: Instant) {
        self.connection.phase = ConnectionPhase::Down;
        if let Unavailable::Failed(failed) = &reason {
            if self.config.reconnect && may_pass(failed) {
                let asked = retry_after(failed);
                let pause = self.connection.backoff.next(asked, &self.config.limits, &mut self.connection.jitter, now);
                self.timers.set(ClientTimer::Reconnect, now + pause);
            }
        }
        self.fail_waiting(reason, now);
    }

    /// Fails everything that waits for a connection. The next attempt stays planned as it is.
    fn fail_waiting(&mut self, reason: Unavailable, now: Instant) {
        let retry_in = self.timers.get(ClientTimer::Reconnect).map(|at| at.saturating_duration_since(now));
        let outcome = match &reason {
            Unavailable::Error(error) => Outcome::Error(error.clone()),
            Unavailable::Failed(failed) => Outcome::Failed(failed.clone()),
        };
        self.out.report(Event::Unavailable { reason, retry_in });
        for request in self.outgoing.keys() {
            self.with_transport(now, |transport, output| transport.abandon(request, now, output));
            self.finish(request, outcome.clone(), now);
        }
        self.end_subscriptions(&outcome, now);
    }

    /// Opens the connection for a new request, unless there were too many attempts within a minute.
    pub(super) fn try_on_demand(&mut self, now: Instant) {
        if self.connection.phase == ConnectionPhase::Down {
            if self.connection.backoff.try_count_attempt(&self.config.limits, now) {
                self.open(false, now);
            } else {
                let reason = Failed::Unreachable { detail: "tried too often within a minute".into() };
                self.fail_waiting(Unavailable::Failed(reason), now);
            }
        }
    }

    /// Opens the lost session again, once for all requests that wait for it (SH-C-08, HT9).
    pub(super) fn on_session_lost(&mut self, now: Instant) {
        // Answers to requests of the old session must not be sent in the new one (SH-C-08).
        self.incoming.clear();
        self.lose_settings(now);
        match self.connection.phase {
            ConnectionPhase::Unconfirmed | ConnectionPhase::Confirming | ConnectionPhase::Ready => {
                self.out.report(Event::SessionLost);
                if self.connection.backoff.try_count_attempt(&self.config.limits, now) {
                    self.open(false, now);
                } else {
                    self.opening_failed(Unavailable::Failed(Failed::SessionLost), now);
                }
            }
            ConnectionPhase::Idle
            | ConnectionPhase::Opening { .. }
            | ConnectionPhase::Down
            | ConnectionPhase::Closing(_)
            | ConnectionPhase::Closed => {}
        }
    }
}

/// Whether the same attempt may succeed later.
pub(super) fn may_pass(failed: &Failed) -> bool {
    match failed {
        Failed::Unreachable { .. }
        | Failed::Broken { .. }
        | Failed::TimedOut { .. }
        | Failed::StreamEnded
        | Failed::SessionLost
        | Failed::NoEndpoint
        | Failed::QueueFull { .. }
        | Failed::NoRoom { .. } => true,
        Failed::Refused(refusal) => is_temporary(refusal.status),
        Failed::Cancelled
        | Failed::NoAnswer { .. }
        | Failed::ContentType { .. }
        | Failed::NotAStream { .. }
        | Failed::ContentEncoding
        | Failed::InvalidResponse { .. }
        | Failed::Redirected { .. }
        | Failed::TooLarge { .. }
        | Failed::VersionChanged { .. }
        | Failed::NoCommonVersion { .. }
        | Failed::InvalidSessionId
        | Failed::EndpointRejected { .. }
        | Failed::NoInput { .. }
        | Failed::EndedByServer
        | Failed::NotInRevision { .. }
        | Failed::NotAuthorized { .. }
        | Failed::ProcessEnded { .. }
        | Failed::NotStarted(_)
        | Failed::NoMessages { .. }
        | Failed::Closed => false,
    }
}

pub(super) fn retry_after(failed: &Failed) -> Option<Duration> {
    if let Failed::Refused(refusal) = failed { refusal.retry_after } else { None }
}
