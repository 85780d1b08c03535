//! The model of changes that a server publishes: each reaches each listener whose stream met no fault once, and a
//! listener that may have missed one is told.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use mcp_proto::Instant;
use mcp_proto::client::SubscriptionKey;

use super::pipe;

/// How long a connection must have been undisturbed before its listeners are expected to get every change.
const SETTLING: Duration = Duration::from_secs(10);

/// Changes, and who must get them.
#[derive(Debug)]
pub struct Changes {
    published: u64,
    clients: Vec<Listener>,
    delivered: u64,
}

/// Where changes come for one client: through a subscription, or for its session.
type Through = Option<SubscriptionKey>;

#[derive(Debug, Default)]
struct Listener {
    /// Since when each place is listened at.
    since: BTreeMap<Through, Instant>,
    /// All subscriptions that have not ended.
    open: BTreeSet<SubscriptionKey>,
    undisturbed_since: Option<Instant>,
    /// Nothing arrives before this.
    delayed_until: Option<Instant>,
    seen: BTreeSet<(Through, u64)>,
    expected: BTreeMap<(Through, u64), Instant>,
    /// A stream of changes broke; until when that must be reported.
    #[expect(clippy::option_option, reason = "no gap, one without a bound, and one with it")]
    gap: Option<Option<Instant>>,
    /// When a subscription was last given up; its relay has not heard of it before its stream breaks, perhaps.
    given_up: Option<Instant>,
    /// The stream of a subscription or a session met a fault, and was not opened since.
    is_deaf: bool,
}

impl Changes {
    /// Nothing was published.
    pub fn new(clients: usize) -> Self {
        Self { published: 0, clients: (0..clients).map(|_| Listener::default()).collect(), delivered: 0 }
    }

    /// A subscription was made.
    pub fn listens(&mut self, client: usize, key: SubscriptionKey) {
        assert!(self.clients[client].open.insert(key), "{key:?} names two subscriptions");
    }

    /// A subscription of a client that has not ended.
    pub fn any_subscription(&self, client: usize) -> Option<SubscriptionKey> {
        self.clients[client].open.first().copied()
    }

    /// A subscription is open, or a session is that gets changes without one.
    pub fn opened(&mut self, client: usize, through: Through, now: Instant) {
        self.clients[client].since.insert(through, now);
    }

    /// A subscription is not open any more, and its client was told.
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

    /// The server publishes a change; returns its number. `latency` is how long it may take to a client, if everything
    /// that carries it is up.
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

    /// A client was told of a change; one without a number stands for whatever it may have missed.
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

    /// A fault met the exchange of a subscription.
    pub fn deafened(&mut self, client: usize, now: Instant) {
        self.disturbed(client, now);
        self.clients[client].is_deaf = true;
    }

    /// A fault met what carries changes to a client.
    pub fn disturbed(&mut self, client: usize, now: Instant) {
        let listener = &mut self.clients[client];
        listener.undisturbed_since = listener.undisturbed_since.max(Some(now));
        listener.expected.clear();
    }

    /// Nothing reaches a client before this.
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

    /// A stream of a subscription is over: its client must be told by then, or with `None` once there is another one.
    pub fn broke(&mut self, client: usize, by: Option<Instant>, now: Instant) {
        let listener = &self.clients[client];
        // What has been given up misses nothing.
        let is_given_up = listener.given_up.is_some_and(|at| now <= at + pipe::LATENCY);
        if !listener.since.is_empty() && !is_given_up {
            self.clients[client].gap = Some(by.map(|by| self.not_before(client, by)));
        }
    }

    /// Another stream has taken the place of one that broke.
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

    /// What was due has come.
    pub fn check(&self, now: Instant) {
        for (client, listener) in self.clients.iter().enumerate() {
            for ((through, number), due) in &listener.expected {
                assert!(now <= *due, "change {number} did not come to client {client} through {through:?}");
            }
            let is_late = matches!(listener.gap, Some(Some(due)) if now > due);
            assert!(!is_late, "client {client} was not told that it may have missed changes");
        }
    }

    /// All subscriptions have ended.
    pub fn is_over(&self) {
        for (client, listener) in self.clients.iter().enumerate() {
            assert!(listener.open.is_empty(), "{:?} of client {client} never ended", listener.open);
        }
    }

    /// How many notifications of changes clients were given.
    pub const fn delivered(&self) -> u64 {
        self.delivered
    }
}
