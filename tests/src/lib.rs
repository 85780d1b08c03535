//! The scenarios of this workspace: tables of input and outcomes that the core, both drivers and the proxy run, and
//! simulations with models that predict their outcomes.
//!
//! What tests of other crates use, too, is in the crate `mcp-testkit`, in `tests/testkit`.
//!
//! | module | contents |
//! |---|---|
//! | [`echo_pair`] | a client and a server machine, and perhaps a relay, under one seed, with an application that echoes |
//! | [`seeded`] | what all simulations share: the seed and steps of a run, its trace, its shortening, machines that are broken on purpose |
//! | [`simulation`] | clients, relays and a server with faults of every kind; a model predicts each outcome |
//! | [`sign_in_simulation`] | processes that sign in, with authorization servers, a protected server and a person |
//! | [`random_clients`] | a server machine over HTTP, and arbitrary clients; the invariants are checked after each operation |
//! | [`relay_pair`] | a relay between a client and a server of any two eras, over HTTP or on byte streams |
//! | [`gateway`] | a gateway with clients over HTTP, and processes whose lines a test reads and writes |
//! | [`gateway_simulation`] | clients of a gateway and processes that act in random order; the invariants are checked after each step |
//! | [`instances`], [`instances_simulation`] | instances of a server that share a store, with requests that reach any of them; at random, with instances that end and a store that fails |
//! | [`aggregate`] | an aggregate between a client machine and server machines with applications |
//! | [`aggregate_simulation`] | the same with servers that are slow, silent, endless or hostile, in random order |
//! | [`ending_servers`] | servers in child processes that end in every way that a process can |
//! | [`unread_pipes`] | servers that do not read their input |
//! | [`dripping`] | servers that send a byte now and then while they are connected to |
//! | [`closing_server`] | a server that closes connections when a request has arrived |
//! | [`on_the_wire`] | scenarios for servers that listen on sockets |
//! | [`http1_requests`] | requests of HTTP/1.1 as bytes, well-formed and broken |
//! | [`json_over_the_wire`] | the files of `JSONTestSuite` as bodies, parameters and lines |
//! | [`behind_reverse_proxy`], [`reverse_proxy`] | a server behind nginx and Caddy, and these on loopback |
//! | [`installed`] | programs that some tests need |
//! | [`redis_server`] | a Redis server that a test starts and ends |
//! | [`given_up_locks`] | sign-ins that no longer want the lock for which they wait |
//! | [`provider_quirks`] | authorization servers that differ from the rules, one row each |
//! | [`proxy_environment`] | the HTTP proxy that the environment sets |
//! | [`protected`] | servers that demand tokens |
//! | [`plays`] | one machine with a peer and an application that behave randomly, correctly or not |
//! | [`routed`] | a server that is a router of functions |
//! | [`routed_tasks`] | functions that may take long, and their tasks |
//! | [`hooked_tasks`] | a task with a secret outcome, and hooks that hide it |
//! | [`json_text`] | generators of valid and invalid JSON |
//! | [`model_types`], [`schema`] | the types of `mcp_model` by name, and values generated from the official schemas |
//! | [`vectors`] | traffic that was recorded between existing implementations, and other collected inputs |
//! | [`deadline`] | bounds for tests that wait |
//! | [`parallel`] | cases that run concurrently and are reported by name |
//! | [`keys`] | private keys |
//! | [`tools`] | the tools of the servers in tests of proxies |
//! | [`typed_calls`] | a server for typed clients |
//! | [`zoo`] | a server with functions of every shape of Rust types, and forms of every kind of field |
//! | [`uri_readers`] | what servers read as a URI, with parsers of both standards |
//! | [`urls`] | URLs of servers in the spellings that users write |
//! | [`examples`] | runs the examples of the drivers |
//! | [`pages`] | the programs on the first pages, and what they need |
//! | [`workspace`] | the crates of this workspace |
//! | [`catalogue`], [`error_texts`] | the catalogue of bad input, the texts of errors, and the tests that belong to their rows |

pub mod aggregate;
pub mod aggregate_simulation;
pub mod behind_reverse_proxy;
pub mod catalogue;
pub mod closing_server;
pub mod deadline;
pub mod dripping;
pub mod echo_pair;
pub mod ending_servers;
pub mod error_texts;
pub mod examples;
pub mod gateway;
pub mod gateway_simulation;
pub mod given_up_locks;
pub mod hooked_tasks;
pub mod http1_requests;
pub mod installed;
pub mod instances;
pub mod instances_simulation;
pub mod json_over_the_wire;
pub mod json_text;
pub mod keys;
pub mod model_types;
pub mod on_the_wire;
pub mod pages;
pub mod parallel;
pub mod plays;
pub mod protected;
pub mod provider_quirks;
pub mod proxy_environment;
pub mod random_clients;
pub mod redis_server;
pub mod relay_pair;
pub mod reverse_proxy;
pub mod routed;
pub mod routed_tasks;
pub mod schema;
pub mod scripted;
pub mod seeded;
pub mod server_cards;
pub mod sign_in_simulation;
pub mod simulation;
pub mod tools;
pub mod typed_calls;
pub mod unread_pipes;
pub mod uri_readers;
pub mod urls;
pub mod vectors;
pub mod workspace;
pub mod zoo;
