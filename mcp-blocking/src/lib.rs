//! A driver of [`mcp_proto`] on threads, without an async runtime: a client, a server, and a proxy to any kind of
//! server.
//!
//! `mcp_proto` implements the Model Context Protocol and does no I/O. This crate does the I/O, with threads, channels
//! and `ureq`, and makes no protocol decisions: the machine determines what is answered, retried, resumed or refused.
//!
//! # A client
//!
//! [`Client`] connects to a server over HTTP, over any pair of byte streams, or to one that it starts as a child
//! process. It may be cloned and used from any number of threads. Each call waits for its own response, and a slow call
//! delays no other. A [`Handler`] handles the server's notifications and requests.
//!
//! ```no_run
//! use mcp_blocking::Client;
//! use mcp_proto::model::{CallToolRequestParams, CallToolResult, JsonObject, Payload};
//!
//! let client = Client::builder().name("my-app", "1.0.0").http("https://example.com/mcp")?.connect()?;
//! let params = CallToolRequestParams::new("search").arguments(JsonObject::new().with("query", "ureq"));
//! let found = CallToolResult::from_json(&client.request("tools/call", Some(params.into()))?)?;
//! println!("{:?}", found.content);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! | I want to connect to | I call, after `Client::builder()` |
//! |---|---|
//! | a server over HTTP, with either of the two HTTP transports | `.http(url)?.connect()` ([`Builder::http`]) |
//! | a server that I start as a child process | `.child(command).connect()` ([`Builder::child`]) |
//! | a server on a byte stream, or on my own stdin and stdout | `.stream(read, write).connect()` ([`Builder::stream`]) |
//! | a server in this process, for a test of its handler | `.in_memory(&server).connect()` ([`Builder::in_memory`]) |
//!
//! Over HTTP, a lost session is opened again automatically. Requests that the server refused because of the loss are
//! sent again; all others in flight fail at once with [`mcp_proto::Failed::SessionLost`], because the server may have
//! processed them.
//!
//! A child process is ended in steps, together with all processes that it has started: its stdin is closed, then (on
//! Unix) it receives SIGTERM, then it is killed.
//!
//! # A proxy
//!
//! [`Proxy`] connects a client on a pair of byte streams to a server over HTTP or in a child process. The two sides may
//! use different protocol revisions. The binary `mcp-proxy` adds a command line to it.
//!
//! [`AggregateProxy`] connects such a client to several servers, as one server with the tools, prompts and resources of all.
//!
//! # A gateway
//!
//! [`Gateway`] serves clients over HTTP by processes of servers that speak on their stdin and stdout: one for each session,
//! or a shared one. The binary `mcp-proxy serve` adds a command line to it.
//!
//! # A server
//!
//! A [`Service`] handles requests; a function is enough. [`Incoming`] is a request as its handler receives it; the
//! handler also sends progress, log messages and requests to the client through it, and waits while the client has much
//! to read. [`Service::subscribed`] receives the resources whose changes clients have subscribed to.
//!
//! | I want to serve | I call |
//! |---|---|
//! | the process that started this one | [`Server::serve_stdio`] |
//! | one client on a pair of byte streams | [`Server::serve_stream`] |
//! | clients over HTTP | [`Server::http`], then [`HttpService::serve`] |
//! | bytes that I have, for a test | [`Server::replay`] |
//!
//! [`StreamService`] and [`HttpService`] have options, and handles that stop the server and publish changes;
//! [`Server::shutdown`] and [`Server::publisher`] do that for all transports of a server. Requests from web pages of other
//! origins and for other hosts are refused unless [`mcp_proto::server::Access`] allows them.
//!
//! When a server on stdin and stdout is stopped, or its client no longer reads, the thread that reads stdin stays blocked
//! until stdin ends, because a blocking read cannot be interrupted. The process can exit nevertheless.
//!
//! # Threads and memory
//!
//! ```text
//!   callers ──┐                       ┌──▶ worker: one exchange at a time, connections kept alive
//!   workers ──┴─ bounded channel ─▶ driver ─▶ worker …           (Limits::exchanges)
//! ```
//!
//! One driver thread runs a client's machine, so there is no lock around it. Workers are started on demand and reused.
//! A body is read only while the machine has room for it; [`mcp_proto::Limits`] states how much the machine may hold.
//!
//! ```text
//!   reader: stdin ──┐           ┌──▶ worker …
//!   worker ─────────┼──▶ lock ──┼──▶ stdout, or its writer where that would wait
//!   time ───────────┘           └──▶ time
//! ```
//!
//! A proxy has a lock instead of a driver: the thread that has read something passes it to the machine, and carries out
//! the resulting actions. Waking another thread would take longer than the machine does. Nothing that is done under the
//! lock waits for a peer: a write to stdout stops where it would block, and if the lock is held, the input is queued
//! for the thread that holds it.
//!
//! # What is logged
//!
//! Events are logged with the crate `log`: failures of the operating system, panics of handlers, faults of clients and
//! servers, lost sessions, and notifications that were dropped. This crate never logs payloads and header values, but a
//! line may show a short text of the peer, such as the challenge of a server. The crate `ureq`, which it uses for HTTP,
//! logs everything that is sent and received at the level `trace`; a filter for the target `mcp_blocking` leaves that
//! out.
//!
//! # Features
//!
//! `proxy` (on by default): the binary `mcp-proxy`.
//!
//! `schema`: JSON schemas of the types of a [`Router`]'s functions, by the crate `schemars`.
//!
//! `skills`: skills of a [`Router`], and a client that compares their files with their digests.

