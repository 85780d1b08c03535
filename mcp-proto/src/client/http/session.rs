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
use crate::conversation::pending::RequestKey;
use crate::error::{Failed, Fault, Quirk};
use crate::spec::ProtocolVersion;

/// The progress of closing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Closing {
    /// Not begun.
    No,
    /// Notifications and answers are still being delivered.
    Flushing,
    /// The session is being ended with DELETE (SH-C-09).
    Ending,
    /// Complete.
    Done,
}

impl Http {
    /// Discards the session, because `initialize` is sent without one (SH-C-08).
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

    /// The server has lost the session.
    ///
    /// `refused` is the message that the server refused for this reason, and certainly did not process.
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

    /// A message was refused because its session is lost: it is sent once more in the next session.
    fn refused_with_session(&mut self, mut post: Post, wire: &mut Wire<'_, HttpAction>) {
        if post.role == Role::Confirmation {
            // Messages that wait for the confirmation wait for the next session, which has its own confirmation.
            return wire.fault(Fault::NotAccepted { reason: Failed::SessionLost });
        }
        let again = match post.role {
            Role::Request(_) | Role::Notification => !post.is_second_session,
            // These messages are of no use in another session (SH-C-08).
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

    /// Fails all requests that the server may have received, because it is unknown whether they were processed.
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

    /// Keeps messages that were not delivered for the next session, except those that are of use in this session only.
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
        self.timers.set(Timer::Close, now + self.config.close_timeout);
        // Messages that wait for another attempt are tried now.
        for post in std::mem::take(&mut self.held).into_posts() {
            self.enqueue(post);
        }
        self.pump(now, wire);
    }

    /// Takes the next step of closing, if the previous one is done.
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
        // A server need not support DELETE, and one that has lost the session has ended it (SH-C-09).
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

    /// The deadline for closing has passed (H6).
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
