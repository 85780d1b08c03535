//! A kit for tests of implementations of the Model Context Protocol, without sockets where possible and without waiting.
//!
//! The machines of `mcp-proto` do no I/O and read no clock. A test can therefore be their network, their clock and their
//! peer at once. The kit has these roles ready-made, from small to large:
//!
//! | you have | take | what it does |
//! |---|---|---|
//! | one machine, and a test that acts as its peer | [`http_client`], [`http_server`], [`byte_stream`] | passes bytes and time to the machine, collects its output, checks that each action is valid |
//! | a client and a server, and perhaps a relay | [`pair`] | connects them with streams that split and delay, under one seed and a virtual clock |
//! | several machines and faults of every kind | [`simulation`] | runs a plan that a seed determines, and compares each outcome with the prediction of a reference model |
//! | a server machine over HTTP, and arbitrary clients | [`random_clients`] | performs random operations, and checks the invariants after each |
//! | a driver or another program, which needs sockets | [`loopback_server`], [`raw_client`] | a server whose responses the test writes, a client that sends any bytes |
//! | a client of a driver that signs in | [`authorization::ProtectedServer`] | a server on loopback that demands tokens, and issues them |
//! | an `Authorizer` | [`authorization`] | acts as its authorization server, its store, its browser and its person, for several processes at once |
//! | a decoder | [`oracle`], [`chunks`], [`json_text`] | naive decoders to compare it with, ways to split its input, valid and invalid JSON |
//!
//! A test that needs none of these roles in full takes their parts:
//!
//! | module | contents |
//! |---|---|
//! | [`http_exchange`] | HTTP requests of clients to build, and the responses to them |
//! | [`http1`] | a minimal reader of HTTP/1.1 messages |
//! | [`messages`] | the texts of frequent JSON-RPC messages, results and events |
//! | [`model_types`], [`schema`] | the types of `mcp_proto::model` by name, and values generated from the official schemas |
//! | [`parallel`], [`waiting`] | cases that run concurrently and are reported by name, and waiting with a limit |
//! | [`random`] | pseudo-random numbers from a seed, and choices from a seed or from the bytes of a fuzzer |
//! | [`transcript`] | all output of machines as text, whose digests a test compares with stored ones |
//! | [`vectors`] | traffic that was recorded between existing implementations, and other collected inputs |
//!
//! # A machine and its peer
//!
//! The test is the server here. It sees the HTTP request of the client, answers late, and advances the clock itself:
//!
//! ```
//! use std::time::Duration;
//!
//! use mcp_proto::client::Outcome;
//! use mcp_testkit::http_client::{HttpClientHarness, Reply};
//! use mcp_testkit::messages;
//!
//! let mut harness = HttpClientHarness::connected_client();
//! let (request, opened) = harness.request("tools/list");
//! assert_eq!(opened.line(), "POST /mcp");
//! assert_eq!(opened.header("mcp-session-id"), "session-1");
//!
//! // The virtual clock costs no time.
//! harness.pass(Duration::from_secs(5));
//! assert!(harness.outcomes().is_empty());
//!
//! harness.reply(opened.key, &Reply::json(messages::result(&opened.id(), r#"{"tools":[]}"#)));
//! assert!(matches!(harness.outcomes()[&request], Outcome::Result(_)));
//! ```
//!
//! # A run that a seed determines
//!
//! [`simulation`] and [`pair`] draw every latency, split and fault from one seed. A seed that fails is a complete bug
//! report: it fails in the same way on every computer.
//!
//! ```
//! use mcp_testkit::pair::Pair;
//!
//! let run = |seed| {
//!     let mut pair = Pair::new(seed);
//!     pair.request("first");
//!     pair.request("second");
//!     pair.run();
//!     assert_eq!(pair.outcomes.len(), 2, "each request has one outcome");
//!     pair.trace
//! };
//! assert_eq!(run(7), run(7));
//! ```
//!
//! # Testing another implementation
//!
//! A program that is not built on `mcp-proto` is tested over sockets: [`loopback_server::LoopbackServer`] is a server that
//! behaves as the test says, valid or not, and [`raw_client::RawClient`] sends requests that no HTTP library would send.
//! [`vectors::Capture`] has real traffic to replay, [`oracle`] and [`json_text`] test a parser without any machine.
//!
//! An implementation of the same machines in another crate implements [`http_client::Machine`] to be driven by
//! [`http_client::HttpClientHarness`], and [`transcript::Described`] for its output, so that every change of what a machine
//! does shows up as a changed digest.
//!
//! A panic is how the kit reports that an invariant does not hold.

pub mod authorization;
pub mod byte_stream;
pub mod chunks;
pub mod http1;
pub mod http_client;
pub mod http_exchange;
pub mod http_server;
pub mod json_text;
pub mod loopback_server;
pub mod messages;
pub mod model_types;
pub mod oracle;
pub mod pair;
pub mod parallel;
pub mod random;
pub mod random_clients;
pub mod raw_client;
pub mod schema;
pub mod simulation;
pub mod transcript;
pub mod vectors;
pub mod waiting;
