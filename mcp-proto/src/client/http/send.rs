//! Sends messages while exchanges are free: the order, the HTTP requests, and what happens to messages that are not
//! delivered.

use bytes::Bytes;
use http::Request as HttpRequest;

use super::cursor::Cursor;
use super::delivery::{DeliveryKey, Post, Queue};
use super::exchange::{Exchange, ExchangeKey, Posted, Purpose};
use super::headers::Common;
use super::{Http, HttpTimer};
use crate::Instant;
use crate::auth::Credentials;
use crate::client::transport::{Inbound, Role, TransportOutput};
use crate::conversation::keys::RequestKey;
use crate::error::{Failed, Fault};
use crate::json::Json;
use crate::jsonrpc::{Message, Request};
use crate::spec::{Method, TraceContext};
use crate::url::HttpUrl;

impl Http {
    /// Queues a message, and sends it if an exchange is free.
    pub(super) fn send_message(
        &mut self,
        message: &Message,
        role: Role,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let mut post = Post::new(role, message.to_bytes());
        post.is_ping = matches!(message, Message::Request(request) if request.method == Method::PING);
        post.may_repeat = matches!(message, Message::Request(request) if may_repeat(request));
        let version = match role {
            Role::Discover(_, version) => Some(version),
            Role::Initialize(_) => None,
            Role::Request(_) | Role::Confirmation | Role::Answer | Role::Cancellation | Role::Notification => {
                self.session.version()
            }
        };
        let is_mirrored = version.is_some_and(|version| version.rules().mirrored_headers);
        if is_mirrored {
            post.version = version;
            post.mirrored = Some(Box::new(self.tools.mirrored(message)));
        }
        // The trace context is repeated in every revision (JR-20).
        let params = match message {
            Message::Request(request) => request.params.as_ref(),
            Message::Notification(notification) => notification.params.as_ref(),
            Message::Response(_) => None,
        };
        let trace = TraceContext::headers_of(params);
        if !trace.is_empty() {
            post.mirrored.get_or_insert_default().extend(trace);
        }
        let lists_tools =
            is_mirrored && matches!(message, Message::Request(request) if request.method == Method::TOOLS_LIST);
        self.deliveries.add(post, lists_tools, output.timers);
        self.pump(now, output);
    }

    /// Sends waiting messages while exchanges are free.
    pub(super) fn pump(&mut self, now: Instant, output: &mut TransportOutput<'_, Http>) {
        if self.authorization.awaited.is_some() {
            self.hold_queued(now, output);
        }
        while let Some(message) = self.next_to_send(output) {
            self.post(message, now, output);
        }
        if self.mode.is_open() && self.deliveries.waits_first() {
            output.pass(Inbound::RequestWaits { limit: self.limits.requests_at_once() });
        }
        self.go_on_closing(output);
    }

    /// The next message for which an exchange is free.
    fn next_to_send(&self, output: &TransportOutput<'_, Http>) -> Option<DeliveryKey> {
        if self.deliveries.is_none_waiting() || !self.mode.is_open() {
            return None;
        }
        let reopens_stream = output.is_set(HttpTimer::GetStream);
        // A stream that will be opened again after a pause counts as open.
        let open = self.exchanges.len() + self.deliveries.resuming() + usize::from(reopens_stream);
        let room = self.limits.exchanges.saturating_sub(open);
        // The stream for the server's own messages uses one of the reserved exchanges.
        let has_stream = reopens_stream || self.exchanges.any(Purpose::is_stream);
        let kept = self.limits.exchanges - self.limits.requests_at_once();
        let kept = kept.saturating_sub(usize::from(has_stream));
        let next = |queue, is_free: bool| if is_free { self.deliveries.first_queued(queue) } else { None };
        next(Queue::Others, room > 0)
            .or_else(|| next(Queue::Pings, room > kept / 2))
            .or_else(|| next(Queue::Requests, room > kept))
    }

    /// Opens an exchange for a message.
    pub(super) fn post(&mut self, message: DeliveryKey, now: Instant, output: &mut TransportOutput<'_, Http>) {
        let Some(post) = self.deliveries.post(message) else { return };
        let opens_session = matches!(post.role, Role::Initialize(_));
        let to = post.to.as_ref().unwrap_or(self.mode.post_to(&self.config.endpoint));
        let common = self.common();
        let common = if opens_session { Common { session: None, version: None, ..common } } else { common };
        let common = Common { version: post.version.or(common.version), ..common };
        let request = common.post(to, post.body.clone(), post.mirrored.as_deref());
        let posted = Posted { message, role: post.role, redirects: post.redirects };
        let exchange = self.open(request, Purpose::Post(posted), output);
        self.deliveries.sent_on(message, exchange, output.timers);
        if message.request().is_none() {
            output.set_timer(HttpTimer::Accept(exchange), now + self.config.accept_timeout);
        }
    }

