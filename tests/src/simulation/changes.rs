//! The model of changes that a server publishes. Each change reaches each listener once if no fault affected its
//! stream, and a listener that may have missed changes is notified.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::client::SubscriptionKey;

/// The time without a fault after which the listeners of a connection are expected to receive every change.
const SETTLING: Duration = Duration::from_secs(10);

/// The published changes, and which clients must receive them.
#[derive(Debug)]
pub struct Changes {
    published: u64,
    clients: Vec<Listener>,
    delivered: u64,
}

/// Where a client receives changes: a subscription, or `None` for the session.
type Through = Option<SubscriptionKey>;

#[derive(Debug, Default)]
struct Listener {
    /// The time since which each subscription or session is open.
    since: BTreeMap<Through, Instant>,
    /// All subscriptions that have not ended.
    open: BTreeSet<SubscriptionKey>,
    undisturbed_since: Option<Instant>,
    /// No change arrives before this time.
    delayed_until: Option<Instant>,
    seen: BTreeSet<(Through, u64)>,
    expected: BTreeMap<(Through, u64), Instant>,
    /// The gap after a broken stream, and the time until which it must be reported.
    #[expect(clippy::option_option, reason = "no gap, one without a bound, and one with it")]
    gap: Option<Option<Instant>>,
    /// The time when a subscription last ended.
    given_up: Option<Instant>,
    /// Whether a fault affected the stream of a subscription or a session, which was not opened since.
    is_deaf: bool,
}

impl Changes {
    /// A model without changes.
    pub fn new(clients: usize) -> Self {
        Self { published: 0, clients: (0..clients).map(|_| Listener::default()).collect(), delivered: 0 }
    }

    /// A client has made a subscription.
    pub fn listens(&mut self, client: usize, key: SubscriptionKey) {
        assert!(self.clients[client].open.insert(key), "{key:?} names two subscriptions");
    }

    /// A subscription of a client that has not ended.
    pub fn any_subscription(&self, client: usize) -> Option<SubscriptionKey> {
        self.clients[client].open.first().copied()
    }

    /// The number of subscriptions of a client that have not ended.
    pub fn subscriptions(&self, client: usize) -> usize {
        self.clients[client].open.len()
    }

    /// A subscription was opened, or a session that receives changes without a subscription.
    pub fn opened(&mut self, client: usize, through: Through, now: Instant) {
        self.clients[client].since.insert(through, now);
    }

    /// A subscription was interrupted, and its client was notified.
    pub fn interrupted(&mut self, client: usize, key: SubscriptionKey) {
        let listener = &mut self.clients[client];
        listener.since.remove(&Some(key));
        listener.expected.retain(|(through, _), _| *through != Some(key));
        listener.gap = None;
    }

    /// A subscription has ended.
    pub fn ended(&mut self, client: usize, key: SubscriptionKey, now: Instant) {
        assert!(self.clients[client].open.remove(&key), "{key:?} ended twice");
        self.clients[client].given_up = Some(now);
        self.interrupted(client, key);
    }

    /// The server publishes a change; returns its number. `latency` is the longest time that the change takes to reach
    /// a client if all connections are up.
    pub fn publish(&mut self, now: Instant, latency: impl Fn(usize, Through) -> Option<Duration>) -> u64 {
        self.published += 1;
        let number = self.published;
        for (client, listener) in self.clients.iter_mut().enumerate() {
            let is_settled = |since: Instant| now >= since + SETTLING;
            if listener.is_deaf || !listener.undisturbed_since.is_none_or(is_settled) {
                continue;
            }
            for through in listener.since.iter().filter(|(_, since)| is_settled(**since)).map(|(through, _)| *through) {
                if let Some(latency) = latency(client, through) {
                    let from = listener.delayed_until.map_or(now, |until| until.max(now));
                    listener.expected.insert((through, number), from + latency);
                }
            }
        }
        number
    }

    /// A client has received a change. One without a number reports that changes may have been missed.
    pub fn notified(&mut self, client: usize, through: Through, number: Option<u64>) {
        let listener = &mut self.clients[client];
        let Some(number) = number else {
            listener.gap = None;
            return;
        };
        assert!(number <= self.published, "a change that was not published");
        assert!(listener.seen.insert((through, number)), "change {number} came twice to client {client}");
        listener.expected.remove(&(through, number));
        self.delivered += 1;
    }

    /// A fault affected the exchange of a subscription.
    pub fn deafened(&mut self, client: usize, now: Instant) {
        self.disturbed(client, now);
        self.clients[client].is_deaf = true;
    }

    /// A fault affected a connection that carries changes to a client.
    pub fn disturbed(&mut self, client: usize, now: Instant) {
        let listener = &mut self.clients[client];
        listener.undisturbed_since = listener.undisturbed_since.max(Some(now));
        listener.expected.clear();
    }

    /// Nothing reaches a client before this time.
    pub fn delayed(&mut self, client: usize, until: Instant) {
        let listener = &mut self.clients[client];
        listener.delayed_until = listener.delayed_until.max(Some(until));
        for due in listener.expected.values_mut() {
            *due = (*due).max(until);
        }
        if let Some(Some(due)) = &mut listener.gap {
            *due = (*due).max(until);
        }
    }

    /// The stream of a subscription has ended. The gap must be reported by the time `by`; with `None`, after another
    /// stream is open. `unread_since`: the client's relay has read what the client wrote before that time only.
    pub fn broke(&mut self, client: usize, by: Option<Instant>, unread_since: Option<Instant>) {
        let listener = &self.clients[client];
        // A subscription that has ended misses nothing, and its relay may not know yet that it has ended.
        let is_given_up = listener.given_up.is_some_and(|at| unread_since.is_some_and(|since| since <= at));
        if !listener.since.is_empty() && !is_given_up {
            self.clients[client].gap = Some(by.map(|by| self.not_before(client, by)));
        }
    }

    /// Another stream has replaced the broken one.
    pub fn opened_again(&mut self, client: usize, by: Instant) {
        self.clients[client].is_deaf = false;
        let by = self.not_before(client, by);
        if let Some(gap @ None) = &mut self.clients[client].gap {
            *gap = Some(by);
        }
    }

    fn not_before(&self, client: usize, by: Instant) -> Instant {
        self.clients[client].delayed_until.map_or(by, |until| until.max(by))
    }

    /// The client has closed.
    pub fn closed(&mut self, client: usize) {
        self.clients[client].gap = None;
        self.clients[client].expected.clear();
        self.clients[client].since.clear();
    }

    /// Checks that everything that is due has arrived.
    pub fn check(&self, now: Instant) {
        for (client, listener) in self.clients.iter().enumerate() {
            for ((through, number), due) in &listener.expected {
                assert!(now <= *due, "change {number} did not come to client {client} through {through:?}");
            }
            let is_late = matches!(listener.gap, Some(Some(due)) if now > due);
            assert!(!is_late, "client {client} was not notified that it may have missed changes");
        }
    }

    /// Checks that all subscriptions have ended.
    pub fn is_over(&self) {
        for (client, listener) in self.clients.iter().enumerate() {
            assert!(listener.open.is_empty(), "{:?} of client {client} never ended", listener.open);
        }
    }

    /// The number of change notifications that clients have received.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }
}
