//! What a server needs of its transport.

use http::request::Parts;

use super::Timer;
use super::annotated::AnnotatedTools;
use super::config::Config;
use super::event::Event;
use super::http::{ExchangeKey, Principal};
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

/// What all sessions of a server share, while something that happened is dealt with.
#[derive(Debug)]
pub(super) struct Shared<'s, T: Transport> {
    pub(super) config: &'s Config,
    pub(super) transport: &'s mut T,
    pub(super) timers: &'s mut Deadlines<Timer>,
    pub(super) tools: &'s mut AnnotatedTools,
    /// Requests of all clients that are not answered.
    pub(super) requests: &'s mut usize,
    /// Answers that wait for others of their batches.
    pub(super) batched: &'s mut usize,
    /// Subscriptions of all clients.
    pub(super) subscriptions: &'s mut usize,
    /// Resources that clients have subscribed to.
    pub(super) resources: &'s mut SubscribedResources,
    /// Bytes of requests that are not answered, of what is kept to answer them, and of answers that wait for others of
    /// their batches.
    pub(super) held: &'s mut usize,
    /// Notifications that were not sent because the client reads nothing, and were not reported.
    pub(super) not_written: &'s mut u64,
    pub(super) wire: Wire<'s, T::Action>,
}

/// Where a transport puts what it has to say, and the time at which it does.
#[derive(Debug)]
pub struct Wire<'s, A> {
    pub(crate) out: &'s mut Outbox<A, Event>,
    pub(crate) now: Instant,
}

/// Where an outgoing message belongs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    pub(crate) session: SessionKey,
    /// The exchange of the request that it answers or is related to (invariant 2).
    pub(crate) exchange: Option<ExchangeKey>,
    pub(crate) kind: Kind,
}

/// What an outgoing message is to its exchange.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// The answer.
    Reply,
    /// The answer, to something that was never handed up.
    Refusal,
    /// Comes before the answer, or belongs to no exchange.
    Message,
}

/// A transport as a server uses it, for code that works with any. It is sealed, as [`Transport`] is.
pub trait Carrier: Transport<Action: Weight> {
    /// Takes over what the server was configured with; returns the session that is there from the start, if one is.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration cannot be worked with.
    fn configure(&mut self, config: &Config) -> Result<Option<SessionKey>, UsageError>;
    /// Sends a message.
    fn write(&mut self, message: &Message, route: Route, wire: &mut Wire<'_, Self::Action>);
    /// Whether a message of the server's own, with a payload of this many bytes, may be sent now (K1).
    fn takes(&mut self, bytes: usize, wire: &mut Wire<'_, Self::Action>) -> bool;
    /// The same for answers with payloads of this many bytes: one that may not be sent is replaced by an error (M3).
    fn takes_answer(&mut self, bytes: usize, wire: &mut Wire<'_, Self::Action>) -> bool;
    /// Bytes of messages that have not arrived in full.
    fn held(&self) -> usize;
    /// Sends all answers to a batch together.
    fn write_batch(&mut self, answers: &[Message], route: Route, wire: &mut Wire<'_, Self::Action>);
    /// An exchange gets no answer: what was on it is cancelled, or was nothing to answer.
    fn no_answer(&mut self, route: Route, wire: &mut Wire<'_, Self::Action>);
    /// `initialize` was answered: this revision holds now.
    fn negotiated(&mut self, session: SessionKey, version: ProtocolVersion);
    /// Ends the response of a request that is still being served, if its client can come back for the rest.
    fn release(&mut self, session: SessionKey, exchange: ExchangeKey, wire: &mut Wire<'_, Self::Action>);
    /// A session has ended. Everything that waited in it has been written before.
    fn ended(&mut self, session: SessionKey, wire: &mut Wire<'_, Self::Action>);
    /// The exchange of a `subscriptions/listen` that may be ended so that the one on this exchange can be opened.
    fn listen_to_evict(&mut self, newcomer: ExchangeKey, now: Instant) -> Option<ExchangeKey>;
    /// What it holds.
    fn load(&self) -> Load;
    /// When the next timer of the transport is due.
    fn poll_timeout(&self) -> Option<Instant>;
    /// The head of the request that came on an exchange, while that waits for its answer alone.
    fn request_head(&self, exchange: ExchangeKey) -> Option<&Parts>;
    /// Who opened a session.
    fn principal(&self, session: SessionKey) -> Option<&Principal>;
}
