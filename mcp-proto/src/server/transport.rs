//! The interface between a server and its transport.

use std::collections::VecDeque;
use std::fmt;

use super::change_notification::ChangeNotification;
use super::config::Config;
use super::event::Event;
use super::principal::Principal;
use super::snapshot::{SessionState, Setting};
use crate::Instant;
use crate::collections::deadlines::Deadlines;
use crate::collections::outbox::{Outbox, Weight};
use crate::conversation::keys::{InstanceId, RequestKey, SessionKey, TicketKey};
use crate::conversation::outcome::CloseReason;
use crate::error::UsageError;
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, ParseError, Request, Subject};
use crate::limits::Load;
use crate::spec::ProtocolVersion;
use crate::spec::meta::RequestMeta;
use crate::transport::Transport;

/// What a transport has received, in the order in which the server handles it.
pub(crate) enum Inbound<S> {
    /// A client has opened a session, with this request if there is one. If the request is refused, there is no session.
    Opened { session: SessionKey, request: Option<(Request, ReplyTo)> },
    /// A session continues here with this state, from its id, the store or a snapshot.
    Restored { session: SessionKey, state: SessionState },
    /// The client of a session has set this at another instance.
    Updated { session: SessionKey, state: SessionState },
    /// Another instance publishes a change.
    Published(ChangeNotification),
    /// A message of a session.
    Message { session: SessionKey, message: Message, reply_to: ReplyTo },
    /// A batch of a session.
    Batch { session: SessionKey, items: Vec<Result<Message, ParseError>>, reply_to: ReplyTo },
    /// Input in a session that is not a message.
    Invalid { session: SessionKey, error: ParseError, reply_to: ReplyTo },
    /// A message in a session that exceeds [`Limits::message`](crate::Limits::message).
    TooLong { session: SessionKey, subject: Subject },
    /// A request that the transport has recognised as stateless.
    Stateless { request: Request, meta: RequestMeta, envelope: Box<Envelope>, reply_to: ReplyTo },
    /// A request of a revision up to 2025-11-25 that the transport serves without a session.
    Sessionless { request: Request, version: ProtocolVersion, principal: Option<Principal>, reply_to: ReplyTo },
    /// The client has disconnected from the exchange of a stateless request.
    Disconnected { reply_to: ReplyTo },
    /// A session has ended.
    Ended { session: SessionKey, reason: CloseReason },
    /// The transport continues with this step, after the server has handled all that was received before.
    Step(S),
}

/// Where messages that relate to a request of the client are sent. The transport chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ReplyTo {
    /// The stream of the connection or of the session.
    #[default]
    Stream,
    /// The exchange on which the request arrived.
    ///
    /// Rules: invariant 2.
    Exchange(u64),
}

/// What was received with a stateless request in addition to its body.
#[derive(Debug)]
pub(crate) struct Envelope {
    /// Whether the envelope states that the request is of the modern era.
    pub(crate) names_stateless: bool,
    /// Whether its revision is that of the body (MD-H-02).
    pub(crate) version: Result<(), ErrorObject>,
    /// Whether its method and name are those of the body.
    pub(crate) method_and_name: Result<(), ErrorObject>,
    /// Whether its arguments of a tool are those of the body (MD-P-09).
    pub(crate) arguments: Result<(), ErrorObject>,
    /// The sender, if it was authenticated.
    pub(crate) principal: Option<Principal>,
}

impl Envelope {
    /// The envelope of a request on a byte stream, where a line contains only the message (ST-14).
    pub(crate) const NONE: Self =
        Self { names_stateless: false, version: Ok(()), method_and_name: Ok(()), arguments: Ok(()), principal: None };

    /// Whether the envelope agrees with the body.
    pub(crate) const fn agrees(&self) -> bool {
        self.version.is_ok() && self.method_and_name.is_ok() && self.arguments.is_ok()
    }
}

