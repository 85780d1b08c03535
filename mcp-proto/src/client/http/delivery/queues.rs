//! Outgoing messages, the queues in which they wait, and what follows from their states: their order, sums and timers.

use std::collections::BTreeMap;

use bytes::Bytes;
use http::HeaderMap;

use super::{DeliveryKey, DeliveryState};
use crate::Instant;
use crate::client::ClientTimer;
use crate::client::http::Timers;
use crate::client::transport::{Backlog, Role};
use crate::spec::ProtocolVersion;
use crate::url::HttpUrl;

/// An outgoing message.
#[derive(Debug)]
pub(in crate::client::http) struct Post {
    pub(in crate::client::http) role: Role,
    /// The message is the request `ping`.
    pub(in crate::client::http) is_ping: bool,
    /// The message may be sent again even if the server has perhaps received it.
    pub(in crate::client::http) may_repeat: bool,
    pub(in crate::client::http) body: Bytes,
    /// The revision of the message, if it may differ from the one in force (RULES 8.2).
    pub(in crate::client::http) version: Option<ProtocolVersion>,
    /// Headers that repeat parts of the body.
    pub(in crate::client::http) mirrored: Option<Box<HeaderMap>>,
    /// The target of a redirect, which replaces the endpoint.
    pub(in crate::client::http) to: Option<HttpUrl>,
    pub(in crate::client::http) redirects: usize,
    /// Its position in the order of waiting messages when it was last queued.
    pub(super) position: u64,
    /// When an attempt first failed without reaching the server.
    pub(super) first_tried: Option<Instant>,
    pub(super) attempts: u32,
    /// The message was refused once because its session was lost, and is sent a second and last time.
    pub(super) is_second_session: bool,
}

impl Post {
    pub(in crate::client::http) const fn new(role: Role, body: Bytes) -> Self {
        Self {
            role,
            is_ping: false,
            may_repeat: false,
            body,
            version: None,
            mirrored: None,
            to: None,
            redirects: 0,
            position: 0,
            first_tried: None,
            attempts: 0,
            is_second_session: false,
        }
    }

    pub(super) fn weight(&self) -> Backlog {
        let bytes = self.body.len() + size_of::<Self>();
        match self.role.request() {
            Some(_) => Backlog { bytes, ..Backlog::default() },
            None => Backlog { messages: 1, message_bytes: bytes, bytes },
        }
    }

    /// The bytes of a message that is not a request; 0 for a request.
    pub(super) fn message_bytes(&self) -> usize {
        if self.role.request().is_none() { self.body.len() } else { 0 }
    }

    /// The queue in which the message waits for an exchange.
    pub(super) const fn queue(&self) -> Queue {
        match (self.role.request(), self.is_ping) {
            (None, _) => Queue::Others,
            (Some(_), true) => Queue::Pings,
            (Some(_), false) => Queue::Requests,
        }
    }
}

/// Messages that wait for an exchange, in queues that may overtake each other. If calls that wait for answers of this
/// client occupy all exchanges of requests, those answers must still be sent, and `ping` must still be able to check the
/// server. Some exchanges are reserved for both; pings may use half of these, so that they do not block the answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::client::http) enum Queue {
    Requests,
    Pings,
    Others,
}

impl Queue {
    pub(super) const fn line(self) -> Line {
        match self {
            Self::Requests => Line::Requests,
            Self::Pings => Line::Pings,
            Self::Others => Line::Others,
        }
    }
}

/// What follows from the states of all messages.
#[derive(Debug)]
pub(super) struct Index {
    /// The messages that wait to be sent, in order.
    pub(super) order: BTreeMap<(Line, u64), DeliveryKey>,
    /// The sums of these messages.
    pub(super) backlog: Backlog,
    /// Bytes of messages that are not requests and are on exchanges.
    pub(super) being_sent: usize,
    pub(super) resuming: usize,
}

/// What a waiting message waits for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Line {
    Requests,
    Pings,
    Others,
    Retrying,
    NextSession,
    Authorization,
}

impl Index {
    pub(super) fn enter(&mut self, key: DeliveryKey, state: &DeliveryState, timers: &mut Timers) {
        if let Some((line, position, post)) = state.waiting() {
            self.order.insert((line, position), key);
            self.backlog = self.backlog.plus(post.weight());
        }
        self.being_sent += state.being_sent();
        self.resuming += usize::from(state.is_resuming());
        if let Some((timer, at)) = state.timer(key) {
            timers.set(ClientTimer::Transport(timer), at);
        }
    }

    pub(super) fn leave(&mut self, key: DeliveryKey, state: &DeliveryState, timers: &mut Timers) {
        if let Some((line, position, post)) = state.waiting() {
            self.order.remove(&(line, position));
            self.backlog = self.backlog.minus(post.weight());
        }
        self.being_sent -= state.being_sent();
        self.resuming -= usize::from(state.is_resuming());
        if let Some((timer, _)) = state.timer(key) {
            timers.clear(ClientTimer::Transport(timer));
        }
    }

    /// The messages of a line, in order.
    pub(super) fn waiting_in(&self, line: Line) -> impl Iterator<Item = DeliveryKey> {
        self.order.range((line, 0)..=(line, u64::MAX)).map(|(_, key)| *key)
    }
}
