//! The Model Context Protocol as state machines without I/O.
//!
//! This crate implements the whole protocol (framing, lifecycle, correlation of requests, sessions, resumption, the
//! older HTTP transport). It opens no socket, starts no thread, reads no clock and needs no async runtime. A *driver*
//! moves the bytes and passes in the time. The crates `mcp-blocking` (threads) and `mcp-tokio` are drivers for production.
//! A small one has about a hundred lines on any runtime, as those in the folder `examples` of the crate `mcp-application`;
//! `docs/drivers.md` of the repository lists the duties of a driver.
//!
//! # A machine and its driver
//!
//! Every machine has the same four groups of methods:
//!
//! | group | methods | caller and meaning |
//! |---|---|---|
//! | inputs | `handle_bytes`, `handle_eof`, `handle_request`, `handle_body`, … | the driver passes in what arrived |
//! | commands | `connect`, `request`, `notify`, `cancel`, `answer`, `close`, … | the application starts an operation |
//! | output | `poll_output` until it returns `None` | the driver takes actions, and events for the application |
//! | time | `poll_timeout`, `handle_timeout` | the driver reads the next deadline, and reports that it has passed |
//!
//! The driver's loop is always this one:
//!
//! ```text
//! loop {
//!     while let Some(output) = machine.poll_output() { carry out the action, or pass the event on }
//!     wait until bytes arrive, a command comes, or poll_timeout() has passed
//!     pass in what happened, with the time
//! }
//! ```
//!
//! The driver calls `poll_output` until it returns `None` after every input and command, because all effects are queued
//! there. Output is one ordered queue: an event that follows an action was caused after it. While `wants_input` is
//! false, the driver reads nothing more: a slow application slows its peer down instead of filling memory. In addition,
//! a server application that watches the resources that clients subscribe to calls [`Server::poll_subscription`].
//!
//! The traits of [`machine`] are these methods: a loop over them runs clients, servers and the machines of other crates alike.
//!
//! # Example: a client and a server, joined without any I/O
//!
//! ```sh
//! cargo add mcp-proto
//! ```
//!
//! ```
//! use mcp_proto::client::{self, Call, Client, Outcome};
//! use mcp_proto::server::{self, Server};
//! use mcp_proto::{Instant, Json, Output, Stdio, StdioAction};
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let now = Instant::START;
//!     let mut client = Client::new(Stdio::new(), client::Config::new("my-app", "1.0.0"))?;
//!     let tools = Json::parse(r#"{"tools":{}}"#)?;
//!     let mut server = Server::new(Stdio::new(), server::Config::new("my-tools", "1.0.0").capabilities(tools))?;
//!     client.connect(now)?;
//!     let request = client.request(Call::new("tools/list"), now)?; // Sent once the handshake is over.
//!
//!     let mut answer = None;
//!     while answer.is_none() {
//!         while let Some(output) = client.poll_output() {
//!             match output {
//!                 Output::Action(StdioAction::Write(bytes)) => server.handle_bytes(&bytes, now),
//!                 Output::Event(client::Event::Responded { request: answered, outcome }) => {
//!                     assert_eq!(answered, request);
//!                     answer = Some(outcome);
//!                 }
//!                 _ => {}
//!             }
//!         }
//!         while let Some(output) = server.poll_output() {
//!             match output {
//!                 Output::Action(StdioAction::Write(bytes)) => client.handle_bytes(&bytes, now),
//!                 Output::Event(server::Event::Requested { ticket, method, .. }) => {
//!                     assert_eq!(method.as_str(), "tools/list");
//!                     server.respond(ticket, Ok(Json::parse(r#"{"tools":[]}"#)?), now)?;
//!                 }
//!                 _ => {}
//!             }
//!         }
//!     }
//!     let Some(Outcome::Result(result)) = answer else { panic!() };
//!     assert!(result.to_text().contains(r#""tools":[]"#));
//!     Ok(())
//! }
//! ```
//!
//! # Which type to use
//!
//! | task | type |
//! |---|---|
//! | call a server that I start as a child process, or reach over any byte stream | [`Client`]`<`[`Stdio`]`>` |
//! | call a server over HTTP, with either of the two HTTP transports | [`Client`]`<`[`client::Http`]`>` |
//! | serve tools over stdin and stdout, or any byte stream | [`Server`]`<`[`Stdio`]`>` |
//! | serve tools over HTTP, to clients with either HTTP transport | [`Server`]`<`[`server::Http`]`>` |
//! | demand tokens of clients, or send one that you have | [`auth`] |
//! | get tokens for a server over HTTP that demands OAuth | the crate `mcp-auth` |
//! | connect a client and a server of any revisions, or serve clients by processes, or several servers as one | the crate `mcp-intermediary` |
//! | write a proxy or a gateway of your own | [`Server::pass_through`], [`client::Call::unchanged`], [`machine`]; the example `filtering_proxy` of `mcp-intermediary` |
//! | read or write single messages, with your own state around them | [`Frame`], [`Message`] |
//! | read or write parameters and results as typed values | the crate `mcp-model` |
//! | route requests for tools, prompts and resources to functions, offer skills | `Router` of the drivers, on the crate `mcp-application` |
//! | only split a byte stream into lines, or an HTTP body into events | [`line::Decoder`], [`sse::Decoder`] |
//! | look up how the revisions differ | [`ProtocolVersion::rules`] |
//!
//! # Three kinds of errors
//!
//! [`UsageError`] is a mistake of the application. [`Fault`] is a mistake of the peer, which the machine handled and
//! reports. [`Failed`] states why a request has no response. An error that the *peer* sent is an [`ErrorObject`], and
//! none of these.
//!
//! # Revisions
//!
//! Both roles support all five, over byte streams and over HTTP. Revisions up to `2025-11-25`, which begin with
//! `initialize`, are the *legacy* [`Era`]; `2026-07-28`, whose requests are independent of each other, is the *modern*
//! one. A server serves clients of all revisions, on one endpoint or in one process. A client detects which revision
//! its server supports, unless `client::Config::versions` or `known_era` leaves only one era: without `2026-07-28`, it
//! begins with `initialize`.
//!
//! # Further pages
//!
//! [`documentation::guarantees`] states what holds whatever a peer sends and the application calls, and [`documentation::ids`]
//! what a line such as `Rules: SH-C-01, HT6.` means.

