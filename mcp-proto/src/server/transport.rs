//! The interface between a server and its transport.

use std::collections::VecDeque;

use super::change_notification::ChangeNotification;
use super::config::Config;
use super::event::Event;
use super::principal::Principal;
use super::snapshot::{SessionState, Setting};
use crate::Instant;
use crate::collections::outbox::{Outbox, Weight};
use crate::conversation::keys::{InstanceId, SessionKey};
use crate::conversation::outcome::CloseReason;
use crate::error::UsageError;
use crate::json::Json;
use crate::jsonrpc::{ErrorObject, Message, ParseError, Request, Subject};
use crate::limits::Load;
use crate::spec::ProtocolVersion;
use crate::spec::meta::RequestMeta;
use crate::transport::Transport;

/// What a transport has received, in the order in which the server handles it.
#[derive(Debug)]
pub(crate) enum Inbound {
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
}

/// Where messages that relate to a request of the client are sent. The transport chooses it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
pub enum ReplyTo {
    /// The stream of the connection or of the session.
    #[default]
    Stream,
    /// The exchange on which the request arrived (invariant 2).
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

/// The outputs of a transport: actions go into the output queue, and what was received goes to the server.
#[derive(Debug)]
pub struct TransportOutput<'s, A> {
    pub(crate) out: &'s mut Outbox<A, Event>,
    pub(crate) inbound: &'s mut VecDeque<Inbound>,
    pub(crate) now: Instant,
}

