//! Commands of clients to the driver.

use std::sync::Arc;
use std::sync::mpsc::SyncSender;

use mcp_application::{Change, Error};
use mcp_proto::client::{Call, SubscriptionKey};
use mcp_proto::{ErrorObject, Fault, Json, Notification, RequestKey, Ticket, UsageError};

use crate::bounded::Sender;
use crate::response_slot::ResponseSender;

/// A command from a client to its driver.
#[derive(Debug)]
pub(super) enum Input {
    Request {
        call: Call,
        responder: ResponseSender,
        accept: SyncSender<Result<RequestKey, UsageError>>,
    },
    Notify {
        notification: Notification,
        accept: SyncSender<Result<(), UsageError>>,
    },
    Cancel(RequestKey),
    Listen {
        filter: Json,
        listener: Sender<Change>,
        accept: SyncSender<Result<SubscriptionKey, UsageError>>,
    },
    Unlisten(SubscriptionKey),
    Answer {
        ticket: Ticket,
        answer: Result<Json, ErrorObject>,
    },
    SignIn(mcp_auth::Event),
    /// Parts of a result could not be read.
    Faulted(Fault),
    Close,
}

/// What the driver receives.
#[derive(Debug)]
pub(super) enum DriverInput<R> {
    Server(R),
    Client(Input),
}

/// Sends commands to the driver, for any kind of server.
#[derive(Clone)]
pub(super) struct Commands(Arc<dyn Fn(Input) -> Result<(), Error> + Send + Sync>);

impl Commands {
    pub(super) fn to<R: Send + 'static>(inbox: SyncSender<DriverInput<R>>) -> Self {
        Self(Arc::new(move |input| inbox.send(DriverInput::Client(input)).map_err(|_| UsageError::Closed.into())))
    }

    pub(super) fn send(&self, input: Input) -> Result<(), Error> {
        (self.0)(input)
    }
}

mcp_application::opaque_debug!(Commands);

impl<R> From<R> for DriverInput<R> {
    fn from(received: R) -> Self {
        Self::Server(received)
    }
}
