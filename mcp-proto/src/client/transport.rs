//! The interface between a client and its transport.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use super::ClientTimer;
use super::event::Event;
use crate::Instant;
use crate::auth::Challenged;
use crate::collections::deadlines::Deadlines;
use crate::collections::outbox::{Outbox, Weight};
use crate::conversation::keys::RequestKey;
use crate::conversation::outcome::CloseReason;
use crate::error::{Failed, Fault, Quirk, Refusal};
use crate::jsonrpc::{Message, ParseError, RequestId};
use crate::limits::{Limits, Load};
use crate::spec::ProtocolVersion;
use crate::transport::Transport;

/// The outputs of a transport: actions go into the output queue, and received messages go to the client.
pub struct TransportOutput<'c, T: ClientTransport> {
    pub(crate) out: &'c mut Outbox<T::Action, Event>,
    pub(super) inbound: &'c mut InboundQueue,
    pub(super) timers: &'c mut Deadlines<ClientTimer<T::Timer>>,
}

impl<T: ClientTransport> TransportOutput<'_, T> {
    /// Queues an action for the driver.
    pub(crate) fn act(&mut self, action: T::Action) {
        self.out.act(action);
    }

    /// Passes a message, an outcome or a fault to the client.
    pub(crate) fn pass(&mut self, inbound: Inbound) {
        self.inbound.messages.push_back(inbound);
    }

    pub(crate) fn fault(&mut self, fault: Fault) {
        self.pass(Inbound::Faulted(fault));
    }

    pub(crate) fn quirk(&mut self, quirk: Quirk) {
        self.pass(Inbound::QuirkObserved(quirk));
    }

    pub(crate) fn unanswered(&mut self, request: RequestKey, reason: Failed) {
        self.pass(Inbound::Unanswered { request, reason });
    }

    pub(crate) fn set_timer(&mut self, timer: T::Timer, at: Instant) {
        self.timers.set(ClientTimer::Transport(timer), at);
    }

    pub(crate) fn clear_timer(&mut self, timer: T::Timer) {
        self.timers.clear(ClientTimer::Transport(timer));
    }

    pub(crate) fn is_set(&self, timer: T::Timer) -> bool {
        self.timers.is_set(ClientTimer::Transport(timer))
    }
}

/// The role of an outgoing message in the connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Role {
    /// `initialize`, which opens a session.
    Initialize(RequestKey),
    /// `server/discover` in this revision, before it is known whether the server supports it.
    Discover(RequestKey, ProtocolVersion),
    /// Any other request.
    Request(RequestKey),
    /// `notifications/initialized`: nothing else is sent until it was accepted.
    ///
    /// Rules: BR-T-08.
    Confirmation,
    /// The answer to a request of the server, which is dropped when the session is lost.
    ///
    /// Rules: SH-C-08.
    Answer,
    /// `notifications/cancelled`, which is dropped when the session is lost, too.
    Cancellation,
    /// Any other notification.
    Notification,
}

impl Role {
    /// The request that opens the connection.
    pub(crate) const fn opening(self) -> Option<RequestKey> {
        match self {
            Self::Initialize(key) | Self::Discover(key, _) => Some(key),
            Self::Request(_) | Self::Confirmation | Self::Answer | Self::Cancellation | Self::Notification => None,
        }
    }

    pub(crate) const fn request(self) -> Option<RequestKey> {
        match self {
            Self::Initialize(key) | Self::Discover(key, _) | Self::Request(key) => Some(key),
            Self::Confirmation | Self::Answer | Self::Cancellation | Self::Notification => None,
        }
    }
}

/// What a transport has passed to the client and the client has not handled.
#[derive(Debug, Default)]
pub(super) struct InboundQueue {
    pub(super) messages: VecDeque<Inbound>,
    /// Whether the queue is being handled; messages that are added meanwhile are handled, too.
    pub(super) is_handled: bool,
}

/// What a transport passes to the client.
#[derive(Debug)]
pub(crate) enum Inbound {
    /// A message. A response has been checked to belong to the exchange that it came on (C1).
    Message { message: Message, during: Option<RequestKey> },
    /// Input that is not a valid message. If it was the answer to a request, `Unanswered` follows.
    Invalid(ParseError),
    /// A response whose request is unknown, or does not belong to the exchange on which the response arrived.
    StrayResponse(RequestId),
    /// A request will get no answer.
    Unanswered { request: RequestKey, reason: Failed },
    /// `notifications/initialized` was accepted, or will not be.
    Confirmed,
    /// The session is lost. Requests that the server refused for this reason or never received are kept for the next
    /// session; all others were passed on as unanswered.
    SessionLost,
    /// A request waits for a free exchange; `limit` requests have one.
    RequestWaits { limit: usize },
    /// The server asked to wait before it handles a request, which is sent again then.
    Postponed { request: RequestKey, refusal: Refusal, retry_in: Duration },
    /// The server demands authorization.
    Challenged(Challenged),
    /// The request that opens the connection waits for authorization; the transport ends that wait.
    OpeningWaits(RequestKey),
    /// The request that opens the connection waits no longer.
    OpeningContinues(RequestKey),
    /// The peer violated the protocol.
    Faulted(Fault),
    /// The peer deviated from the protocol in a way that the client tolerates.
    QuirkObserved(Quirk),
    /// The peer has ended the connection.
    Ended(CloseReason),
    /// Closing is complete.
    Closed,
}

