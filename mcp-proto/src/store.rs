//! A store that the instances of a server share, so that any of them can serve any request of a session.
//!
//! A [`Server<Http>`](crate::Server) whose sessions are [`Stored`](crate::server::SessionMode::Stored) returns
//! [`StoreAction`]s among its actions. Its driver carries them out at a store, such as Redis, and returns what the store
//! has answered to [`Server::handle_stored`](crate::Server::handle_stored).
//!
//! ```text
//!                 Load, Save, Append, Read …                     Load, Save, Append, Read …
//!   instance 1 ───────────────────────────────▶  store  ◀─────────────────────────────── instance 2
//!       ▲                                          │                                        ▲
//!       └──────── messages for instance 1 ─────────┴──────── messages for instance 2 ───────┘
//! ```
//!
//! # What a store has
//!
//! | | read and changed by | contents |
//! |---|---|---|
//! | one [`Record`] for each session | [`StoreAction::Load`], [`Save`](StoreAction::Save), [`Forget`](StoreAction::Forget) | what the session is between two messages, and a version |
//! | streams of events, by [`StreamId`] | [`Append`](StoreAction::Append), [`Read`](StoreAction::Read), [`ForgetStream`](StoreAction::ForgetStream) | server-sent events for clients that resume a stream, and for the instance to which a client is connected |
//! | which instances run | [`Find`](StoreAction::Find) | nothing: the driver registers its instance while it runs |
//! | messages to an instance, or to all | [`Send`](StoreAction::Send) | answers, cancellations, changes and requests about tasks that arrived at another instance |
//!
//! # What a store has to promise
//!
//! * An answered write is stored: after [`StoreResult::Done`] for a `Save` or `Append`, every later `Load` or `Read`
//!   of any instance has it.
//! * A `Save` or an `Append` takes effect in full or not at all, and once, also if the driver repeats it because the
//!   connection was lost.
//! * The events of a stream are numbered from 1 without gaps. A stream may lose its oldest events, never one between two
//!   others.
//! * Everything expires: a record or stream expires at the latest `expires_in` and an eighth of it after the last
//!   action that names it. The stream for messages that relate to no request ([`StreamId::OF_SESSION`]) does not expire
//!   before the record of its session.
//! * An instance is found while it runs, and is not found any more a short time after it has ended in any way. Ten seconds
//!   are a good choice.
//! * Messages of one instance to another arrive in their order, at most once. They may be lost if the receiving instance
//!   cannot reach the store for long.
//! * The actions of an instance that concern the same session or stream are carried out in the order in which they were
//!   returned.
//!
//! A store sees everything that sessions contain, and a program that can write to it can act as any client: it needs the
//! protection that the process itself has.

mod action;
mod memory;

pub(crate) use action::LAST_NUMBER;
pub use action::{After, Record, StoreAction, StoreKey, StoreResult, StoredEvents, StreamId};
pub use memory::MemoryStore;
