//! The transport of 2024-11-05: the server sends everything on one stream, and names on it the endpoint to which the
//! client sends everything by POST (RULES section 3).

use super::config::HttpTransport;
use super::delivery::DeliveryKey;
use super::exchange::{Next, Purpose};
use super::{Http, HttpMode, HttpTimer};
use crate::Instant;
use crate::client::detection::is_about_version;
use crate::client::transport::{Role, TransportOutput};
use crate::error::{Failed, Fault, Refusal};
use crate::spec::status::is_inconclusive;
use crate::spec::{FallbackOn, ProtocolVersion};
use crate::sse::{Event, EventName};
use crate::url::shown;

impl Http {
    /// Whether a message may have been refused because the server supports only the older transport.
    pub(super) fn falls_back(&self, role: Role, refusal: &Refusal) -> bool {
        if !matches!(role, Role::Initialize(_)) || self.config.transport != HttpTransport::Auto {
            return false;
        }
        if !self.mode.is_streamable() {
            return false;
        }
        if refusal.explanation.as_ref().is_some_and(|explanation| is_about_version(explanation.as_str())) {
            return false;
        }
        let status = refusal.status;
        // The server's revision is not known before it has answered, so the fallback is allowed if any revision allows
        // it.
        let allows = |rule: FallbackOn| match rule {
            FallbackOn::AnyClientError => status.is_client_error(),
            FallbackOn::NoSuchEndpoint => matches!(status.as_u16(), 400 | 404 | 405),
        };
        !is_inconclusive(status) && ProtocolVersion::ALL.iter().any(|version| allows(version.rules().fallback_on))
    }

    /// Opens the same URL as a stream that names an endpoint, as a server of the older transport offers it (ER-27).
    pub(super) fn fall_back(
        &mut self,
        message: DeliveryKey,
        refused: Failed,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        self.deliveries.enqueue_for_fallback(message, output.timers);
        self.open_two_endpoint_stream(Some(refused), now, output);
    }

    /// Opens the stream. No message is sent before the endpoint is known (HS-11).
    pub(super) fn open_two_endpoint_stream(
        &mut self,
        instead_of: Option<Failed>,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        self.mode = HttpMode::opening(instead_of);
        if self.authorization.blocks_all() {
            self.authorization.two_endpoint_stream.wait();
        } else {
            self.get_endpoint(now, output);
        }
    }

    /// Opens the stream, on which the endpoint must be named in time.
    pub(super) fn get_endpoint(&mut self, now: Instant, output: &mut TransportOutput<'_, Http>) {
        self.get(None, Purpose::TwoEndpointStream { redirects: 0 }, output);
        output.set_timer(HttpTimer::Endpoint, now + self.config.endpoint_timeout);
    }

    /// Handles an event that concerns the transport; returns `None` if it must be read as a message.
    pub(super) fn two_endpoint_event(
        &mut self,
        event: &Event<'_>,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) -> Option<Next> {
        let is_endpoint = event.name == EventName::ENDPOINT;
        match (&self.mode, is_endpoint) {
            (HttpMode::Opening { stream, .. }, true) => {
                // The endpoint may be a relative reference, but must be on the same origin (HS-05, HS-06, LE1).
                let reference = String::from_utf8_lossy(&event.data);
                let base = stream.as_ref().unwrap_or(&self.config.endpoint);
                let Some(post_to) = base.same_origin(reference.trim()) else {
                    self.opening_failed(Failed::EndpointRejected { endpoint: shown(&reference) }, output);
                    return Some(Next::Abort);
                };
                output.clear_timer(HttpTimer::Endpoint);
                self.mode = HttpMode::TwoEndpoint { post_to };
                self.pump(now, output);
                Some(Next::Read)
            }
            // The first event must name the endpoint (HS-02).
            (HttpMode::Opening { .. }, false) => {
                self.opening_failed(Failed::NoEndpoint, output);
                Some(Next::Abort)
            }
            // The first endpoint stays in force (LE2).
            (HttpMode::TwoEndpoint { .. } | HttpMode::Streamable, true) => {
                output.fault(Fault::SecondEndpoint);
                Some(Next::Read)
            }
            (HttpMode::TwoEndpoint { .. } | HttpMode::Streamable, false) => None,
        }
    }

    pub(super) fn on_no_endpoint(&mut self, output: &mut TransportOutput<'_, Http>) {
        if matches!(self.mode, HttpMode::Opening { .. }) {
            self.drop_streams(output);
            self.opening_failed(Failed::NoEndpoint, output);
        }
    }

    /// The stream could not be opened, or has ended, which ends the session (HS-10).
    pub(super) fn two_endpoint_stream_failed(
        &mut self,
        reason: Failed,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        match self.mode {
            HttpMode::Opening { .. } => self.opening_failed(reason, output),
            HttpMode::TwoEndpoint { .. } => self.lose_session(self.session.generation(), None, now, output),
            HttpMode::Streamable => {}
        }
    }

    pub(super) fn opening_failed(&mut self, reason: Failed, output: &mut TransportOutput<'_, Http>) {
        output.clear_timer(HttpTimer::Endpoint);
        let mode = HttpMode::new(&self.config);
        let HttpMode::Opening { instead_of, .. } = std::mem::replace(&mut self.mode, mode) else { return };
        // A server that names a forbidden endpoint supports the older transport, so the endpoint is the reason. In all
        // other cases, the failure on Streamable HTTP explains more than that of the fallback.
        let reason = match (instead_of, reason) {
            (_, rejected @ Failed::EndpointRejected { .. }) => rejected,
            (Some(first), _) => first,
            (None, reason) => reason,
        };
        let waiting: Vec<_> = self.deliveries.queued_requests().collect();
        for request in waiting {
            self.unanswered(request, reason.clone(), output);
        }
    }
}
