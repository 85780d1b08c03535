//! A store with a fault, with which the tests of several instances have to fail.

use std::str::FromStr;

use mcp_proto::InstanceId;
use mcp_proto::store::{StoreAction, StoreResult};
use mcp_tokio::store::{Messages, Store};

/// What a store does not do, although it answers that it has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fault {
    /// It stores no events.
    Append,
    /// It stores no changes of a session that is stored.
    Save,
    /// It passes on no messages.
    Send,
    /// It says of every instance that it runs.
    Find,
}

impl FromStr for Fault {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text {
            "append" => Ok(Self::Append),
            "save" => Ok(Self::Save),
            "send" => Ok(Self::Send),
            "find" => Ok(Self::Find),
            _ => Err(format!("there is no fault '{text}'")),
        }
    }
}

/// A store with at most one fault.
#[derive(Debug)]
pub struct Faulty<S> {
    store: S,
    fault: Option<Fault>,
}

impl<S> Faulty<S> {
    /// The store with the fault.
    pub const fn new(store: S, fault: Option<Fault>) -> Self {
        Self { store, fault }
    }
}

impl<S: Store> Store for Faulty<S> {
    async fn carry_out(&self, from: InstanceId, action: StoreAction) -> StoreResult {
        match (self.fault, &action) {
            (Some(Fault::Append), StoreAction::Append { .. }) | (Some(Fault::Send), StoreAction::Send { .. }) => {
                StoreResult::Done
            }
            (Some(Fault::Save), StoreAction::Save { expected: 1.., .. }) => StoreResult::Done,
            (Some(Fault::Find), StoreAction::Find { .. }) => StoreResult::Found(true),
            _ => self.store.carry_out(from, action).await,
        }
    }

    async fn register(&self, instance: InstanceId) {
        self.store.register(instance).await;
    }

    async fn attend(&self, instance: InstanceId, messages: Messages) {
        self.store.attend(instance, messages).await;
    }

    async fn leave(&self, instance: InstanceId) {
        self.store.leave(instance).await;
    }
}
