//! The transport of 2024-11-05: a stream on which everything comes, and an endpoint, named by the stream, to which
//! everything is sent by POST (RULES section 3).

use super::config::{HttpConfig, HttpTransport};
use super::endpoint::Endpoint;
use super::exchange::{Next, Post, Purpose};
use super::{Http, HttpAction, Queue, Timer};
use crate::Instant;
use crate::client::carrier::{Role, Wire};
use crate::client::detection::says_nothing;
use crate::codec::sse::{Event, EventName};
use crate::conversation::deadlines::after;
use crate::error::{Failed, Fault, Refusal};
use crate::spec::{FallbackOn, ProtocolVersion};

/// How messages travel.
#[derive(Debug)]
pub(super) enum HttpMode {
    /// To one endpoint, answered where they are sent.
    Streamable,
    /// Not at all: the stream has not named the endpoint yet.
    Opening {
        /// What `initialize` met on Streamable HTTP, if this is the second try (ER-27).
        instead_of: Option<Failed>,
    },
    /// To an endpoint of its own, answered on the stream.
    TwoEndpoint { post_to: Endpoint },
}

impl HttpMode {
    pub(super) fn new(config: &HttpConfig) -> Self {
        match config.transport {
            HttpTransport::Auto | HttpTransport::StreamableHttp => Self::Streamable,
            HttpTransport::HttpSse => Self::Opening { instead_of: None },
        }
    }

    /// Whether messages can be sent.
    pub(super) const fn is_open(&self) -> bool {
        matches!(self, Self::Streamable | Self::TwoEndpoint { .. })
    }

    pub(super) const fn is_streamable(&self) -> bool {
        matches!(self, Self::Streamable)
    }

    pub(super) const fn post_to<'e>(&'e self, endpoint: &'e Endpoint) -> &'e Endpoint {
        match self {
            Self::Streamable | Self::Opening { .. } => endpoint,
            Self::TwoEndpoint { post_to } => post_to,
        }
    }
}

impl Http {
    /// Whether a refused message may have been refused because the server has only the older transport.
    pub(super) fn falls_back(&self, post: &Post, refusal: &Refusal) -> bool {
        if !matches!(post.role, Role::Initialize(_)) || self.config.transport != HttpTransport::Auto {
            return false;
        }
        if !self.mode.is_streamable() {
            return false;
        }
        let status = refusal.status;
        // What the server speaks is not known before it has answered, so the widest rule of all handshake-based
        // revisions holds.
        let allows = |rule: FallbackOn| match rule {
            FallbackOn::Nothing => false,
            FallbackOn::AnyClientError => status.is_client_error(),
            FallbackOn::NoSuchEndpoint => matches!(status.as_u16(), 400 | 404 | 405),
        };
        !says_nothing(status) && ProtocolVersion::ALL.iter().any(|version| allows(version.rules().fallback_on))
    }

    /// ER-27: the same URL may be a stream that names an endpoint.
    pub(super) fn fall_back(&mut self, post: Post, refused: Failed, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        self.enqueue(Post { to: None, redirects: 0, ..post });
        self.mode = HttpMode::Opening { instead_of: Some(refused) };
        self.open_two_endpoint_stream(now, wire);
    }

    /// HS-11: nothing is sent before the endpoint is known.
    pub(super) fn open_two_endpoint_stream(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        self.get(None, Purpose::TwoEndpointStream { redirects: 0 }, wire);
        self.timers.set(Timer::Endpoint, after(now, self.config.endpoint_timeout));
    }

    /// Deals with an event that concerns the transport; `None` leaves it to be read as a message.
    pub(super) fn two_endpoint_event(
        &mut self,
        event: &Event<'_>,
        now: Instant,
        wire: &mut Wire<'_, HttpAction>,
    ) -> Option<Next> {
        let is_endpoint = event.name == EventName::ENDPOINT;
        match (&self.mode, is_endpoint) {
            (HttpMode::Opening { .. }, true) => {
                // HS-05, HS-06, LE1
                let reference = std::str::from_utf8(&event.data).ok();
                let Some(post_to) = reference.and_then(|reference| self.config.endpoint.same_origin(reference)) else {
                    self.opening_failed(Failed::EndpointRejected, wire);
                    return Some(Next::Abort);
                };
                self.timers.clear(Timer::Endpoint);
                self.mode = HttpMode::TwoEndpoint { post_to };
                self.pump(now, wire);
                Some(Next::Read)
            }
            // HS-02: the endpoint comes first.
            (HttpMode::Opening { .. }, false) => {
                self.opening_failed(Failed::NoEndpoint, wire);
                Some(Next::Abort)
            }
            // LE2: the first one stays.
            (HttpMode::TwoEndpoint { .. } | HttpMode::Streamable, true) => {
                wire.fault(Fault::SecondEndpoint);
                Some(Next::Read)
            }
            (HttpMode::TwoEndpoint { .. } | HttpMode::Streamable, false) => None,
        }
    }

    pub(super) fn on_no_endpoint(&mut self, wire: &mut Wire<'_, HttpAction>) {
        if matches!(self.mode, HttpMode::Opening { .. }) {
            self.drop_streams(wire);
            self.opening_failed(Failed::NoEndpoint, wire);
        }
    }

    /// The stream could not be opened, or is over. HS-10: the session is over with it.
    pub(super) fn two_endpoint_stream_failed(&mut self, reason: Failed, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        match self.mode {
            HttpMode::Opening { .. } => self.opening_failed(reason, wire),
            HttpMode::TwoEndpoint { .. } => self.lose_session(self.generation, None, now, wire),
            HttpMode::Streamable => {}
        }
    }

    fn opening_failed(&mut self, reason: Failed, wire: &mut Wire<'_, HttpAction>) {
        self.timers.clear(Timer::Endpoint);
        let mode = HttpMode::new(&self.config);
        let HttpMode::Opening { instead_of } = std::mem::replace(&mut self.mode, mode) else { return };
        // A server that names a forbidden endpoint has the older transport: that is what went wrong. In all other cases
        // the first answer says more about it than the second.
        let reason = match (instead_of, reason) {
            (_, Failed::EndpointRejected) => Failed::EndpointRejected,
            (Some(first), _) => first,
            (None, reason) => reason,
        };
        let Queue { requests, pings, .. } = &self.queue;
        let waiting: Vec<_> = requests.posts().chain(pings.posts()).filter_map(|post| post.role.request()).collect();
        for request in waiting {
            self.unanswered(request, reason.clone(), wire);
        }
    }
}