// How the source is laid out:
//
// Input is processed in the order of the rows, output in the reverse order:
//
// | layer | files | input becomes |
// |---|---|---|
// | frames | `line`, `sse` | a line, an event |
// | messages | `json`, `jsonrpc` | a request, a notification, a response |
// | transports | `transport`, `client/http`, `server/http` | a message with the exchange that it belongs to |
// | conversation | `conversation` | the request that a response, progress or a cancellation belongs to |
// | roles | `client`, `server` | an event for the application |
// | drivers | `machine` | nothing: traits over all machines |

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::indexing_slicing)]

pub mod auth;
pub mod client;
mod collections;
mod conversation;
#[cfg(doc)]
pub mod documentation;
mod error;
mod json;
mod jsonrpc;
mod limits;
pub mod line;
pub mod machine;
mod platform;
pub mod server;
pub mod spec;
pub mod sse;
pub mod store;
mod swar;
mod text;
mod time;
mod transport;
pub mod url;

pub use client::Client;
pub use collections::buffer::CowBytes;
pub use collections::outbox::Output;
pub use conversation::keys::{InstanceId, RequestKey, SessionKey, Ticket, TicketKey};
pub use error::{
    BodyKind, Failed, Fault, InvalidResponse, NoInput, ProcessEnd, Quirk, RedirectRefused, Refusal, Severity,
    StartFailure, UsageError, find_explanation,
};
pub use json::{DuplicateKey, Json, JsonError};
pub use jsonrpc::{
    ErrorObject, Frame, Message, Notification, ParseError, ParseErrorKind, Request, RequestId, Response, Subject,
};
pub use limits::{InvalidLimit, Limits, Load};
pub use machine::{Ceilings, Intake};
pub use server::Server;
pub use spec::param_headers::InvalidAnnotation;
pub use spec::{CacheScope, Era, LoggingLevel, Method, ProtocolVersion, Rules, TraceContext, code};
pub use text::{Excerpt, escape_text};
pub use time::Instant;
pub use transport::{Stdio, StdioAction, Transport};

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
