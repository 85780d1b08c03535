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
//! cargo add mcp-blocking
//! cargo add schemars
//! cargo add serde_json
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
//!         println!("{}", called.all_text());
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
//! Functions send progress, and ask the client's user, through their [`Incoming`], and wait while the client has much to read.
//! [`Server::publisher`] reports changes from any thread, and [`Server::shutdown`] stops once the requests in progress are
//! answered. Over HTTP, only this machine is served, until [`Access`](proto::server::Access) allows other hosts, and
//! [`HttpService::authenticate`] decides who is.
//!
//! # Connections of a client
//!
//! | I want to connect to | I call, after `Client::builder()` |
//! |---|---|
//! | a server over HTTP, with either of the two HTTP transports | `.http(url)?.connect()` ([`Builder::http`]) |
//! | a server that I start as a child process | `.child(command).connect()` ([`Builder::child`]) |
//! | a server on a byte stream, or on my own stdin and stdout | `.stream(read, write).connect()` ([`Builder::stream`]) |
//! | a server in this process, for a test | `.in_memory(&server).connect()` ([`Builder::in_memory`]) |
//!
//! A [`Client`] may be cloned and used from any number of threads, and a slow call delays no other. The functions of
//! [`Builder`], such as [`Builder::on_elicit_form`], answer the server. Where a server over HTTP demands a token, a person
//! signs in with a browser ([`sign_in`]). A lost session is opened again; a call in flight fails with
//! [`Failed::SessionLost`](proto::Failed::SessionLost) then, unless the server has certainly not processed it.
//!
//! # Features
//!
//! | feature | what it adds | crates with this feature alone; 65 without any |
//! |---|---|---|
//! | `schema` (on by default) | schemas of the types of a [`Router`]'s functions, by the crate `schemars` | 73 |
//! | `skills` | skills of a [`Router`], and of servers | 67 |
//! | `validation` | validation of calls and forms by JSON Schema, by the crate `jsonschema` | 113 |
//!
//! The crates are counted on Linux by `cargo tree -p mcp-blocking -e normal --prefix none --no-dedupe --no-default-features
//! --features FEATURES | sort -u | wc -l` in the repository.
//!
//! # Proxies and gateways
//!
//! [`Proxy`] connects a client on a pair of byte streams to a server over HTTP or in a child process, of any two revisions.
//! [`AggregateProxy`] connects it to several servers, as one with the tools, prompts and resources of all. [`Gateway`] serves
//! clients over HTTP by processes of servers: one for each session, or a shared one. The program `mcp-proxy` of the crate
//! `mcp-proto-proxy` adds a command line to them.
//!
//! # Further pages
//!
//! * The [guide] of the repository has a program for each thing that servers and clients do. They are written for `mcp-tokio`,
//!   which has the same names with `async` and `.await`.
//! * [`documentation::logging`]: what is logged.
//! * [`documentation::threads`]: the threads of this crate, and what bounds their memory.
//! * The modules [`proto`], [`model`], [`application`], [`intermediary`] and [`auth`] are the crates whose types occur in this
//!   API.
//!
//! [guide]: https://github.com/mcp-proto/mcp-proto/blob/main/docs/guide.md

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
#[cfg(doc)]
pub mod documentation;
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
pub use mcp_application::{Authenticated, CardFailure, Change, Error, InvalidService, Observation, StateKeys};
pub use mcp_auth as auth;
pub use mcp_intermediary as intermediary;
pub use mcp_intermediary::Observer;
pub use mcp_model as model;
pub use mcp_proto as proto;
pub use pipe::{PipeReader, PipeWriter, pipe};
pub use private_port::PrivatePort;
pub use proxy::{Proxy, Stopper};
pub use router::{Extension, Router, SharedRouter, StateRouter, TaskContext};
pub use server::{HttpService, Incoming, Listener, Server, ServerPublisher, ServerStopper, Service, StreamService};

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
