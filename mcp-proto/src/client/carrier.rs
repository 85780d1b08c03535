//! What a client needs of its transport, and what a transport hands up.

use std::collections::VecDeque;
use std::time::Duration;

use super::event::Event;
use crate::Instant;
use crate::codec::jsonrpc::{Message, ParseError, RequestId};
use crate::conversation::outbox::{Outbox, Weight};
use crate::conversation::pending::RequestKey;
use crate::error::{Failed, Fault, Quirk};
use crate::limits::{Limits, Load};
use crate::spec::ProtocolVersion;
use crate::transport::{Stdio, StdioAction, Transport};

/// Where a transport puts what it has to say: actions go straight into the one queue, and what arrived is handed up.
#[derive(Debug)]
pub struct Wire<'c, A> {
    pub(crate) out: &'c mut Outbox<A, Event>,
    pub(crate) inbound: &'c mut VecDeque<Inbound>,
}

impl<A: Weight> Wire<'_, A> {
    pub(crate) fn fault(&mut self, fault: Fault) {
        self.inbound.push_back(Inbound::Faulted(fault));
    }

    pub(crate) fn quirk(&mut self, quirk: Quirk) {
        self.inbound.push_back(Inbound::QuirkMet(quirk));
    }

    pub(crate) fn unanswered(&mut self, request: RequestKey, reason: Failed) {
        self.inbound.push_back(Inbound::Unanswered { request, reason });
    }
}

/// What an outgoing message is to the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `initialize`, which opens a session.
    Initialize(RequestKey),
    /// `server/discover` in this revision, before it is known whether the server speaks it.
    Discover(RequestKey, ProtocolVersion),
    /// Any other request.
    Request(RequestKey),
    /// `notifications/initialized`: nothing else is sent until it was accepted (BR-T-08).
    Confirmation,
    /// The answer to a request of the server's, which dies with the session (SH-C-08).
    Answer,
    /// `notifications/cancelled`, which dies with the session too.
    Cancellation,
    /// Any other notification.
    Notification,
}

impl Role {
    pub(crate) const fn request(self) -> Option<RequestKey> {
        match self {
            Self::Initialize(key) | Self::Discover(key, _) | Self::Request(key) => Some(key),
            Self::Confirmation | Self::Answer | Self::Cancellation | Self::Notification => None,
        }
    }
}

/// What a transport hands up.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// A message. A response has been checked to belong to the exchange that it came on (C1).
    Message { message: Message, during: Option<RequestKey> },
    /// Something that is no message, and answers none of our requests.
    Invalid { error: ParseError, during: Option<RequestKey> },
    /// A response that does not belong where it came.
    StrayResponse(RequestId),
    /// A request will get no answer.
    Unanswered { request: RequestKey, reason: Failed },
    /// `notifications/initialized` has arrived, or will not.
    Confirmed,
    /// The session is gone. Requests that the server refused for that, or never saw, are kept for the next one; all
    /// others have been handed up as unanswered.
    SessionLost,
    /// A request waits until an exchange is free; as many requests as `limit` have one.
    RequestWaits { limit: usize },
    /// The peer did something wrong.
    Faulted(Fault),
    /// The peer did something odd.
    QuirkMet(Quirk),
    /// The peer has ended the connection.
    Ended,
    /// Closing is complete.
    Closed,
}

/// A transport that a client can use: [`Stdio`] or [`Http`](super::Http).
///
/// It is sealed. A driver that serves every transport alike is generic over it, and all that `Client` does whatever its
/// transport is can be called.
///
/// # Example
///
/// ```
/// use mcp_proto::client::{Client, ClientTransport, Event};
/// use mcp_proto::Output;
///
/// fn events<T: ClientTransport>(client: &mut Client<T>) -> Vec<Event> {
///     std::iter::from_fn(|| client.poll_output())
///         .filter_map(|output| if let Output::Event(event) = output { Some(event) } else { None })
///         .collect()
/// }
/// ```
pub trait ClientTransport: Carrier {}

