//! The Model Context Protocol as pure state machines.
//!
//! This crate holds the whole protocol (framing, lifecycle, correlation of requests, sessions, resumption, the older
//! HTTP transport) and does none of the I/O. It opens no socket, starts no thread, reads no clock and needs no async
//! runtime. A *driver*, a hundred lines on whatever runtime you have, moves bytes and tells the time. The crates
//! `mcp-blocking` (threads) and `mcp-tokio` are such drivers.
//!
//! # A machine and its driver
//!
//! Every machine has the same four doors:
//!
//! | door | methods | who uses it |
//! |---|---|---|
//! | inputs | `handle_bytes`, `handle_eof`, `handle_request`, `handle_body`, … | the driver: this arrived |
//! | commands | `connect`, `request`, `notify`, `cancel`, `answer`, `close`, … | the application: do this |
//! | output | `poll_output` until it gives `None` | the driver: an action to carry out, or an event for the application |
//! | time | `poll_timeout`, `handle_timeout` | the driver: wake me then; it is now this late |
//!
//! The driver's loop is always this one:
//!
//! ```text
//! loop {
//!     while let Some(output) = machine.poll_output() { carry out the action, or hand on the event }
//!     wait until bytes arrive, a command comes, or poll_timeout() has passed
//!     hand in what happened, with the time
//! }
//! ```
//!
//! `poll_output` is drained after every input and command, because nothing has left the machine before. Output is one
//! ordered queue: an event that follows an action was caused after it. While `wants_input` is false, the driver reads
//! nothing more, which is how a slow application slows its peer down instead of filling memory. Beside it, an application
//! that has to watch the resources that clients subscribe to asks [`Server::poll_subscription`].
//!
//! # Example: a client and a server, joined without any I/O
//!
//! ```
//! use mcp_proto::client::{self, Call, Client, Outcome};
//! use mcp_proto::server::{self, Server};
//! use mcp_proto::{Instant, Json, Output, Stdio, StdioAction};
//!
//! let now = Instant::now();
//! let mut client = Client::new(Stdio::new(), client::Config::new("my-app", "1.0.0"))?;
//! let mut server = Server::new(Stdio::new(), server::Config::new("my-tools", "1.0.0"))?;
//! client.connect(now)?;
//! let request = client.request(Call::new("tools/list"), now)?; // Sent once the handshake is over.
//!
//! let mut answer = None;
//! while answer.is_none() {
//!     while let Some(output) = client.poll_output() {
//!         match output {
//!             Output::Action(StdioAction::Write(bytes)) => server.handle_bytes(&bytes, now),
//!             Output::Event(client::Event::Responded { request: answered, outcome }) => {
//!                 assert_eq!(answered, request);
//!                 answer = Some(outcome);
//!             }
//!             _ => {}
//!         }
//!     }
//!     while let Some(output) = server.poll_output() {
//!         match output {
//!             Output::Action(StdioAction::Write(bytes)) => client.handle_bytes(&bytes, now),
//!             Output::Event(server::Event::Requested { ticket, method, .. }) => {
//!                 assert_eq!(method.as_str(), "tools/list");
//!                 server.respond(ticket, Ok(Json::parse(r#"{"tools":[]}"#).unwrap()), now)?;
//!             }
//!             _ => {}
//!         }
//!     }
//! }
//! assert!(matches!(answer, Some(Outcome::Result(result)) if result.as_bytes() == br#"{"tools":[]}"#));
//! # Ok::<(), mcp_proto::UsageError>(())
//! ```
//!
//! # Which type do I want?
//!
//! | I want to | I take |
//! |---|---|
//! | call a server that I start as a child process, or reach over any byte stream | [`Client`]`<`[`Stdio`]`>` |
//! | call a server over HTTP, whichever of the two HTTP transports it has | [`Client`]`<`[`client::Http`]`>` |
//! | serve tools over stdin and stdout, or any byte stream | [`Server`]`<`[`Stdio`]`>` |
//! | serve tools over HTTP, to clients with either HTTP transport | [`Server`]`<`[`server::Http`]`>` |
//! | put a client that speaks stdio in front of a server over HTTP or stdio, whatever revisions they speak | [`Relay`] |
//! | read or write single messages, with my own state around them | [`Frame`], [`Message`] |
//! | read or write parameters and results as typed values | [`model`], a feature that is on by default |
//! | only split a byte stream into lines, or an HTTP body into events | [`line::Decoder`], [`sse::Decoder`] |
//! | know how the revisions differ | [`ProtocolVersion::rules`] |
//!
//! # What the machines promise
//!
//! * **One outcome.** Every request that a command accepted ends in exactly one event with its outcome: a result, the
//!   peer's error, or [`Failed`], which says why there is neither. Streams that end early, lost sessions, timeouts and
//!   `close` included.
//! * **The right outcome.** Over HTTP an answer belongs to the exchange that it came on; an id alone is never enough.
//!   `1` and `"1"` are different ids.
//! * **Your bytes.** `params`, `result` and `error` are [`Json`]: text that was validated and is never written anew.
//!   Big numbers, `1.0`, escapes and the order of keys stay as they were.
//! * **Bounds.** Everything that a peer can make grow has a limit in [`Limits`], where the resulting sums are stated.
//!   Work is linear in what arrives. What is deeper or larger than a limit costs that message, and not its neighbours.
//! * **No panics.** Neither input nor misuse reaches one: a command that cannot be carried out returns [`UsageError`]
//!   and changes nothing. There is no `unsafe`.
//! * **Discretion.** Errors, faults and `Debug` forms show lengths and positions, never payloads, ids of sessions or
//!   credentials.
//!
//! # Three kinds of trouble
//!
//! [`UsageError`] is yours, [`Fault`] is the peer's (the machine coped, and tells), [`Failed`] is why a request has no
//! answer. An error that the *peer* sent is an [`ErrorObject`], and none of these.
//!
//! # Revisions
//!
//! All five are spoken by both roles, over byte streams and over HTTP. A server serves whatever its clients speak, on one
//! endpoint or in one process. A client begins with `initialize`, unless `client::Config::versions` names `2026-07-28`:
//! then it finds out what its server speaks. The relay joins any client to any server; its documentation tells how the
//! two eras meet.
//!
//! # How the source is laid out
//!
//! A byte enters at the bottom and leaves at the top:
//!
//! | layer | files | a byte becomes |
//! |---|---|---|
//! | frames | `codec` | a line, an event |
//! | messages | `codec/json`, `codec/jsonrpc` | a request, a notification, a response |
//! | transports | `transport`, `client/http`, `server/http` | a message with the exchange that it belongs to |
//! | roles | `client`, `server` | an event with the request that it belongs to |
//! | composition | `relay` | a message to the other side |
//! | payloads | `model` | a typed value, if the application wants one |
//!
//! Ids such as `SH-C-01` (rules of the specification) and `HT6` (the catalogue of bad input) stand where the code
//! keeps to them, and name the tests.

