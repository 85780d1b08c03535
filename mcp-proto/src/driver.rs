//! What drivers share besides their I/O: types of their APIs, and decisions that do not depend on the kind of I/O. The
//! crates `mcp-blocking` and `mcp-tokio` are built of it. It is public for the authors of other drivers, who take what
//! they need; a driver that consists of a loop around one machine needs none of it.
//!
//! What the application of any driver uses:
//!
//! | items | purpose |
//! |---|---|
//! | [`IncomingRequest`] | a request of a client, as its handler receives it |
//! | `Inputs`, `Elicited` (feature `model`; `schema`) | input that a handler needs from the client, in both eras |
//! | `StateKeys` (feature `seal`) | states that clients send back and cannot alter |
//! | [`Authenticated`] | what an application has found out about the sender of an HTTP request |
//! | [`Error`] | why a client could not connect, or a call has no result |
//! | [`Change`], [`Observation`], [`Severity`] | events of a subscription, and events of a client that need no answer |
//! | [`Observer`] | receives what a relay does, for example for a log |
//!
//! What a driver of clients uses:
//!
//! | items | purpose |
//! |---|---|
//! | [`ClientEvent`], [`Notice`] | sort the events of a client by who receives them: a caller, a subscription, the handler |
//! | [`Connected`], [`SharedConnected`], [`NotConnected`] | what is known about the server, or why it could not be connected to |
//! | [`ClientHandlers`], [`RequestKind`] | functions of the application for single kinds of requests and notifications, and the capabilities that they need |
//! | [`ProgressBytes`], [`ProgressQueue`] | progress notifications that callers have not received yet, with their limits |
//! | `Pages`, `MAX_PAGES` (feature `model`) | a whole list, page by page |
//! | `TaskCall`, `TaskStep` (feature `model`) | a call of a tool whose result may be a task |
//! | `tool_call`, `prompt`, `completion`, `page`, `directory` (feature `model`) | the parameters of calls that a driver offers as functions |
//! | `SignInReport`, `SignInOutcome` (feature `auth`) | what the events of a sign-in mean for a machine and for a log |
//! | [`not_started`] | the error of a program that cannot be started |
//! | [`ChildEnd`], [`LAST_OUTPUT_TIMEOUT`] | when a server in a child process has ended, of which the process and the stream end separately |
//! | [`CONNECT_TIMEOUT`], [`STORED_TOKEN_TIMEOUT`], [`EXIT_TIMEOUT`], [`CLOSED_INPUT_TIMEOUT`], [`LONGEST_TIMEOUT`] | how long it waits |
//! | [`MAX_CHANGES`], [`MAX_CHANGE_BYTES`], [`NOTICES`], [`NOTICE_BYTES`] | how much it queues |
//!
//! What a driver of servers and proxies uses:
//!
//! | items | purpose |
//! |---|---|
//! | [`SharedConnections`], [`Admitted`], [`ConnectionSlot`] | which connections a listening server serves, and which it closes for others |
//! | [`ConnectionTimeouts`] | how long the client of a connection may take |
//! | [`may_accept_later`] | whether a listening socket can be used after an error |
//! | [`NoticeLoad`] | how much is queued for a service |
//! | [`TaskRuns`], [`TaskEffect`] | the tasks of a server, and the functions that work on them |
//! | `TaskInput`, `TaskInputs` (feature `model`) | input that such a function needs from the client, one or several at one time |
//! | [`poll_observed`], [`ObservedOutput`] | the outputs of a relay, those for the [`Observer`] taken out |
//! | [`not_read`] | the error of a client that does not read |
//! | [`STREAM_FLUSH_TIMEOUT`], [`PROXY_FLUSH_TIMEOUT`], [`URGENT_PROXY_FLUSH_TIMEOUT`] | how long it waits for such a client |
//!
//! Each item has a file of a similar name; `driver/client_limits.rs` has the limits and times that are the same in all
//! drivers. `docs/versioning.md` of the repository states what is promised about this module and [`machine`](crate::machine).

mod accept;
mod authenticated;
mod change;
mod child_end;
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
#[cfg(feature = "model")]
mod lenient;
mod not_read;
mod notice;
mod observation;
mod observer;
#[cfg(feature = "model")]
mod pages;
mod progress;
mod proxy_exceptions;
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
pub use child_end::{ChildEnd, LAST_OUTPUT_TIMEOUT};
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
#[cfg(feature = "model")]
pub use lenient::read_result;
pub use not_read::not_read;
pub use notice::{NOTICE_BYTES, NOTICES, Notice, NoticeLoad};
pub use observation::{Observation, Severity};
pub use observer::{ObservedOutput, Observer, poll_observed};
#[cfg(feature = "model")]
pub use pages::{MAX_PAGES, Pages};
pub use progress::{ProgressBytes, ProgressQueue};
pub use proxy_exceptions::ProxyExceptions;
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
