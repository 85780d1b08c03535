//! Sessions: begun, accepted, lost, ended (RULES 4.1, 5.3).

use http::StatusCode;
use http::response::Parts;

use super::exchange::{ExchangeKey, Post, Purpose};
use super::headers::{Common, refusal};
use super::post_queue::PostQueue;
use super::two_endpoint::HttpMode;
use super::{Http, HttpAction, Place, Timer};
use crate::Instant;
use crate::client::carrier::{Inbound, Role, Wire};
use crate::conversation::deadlines::after;
use crate::conversation::pending::RequestKey;
use crate::error::{Failed, Fault, Quirk};
use crate::spec::ProtocolVersion;

/// How far closing has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// Not begun.
    No,
    /// What is no request is still delivered.
    Flushing,
    /// The server is told that the session ends (SH-C-09).
    Ending,
    /// Complete.
    Done,
}

impl Http {
    /// SH-C-08: `initialize` goes without a session.
    pub(super) fn begin_session(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        if self.session.is_some() {
            self.delete(wire);
        }
        self.generation += 1;
        self.is_ready = false;
        self.session = None;
        self.offered_session = None;
        self.version = None;
        self.drop_streams(wire);
        self.server_stream.was_open = false;
        self.server_stream.cursor.moved(None);
        if !self.mode.is_streamable() {
            self.mode = HttpMode::Opening { instead_of: None };
            self.open_two_endpoint_stream(now, wire);
        }
    }

    pub(super) fn accept_session(&mut self, version: ProtocolVersion, wire: &mut Wire<'_, HttpAction>) {
        self.session = self.offered_session.take().filter(|_| version.rules().sessions);
        self.version = Some(version);
        if version.rules().two_endpoints && self.mode.is_streamable() {
            wire.quirk(Quirk::FirstRevisionOverStreamableHttp);
        }
    }

    /// The server does not know the session any more.
    ///
    /// `refused` is the message that it said so about, and surely did not serve.
    pub(super) fn lose_session(
        &mut self,
        generation: u64,
        refused: Option<Post>,
        now: Instant,
        wire: &mut Wire<'_, HttpAction>,
    ) {
        let is_news = generation == self.generation && self.closing == Closing::No;
        if let Some(post) = refused.filter(|post| !self.is_void(post)) {
            self.refused_with_session(post, wire);
        }
        if !is_news {
            self.pump(now, wire);
            return;
        }
        self.is_ready = false;
        self.session = None;
        self.fail_delivered(wire);
        self.park_undelivered();
        wire.inbound.push_back(Inbound::SessionLost);
    }

    /// A message was refused because its session is gone: it is sent once more in the next one.
    fn refused_with_session(&mut self, mut post: Post, wire: &mut Wire<'_, HttpAction>) {
        if post.role == Role::Confirmation {
            // What waits for the confirmation waits for the next session, which has one of its own.
            return wire.fault(Fault::NotAccepted { reason: Failed::SessionLost });
        }
        let again = match post.role {
            Role::Request(_) | Role::Notification => !post.is_second_session,
            // SH-C-08: what the old session asked for is of no use to the next.
            Role::Initialize(_) | Role::Discover(..) | Role::Confirmation | Role::Answer | Role::Cancellation => false,
        };
        if !again {
            self.undelivered(post.role, Failed::SessionLost, wire);
            return;
        }
        post.is_second_session = true;
        if self.is_ready && self.closing == Closing::No {
            self.enqueue(post);
        } else {
            self.park(post);
        }
    }

    fn park(&mut self, post: Post) {
        let place = self.next_place();
        if let Some(request) = post.role.request() {
            self.place(request, Place::Parked(place));
        }
        self.parked.insert(place, post);
    }

    /// Requests that the server may have seen get their outcome at once: nobody knows whether they were served.
    fn fail_delivered(&mut self, wire: &mut Wire<'_, HttpAction>) {
        let delivered: Vec<_> = self
            .requests
            .iter()
            .filter(|(_, carried)| matches!(carried.place, Place::Exchange(_) | Place::Pausing | Place::Accepted))
            .map(|(request, _)| *request)
            .collect();
        for request in delivered {
            self.unanswered(request, Failed::SessionLost, wire);
        }
        self.drop_streams(wire);
        let orphans = self.keys_where(|purpose| purpose.request().is_some());
        for key in orphans {
            self.abort(key, wire);
        }
    }