// How the source is laid out:
//
// | file | what it does |
// |---|---|
// | `client`, `response_slot` | the client: commands to the driver, outcomes to the callers |
// | `proxy` | the proxy: connects its two sides |
// | `gateway` | the gateway: clients over HTTP, served by processes or by remote servers |
// | `aggregate` | several servers as one: its loop, and how the servers are started |
// | `link` | the interface to a server that clients and proxies share |
// | `http_client` | servers over HTTP: exchanges on worker threads |
// | `child` | servers in child processes: starting them, writing to them and ending them |
// | `stdio` | a reader and a writer of byte streams |
// | `pipe` | pipes in memory |
// | `server` | the server: connections, its driver, the threads that handle requests |
// | `router`, `router/shared`, `router/tasks` | a service that consists of functions, which may change, and may run as tasks |
// | `sign_in` | signing in: its configuration, its thread, signatures, and the port to which the browser returns |
// | `log_level` | the levels of the log |
// | `inbox` | the queue to which readers and workers send their input |
// | `backpressure` | stops the readers while the machine accepts no input |
// | `bounded` | a queue with a bound in bytes |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod aggregate;
mod backpressure;
mod bounded;
mod child;
mod client;
mod clock;
mod gateway;
mod http_client;
mod inbox;
mod link;
mod log_level;
mod pipe;
mod proxy;
mod response_slot;
mod router;
mod server;
pub mod sign_in;
mod socket;
mod stdio;
#[cfg(test)]
mod stdio_tests;
mod sync;

pub use aggregate::{AggregateProxy, AggregateServer, AggregateStopper};
pub use client::{
    Builder, ChildServer, Client, Handler, HttpServer, InFlight, InMemoryServer, ListItems, ServerProcess,
    StreamServer, Subscription, ToolTask,
};
pub use gateway::{Backend, Gateway, GatewayObserver, GatewayStatus, GatewayStopper, ServerStatus};
pub use http_client::{HttpOptions, InvalidProxy, OptionsError};
pub use mcp_proto::driver::{Authenticated, Change, Error, Observation, Observer, StateKeys};
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use proxy::{Proxy, Stopper};
pub use router::{Router, SharedRouter, TaskContext};
pub use server::{HttpService, Incoming, Listener, Server, ServerPublisher, ServerStopper, Service, StreamService};

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
