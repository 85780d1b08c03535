//! The application layer of drivers for the Model Context Protocol: types of their APIs, and decisions that do not depend
//! on the kind of I/O. The crates `mcp-blocking` and `mcp-tokio` are built of it. It is public for the authors of other
//! drivers, who take what they need; a driver that consists of a loop around one machine needs none of it.
//!
//! | module | contents |
//! |---|---|
//! | [`router`] | from a request to the function that is registered for it, and from what that returns to an answer; schemas of types |
//! | `skills` (feature `skills`) | from files of an application to the entry of a skill, and files of a server that are compared with theirs |
//! | `validation` (feature `validation`) | arguments, results and answers to forms, compared with their JSON Schemas |
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
//! [`documentation::drivers`] has what drivers use.
//!
//! Each item has a file of a similar name; `client_limits.rs` has the limits and times that are the same in all drivers.
//! `client_methods.rs` and `router/driver_router.rs` have the methods that are the same on the types of both drivers.
//! `docs/versioning.md` of the repository states what is promised about this crate and [`machine`](mcp_proto::machine).

#![cfg_attr(docsrs, feature(doc_cfg))]
#![warn(clippy::indexing_slicing)]

mod accept;
mod authenticated;
mod call_hooks;
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
#[cfg(doc)]
pub mod documentation;
mod error;
mod file_not_reached;
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
mod server_cards;
mod shared_task_runs;
#[cfg(feature = "skills")]
pub mod skills;
mod state;
mod task_call;
mod task_caller;
mod task_input;
mod task_runs;
#[cfg(feature = "validation")]
pub mod validation;

pub use accept::may_accept_later;
pub use authenticated::Authenticated;
pub use call_hooks::{CallHooks, CallOutcome, HookedCall};
pub use call_params::{completion, directory, page, prompt, tool_call};
pub use change::Change;
pub use child_end::{ChildEnd, LAST_OUTPUT_TIMEOUT};
pub use client_event::ClientEvent;
pub use client_handlers::{ClientHandlers, RequestKind, apps_extension, extension_in, with_extension};
pub use client_limits::{
    CLOSED_INPUT_TIMEOUT, CONNECT_TIMEOUT, EXIT_TIMEOUT, LONGEST_TIMEOUT, MAX_CHANGE_BYTES, MAX_CHANGES,
    PROXY_FLUSH_TIMEOUT, STORED_TOKEN_TIMEOUT, STREAM_FLUSH_TIMEOUT, URGENT_PROXY_FLUSH_TIMEOUT,
};
pub use connected::{Connected, NotConnected, SharedConnected};
pub use connection_timeouts::ConnectionTimeouts;
pub use connections::{Admitted, ConnectionSlot, SharedConnections};
pub use error::Error;
pub use file_not_reached::FileNotReached;
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
pub use pages::{MAX_LIST, MAX_PAGES, Pages};
pub use progress::{ProgressBytes, ProgressQueue};
pub use proxy_exceptions::ProxyExceptions;
pub use publishers::{Publisher, Publishers};
pub use running::{ChangeReceiver, Running};
pub use server_cards::{CARD_TIMEOUT, CardFailure, MAX_CARD, card_request, read_card};
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