    /// Messages that never left wait for the next session, except those that only this one could use.
    fn park_undelivered(&mut self) {
        let queued = std::mem::take(&mut self.queue);
        let held = std::mem::take(&mut self.held);
        for place in held.places() {
            self.timers.clear(Timer::Held(place));
        }
        for post in queued.into_posts().chain(held.into_posts()) {
            match post.role {
                Role::Request(_) | Role::Notification => self.park(post),
                Role::Initialize(_) | Role::Discover(..) | Role::Confirmation | Role::Answer | Role::Cancellation => {}
            }
        }
    }

    /// Closes every stream that belongs to the session and not to a request.
    pub(super) fn drop_streams(&mut self, wire: &mut Wire<'_, HttpAction>) {
        self.timers.clear(Timer::ServerStream);
        self.timers.clear(Timer::Endpoint);
        let streams = self
            .keys_where(|purpose| matches!(purpose, Purpose::ServerStream { .. } | Purpose::TwoEndpointStream { .. }));
        for key in streams {
            self.abort(key, wire);
        }
    }

    fn keys_where(&self, wanted: impl Fn(&Purpose) -> bool) -> Vec<ExchangeKey> {
        self.exchanges.iter().filter(|(_, exchange)| wanted(&exchange.purpose)).map(|(key, _)| *key).collect()
    }

    pub(super) fn begin_closing(&mut self, now: Instant, wire: &mut Wire<'_, HttpAction>) {
        if self.closing != Closing::No {
            return;
        }
        self.closing = Closing::Flushing;
        let requests: Vec<RequestKey> = self.requests.keys().copied().collect();
        for request in requests {
            self.forget(request);
        }
        self.parked = PostQueue::default();
        for key in self.keys_where(|purpose| purpose.request().is_some()) {
            self.abort(key, wire);
        }
        self.timers.clear_all();
        self.timers.set(Timer::Close, after(now, self.config.close_timeout));
        // What was to be tried again is tried now.
        for post in std::mem::take(&mut self.held).into_posts() {
            self.enqueue(post);
        }
        self.pump(now, wire);
    }

    /// Takes the next step of closing, if the last one is done.
    pub(super) fn go_on_closing(&mut self, wire: &mut Wire<'_, HttpAction>) {
        if self.closing != Closing::Flushing {
            return;
        }
        let is_busy = self.exchanges.values().any(|exchange| matches!(exchange.purpose, Purpose::Post(_)));
        if is_busy || (self.mode.is_open() && !self.queue.others.is_empty()) {
            return;
        }
        if self.session.is_some() {
            self.closing = Closing::Ending;
            self.delete(wire);
        } else {
            self.close_now(wire);
        }
    }

    fn delete(&mut self, wire: &mut Wire<'_, HttpAction>) {
        let common = Common { user: &self.config.headers, session: self.session.as_ref(), version: self.version };
        let request = common.delete(&self.config.endpoint);
        self.open(request, Purpose::Delete, wire);
    }

    pub(super) fn session_ended(&mut self, head: &Parts, wire: &mut Wire<'_, HttpAction>) {
        // SH-C-09: a server need not let a client end its session, and one that has forgotten it has ended it.
        let fine =
            head.status.is_success() || matches!(head.status, StatusCode::METHOD_NOT_ALLOWED | StatusCode::NOT_FOUND);
        if !fine {
            let reason = Failed::Refused(refusal(head.status, &head.headers, &self.limits));
            wire.fault(Fault::SessionNotEnded { reason });
        }
        self.deleted(wire);
    }

    pub(super) fn session_not_ended(&mut self, reason: Failed, wire: &mut Wire<'_, HttpAction>) {
        wire.fault(Fault::SessionNotEnded { reason });
        self.deleted(wire);
    }

    fn deleted(&mut self, wire: &mut Wire<'_, HttpAction>) {
        if self.closing == Closing::Ending {
            self.close_now(wire);
        }
    }

    /// H6: closing has a deadline of its own.
    pub(super) fn close_unended(&mut self, wire: &mut Wire<'_, HttpAction>) {
        if self.closing == Closing::Ending {
            let after = self.config.close_timeout;
            wire.fault(Fault::SessionNotEnded { reason: Failed::TimedOut { after } });
        }
        self.close_now(wire);
    }

    fn close_now(&mut self, wire: &mut Wire<'_, HttpAction>) {
        if self.closing == Closing::Done {
            return;
        }
        self.closing = Closing::Done;
        self.session = None;
        for key in self.keys_where(|_| true) {
            self.abort(key, wire);
        }
        self.timers.clear_all();
        wire.inbound.push_back(Inbound::Closed);
    }
}
