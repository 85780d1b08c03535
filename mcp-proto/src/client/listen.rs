//! Subscriptions of the modern era: opened, acknowledged, lost and opened again, ended (RULES 8.7).

use std::collections::BTreeMap;
use std::time::Duration;

use super::event::{Event, Scope, SubscriptionKey};
use super::handshake::{may_pass, retry_after};
use super::transport::ClientTransport;
use super::{Call, Client, ClientTimer, Purpose};
use crate::Instant;
use crate::conversation::backoff::Backoff;
use crate::conversation::cancellation;
use crate::conversation::keys::RequestKey;
use crate::conversation::outcome::Outcome;
use crate::conversation::outgoing::Match;
use crate::error::{Failed, UsageError};
use crate::json::Json;
use crate::jsonrpc::{Notification, RequestId};
use crate::spec::Method;
use crate::spec::meta::SUBSCRIPTION_ID;

/// All subscriptions that have not ended.
#[derive(Debug)]
pub(super) struct Subscriptions {
    pub(super) open: BTreeMap<SubscriptionKey, Listening>,
    next: SubscriptionKey,
}

impl Subscriptions {
    pub(super) const fn new() -> Self {
        Self { open: BTreeMap::new(), next: SubscriptionKey::FIRST }
    }
}

/// One subscription.
#[derive(Debug)]
pub(super) struct Listening {
    filter: Json,
    /// The request that carries it; `None` while it waits to be opened.
    request: Option<RequestKey>,
    is_acknowledged: bool,
    /// It was acknowledged at least once, so it is opened again when it is lost.
    was_acknowledged: bool,
    backoff: Backoff,
}

impl<T: ClientTransport> Client<T> {
    /// Subscribes to changes. `filter` is the object `notifications` of `subscriptions/listen`.
    ///
    /// [`Event::Listening`] follows when the server has acknowledged it, and [`Event::ListeningEnded`] exactly once
    /// when it ends. A subscription that is lost after its acknowledgement is opened again, with growing pauses.
    ///
    /// # Errors
    ///
    /// [`UsageError::NotInRevision`] if the server is a legacy one: such servers support `resources/subscribe`, and
    /// send notifications about changed lists without a subscription. [`UsageError`] otherwise if it cannot be opened;
    /// nothing was sent then.
    ///
    /// Rules: MD-L-01.
    pub fn listen(&mut self, filter: Json, now: Instant) -> Result<SubscriptionKey, UsageError> {
        self.check_open()?;
        if !filter.is_object() {
            return Err(UsageError::NotAnObject { what: "the filter" });
        }
        let is_session = self.connection.phase.takes_requests() && !self.connection.is_stateless();
        if let Some(version) = self.connection.version().filter(|_| is_session) {
            return Err(UsageError::NotInRevision { what: "subscriptions/listen", version });
        }
        let limit = self.config.limits.subscriptions;
        if self.subscriptions.open.len() >= limit {
            return Err(UsageError::TooManySubscriptions { limit });
        }
        let key = self.subscriptions.next;
        self.subscriptions.next = key.next();
        let backoff = Backoff::new();
        let listening = Listening { filter, request: None, is_acknowledged: false, was_acknowledged: false, backoff };
        self.subscriptions.open.insert(key, listening);
        if self.connection.phase.takes_requests() {
            self.open_subscription(key, now);
        } else {
            self.try_on_demand(now);
        }
        Ok(key)
    }

    /// Ends a subscription. Its outcome is [`Failed::Cancelled`], unless it has ended already.
    pub fn unlisten(&mut self, subscription: SubscriptionKey, now: Instant) {
        self.end_subscription(subscription, Outcome::Failed(Failed::Cancelled), now);
    }

    /// Opens the subscriptions that wait for the connection.
    pub(super) fn open_subscriptions(&mut self, now: Instant) {
        let waiting: Vec<_> = self
            .subscriptions
            .open
            .iter()
            .filter(|(key, listening)| listening.request.is_none() && !self.timers.is_set(ClientTimer::Listen(**key)))
            .map(|(key, _)| *key)
            .collect();
        for key in waiting {
            self.open_subscription(key, now);
        }
    }

    pub(super) fn open_subscription(&mut self, key: SubscriptionKey, now: Instant) {
        let Some(version) = self.connection.version() else { return };
        let Some(stateless) = self.connection.stateless() else {
            return self.end_subscription(key, Outcome::Failed(Failed::NotInRevision { version }), now);
        };
        let Some(listening) = self.subscriptions.open.get_mut(&key) else { return };
        listening.is_acknowledged = false;
        let params = Json::empty_object().with_member("notifications", &listening.filter);
        let params = stateless.stamped(&self.connection.identity, Some(&params));
        // The request has no deadline; only its acknowledgement has one (MD-L-13).
        let call = Call::new(Method::SUBSCRIPTIONS_LISTEN).params(params).timeout(Duration::MAX);
        let request = self.send_internal(call, Purpose::Subscription(key), now);
        // The request may have ended already.
        let is_sent = self.outgoing.get(request).is_some();
        if let Some(listening) = self.subscriptions.open.get_mut(&key).filter(|_| is_sent) {
            listening.request = Some(request);
            self.timers.clear(ClientTimer::Answer(request));
            self.timers.set(ClientTimer::Acknowledged(key), now + self.config.request_timeout);
        }
    }

    /// The server did not acknowledge in time.
    pub(super) fn on_not_acknowledged(&mut self, key: SubscriptionKey, now: Instant) {
        let reason = Failed::TimedOut { after: self.config.request_timeout };
        self.end_subscription(key, Outcome::Failed(reason), now);
    }

