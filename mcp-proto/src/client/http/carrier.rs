//! The operations that the client needs from this transport.

use std::time::Duration;

use super::config::HttpTransport;
use super::post_queue::PostQueue;
use super::resume::Cursor;
use super::{Carried, Http, HttpAction, Place, Post, Purpose, Queue, Timer};
use crate::Instant;
use crate::client::carrier::{Backlog, Carrier, Role, Wire};
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

impl Carrier for Http {
    const SILENCE_MEANS_LEGACY: bool = false;
    const LOSES_SESSIONS: bool = true;

    fn peer(&self) -> String {
        format!("the server at {}", self.server())
    }

    fn redeliver_for(&mut self, time: Duration) {
        self.config.redelivery = time;
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
                self.version
            }
        };
        let is_mirrored = version.is_some_and(|version| version.rules().mirrored_headers);
        if is_mirrored {
            post.version = version;
            post.mirrored = Some(Box::new(self.mirrored(message)));
        }
        let place = self.next_place();
        if let Some(request) = role.request() {
            let lists_tools =
                is_mirrored && matches!(message, Message::Request(request) if request.method == Method::TOOLS_LIST);
            let cursor = Cursor::new();
            self.requests.insert(request, Carried { place: Place::Queued(place), cursor, lists_tools });
        }
        self.queue.insert(place, post);
        self.pump(now, wire);
    }

    fn backlog(&self) -> Backlog {
        let Queue { requests, pings, others } = &self.queue;
        [requests, pings, others, &self.parked, &self.held]
            .into_iter()
            .map(PostQueue::backlog)
            .fold(Backlog::default(), Backlog::plus)
    }

    fn load(&self) -> Load {
        let Queue { requests, pings, others } = &self.queue;
        let waiting = [requests, pings, others, &self.parked, &self.held].into_iter().flat_map(PostQueue::posts);
        let (waiting, bytes) = waiting.fold((0, 0), |(count, bytes), post| (count + 1, bytes + post.body.len()));
        Load {
            exchanges: self.exchanges.len(),
            waiting: waiting + self.pausing,
            held: bytes + self.receiving,
            timers: self.timers.len(),
            ..Load::default()
        }
    }

    fn takes_answer(&self, bytes: usize, limits: &Limits) -> bool {
        limits.holds(bytes, || {
            let being_sent = self.exchanges.values().map(|exchange| match &exchange.purpose {
                Purpose::Post(post) if post.role.request().is_none() => post.body.len(),
                Purpose::Post(_)
                | Purpose::ServerStream { .. }
                | Purpose::Resume { .. }
                | Purpose::TwoEndpointStream { .. }
                | Purpose::Delete
                | Purpose::Drain => 0,
            });
            self.backlog().message_bytes + being_sent.sum::<usize>()
        })
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
        if self.version.is_some_and(|version| version.rules().cancel_by == CancelBy::ClosingTheExchange) {
            self.close_exchange(request, wire);
            self.pump(now, wire);
            return;
        }
        let Some(carried) = self.requests.get(&request) else { return };
        let post = Post::new(Role::Cancellation, notice.to_bytes());
        match carried.place {
            Place::Queued(_) | Place::Held(_) | Place::Parked(_) => {}
            Place::Exchange(key) => match self.exchanges.get_mut(&key) {
                // A cancellation must not overtake the request that it cancels (BR-T-08).
                Some(exchange) if !exchange.sent => exchange.cancellation = Some(post),
                Some(_) | None => self.enqueue(post),
            },
            // A request that the server has is cancelled by a message, not by closing an exchange (CX-09).
            Place::Pausing | Place::Accepted => self.enqueue(post),
        }
        self.abandon(request, now, wire);
        self.pump(now, wire);
    }

    fn abandon(&mut self, request: RequestKey, now: Instant, _wire: &mut Wire<'_, HttpAction>) {
        let Some(carried) = self.forget(request) else { return };
        if let Place::Exchange(key) = carried.place {
            self.timers.set(Timer::Linger(key), now + self.config.linger);
        }
    }

    fn negotiated(&mut self, version: ProtocolVersion, wire: &mut Wire<'_, HttpAction>) {
        self.accept_session(version, wire);
    }

    fn ready(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        self.is_ready = true;
        for post in std::mem::take(&mut self.parked).into_posts() {
            self.enqueue(post);
        }
        let streams = self.version.is_some_and(|version| version.rules().get_stream);
        if streams && self.mode.is_streamable() {
            self.open_server_stream(wire);
        }
        self.pump(now, wire);
    }

    fn close(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        self.begin_closing(now, wire);
    }

    fn handle_timeout(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        while let Some(timer) = self.timers.pop_due(now) {
            match timer {
                Timer::Idle(exchange) => self.on_silence(exchange, now, wire),
                Timer::Linger(exchange) => {
                    // The server may have received the request, and does not treat the closed exchange as a
                    // cancellation (CX-09).
                    if let Some(notice) = self.abort(exchange, wire).and_then(|exchange| exchange.cancellation) {
                        self.enqueue(notice);
                    }
                }
                Timer::Accept(exchange) => {
                    if let Some(Purpose::Post(post)) = self.abort(exchange, wire).map(|exchange| exchange.purpose) {
                        let after = self.config.accept_timeout;
                        self.undelivered(post.role, Failed::TimedOut { after }, wire);
                    }
                }
                Timer::Held(number) => {
                    if let Some(post) = self.held.remove(number) {
                        self.enqueue(post);
                    }
                }
                Timer::Resume(request) => {
                    self.pausing -= 1;
                    let exchange = self.get(None, Purpose::Resume { request, redirects: 0 }, wire);
                    self.place(request, Place::Exchange(exchange));
                }
                Timer::ServerStream => self.open_server_stream(wire),
                Timer::Endpoint => self.on_no_endpoint(wire),
                Timer::Close => self.close_unended(wire),
            }
        }
        self.pump(now, wire);
    }

    fn poll_timeout(&self) -> Option<Instant> {
        self.timers.next()
    }
}
