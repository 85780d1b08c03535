//! The operations that the client needs from this transport.

use std::time::Duration;

use super::config::HttpTransport;
use super::delivery::{DeliveryKey, DueDelivery, Post, Progress};
use super::exchange::{ExchangeTimer, Purpose};
use super::{Http, HttpAction, Timer};
use crate::Instant;
use crate::client::carrier::{Backlog, Carrier, ClientTransport, Role, Wire};
use crate::codec::jsonrpc::Message;
use crate::conversation::backoff::Jitter;
use crate::conversation::pending::RequestKey;
use crate::error::Failed;
use crate::limits::{Limits, Load};
use crate::spec::Method;
use crate::spec::{CancelBy, ProtocolVersion};
use crate::transport::{Transport, sealed};

impl sealed::Sealed for Http {}

impl Transport for Http {
    type Action = HttpAction;
}

impl ClientTransport for Http {
    fn redeliver_for(&mut self, time: Duration) {
        self.config.redelivery = time;
    }
}

impl Carrier for Http {
    const SILENCE_MEANS_LEGACY: bool = false;
    const LOSES_SESSIONS: bool = true;

    fn peer(&self) -> String {
        format!("the server at {}", self.server())
    }

    fn configure(&mut self, limits: &Limits, seed: u64) {
        self.limits = limits.clone();
        self.jitter = Jitter::new(seed);
    }

    fn begin(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        self.begin_session(now, wire);
    }

    fn send(&mut self, message: &Message, role: Role, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        let mut post = Post::new(role, message.to_bytes());
        post.is_ping = matches!(message, Message::Request(request) if request.method == Method::PING);
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
            post.mirrored = Some(Box::new(self.mirrored(message)));
        }
        let lists_tools =
            is_mirrored && matches!(message, Message::Request(request) if request.method == Method::TOOLS_LIST);
        self.deliveries.add(post, lists_tools);
        self.pump(now, wire);
    }

    fn backlog(&self) -> Backlog {
        self.deliveries.backlog()
    }

    fn load(&self) -> Load {
        let (waiting, bytes) = self.deliveries.load();
        Load {
            exchanges: self.exchanges.len(),
            waiting,
            held: bytes + self.exchanges.receiving(),
            timers: self.exchanges.timers() + self.deliveries.timers() + self.timers.len(),
            ..Load::default()
        }
    }

    fn takes_answer(&self, bytes: usize, limits: &Limits) -> bool {
        limits.holds(bytes, || self.deliveries.unaccepted())
    }

    fn wants_input(&self, _limits: &Limits) -> bool {
        // Reading responses frees exchanges, so it never stops.
        true
    }

    fn may_be_modern(&self) -> bool {
        self.config.transport != HttpTransport::HttpSse
    }

    fn repeats_arguments(&self) -> bool {
        true
    }

    fn respawn(&mut self, _wire: &mut Wire<'_, HttpAction>) {}

    fn cancel(&mut self, request: RequestKey, notice: &Message, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        if self.session.version().is_some_and(|version| version.rules().cancel_by == CancelBy::ClosingTheExchange) {
            self.close_exchange(request, wire);
            self.pump(now, wire);
            return;
        }
        let notice = notice.to_bytes();
        match self.deliveries.progress(request) {
            None => return,
            Some(Progress::Unsent) => {}
            Some(Progress::On(key)) => match self.exchanges.get_mut(key) {
                // A cancellation must not overtake the request that it cancels (BR-T-08).
                Some(exchange) if !exchange.sent => exchange.cancellation = Some(notice),
                Some(_) | None => self.deliveries.add(Post::new(Role::Cancellation, notice), false),
            },
            // A request that the server has is cancelled by a message, not by closing an exchange (CX-09).
            Some(Progress::Delivered) => self.deliveries.add(Post::new(Role::Cancellation, notice), false),
        }
        self.abandon(request, now, wire);
        self.pump(now, wire);
    }

    fn abandon(&mut self, request: RequestKey, now: Instant, _wire: &mut Wire<'_, HttpAction>) {
        let removed = self.deliveries.remove(DeliveryKey::Request(request));
        if let Some(key) = removed.and_then(|removed| removed.exchange) {
            self.exchanges.linger_until(key, now + self.config.linger);
        }
    }

    fn negotiated(&mut self, version: ProtocolVersion, wire: &mut Wire<'_, HttpAction>) {
        self.accept_session(version, wire);
    }

    fn ready(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        self.session.ready();
        self.deliveries.enqueue_for_session();
        let streams = self.session.version().is_some_and(|version| version.rules().get_stream);
        if streams && self.mode.is_streamable() {
            self.open_server_stream(wire);
        }
        self.pump(now, wire);
    }

    fn close(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        self.begin_closing(now, wire);
    }

    fn handle_timeout(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        while let Some(due) = self.pop_due(now) {
            match due {
                Due::Exchange(ExchangeTimer::Idle(exchange)) => self.on_silence(exchange, now, wire),
                Due::Exchange(ExchangeTimer::Linger(exchange)) => {
                    // The server may have received the request, and does not treat the closed exchange as a
                    // cancellation (CX-09).
                    if let Some(notice) =
                        self.exchanges.abort(exchange, wire).and_then(|exchange| exchange.cancellation)
                    {
                        self.deliveries.add(Post::new(Role::Cancellation, notice), false);
                    }
                }
                Due::Exchange(ExchangeTimer::Accept(exchange)) => {
                    if let Some(Purpose::Post(posted)) =
                        self.exchanges.abort(exchange, wire).map(|exchange| exchange.purpose)
                    {
                        let after = self.config.accept_timeout;
                        self.undelivered(posted.message, Failed::TimedOut { after }, wire);
                    }
                }
                Due::Delivery(DueDelivery::Retry(message)) => self.deliveries.enqueue(message),
                Due::Delivery(DueDelivery::Resume(request)) => {
                    let exchange = self.get(None, Purpose::Resume { request, redirects: 0 }, wire);
                    self.deliveries.read_on(request, exchange);
                }
                Due::Other(Timer::ServerStream) => self.open_server_stream(wire),
                Due::Other(Timer::Endpoint) => self.on_no_endpoint(wire),
                Due::Other(Timer::Close) => self.close_unended(wire),
            }
        }
        self.pump(now, wire);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        [self.exchanges.poll_timeout(), self.deliveries.poll_timeout(), self.timers.next()].into_iter().flatten().min()
    }
}

/// A timer that is due.
enum Due {
    Exchange(ExchangeTimer),
    Delivery(DueDelivery),
    Other(Timer),
}

impl Http {
    /// Removes and returns the earliest timer that is due; of those for one time, that of an exchange first.
    fn pop_due(&mut self, now: Instant) -> Option<Due> {
        let next = self.poll_timeout().filter(|next| *next <= now)?;
        let due = self.exchanges.pop_due(next).map(Due::Exchange);
        let due = due.or_else(|| self.deliveries.pop_due(next).map(Due::Delivery));
        due.or_else(|| self.timers.pop_due(next).map(Due::Other))
    }
}