    /// Opens an exchange for a stream.
    pub(super) fn get(
        &mut self,
        from: Option<&HttpUrl>,
        purpose: Purpose,
        output: &mut TransportOutput<'_, Http>,
    ) -> ExchangeKey {
        let cursor = match &purpose {
            Purpose::GetStream { .. } => self.get_stream.cursor.resume_after(),
            Purpose::Resume { request, .. } => self.deliveries.cursor(*request).and_then(Cursor::resume_after),
            Purpose::Post(_) | Purpose::TwoEndpointStream { .. } | Purpose::Delete | Purpose::Drain => None,
        };
        let request = self.common().get(from.unwrap_or(&self.config.endpoint), cursor);
        self.open(request, purpose, output)
    }

    pub(super) fn open(
        &mut self,
        request: HttpRequest<Bytes>,
        purpose: Purpose,
        output: &mut TransportOutput<'_, Http>,
    ) -> ExchangeKey {
        let opens_session = matches!(&purpose, Purpose::Post(Posted { role: Role::Initialize(_), .. }));
        // The session of a two-endpoint server is in the URL that it named (HS-08).
        let credentials = self.authorization.credentials.as_ref().map(Credentials::generation);
        let opened_in = self.session.opened_in(!self.mode.is_streamable(), opens_session, credentials);
        let proof = credentials.and_then(|_| self.authorization.proof(&request));
        self.exchanges.open(Exchange::new(purpose, opened_in), request, proof, output)
    }

    /// The headers that all requests have in common.
    pub(super) fn common(&self) -> Common<'_> {
        let has_sessions = self.session.version().is_none_or(|version| !version.is_stateless());
        let cookies = self.cookies.as_ref().filter(|_| has_sessions);
        let credentials = self.authorization.credentials.as_ref();
        Common { cookies, ..self.session.common(&self.config.headers, &self.former_headers, credentials) }
    }

    /// The request will get no answer.
    pub(super) fn unanswered(&mut self, request: RequestKey, reason: Failed, output: &mut TransportOutput<'_, Http>) {
        self.undelivered(DeliveryKey::Request(request), reason, output);
    }

    /// A message certainly did not reach the server: it is sent again after a pause, within `HttpConfig::redelivery`.
    pub(super) fn not_delivered(
        &mut self,
        message: DeliveryKey,
        reason: Failed,
        now: Instant,
        output: &mut TransportOutput<'_, Http>,
    ) {
        let is_retried = !self.session.is_closing()
            && self.deliveries.retry_later(message, self.config.redelivery, now, output.timers);
        if !is_retried {
            self.undelivered(message, reason, output);
        }
    }

    /// The server has not accepted a message in time.
    pub(super) fn on_not_accepted(&mut self, exchange: ExchangeKey, output: &mut TransportOutput<'_, Http>) {
        if let Some(Purpose::Post(posted)) = self.exchanges.abort(exchange, output).map(|exchange| exchange.purpose) {
            let after = self.config.accept_timeout;
            self.undelivered(posted.message, Failed::TimedOut { after }, output);
        }
    }

    /// A message will not be accepted or answered.
    pub(super) fn undelivered(&mut self, message: DeliveryKey, reason: Failed, output: &mut TransportOutput<'_, Http>) {
        match self.deliveries.remove(message, output.timers).map(|removed| removed.role) {
            Some(Role::Initialize(request) | Role::Discover(request, _) | Role::Request(request)) => {
                output.unanswered(request, reason);
            }
            Some(Role::Confirmation) => {
                output.fault(Fault::NotAccepted { reason });
                output.pass(Inbound::Confirmed);
            }
            Some(Role::Answer | Role::Cancellation | Role::Notification) => output.fault(Fault::NotAccepted { reason }),
            None => {}
        }
    }
}

/// Whether a request may be sent again if the server has perhaps received it. Input from a person may be used only
/// once.
fn may_repeat(request: &Request) -> bool {
    let has = |params: &Json| params.first_members(["inputResponses", "requestState"]).iter().any(Option::is_some);
    request.method.facts().only_reads && !request.params.as_ref().is_some_and(has)
}
