//! The application layer of drivers for the Model Context Protocol: types of their APIs, and decisions that do not depend
//! on the kind of I/O. The crates `mcp-blocking` and `mcp-tokio` are built of it. It is public for the authors of other
//! drivers, who take what they need; a driver that consists of a loop around one machine needs none of it.
//!
//! | module | contents |
//! |---|---|
//! | [`router`] | from a request to the function that is registered for it, and from what that returns to an answer; schemas of types |
//! | `skills` (feature `skills`) | from files of an application to the entry of a skill, and files of a server that are compared with theirs |
//! | this one | everything else, below |
//!
//! What the application of any driver uses:
//!
//! | items | purpose |
//! |---|---|
//! | [`IncomingRequest`] | a request of a client, as its handler receives it |
//! | [`Inputs`], `Elicited` (feature `schema`) | input that a handler needs from the client, in both eras |
//! | [`StateKeys`] | states that clients send back and cannot alter |
//! | [`Authenticated`] | what an application has found out about the sender of an HTTP request |
//! | [`Error`] | why a client could not connect, or a call has no result |
//! | [`Change`], [`Observation`], [`Severity`] | events of a subscription, and events of a client that need no answer |
//!
//! What drivers of clients and of servers use:
//!
//! | items | purpose |
//! |---|---|
//! | [`Operation`], [`OperationEnd`], [`request_id_text`] | what a span or a metric states about a request, without its payload |
//! | [`OperationNames`], [`OperationLabel`] | which names of methods, tools and prompts metrics contain, so that peers cannot make up series |
//! | [`DURATION_BUCKETS`] | the buckets of durations |
//!
//! What a driver of clients uses:
//!
//! | items | purpose |
//! |---|---|
//! | [`ClientEvent`], [`Notice`] | sort the events of a client by who receives them: a caller, a subscription, the handler |
//! | [`Connected`], [`SharedConnected`], [`NotConnected`] | what is known about the server, or why it could not be connected to |
//! | [`ClientHandlers`], [`RequestKind`] | functions of the application for single kinds of requests and notifications, and the capabilities that they need |
//! | [`ProgressBytes`], [`ProgressQueue`] | progress notifications that callers have not received yet, with their limits |
//! | [`Pages`], [`MAX_PAGES`] | a whole list, page by page |
//! | [`TaskCall`], [`TaskStep`] | a call of a tool whose result may be a task |
//! | [`tool_call`], [`prompt`], [`completion`], [`page`], [`directory`] | the parameters of calls that a driver offers as functions |
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
//! | [`Running`], [`ChangeReceiver`] | what a server and its clones share, and who receives the changes that are published |
//! | [`Publisher`], [`Publishers`] | the servers to whose clients changes of a router are published |
//! | [`TaskRuns`], [`TaskEffect`] | the tasks of a server, and the functions that work on them |
//! | [`SharedTaskRuns`], [`RouterTasks`] | the same behind a lock, with the publishers of their changes |
//! | [`TaskCaller`], [`CallSender`] | the client whose call is a task |
//! | [`TaskInput`], [`TaskInputs`] | input that such a function needs from the client, one or several at one time |
//! | [`not_read`] | the error of a client that does not read |
//! | [`STREAM_FLUSH_TIMEOUT`], [`PROXY_FLUSH_TIMEOUT`], [`URGENT_PROXY_FLUSH_TIMEOUT`] | how long it waits for such a client |
//!
//! Each item has a file of a similar name; `client_limits.rs` has the limits and times that are the same in all drivers.
//! `client_methods.rs` and `router/driver_router.rs` have the methods that are the same on the types of both drivers.
//! `docs/versioning.md` of the repository states what is promised about this crate and [`machine`](mcp_proto::machine).

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::indexing_slicing)]

mod accept;
mod authenticated;
mod call_params;
mod change;
mod child_end;
mod client_event;
mod client_handlers;
mod client_limits;
mod client_methods;
mod connected;
mod connection_timeouts;
mod connections;
mod error;
mod implementations;
mod incoming;
mod inputs;
mod invalid_service;
mod lenient;
mod not_read;
mod notice;
mod observation;
mod operation;
mod operation_names;
mod pages;
mod progress;
mod proxy_exceptions;
mod publishers;
pub mod router;
mod running;
mod shared_task_runs;
#[cfg(feature = "skills")]
pub mod skills;
mod state;
mod task_call;
mod task_caller;
mod task_input;
mod task_runs;

pub use accept::may_accept_later;
pub use authenticated::Authenticated;
pub use call_params::{completion, directory, page, prompt, tool_call};
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
pub use inputs::Inputs;
pub use invalid_service::InvalidService;
pub use lenient::read_result;
pub use mcp_proto::Severity;
pub use not_read::not_read;
pub use notice::{NOTICE_BYTES, NOTICES, Notice, NoticeLoad};
pub use observation::Observation;
pub use operation::{DURATION_BUCKETS, Operation, OperationEnd, request_id_text};
pub use operation_names::{OperationLabel, OperationNames};
pub use pages::{MAX_PAGES, Pages};
pub use progress::{ProgressBytes, ProgressQueue};
pub use proxy_exceptions::ProxyExceptions;
pub use publishers::{Publisher, Publishers};
pub use running::{ChangeReceiver, Running};
pub use shared_task_runs::{RouterTasks, SharedTaskRuns};
pub use state::StateKeys;
pub use task_call::{TaskCall, TaskStep};
pub use task_caller::{CallSender, TaskCaller};
pub use task_input::{TaskInput, TaskInputs};
pub use task_runs::{TaskEffect, TaskRuns};

/// The examples of the crate's README.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
