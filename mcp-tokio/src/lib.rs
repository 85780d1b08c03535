//! MCP clients and servers on tokio, in all five revisions: over HTTP, stdio, child processes and any byte stream; a proxy, and a
//! gateway to servers for stdio.
//!
//! The crate [`mcp_proto`] has the protocol and does no I/O. This crate does the I/O, in tasks.
//!
//! # A server and a client
//!
//! In an empty project, for both programs:
//!
//! ```sh
//! cargo add schemars serde_json
//! cargo add mcp-tokio --features http-client
//! cargo add serde --features derive
//! cargo add tokio --features macros,net,rt-multi-thread
//! ```
//!
//! A server with one tool:
//!
//! ```no_run
//! use mcp_tokio::proto::server::{Config, HttpConfig};
//! use mcp_tokio::{Incoming, Router, Server};
//! use schemars::JsonSchema;
//! use serde::Deserialize;
//! use tokio::net::TcpListener;
//!
//! #[derive(Deserialize, JsonSchema)]
//! struct Divide {
//!     dividend: i64,
//!     /// Not 0
//!     divisor: i64,
//! }
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let router = Router::new().tool("divide", "Divides two numbers.", |numbers: Divide, _: Incoming| async move {
//!         let quotient = numbers.dividend.checked_div(numbers.divisor).ok_or("division by zero")?;
//!         Ok(quotient.to_string())
//!     });
//!     let server = Server::new(Config::new("my-tools", "1.0.0"), router);
//!     server.http(HttpConfig::new())?.serve(TcpListener::bind("127.0.0.1:3000").await?).await?;
//!     Ok(())
//! }
//! ```
//!
//! A client that lists its tools, and calls one:
//!
//! ```no_run
//! use mcp_tokio::Client;
//! use serde_json::json;
//!
//! #[tokio::main]
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let client = Client::builder().name("my-app", "1.0.0").http("http://127.0.0.1:3000/mcp")?.connect().await?;
//!     for tool in client.list_all_tools().collect().await? {
//!         println!("{}: {}", tool.name, tool.description.unwrap_or_default());
//!     }
//!     for divisor in [7, 0] {
//!         let called = client.call_tool("divide", json!({ "dividend": 42, "divisor": divisor })).await?;
//!         println!("{}", called.all_text());
//!     }
//!     client.close().await;
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
//! | one client on a byte stream | [`Server::serve_stream`] |
//! | clients over HTTP | [`Server::http`], then [`HttpService::serve`] |
//! | the same in a router of axum | [`Server::http`], then `Router::route_service("/mcp", service)` |
//! | bytes that I have, for a test | [`Server::replay`] |
//!
//! Functions send progress, and ask the client's user, through their [`Incoming`]. [`Server::publisher`] reports changes from any
//! task, and [`Server::shutdown`] stops once the requests in progress are answered. Over HTTP, only this machine is served, until
//! [`Access`](proto::server::Access) allows other hosts, and [`HttpService::authenticate`] decides who is.
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
//! A [`Client`] may be cloned and used from any number of tasks. Dropping a call's future cancels the call. The functions of
//! [`Builder`], such as [`Builder::on_elicit_form`], answer the server. Where a server over HTTP demands a token, a person
//! signs in with a browser ([`Builder::authorization`], [`sign_in`]). A lost session is opened again; a call in flight fails with
//! [`Failed::SessionLost`](proto::Failed::SessionLost) then, unless the server has certainly not processed it.
//!
//! # Features
//!
//! | feature | what it adds | crates with this feature alone; 51 without any |
//! |---|---|---|
//! | `http-server` (on by default) | servers over HTTP, on hyper | 63 |
//! | `http-client` | clients over HTTP, on [`reqwest`] with rustls and aws-lc, and signing in | 120 |
//! | `schema` (on by default) | schemas of the types of a [`Router`]'s functions, by the crate `schemars` | 59 |
//! | `skills` | skills of a [`Router`], and of servers | 53 |
//! | `validation` | validation of calls and forms by JSON Schema, by the crate `jsonschema` | 99 |
//! | `opentelemetry` | [metrics and traces](documentation::logging) | 58 |
//! | `redis` | sessions in Redis or Valkey (`store::Redis`), with `http-server` | 106 |
//!
//! A server that calls no other one over HTTP needs the default features only: 71 crates, in place of 129 with `http-client`. A
//! client needs 120 without the default features:
//!
//! ```sh
//! cargo add mcp-tokio
//! cargo add mcp-tokio --no-default-features --features http-client
//! ```
//!
//! The crates are counted on Linux by `cargo tree -p mcp-tokio -e normal --prefix none --no-dedupe --no-default-features --features
//! FEATURES | sort -u | wc -l` in the repository.
//!
//! # Proxies and gateways
//!
//! [`Proxy`] connects a client on a pair of byte streams to a server over HTTP or in a child process, of any two revisions.
//! [`Gateway`] serves any number of clients over HTTP by servers on byte streams ([`Backend`]): child processes, sockets, or
//! remote servers through a proxy.
//!
//! # Further pages
//!
//! * The [guide] of the repository has a program for each thing that servers and clients do.
//! * [`documentation::logging`]: the spans and events of `tracing`, OpenTelemetry.
//! * [`documentation::tasks`]: the tasks of this crate, and what bounds their memory.
//! * The modules [`proto`], [`model`], [`application`], [`intermediary`] and [`auth`] are the crates whose types occur in this
//!   API.
//!
//! [guide]: https://github.com/mcp-proto/mcp-proto/blob/main/docs/guide.md

// How the source is laid out:
//
// | file | what it does |
// |---|---|
// | `client` | the client: commands to its task, outcomes to its callers |
// | `client/builder` | the configuration of a client |
// | `client/driver` | the task that owns the machine |
// | `client/builder/in_memory` | a server in this process |
// | `client/in_flight`, `client/progress` | a request that has no outcome yet, and its progress |
// | `client/subscription` | changes that the application has subscribed to |
// | `client/handler` | the application's handler for the server's notifications and requests |
// | `sign_in` | signing in: its configuration, its task, signatures, and the port to which the browser returns |
// | `authorize` | the interface of a sign-in to the task that owns a machine |
// | `link` | the interface of a connection to the task that owns a machine |
// | `byte_stream` | a connection over a pair of byte streams |
// | `http_client` | HTTP exchanges as a transport, each in a task of its own |
// | `child` | servers that run as child processes |
// | `server` | a service, and its connections to clients |
// | `router`, `router/shared`, `router/tasks` | a service that consists of functions, which may change, and may run as tasks |
// | `server/service`, `server/incoming` | the application's service, and a request as its handler receives it |
// | `server/publisher`, `server/running` | publishes changes to clients, and what a server and its clones share |
// | `server/requests` | requests in progress: connects the machine and the handlers |
// | `server/notices` | notifications and other events for a service |
// | `server/stream` | the task of a server on a byte stream |
// | `server/replay` | a server whose input is known in full |
// | `server/http` | the server as a service of HTTP requests, and the task that owns its machine |
// | `store` | stores of sessions: in memory, in Redis, and the task between a server and its store |
// | `gateway` | the gateway: the kinds of backends, the task of each, and the machine between them and the clients |
// | `proxy` | the proxy: connects a client on a byte stream to a server over HTTP or in a child process |
// | `stdio` | stdin and stdout of this process |
// | `lines`, `bounded` | lines that are queued for a byte stream, and a queue that counts the entries that were dropped |
// | `operations` | what is reported about requests: spans, and durations |
// | `clock`, `panics` | the clock, and panics of handlers |

#![cfg_attr(docsrs, feature(doc_cfg))]

mod authorize;
mod bounded;
mod byte_stream;
mod child;
mod client;
mod clock;
#[cfg(doc)]
pub mod documentation;
#[cfg(feature = "http-server")]
mod gateway;
#[cfg(feature = "http-client")]
mod http_client;
mod lines;
mod link;
mod local_functions;
#[cfg(not(all(feature = "http-client", feature = "http-server")))]
#[doc(hidden)]
pub mod missing_feature;
mod operations;
mod panics;
mod platform;
mod proxy;
mod router;
mod server;
#[cfg(feature = "http-client")]
pub mod sign_in;
#[cfg(feature = "http-client")]
mod signing;
mod stdio;
#[cfg(feature = "http-server")]
pub mod store;

#[cfg(feature = "http-client")]
pub use client::HttpServer;
pub use client::{
    Builder, ChildServer, Client, Handler, InFlight, InMemoryServer, ListItems, StreamServer, Subscription, ToolTask,
};
#[cfg(feature = "http-server")]
pub use gateway::{Backend, Gateway, GatewayMonitor, GatewayStatus};
#[cfg(feature = "http-client")]
pub use http_client::{HttpOptions, HttpSettings};
pub use local_functions::{LocalCall, LocalFunctionEnded, local_function, local_tool};
pub use mcp_application as application;
pub use mcp_application::router::HandlerError;
#[cfg(feature = "schema")]
pub use mcp_application::router::{NoArguments, Structured};
pub use mcp_application::{Authenticated, CardFailure, Change, Error, InvalidService, Observation, StateKeys};
#[cfg(feature = "http-client")]
pub use mcp_auth as auth;
pub use mcp_intermediary as intermediary;
pub use mcp_intermediary::Observer;
pub use mcp_model as model;
pub use mcp_proto as proto;
pub use proxy::{Proxy, Stopper};
/// The library of the HTTP client, for [`HttpOptions`].
#[cfg(feature = "http-client")]
pub use reqwest;
pub use router::{Extension, Router, SharedRouter, StateRouter, TaskContext};
#[cfg(feature = "http-server")]
pub use server::{HttpBody, HttpService, Listener};
pub use server::{Incoming, Server, ServerPublisher, Service};

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
