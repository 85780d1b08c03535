//! What drivers share besides their I/O: types of their APIs, and decisions that do not depend on the kind of I/O. The
//! crates `mcp-blocking` and `mcp-tokio` use all of it; an application that drives a machine itself needs none of it.
//!
//! | file | what it does |
//! |---|---|
//! | `error` | why a client could not connect, or a call has no result |
//! | `connected` | how the first attempt of a client to connect has ended, and what is known about the server |
//! | `start` | the error of a program that cannot be started |
//! | `client_event` | sorts the events of a client by who receives them |
//! | `client_handlers` | functions of an application for single kinds of requests and notifications |
//! | `sign_in` | what the events of a sign-in mean for a machine and for a log |
//! | `change` | events of a subscription |
//! | `observation` | events of a client that need no answer |
//! | `progress` | progress notifications that callers have not received yet |
//! | `not_read` | the error of a client that does not read |
//! | `notice` | what handlers and services receive without answering it, and how much of it is queued |
//! | `observer` | what a relay reports to the application |
//! | `authenticated` | what an application has found out about the sender of an HTTP request |
//! | `incoming` | a request of a client, as its handler receives it |
//! | `inputs` | input that a handler needs from the client |
//! | `task_runs` | the tasks of a server, and the functions that work on them |
//! | `task_input` | input that such a function needs from the client, one or several at one time |
//! | `task_call` | a call of a tool whose result may be a task |
//! | `pages` | a whole list, page by page |
//! | `typed_params` | the parameters of calls that drivers offer as functions |
//! | `state` | states that clients send back and cannot alter |
//! | `accept` | errors of listening sockets |
//! | `connections` | the connections of a listening server |
//! | `connection_timeouts` | how long the client of a connection may take |
//! | `client_limits` | the limits and times of clients that are the same in all drivers |

mod accept;
mod authenticated;
mod change;
mod client_event;
mod client_handlers;
mod client_limits;
mod connected;
mod connection_timeouts;
mod connections;
mod error;
mod incoming;
#[cfg(feature = "model")]
mod inputs;
mod not_read;
mod notice;
mod observation;
mod observer;
#[cfg(feature = "model")]
mod pages;
mod progress;
#[cfg(feature = "auth")]
mod sign_in;
mod start;
#[cfg(feature = "seal")]
mod state;
#[cfg(feature = "model")]
mod task_call;
#[cfg(feature = "model")]
mod task_input;
mod task_runs;
#[cfg(feature = "model")]
mod typed_params;

pub use accept::may_accept_later;
pub use authenticated::Authenticated;
pub use change::Change;
pub use client_event::ClientEvent;
pub use client_handlers::{ClientHandlers, RequestKind};
pub use client_limits::{
    CLOSED_INPUT_TIMEOUT, CONNECT_TIMEOUT, EXIT_TIMEOUT, LONGEST_TIMEOUT, MAX_CHANGE_BYTES, MAX_CHANGES,
    PROXY_FLUSH_TIMEOUT, STORED_TOKEN_TIMEOUT, STREAM_FLUSH_TIMEOUT, URGENT_PROXY_FLUSH_TIMEOUT,
};
pub use connected::{Connected, NotConnected, SharedConnected};
pub use connection_timeouts::ConnectionTimeouts;
pub use connections::{Admitted, ConnectionSlot, SharedConnections};
pub use error::Error;
pub use incoming::IncomingRequest;
#[cfg(feature = "schema")]
pub use inputs::Elicited;
#[cfg(feature = "model")]
pub use inputs::Inputs;
pub use not_read::not_read;
pub use notice::{NOTICE_BYTES, NOTICES, Notice, NoticeLoad};
pub use observation::{Observation, Severity};
pub use observer::{ObservedOutput, Observer, poll_observed};
#[cfg(feature = "model")]
pub use pages::{MAX_PAGES, Pages};
pub use progress::{ProgressBytes, ProgressQueue};
#[cfg(feature = "auth")]
pub use sign_in::{SignInOutcome, SignInReport};
pub use start::not_started;
#[cfg(feature = "seal")]
pub use state::StateKeys;
#[cfg(feature = "model")]
pub use task_call::{TaskCall, TaskStep};
#[cfg(feature = "model")]
pub use task_input::{TaskInput, TaskInputs};
pub use task_runs::{TaskEffect, TaskRuns};
#[cfg(feature = "model")]
pub use typed_params::{completion, directory, page, prompt, tool_call};
