//! The interface between a server and its transport.

use http::request::Parts;

use super::Timer;
use super::annotated::AnnotatedTools;
use super::config::Config;
use super::event::Event;
use super::http::{ExchangeKey, Principal};
use super::pass_through::Handling;
use super::subscribed::SubscribedResources;
use crate::Instant;
use crate::codec::jsonrpc::Message;
use crate::conversation::deadlines::Deadlines;
use crate::conversation::outbox::{Outbox, Weight};
use crate::conversation::pending::SessionKey;
use crate::error::UsageError;
use crate::limits::Load;
use crate::spec::ProtocolVersion;
use crate::transport::Transport;

/// The state that all sessions of a server share, borrowed while an input is handled.
#[derive(Debug)]
pub(super) struct Shared<'s, T: Transport> {
    pub(super) handling: &'s Handling,
    pub(super) transport: &'s mut T,
    pub(super) timers: &'s mut Deadlines<Timer>,
    pub(super) tools: &'s mut AnnotatedTools,
    /// The number of unanswered requests of all clients.
    pub(super) requests: &'s mut usize,
    /// The number of answers that wait for others of their batches.
    pub(super) batched: &'s mut usize,
    /// The number of open `subscriptions/listen` of all clients.
    pub(super) subscriptions: &'s mut usize,
    /// Resources that clients have subscribed to.
    pub(super) resources: &'s mut SubscribedResources,
    /// The bytes of unanswered requests, of their inputs, and of answers that wait for others of their batches.
    pub(super) held: &'s mut usize,
    /// The number of the next request of any client.
    pub(super) next_ticket: &'s mut u64,
    /// The number of notifications that were dropped because the client does not read, and that is not reported yet.
    pub(super) not_written: &'s mut u64,
    pub(super) wire: Wire<'s, T::Action>,
}

impl<'s, T: Transport> Shared<'s, T> {
    pub(super) const fn config(&self) -> &'s Config {
        self.handling.config()
    }

    /// The configuration of a server that answers the requests of the protocol by itself; `None` if it passes through.
    pub(super) const fn serving(&self) -> Option<&'s Config> {
        self.handling.serving()
    }
}

/// The outbox for actions and events, and the current time.
#[derive(Debug)]
pub struct Wire<'s, A> {
    pub(crate) out: &'s mut Outbox<A, Event>,
    pub(crate) now: Instant,
}

/// The destination of an outgoing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// `None` for a stateless request.
    pub(crate) session: Option<SessionKey>,
    /// The exchange of the request that it answers or to which it relates (invariant 2).
    pub(crate) exchange: Option<ExchangeKey>,
    pub(crate) kind: Kind,
}

/// How an outgoing message relates to its exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The answer.
    Reply,
    /// The answer to a message that the machine refused itself.
    Refusal,
    /// A message before the answer, or one that relates to no exchange.
    Message,
}

/// A transport of a server, for code that works with any. It is sealed, as [`Transport`] is.
pub trait Carrier: Transport<Action: Weight> {
    /// Applies the configuration of the server; returns the key of the peer that exists from the start, if there is one:
    /// a session, or `None` for stateless requests.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid for this transport.
    fn configure(&mut self, config: &Config) -> Result<Option<Option<SessionKey>>, UsageError>;
    /// The key of the peer for requests of this session, or of none.
    #[must_use]
    fn peer_of(session: Option<SessionKey>) -> Option<SessionKey> {
        session
    }
    /// Sends a message.
    fn write(&mut self, message: &Message, route: Route, wire: &mut Wire<'_, Self::Action>);
    /// Whether a request or notification with a payload of this many bytes may be sent now (K1).
    fn takes(&mut self, bytes: usize, wire: &mut Wire<'_, Self::Action>) -> bool;
    /// Whether answers with payloads of this many bytes may be sent now; if not, an error replaces each (M3).
    fn takes_answer(&mut self, bytes: usize, wire: &mut Wire<'_, Self::Action>) -> bool;
    /// The bytes of messages that have not arrived in full.
    fn held(&self) -> usize;
    /// Sends all answers to a batch together.
    fn write_batch(&mut self, answers: &[Message], route: Route, wire: &mut Wire<'_, Self::Action>);
    /// Ends an exchange without an answer, because its request was cancelled or it contained none.
    fn no_answer(&mut self, route: Route, wire: &mut Wire<'_, Self::Action>);
    /// The revision of a session was negotiated.
    fn negotiated(&mut self, session: Option<SessionKey>, version: ProtocolVersion);
    /// Ends the HTTP response of a request that is still being served, if its client can resume the stream.
    fn release(&mut self, session: Option<SessionKey>, exchange: ExchangeKey, wire: &mut Wire<'_, Self::Action>);
    /// A session has ended. All its open requests have been answered before.
    fn ended(&mut self, session: Option<SessionKey>, wire: &mut Wire<'_, Self::Action>);
    /// The exchange of a `subscriptions/listen` that may be ended for the new one on `newcomer`.
    fn listen_to_evict(&mut self, newcomer: ExchangeKey, now: Instant) -> Option<ExchangeKey>;
    /// How much the transport stores.
    fn load(&self) -> Load;
    /// When the next timer of the transport is due.
    fn poll_timeout(&self) -> Option<Instant>;
    /// The head of the HTTP request of an exchange, until its response has begun.
    fn request_head(&self, exchange: ExchangeKey) -> Option<&Parts>;
    /// The principal that opened a session.
    fn principal(&self, session: Option<SessionKey>) -> Option<&Principal>;
}