impl<T: Carrier> ClientTransport for T {}

/// A transport as a client uses it.
pub trait Carrier: Transport<Action: Weight> {
    /// Nothing but the server can be the reason if it does not answer (ER-04, ER-26).
    const SILENCE_MEANS_LEGACY: bool;
    /// A session can be lost and opened again while the connection goes on.
    const LOSES_SESSIONS: bool;
    /// The server for people to read.
    fn peer(&self) -> String;
    /// For how long a message that was surely not delivered is tried again, if there is such a thing.
    fn redeliver_for(&mut self, time: Duration);
    /// Takes over what the client was configured with.
    fn configure(&mut self, limits: &Limits, seed: u64);
    /// Forgets the session, if there is one: `initialize` comes next.
    fn begin(&mut self, now: Instant, wire: &mut Wire<'_, Self::Action>);
    /// Sends a message.
    fn send(&mut self, message: &Message, role: Role, now: Instant, wire: &mut Wire<'_, Self::Action>);
    /// Whether the modern era can be spoken over it.
    fn may_be_modern(&self) -> bool;
    /// Whether the arguments of tools are repeated in headers, as far as their schemas are known (RULES 8.3).
    fn repeats_arguments(&self) -> bool;
    /// Starts with a new process of the server, if there is such a thing.
    fn respawn(&mut self, wire: &mut Wire<'_, Self::Action>);
    /// Takes a request back, with `notice` where that takes a message, unless it was not sent yet, in which case it never
    /// is.
    fn cancel(&mut self, request: RequestKey, notice: &Message, now: Instant, wire: &mut Wire<'_, Self::Action>);
    /// Nobody waits for the answer to this request any more.
    fn abandon(&mut self, request: RequestKey, now: Instant, wire: &mut Wire<'_, Self::Action>);
    /// `initialize` or `server/discover` was answered: this revision holds now.
    fn negotiated(&mut self, version: ProtocolVersion, wire: &mut Wire<'_, Self::Action>);
    /// The handshake is over.
    fn ready(&mut self, now: Instant, wire: &mut Wire<'_, Self::Action>);
    /// Ends the connection; [`Inbound::Closed`] follows.
    fn close(&mut self, now: Instant, wire: &mut Wire<'_, Self::Action>);
    /// Messages that wait to be sent, and the bytes of those.
    fn backlog(&self) -> Backlog;
    /// Whether an answer with a payload of this many bytes may be added to those that the server has not taken (M3).
    fn takes_answer(&self, bytes: usize, limits: &Limits) -> bool;
    /// Whether the server takes the answers to its requests fast enough for more of them to be read (H5).
    fn wants_input(&self, limits: &Limits) -> bool;
    /// Lets due timers act.
    fn handle_timeout(&mut self, now: Instant, wire: &mut Wire<'_, Self::Action>);
    /// When the next timer is due.
    fn poll_timeout(&self) -> Option<Instant>;
    /// What it holds.
    fn load(&self) -> Load;
}

/// What waits to be sent because the server is slow to take it.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backlog {
    /// Messages that are no requests.
    pub(crate) messages: usize,
    /// Bytes of those, as far as they are not requests.
    pub(crate) message_bytes: usize,
    /// Bytes of all messages.
    pub(crate) bytes: usize,
}

impl Backlog {
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            messages: self.messages + other.messages,
            message_bytes: self.message_bytes + other.message_bytes,
            bytes: self.bytes + other.bytes,
        }
    }

    pub(crate) const fn minus(self, other: Self) -> Self {
        Self {
            messages: self.messages.saturating_sub(other.messages),
            message_bytes: self.message_bytes.saturating_sub(other.message_bytes),
            bytes: self.bytes.saturating_sub(other.bytes),
        }
    }

    /// K1: whether a message of this many bytes may be added. One is taken when nothing waits.
    pub(crate) const fn takes(self, bytes: usize, limits: &Limits) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= limits.unwritten
    }

    /// RP10: with more than this waiting, the server asks and does not take the answers.
    pub(crate) const fn is_overfull(self, limits: &Limits) -> bool {
        self.messages >= 2 * limits.queue || self.message_bytes >= 2 * limits.queue_bytes
    }
}

impl Carrier for Stdio {
    const SILENCE_MEANS_LEGACY: bool = true;
    const LOSES_SESSIONS: bool = false;

    fn peer(&self) -> String {
        "the server".to_owned()
    }

    fn redeliver_for(&mut self, _time: Duration) {}

    fn configure(&mut self, limits: &Limits, _seed: u64) {
        self.set_limits(limits);
    }

    fn begin(&mut self, _now: Instant, _wire: &mut Wire<'_, StdioAction>) {}

    fn send(&mut self, message: &Message, role: Role, _now: Instant, wire: &mut Wire<'_, StdioAction>) {
        self.write(message, wire.out);
        if role == Role::Confirmation {
            wire.inbound.push_back(Inbound::Confirmed);
        }
    }

    fn backlog(&self) -> Backlog {
        // Answers are not counted against the server: reading stops before there are too many of them.
        Backlog { bytes: self.unwritten().bytes(), ..Backlog::default() }
    }

    fn takes_answer(&self, bytes: usize, _limits: &Limits) -> bool {
        self.has_room_for_answer(bytes)
    }

    fn wants_input(&self, limits: &Limits) -> bool {
        self.unwritten().replies() < limits.queue_bytes
    }

    fn may_be_modern(&self) -> bool {
        true
    }

    fn repeats_arguments(&self) -> bool {
        false
    }

    fn respawn(&mut self, wire: &mut Wire<'_, StdioAction>) {
        Self::respawn(self, wire.out);
    }

    fn cancel(&mut self, _request: RequestKey, notice: &Message, _now: Instant, wire: &mut Wire<'_, StdioAction>) {
        self.write(notice, wire.out);
    }

    fn abandon(&mut self, _request: RequestKey, _now: Instant, _wire: &mut Wire<'_, StdioAction>) {}

    fn negotiated(&mut self, version: ProtocolVersion, _wire: &mut Wire<'_, StdioAction>) {
        self.set_unreadable_id(version.rules().unreadable_id);
    }

    fn ready(&mut self, _now: Instant, _wire: &mut Wire<'_, StdioAction>) {}

    fn close(&mut self, _now: Instant, wire: &mut Wire<'_, StdioAction>) {
        Self::close(self, wire.out);
        wire.inbound.push_back(Inbound::Closed);
    }

    fn handle_timeout(&mut self, _now: Instant, _wire: &mut Wire<'_, StdioAction>) {}

    fn load(&self) -> Load {
        Self::load(self)
    }

    fn poll_timeout(&self) -> Option<Instant> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_waits_for_a_slow_server_is_summed_and_held_to_the_limits() {
        let one = Backlog { messages: 2, message_bytes: 30, bytes: 40 };
        let other = Backlog { messages: 1, message_bytes: 7, bytes: 9 };
        let both = one.plus(other);
        assert_eq!((both.messages, both.message_bytes, both.bytes), (3, 37, 49));
        let left = both.minus(one);
        assert_eq!((left.messages, left.message_bytes, left.bytes), (1, 7, 9));
        let none = other.minus(one);
        assert_eq!((none.messages, none.message_bytes, none.bytes), (0, 0, 0));
        let limits = Limits { queue: 5, queue_bytes: 50, unwritten: 49, ..Limits::default() };
        assert!(Backlog::default().takes(1000, &limits), "one is taken when nothing waits");
        assert_eq!([8, 9, 10].map(|bytes| one.takes(bytes, &limits)), [true, true, false]);
        for (messages, message_bytes, is_overfull) in
            [(9, 99, false), (10, 0, true), (0, 100, true), (7, 52, false), (10, 100, true)]
        {
            let backlog = Backlog { messages, message_bytes, bytes: 0 };
            assert_eq!(backlog.is_overfull(&limits), is_overfull, "{backlog:?}");
        }
    }
}