    /// Handles a notification that belongs to a subscription; returns any other, with the request that it belongs to.
    pub(super) fn on_subscribed(
        &mut self,
        notification: Notification,
        during: Option<RequestKey>,
        now: Instant,
    ) -> Option<(Notification, Option<RequestKey>)> {
        let mut about = during;
        let mut key = during.and_then(|request| self.subscription(request));
        if key.is_none() {
            let named = self.named(notification.params.as_ref());
            key = named.and_then(|request| self.subscription(request));
            about = about.or(named);
        }
        let Some(key) = key else { return Some((notification, about)) };
        let Notification { method, params } = notification;
        if method == Method::SUBSCRIPTIONS_ACKNOWLEDGED {
            self.on_acknowledged(key, params);
        } else {
            self.report_bounded(Event::Notified { scope: Scope::Subscription(key), method, params }, now);
        }
        None
    }

    /// The open `subscriptions/listen` that a notification names (MD-L-04).
    fn named(&self, params: Option<&Json>) -> Option<RequestKey> {
        let id = params?.first_member("_meta")?.first_member(SUBSCRIPTION_ID)?;
        let Match::Open(request) = self.outgoing.find(&RequestId::from_json_text(id.as_bytes())?) else { return None };
        let is_listen = self.outgoing.get(request).is_some_and(|it| it.method == Method::SUBSCRIPTIONS_LISTEN);
        is_listen.then_some(request)
    }

    pub(super) fn subscription(&self, request: RequestKey) -> Option<SubscriptionKey> {
        match self.outgoing.get(request)?.purpose {
            Purpose::Subscription(key) => Some(key),
            Purpose::Application | Purpose::Opening | Purpose::Tools { .. } | Purpose::Restoring => None,
        }
    }

    /// Handles the first acknowledgement of a subscription (MD-L-02).
    fn on_acknowledged(&mut self, key: SubscriptionKey, params: Option<Json>) {
        let Some(listening) = self.subscriptions.open.get_mut(&key) else { return };
        if std::mem::replace(&mut listening.is_acknowledged, true) {
            return;
        }
        listening.was_acknowledged = true;
        listening.backoff.reset();
        self.timers.clear(ClientTimer::Acknowledged(key));
        let filter = params.and_then(|params| params.first_member("notifications")).unwrap_or(Json::empty_object());
        self.out.report(Event::Listening { subscription: key, filter });
    }

    /// A server on a byte stream may end a subscription with `notifications/cancelled` (A6).
    pub(super) fn on_taken_back(&mut self, id: &RequestId, now: Instant) {
        let Match::Open(request) = self.outgoing.find(id) else { return };
        if let Some(key) = self.subscription(request) {
            self.forget_request_of(key, now);
            self.end_subscription(key, Outcome::Failed(Failed::EndedByServer), now);
        }
    }

    /// The request that carries a subscription has ended.
    pub(super) fn on_listen_outcome(&mut self, key: SubscriptionKey, outcome: Outcome, now: Instant) {
        let Some(listening) = self.subscriptions.open.get_mut(&key) else { return };
        listening.request = None;
        self.timers.clear(ClientTimer::Acknowledged(key));
        match outcome {
            // A subscription that was lost without a result may be opened again (MD-L-11).
            Outcome::Failed(reason)
                if listening.was_acknowledged && may_pass(&reason) && self.connection.phase.takes_requests() =>
            {
                let asked = retry_after(&reason);
                let pause = listening.backoff.next(asked, &self.config.limits, &mut self.connection.jitter, now);
                self.timers.set(ClientTimer::Listen(key), now + pause);
                // Changes in the meantime are not reported (MD-L-11).
                if let Some(cache) = &mut self.cache {
                    cache.clear();
                }
                self.out.report(Event::ListeningInterrupted { subscription: key, reason, retry_in: pause });
            }
            outcome @ (Outcome::Result(_) | Outcome::Error(_) | Outcome::Failed(_)) => {
                self.end_subscription(key, outcome, now);
            }
        }
    }

    pub(super) fn end_subscription(&mut self, key: SubscriptionKey, outcome: Outcome, now: Instant) {
        let Some(listening) = self.subscriptions.open.remove(&key) else { return };
        self.timers.clear(ClientTimer::Acknowledged(key));
        self.timers.clear(ClientTimer::Listen(key));
        let is_open = |request: &RequestKey| self.outgoing.give_up(*request, &mut self.timers).is_some();
        if let Some(request) = listening.request.filter(is_open) {
            // Cancelling the request ends the subscription at the server (MD-L-08).
            let notice = cancellation::notice(request, &Json::empty_object());
            self.with_transport(now, |transport, output| transport.cancel(request, &notice, now, output));
        }
        // Changes are not reported any more, until the application subscribes again.
        if let Some(cache) = &mut self.cache {
            cache.clear();
        }
        self.out.report(Event::ListeningEnded { subscription: key, outcome });
    }

    /// Ends all subscriptions with this outcome.
    pub(super) fn end_subscriptions(&mut self, outcome: &Outcome, now: Instant) {
        for key in self.subscriptions.open.keys().copied().collect::<Vec<_>>() {
            self.end_subscription(key, outcome.clone(), now);
        }
    }

    /// Removes the request of a subscription without notifying the server, which has ended it.
    fn forget_request_of(&mut self, key: SubscriptionKey, now: Instant) {
        let request = self.subscriptions.open.get_mut(&key).and_then(|listening| listening.request.take());
        if let Some(request) = request {
            self.outgoing.give_up(request, &mut self.timers);
            self.with_transport(now, |transport, output| transport.abandon(request, now, output));
        }
    }
}
