//! Stores for sessions that any instance of a server can serve.
//!
//! A server over HTTP whose sessions are [`SessionMode::Stored`] needs a [`Store`], which [`Server::store`] gives it. All
//! servers with the same store serve the same sessions: requests, streams, resumptions, and answers of clients reach a
//! session wherever they arrive.
//!
//! | store | for |
//! |---|---|
//! | [`InMemory`] | several servers in one process, and tests |
//! | `Redis` (feature `redis`) | any number of processes, with a server of Redis or Valkey |
//!
//! # Example: two servers in one process
//!
//! ```
//! use mcp_tokio::proto::server::{Config, HttpConfig, SessionMode, StoredSessions};
//! use mcp_tokio::proto::{ErrorObject, Json};
//! use mcp_tokio::store::{InMemory, random_instance};
//! use mcp_tokio::{Incoming, Server};
//!
//! # #[tokio::main(flavor = "current_thread")]
//! # async fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let store = InMemory::new();
//! for _ in 0..2 {
//!     let serve = async |incoming: Incoming| Ok::<_, ErrorObject>(Json::from(incoming.method().as_str()));
//!     let mut http = HttpConfig::new();
//!     http.sessions = SessionMode::Stored(StoredSessions::new(random_instance()?));
//!     let service = Server::new(Config::new("my-tools", "1.0.0"), serve).store(store.clone()).http(http)?;
//! }
//! # Ok(())
//! # }
//! ```
//!
//! # Files
//!
//! | file | what it does |
//! |---|---|
//! | `in_memory` | a store in the memory of this process |
//! | `redis` | a store in Redis |
//! | `redis/connection` | a connection that is opened again when it is lost |
//! | `redis/keys` | the names of keys |
//! | `redis/scripts` | what is carried out at the store in one step |
//! | `task` | the task that passes a server's actions to its store, in order |
//!
//! [`SessionMode::Stored`]: mcp_proto::server::SessionMode::Stored
//! [`Server::store`]: crate::Server::store

mod in_memory;
#[cfg(feature = "redis")]
mod redis;
mod task;

use std::io;
use std::pin::Pin;
use std::sync::Arc;

use bytes::Bytes;
use mcp_proto::InstanceId;
use mcp_proto::store::{StoreAction, StoreResult};
use tokio::sync::mpsc;

pub use in_memory::InMemory;
pub(crate) use task::{FromStore, StoreLink};

#[cfg(feature = "redis")]
pub use self::redis::Redis;

/// A store that the instances of a server share.
///
/// [`mcp_proto::store`] has what a store has to promise, and [`StoreAction`] what each action does;
/// [`MemoryStore`](mcp_proto::store::MemoryStore) is an implementation without I/O, and
/// `mcp_testkit::store_contract` checks an implementation. In short:
///
/// * A `Save` takes effect only if the expected version is stored, and an `Append` in full or not at all, also if the
///   store repeats it after a lost connection.
/// * The events of a stream are numbered from 1 without gaps; a read returns all events after the named one or none.
/// * Everything expires.
/// * Messages arrive at most once, in order, and may be lost.
/// * An action that cannot be carried out ends with [`StoreResult::Failed`]. The server waits for
///   [`StoredSessions::timeout`](mcp_proto::server::StoredSessions::timeout), and then drops the future.
///
/// The server begins an action that writes a record or a stream only after the earlier actions on it have ended, and sends
/// one message after the other. It carries out at most 64 actions at one time.
pub trait Store: Send + Sync + 'static {
    /// Carries out an action of an instance. The result of one without a key is ignored.
    fn carry_out(&self, from: InstanceId, action: StoreAction) -> impl Future<Output = StoreResult> + Send;

    /// Registers an instance: messages to it are kept from now on. Its first action is carried out after this has ended,
    /// or has taken longer than [`StoredSessions::timeout`](mcp_proto::server::StoredSessions::timeout).
    fn register(&self, instance: InstanceId) -> impl Future<Output = ()> + Send;

    /// Keeps an instance registered, and passes on the messages to it, until the future is dropped. It is called again if
    /// the future ends.
    fn attend(&self, instance: InstanceId, messages: Messages) -> impl Future<Output = ()> + Send;

    /// An instance has ended, after its last action. Other instances learn of it in any case, as after a crash, but later.
    fn leave(&self, instance: InstanceId) -> impl Future<Output = ()> + Send {
        let _ = instance;
        async {}
    }
}

impl<S: Store> Store for Arc<S> {
    fn carry_out(&self, from: InstanceId, action: StoreAction) -> impl Future<Output = StoreResult> + Send {
        S::carry_out(self, from, action)
    }

    fn register(&self, instance: InstanceId) -> impl Future<Output = ()> + Send {
        S::register(self, instance)
    }

    fn attend(&self, instance: InstanceId, messages: Messages) -> impl Future<Output = ()> + Send {
        S::attend(self, instance, messages)
    }

    fn leave(&self, instance: InstanceId) -> impl Future<Output = ()> + Send {
        S::leave(self, instance)
    }
}

/// Passes messages from a store to the server of an instance.
#[derive(Debug, Clone)]
pub struct Messages(mpsc::Sender<Bytes>);

impl Messages {
    /// Messages that are sent to this channel, for tests of a store.
    #[must_use]
    pub const fn new(to: mpsc::Sender<Bytes>) -> Self {
        Self(to)
    }

    /// Passes on a message. Waits while the server has not taken earlier ones.
    pub async fn pass(&self, message: Bytes) {
        // Without a receiver, the server has ended.
        let _ = self.0.send(message).await;
    }
}

/// An instance that no other one equals: a random number from the operating system. Each start of a process needs a new
/// one, and so does each service of a process.
///
/// # Errors
///
/// The system has no random bytes.
pub fn random_instance() -> io::Result<InstanceId> {
    let mut random = [0; 8];
    getrandom::fill(&mut random).map_err(io::Error::other)?;
    Ok(InstanceId::new(u64::from_ne_bytes(random)))
}

type Carried<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

/// A type-erased store.
pub(crate) trait AnyStore: Send + Sync + 'static {
    fn carry_out(&self, from: InstanceId, action: StoreAction) -> Carried<'_, StoreResult>;
    fn register(&self, instance: InstanceId) -> Carried<'_, ()>;
    fn attend(&self, instance: InstanceId, messages: Messages) -> Carried<'_, ()>;
    fn leave(&self, instance: InstanceId) -> Carried<'_, ()>;
}

impl<S: Store> AnyStore for S {
    fn carry_out(&self, from: InstanceId, action: StoreAction) -> Carried<'_, StoreResult> {
        Box::pin(Store::carry_out(self, from, action))
    }

    fn register(&self, instance: InstanceId) -> Carried<'_, ()> {
        Box::pin(Store::register(self, instance))
    }

    fn attend(&self, instance: InstanceId, messages: Messages) -> Carried<'_, ()> {
        Box::pin(Store::attend(self, instance, messages))
    }

    fn leave(&self, instance: InstanceId) -> Carried<'_, ()> {
        Box::pin(Store::leave(self, instance))
    }
}