/// A transport that a client can use: [`Stdio`](crate::Stdio) or [`Http`](super::Http).
///
/// The trait is sealed. A driver for all transports can be generic over it, and can call every method of `Client` that
/// does not depend on the transport.
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
pub trait ClientTransport: Transport<Action: Weight> + Sized {
    /// Sets for how long a message that was certainly not delivered is sent again, as
    /// [`HttpConfig::redelivery`](super::HttpConfig) does. This has no effect on a byte stream.
    fn set_redelivery_time(&mut self, time: Duration);
    /// Whether a missing answer means a legacy server, because nothing else can be the reason (ER-04, ER-26).
    #[doc(hidden)]
    const SILENCE_MEANS_LEGACY: bool;
    /// Whether a session can be lost and opened again while the connection continues.
    #[doc(hidden)]
    const CAN_LOSE_SESSION: bool;
    /// The timers of the transport.
    #[doc(hidden)]
    type Timer: fmt::Debug + Copy + Ord + Send + Sync;
    /// The name of the server, for messages to people.
    #[doc(hidden)]
    fn peer(&self) -> String;
    /// Sets the limits and the seed from the client's configuration.
    #[doc(hidden)]
    fn configure(&mut self, limits: &Limits, seed: u64);
    /// Discards the session, if there is one: the opening request comes next.
    #[doc(hidden)]
    fn begin(&mut self, now: Instant, output: &mut TransportOutput<'_, Self>);
    /// Sends a message.
    #[doc(hidden)]
    fn send(&mut self, message: &Message, role: Role, now: Instant, output: &mut TransportOutput<'_, Self>);
    /// Whether the transport supports the modern era.
    #[doc(hidden)]
    fn may_be_modern(&self) -> bool;
    /// Whether the arguments of tools are repeated in headers, as far as their schemas are known (RULES 8.3).
    #[doc(hidden)]
    fn repeats_arguments(&self) -> bool;
    /// Continues with a new process of the server, if the transport has one.
    #[doc(hidden)]
    fn respawn(&mut self, output: &mut TransportOutput<'_, Self>);
    /// Cancels a request, with `notice` if the transport needs a message for that. A request that was not sent yet is
    /// dropped instead.
    #[doc(hidden)]
    fn cancel(&mut self, request: RequestKey, notice: &Message, now: Instant, output: &mut TransportOutput<'_, Self>);
    /// Drops a request whose answer is no longer needed.
    #[doc(hidden)]
    fn abandon(&mut self, request: RequestKey, now: Instant, output: &mut TransportOutput<'_, Self>);
    /// `initialize` or `server/discover` was answered: this revision is in force now.
    #[doc(hidden)]
    fn negotiated(&mut self, version: ProtocolVersion, output: &mut TransportOutput<'_, Self>);
    /// The handshake is over.
    #[doc(hidden)]
    fn ready(&mut self, now: Instant, output: &mut TransportOutput<'_, Self>);
    /// Ends the connection; [`Inbound::Closed`] follows.
    #[doc(hidden)]
    fn close(&mut self, now: Instant, output: &mut TransportOutput<'_, Self>);
    /// The messages that wait to be sent, and their bytes.
    #[doc(hidden)]
    fn backlog(&self) -> Backlog;
    /// Whether an answer with a payload of this many bytes may be added to those that the server has not accepted yet
    /// (M3).
    #[doc(hidden)]
    fn takes_answer(&self, bytes: usize, limits: &Limits) -> bool;
    /// Whether the server accepts the answers to its requests fast enough for the client to read more (H5).
    #[doc(hidden)]
    fn wants_input(&self, limits: &Limits) -> bool;
    /// Handles a timer that is due.
    #[doc(hidden)]
    fn on_timer(&mut self, timer: Self::Timer, now: Instant, output: &mut TransportOutput<'_, Self>);
    /// Continues after all timers that were due, of which at least one was of the transport.
    #[doc(hidden)]
    fn after_timers(&mut self, now: Instant, output: &mut TransportOutput<'_, Self>);
    /// The resources that the transport holds.
    #[doc(hidden)]
    fn load(&self) -> Load;
}

/// Messages that wait to be sent because the server accepts them slowly.
#[derive(Debug, Clone, Copy, Default)]
pub struct Backlog {
    /// The number of messages that are not requests.
    pub messages: usize,
    /// Bytes of the messages that are not requests.
    pub message_bytes: usize,
    /// Bytes of all messages.
    pub bytes: usize,
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

    /// Whether a message of this many bytes may be added (K1). If nothing waits, a message of any size may be.
    pub(crate) const fn takes(self, bytes: usize, limits: &Limits) -> bool {
        self.bytes == 0 || self.bytes.saturating_add(bytes) <= limits.unwritten
    }

    /// Whether too many messages other than requests wait, because the server makes requests without accepting the
    /// answers (RP10).
    pub(crate) const fn is_overfull(self, limits: &Limits) -> bool {
        self.messages >= 2 * limits.queue || self.message_bytes >= 2 * limits.queue_bytes
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