#![warn(clippy::indexing_slicing)]

pub mod client;
mod codec;
mod conversation;
mod error;
mod limits;
#[cfg(feature = "model")]
pub mod model;
pub mod relay;
pub mod server;
mod spec;
mod transport;

/// The time, as the driver tells it; this crate never asks for it.
pub use std::time::Instant;

pub use client::Client;
pub use codec::buffer::CowBytes;
pub use codec::json::{DuplicateKey, Json, JsonError};
pub use codec::jsonrpc::{
    ErrorObject, Frame, Message, Notification, ParseError, ParseErrorKind, Request, RequestId, Response, Subject,
    UnreadableId,
};
pub use codec::text::{Excerpt, escape_text};
pub use codec::{line, sse};
pub use conversation::outbox::Output;
pub use conversation::pending::{RequestKey, SessionKey, Ticket, TicketKey};
pub use error::{BodyKind, Failed, Fault, InvalidResponse, NoInput, Quirk, RedirectRefused, Refusal, UsageError};
pub use limits::{Ceilings, Intake, Limits, Load};
pub use relay::Relay;
pub use server::Server;
pub use spec::param_headers::InvalidAnnotation;
pub use spec::{CancelBy, Era, FallbackOn, Method, ProtocolVersion, Rules, code};
pub use transport::{Stdio, StdioAction, Transport};
