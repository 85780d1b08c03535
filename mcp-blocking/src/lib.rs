//! MCP clients and servers on threads, without an async runtime, in all five revisions: over HTTP, stdio, child processes and any
//! byte stream; proxies, and a gateway to servers for stdio.
//!
//! The crate [`mcp_proto`] has the protocol and does no I/O. This crate does the I/O, with threads, channels and `ureq`.
//!
//! # A server and a client
//!
//! In an empty project, for both programs:
//!
//! ```sh
//! cargo add mcp-blocking schemars serde_json
//! cargo add serde --features derive
//! ```
//!
//! A server with one tool:
//!
//! ```no_run
//! use std::net::TcpListener;
//!
//! use mcp_blocking::{Incoming, Router, Server};
//! use mcp_blocking::proto::server::{Config, HttpConfig};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Divide {
//!     dividend: i64,
//!     /// Not 0
//!     divisor: i64,
//! }
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let router = Router::new().tool("divide", "Divides two numbers.", |numbers: Divide, _: &Incoming| {
//!         let quotient = numbers.dividend.checked_div(numbers.divisor).ok_or("division by zero")?;
//!         Ok(quotient.to_string())
//!     });
//!     let server = Server::new(Config::new("my-tools", "1.0.0"), router);
//!     server.http(HttpConfig::new())?.serve(TcpListener::bind("127.0.0.1:3000")?)?;
//!     Ok(())
//! }
//! ```
//!
//! A client that lists its tools, and calls one:
//!
//! ```no_run
//! use mcp_blocking::Client;
//! use serde_json::json;
//!
//! fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::builder().name("my-app", "1.0.0").http("http://127.0.0.1:3000/mcp")?.connect()?;
//!     for tool in client.list_all_tools() {
//!         let tool = tool?;
//!         println!("{}: {}", tool.name, tool.description.unwrap_or_default());
//!     }
//!     for divisor in [7, 0] {
//!         let called = client.call_tool("divide", json!({ "dividend": 42, "divisor": divisor }))?;
//!         println!("{}", called.content[0].as_text().unwrap_or_default());
//!     }
//!     client.close();
//!     Ok(())
//! }
//! ```
//!
//! It prints:
//!
//! ```text
//! divide: Divides two numbers.
//! 6
//! division by zero
//! ```
//!
//! The schema of a tool comes from the type of its argument. Arguments that do not match it, and errors of the function, reach
//! the language model, which can correct its call. [`Router`] also has prompts, resources and completions. A [`Service`] handles
//! every method in one function.
//!
//! # Connections of a server
//!
//! | I want to serve | I call |
//! |---|---|
//! | the process that started this one | [`Server::serve_stdio`] |
//! | one client on a pair of byte streams | [`Server::serve_stream`] |
//! | clients over HTTP | [`Server::http`], then [`HttpService::serve`] |
//! | bytes that I have, for a test | [`Server::replay`] |
//!
//! A handler sends progress, log messages and requests to the client through its [`Incoming`], and waits while the client has
//! much to read. [`Service::subscribed`] receives the resources whose changes clients have subscribed to. [`StreamService`] and
//! [`HttpService`] have options, and handles that stop the server and publish changes; [`Server::shutdown`] and
//! [`Server::publisher`] do that for all transports of a server. Requests from web pages of other origins and for other hosts
//! are refused unless [`mcp_proto::server::Access`] allows them.
//!
//! When a server on stdin and stdout is stopped, or its client no longer reads, the thread that reads stdin stays blocked
//! until stdin ends, because a blocking read cannot be interrupted. The process can exit nevertheless.
//!
//! # Connections of a client
//!
//! | I want to connect to | I call, after `Client::builder()` |
//! |---|---|
//! | a server over HTTP, with either of the two HTTP transports | `.http(url)?.connect()` ([`Builder::http`]) |
//! | a server that I start as a child process | `.child(command).connect()` ([`Builder::child`]) |
//! | a server on a byte stream, or on my own stdin and stdout | `.stream(read, write).connect()` ([`Builder::stream`]) |
//! | a server in this process, for a test of its handler | `.in_memory(&server).connect()` ([`Builder::in_memory`]) |
//!
//! A [`Client`] may be cloned and used from any number of threads. Each call waits for its own response, and a slow call delays
//! no other. A [`Handler`] handles the server's notifications and requests. [`Client::request`] sends any method with any
//! parameters.
//!
//! A server over HTTP may demand a token: a person signs in with a browser, and the tokens are stored ([`sign_in`]). A lost
//! session is opened again automatically. Requests that the server refused because of the loss are sent again; all others in
//! flight fail at once with [`mcp_proto::Failed::SessionLost`], because the server may have processed them.
//!
//! A child process is ended in steps, together with all processes that it has started: its stdin is closed, then (on
//! Unix) it receives SIGTERM, then it is killed.
//!
//! # Features
//!
//! | feature | what it adds | crates with this feature alone; 65 without any |
//! |---|---|---|
//! | `schema` (on by default) | schemas of the types of a [`Router`]'s functions, by the crate `schemars` | 73 |
//! | `skills` | skills of a [`Router`], and a client that compares their files with their digests | 67 |
//!
//! The crates are counted on Linux, in the repository: `cargo tree -p mcp-blocking -e normal --prefix none --no-dedupe
//! --no-default-features --features FEATURES | sort -u | wc -l`.
//!
//! The crates whose types occur in this API are the modules [`proto`], [`model`], [`application`], [`intermediary`] and [`auth`], so
//! that an application adds none of them itself.
//!
//! # A proxy
//!
//! [`Proxy`] connects a client on a pair of byte streams to a server over HTTP or in a child process. The two sides may
//! use different protocol revisions. The program `mcp-proxy` of the crate `mcp-proto-proxy` adds a command line to it.
//!
//! [`AggregateProxy`] connects such a client to several servers, as one server with the tools, prompts and resources of all.
//!
//! # A gateway
//!
//! [`Gateway`] serves clients over HTTP by processes of servers that speak on their stdin and stdout: one for each session,
//! or a shared one. `mcp-proxy serve` adds a command line to it.
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
// | `socket` | a connected socket |
// | `private_port` | a port for programs that have read the same private file |
// | `platform` | what differs between operating systems |

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
mod platform;
mod private_port;
mod proxy;
mod response_slot;
mod router;
mod server;
pub mod sign_in;
mod signing;
mod socket;
mod stdio;
#[cfg(test)]
mod stdio_tests;
mod sync;

pub use aggregate::{AggregateFilters, AggregateProxy, AggregateServer, AggregateStopper};
pub use client::{
    Builder, ChildServer, Client, Handler, HttpServer, InFlight, InMemoryServer, ListItems, ServerProcess,
    StreamServer, Subscription, ToolTask,
};
pub use gateway::{Backend, Gateway, GatewayObserver, GatewayReloader, GatewayStatus, GatewayStopper, ServerStatus};
pub use http_client::{HttpOptions, HttpSettings, InvalidProxy, OptionsError};
pub use mcp_application as application;
pub use mcp_application::router::HandlerError;
#[cfg(feature = "schema")]
pub use mcp_application::router::{NoArguments, Structured};
pub use mcp_application::{Authenticated, Change, Error, InvalidService, Observation, StateKeys};
pub use mcp_auth as auth;
pub use mcp_intermediary as intermediary;
pub use mcp_intermediary::Observer;
pub use mcp_model as model;
pub use mcp_proto as proto;
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use private_port::PrivatePort;
pub use proxy::{Proxy, Stopper};
pub use router::{Router, SharedRouter, StateRouter, TaskContext};
pub use server::{HttpService, Incoming, Listener, Server, ServerPublisher, ServerStopper, Service, StreamService};

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