/// The destination of an outgoing message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Route {
    /// `None` if it relates to a stateless request.
    pub(crate) session: Option<SessionKey>,
    /// Copied from the request that the message answers or relates to.
    pub(crate) reply_to: ReplyTo,
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

/// What is written in return for a message of the client, or to it.
#[derive(Debug, Clone, Copy)]
pub enum ToWrite<'m> {
    /// A message.
    Message(&'m Message),
    /// All answers to a batch together.
    Batch(&'m [Message]),
    /// Nothing: the request was cancelled, or the batch contained none.
    Nothing,
    /// An error that is no message, because an invalid response is not answered.
    Invalid(&'m ParseError),
}

/// What has become of a session, or of the server. A transport uses what it needs.
#[derive(Debug)]
pub enum TransportNotice<'n> {
    /// The revision of a session was negotiated, or with `None` that of a stateless request was accepted.
    Negotiated(Option<SessionKey>, ProtocolVersion),
    /// A session was opened by a client that has stated this about itself. The answer to its `initialize` follows.
    Opened(SessionKey, Option<&'n Json>),
    /// The client of a session has set something with a request. The next answer to the exchange is that of the request.
    Changed(SessionKey, ReplyTo, Setting),
    /// A session has unanswered requests from now on.
    Busy(SessionKey),
    /// A session has no unanswered request any more.
    Idle(SessionKey),
    /// The response of a request that is still being served is to end, if its client can resume the stream.
    Released(SessionKey, ReplyTo),
    /// A session has ended. All its open requests have been answered before.
    Ended(SessionKey, CloseReason),
    /// A change was published here.
    Published(&'n ChangeNotification),
    /// The server has answered `tools/list` with this result.
    ListedTools(&'n Json),
    /// The streams that no unanswered request needs are to end, and new ones to be refused.
    Draining,
    /// All later input is to be refused.
    Stopped,
}

/// Which instances of a server a session concerns.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Sharing {
    /// This instance, if others may serve the session, too.
    pub(crate) instance: Option<InstanceId>,
    /// Whether this instance sends published changes to the client.
    pub(crate) has_client: bool,
}

impl Sharing {
    /// A session that is served here alone.
    pub(crate) const NONE: Self = Self { instance: None, has_client: true };
}

/// What is known of the sender of a message besides the message.
#[derive(Debug, Clone, Copy, Default)]
pub struct Sender<'t> {
    /// The principal to which the session belongs, as its latest request states it.
    pub(crate) principal: Option<&'t Principal>,
    /// The head of the HTTP request, until its response begins.
    pub(crate) head: Option<&'t http::request::Parts>,
    /// The extensions of the HTTP request that has just arrived, if there are any.
    pub(crate) extensions: Option<&'t http::Extensions>,
}

impl Sender<'_> {
    /// The extensions as a value.
    pub(crate) fn extensions(&self) -> http::Extensions {
        // The clone of an empty map may allocate.
        self.extensions.filter(|found| !found.is_empty()).cloned().unwrap_or_default()
    }
}

/// The outputs of a transport: actions go into the output queue, and what was received goes to the server.
pub struct TransportOutput<'s, T: ServerTransport> {
    pub(crate) out: &'s mut Outbox<T::Action, Event>,
    pub(crate) inbound: &'s mut VecDeque<Inbound<T::Step>>,
    pub(crate) timers: &'s mut Deadlines<ServerTimer<T::Timer>>,
    pub(crate) now: Instant,
}

impl<T: ServerTransport> TransportOutput<'_, T> {
    /// Lets the transport continue with this step, after the server has handled all that was received before.
    pub(crate) fn defer(&mut self, step: impl Into<T::Step>) {
        self.inbound.push_back(Inbound::Step(step.into()));
    }

    pub(crate) fn set_timer(&mut self, timer: T::Timer, at: Instant) {
        self.timers.set(ServerTimer::Transport(timer), at);
    }

    pub(crate) fn clear_timer(&mut self, timer: T::Timer) {
        self.timers.clear(ServerTimer::Transport(timer));
    }
}