/// A transport that a server can use: [`Stdio`](crate::Stdio) or [`Http`](super::Http).
///
/// The trait is sealed. A driver for all transports can be generic over it; its items are for the machine alone.
pub trait ServerTransport: Transport<Action: Weight> {
    /// Whether there is one client on one connection, which carries both its only session and stateless requests.
    #[doc(hidden)]
    const IS_ONE_CONNECTION: bool;
    /// Applies the configuration of the server. `is_serving` states whether it answers the requests of the protocol by
    /// itself.
    ///
    /// # Errors
    ///
    /// [`UsageError`] if the configuration is invalid for this transport.
    #[doc(hidden)]
    fn configure(&mut self, config: &Config, is_serving: bool) -> Result<(), UsageError>;
    /// Continues a step that had to wait until the server has handled all earlier input; `false` if there is none.
    #[doc(hidden)]
    fn proceed(&mut self, output: &mut TransportOutput<'_, Self::Action>) -> bool;
    /// Handles one timer that is due; `false` if none is.
    #[doc(hidden)]
    fn handle_timeout(&mut self, output: &mut TransportOutput<'_, Self::Action>) -> bool;
    /// When the next timer of the transport is due.
    #[doc(hidden)]
    fn poll_timeout(&self) -> Option<Instant>;
    /// Ends the streams that no unanswered request needs, and refuses new ones.
    #[doc(hidden)]
    fn drain(&mut self, output: &mut TransportOutput<'_, Self::Action>);
    /// Whether no answer is kept for a client that may still return.
    #[doc(hidden)]
    fn is_drained(&self) -> bool;
    /// Refuses all later input.
    #[doc(hidden)]
    fn stop(&mut self);
    /// Whether more input should be read, with this number of unanswered requests.
    #[doc(hidden)]
    fn wants_input(&self, requests: usize) -> bool;
    /// Sends a message.
    #[doc(hidden)]
    fn write(&mut self, message: &Message, route: Route, output: &mut TransportOutput<'_, Self::Action>);
    /// Sends all answers to a batch together.
    #[doc(hidden)]
    fn write_batch(&mut self, answers: &[Message], route: Route, output: &mut TransportOutput<'_, Self::Action>);
    /// Ends an exchange without an answer, because its request was cancelled or it contained none.
    #[doc(hidden)]
    fn no_answer(&mut self, route: Route, output: &mut TransportOutput<'_, Self::Action>);
    /// Ends an exchange that contained an invalid response, which no message answers.
    #[doc(hidden)]
    fn reject(&mut self, error: &ParseError, route: Route, output: &mut TransportOutput<'_, Self::Action>);
    /// Whether an invalid or too long message outside of a batch is reported by itself. Of many such messages, only the
    /// number is reported.
    #[doc(hidden)]
    fn reports_invalid(&self) -> bool;
    /// Whether a request or notification with a payload of this many bytes may be sent now (K1).
    #[doc(hidden)]
    fn takes(&mut self, bytes: usize, output: &mut TransportOutput<'_, Self::Action>) -> bool;
    /// Whether answers with payloads of this many bytes may be sent now; if not, an error replaces each (M3).
    #[doc(hidden)]
    fn takes_answer(&mut self, bytes: usize, output: &mut TransportOutput<'_, Self::Action>) -> bool;
    /// The revision of a session was negotiated, or with `None` that of a stateless request was accepted.
    #[doc(hidden)]
    fn negotiated(&mut self, session: Option<SessionKey>, version: ProtocolVersion);
    /// This instance, if others may serve the session, too.
    #[doc(hidden)]
    fn instance(&self, session: SessionKey) -> Option<InstanceId>;
    /// This instance, if it shares a store with others.
    #[doc(hidden)]
    fn stored_instance(&self) -> Option<InstanceId>;
    /// A session was opened by a client that has stated this about itself. The answer to its `initialize` follows.
    #[doc(hidden)]
    fn opened(&mut self, session: SessionKey, client: Option<&Json>);
    /// The client of a session has set something with a request. The next answer to `reply_to` is that of the request.
    #[doc(hidden)]
    fn changed(&mut self, session: SessionKey, reply_to: ReplyTo, setting: Setting);
    /// Whether this instance sends published changes to the client of this session.
    #[doc(hidden)]
    fn has_client(&self, session: SessionKey) -> bool;
    /// A change was published here.
    #[doc(hidden)]
    fn published(&mut self, change: &ChangeNotification, output: &mut TransportOutput<'_, Self::Action>);
    /// A session has unanswered requests from now on, or has none any more.
    #[doc(hidden)]
    fn set_serving(&mut self, session: SessionKey, is_serving: bool);
    /// The server has answered `tools/list` with this result.
    #[doc(hidden)]
    fn listed_tools(&mut self, result: &Json);
    /// Ends the response of a request that is still being served, if its client can resume the stream.
    #[doc(hidden)]
    fn release(&mut self, session: SessionKey, reply_to: ReplyTo, output: &mut TransportOutput<'_, Self::Action>);
    /// A session has ended. All its open requests have been answered before.
    #[doc(hidden)]
    fn ended(&mut self, session: SessionKey, reason: CloseReason, output: &mut TransportOutput<'_, Self::Action>);
    /// The exchange of a `subscriptions/listen` that may be ended for the new one on `newcomer`.
    #[doc(hidden)]
    fn listen_to_evict(&mut self, newcomer: ReplyTo, now: Instant) -> Option<ReplyTo>;
    /// The bytes of messages that have not arrived in full.
    #[doc(hidden)]
    fn held(&self) -> usize;
    /// How much the transport stores.
    #[doc(hidden)]
    fn load(&self) -> Load;
    /// The principal to which a session belongs, as its latest request states it.
    #[doc(hidden)]
    fn principal(&self, session: SessionKey) -> Option<&Principal>;
    /// The head of the HTTP request that is answered to `reply_to`, until its response begins.
    #[doc(hidden)]
    fn request_head(&self, reply_to: ReplyTo) -> Option<&http::request::Parts>;
    /// The extensions of the HTTP request that has just arrived at `reply_to`, or in this session if there is no
    /// exchange.
    #[doc(hidden)]
    fn extensions(&self, session: Option<SessionKey>, reply_to: ReplyTo) -> http::Extensions;
}