/// A timer of a server. Of two that are due at the same time, the first kind is handled first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum ServerTimer<X> {
    /// The client must have answered a request.
    Answer(RequestKey),
    /// Requests in flight when the byte stream of the client ended have no more time.
    InputEnded,
    /// Requests in flight have no more time, because the server is being stopped.
    Drain,
    /// The request is reported to the application again.
    Again(TicketKey),
    /// A timer of the transport.
    Transport(X),
}

/// The deadline of a request to a client.
impl<X> From<RequestKey> for ServerTimer<X> {
    fn from(request: RequestKey) -> Self {
        Self::Answer(request)
    }
}

/// A transport that a server can use: [`Stdio`](crate::Stdio) or [`Http`](super::Http).
///
/// The trait is sealed. A driver for all transports can be generic over it; its items are for the machine alone.
pub trait ServerTransport: Transport<Action: Weight> + Sized {
    /// Whether there is one client on one connection, which carries both its only session and stateless requests.
    #[doc(hidden)]
    const IS_ONE_CONNECTION: bool;
    /// A step that waits until the server has handled what was received before.
    #[doc(hidden)]
    type Step;
    /// The timers of the transport.
    #[doc(hidden)]
    type Timer: fmt::Debug + Copy + Ord;
    /// Applies the configuration of the server. `is_serving` states whether it answers the requests of the protocol by
    /// itself.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid for this transport.
    #[doc(hidden)]
    fn configure(&mut self, config: &Config, is_serving: bool) -> Result<(), UsageError>;
    /// Continues with a step.
    #[doc(hidden)]
    fn proceed(&mut self, step: Self::Step, output: &mut TransportOutput<'_, Self>);
    /// Handles a timer that is due.
    #[doc(hidden)]
    fn on_timer(&mut self, timer: Self::Timer, output: &mut TransportOutput<'_, Self>);
    /// Whether more input should be read, with this number of unanswered requests.
    #[doc(hidden)]
    fn wants_input(&self, requests: usize) -> bool;
    /// Writes to the client.
    #[doc(hidden)]
    fn write(&mut self, what: ToWrite<'_>, route: Route, output: &mut TransportOutput<'_, Self>);
    /// Whether a request or notification with a payload of this many bytes may be sent now (K1).
    #[doc(hidden)]
    fn takes(&mut self, bytes: usize, output: &mut TransportOutput<'_, Self>) -> bool;
    /// Whether answers with payloads of this many bytes may be sent now; if not, an error replaces each (M3).
    #[doc(hidden)]
    fn takes_answer(&mut self, bytes: usize, output: &mut TransportOutput<'_, Self>) -> bool;
    /// Whether an invalid or too long message outside of a batch is reported by itself. Of many such messages, only the
    /// number is reported.
    #[doc(hidden)]
    fn reports_invalid(&self) -> bool;
    /// Takes note of what has become of a session, or of the server.
    #[doc(hidden)]
    fn on_notice(&mut self, notice: TransportNotice<'_>, output: &mut TransportOutput<'_, Self>);
    /// Which instances a session concerns; with `None`, a stateless request.
    #[doc(hidden)]
    fn sharing(&self, session: Option<SessionKey>) -> Sharing;
    /// What is known of the sender of a message that is answered to `reply_to`.
    #[doc(hidden)]
    fn sender(&self, session: Option<SessionKey>, reply_to: ReplyTo) -> Sender<'_>;
    /// The exchange of a `subscriptions/listen` that may be ended for the new one on `newcomer`.
    #[doc(hidden)]
    fn listen_to_evict(&mut self, newcomer: ReplyTo, now: Instant) -> Option<ReplyTo>;
    /// Whether no answer is kept for a client that may still return.
    #[doc(hidden)]
    fn is_drained(&self) -> bool;
    /// The bytes of messages that have not arrived in full.
    #[doc(hidden)]
    fn held(&self) -> usize;
    /// How much the transport stores.
    #[doc(hidden)]
    fn load(&self) -> Load;
}
