//! A request, on the server of either driver.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use mcp_proto::client::{Call, Outcome};
use mcp_proto::server::{Context as RequestContext, Progress};
use mcp_proto::spec::LoggingLevel;
use mcp_proto::{ErrorObject, Json, Method, Notification, UsageError};

/// The key that seals states here. A server that is reachable by others needs a random and secret key.
const KEY: [u8; 32] = *b"a key that everybody may know: 1";

/// A request of a client, with the methods that send messages to that client.
#[derive(Debug)]
pub(super) enum Caller<'i> {
    /// A request of `mcp-blocking`. Each future is ready at its first poll, because the driver blocks.
    Blocking(&'i mcp_blocking::Incoming),
    /// A request of `mcp-tokio`.
    Tokio(&'i mcp_tokio::Incoming),
}

impl Caller<'_> {
    pub(super) fn method(&self) -> &Method {
        match self {
            Self::Blocking(incoming) => incoming.method(),
            Self::Tokio(incoming) => incoming.method(),
        }
    }

    pub(super) fn params(&self) -> Option<&Json> {
        match self {
            Self::Blocking(incoming) => incoming.params(),
            Self::Tokio(incoming) => incoming.params(),
        }
    }

    pub(super) fn context(&self) -> &RequestContext {
        match self {
            Self::Blocking(incoming) => incoming.context(),
            Self::Tokio(incoming) => incoming.context(),
        }
    }

    pub(super) fn declares(&self, capability: &str) -> bool {
        self.context().client_capabilities.member(capability).is_ok_and(|declared| declared.is_some())
    }

    /// A sealed state, which only this server can create and which is valid for this request only.
    pub(super) fn seal_state(&self, state: &str, lifetime: Duration) -> String {
        match self {
            Self::Blocking(incoming) => mcp_blocking::StateKeys::new(KEY).seal(incoming, state, lifetime),
            Self::Tokio(incoming) => mcp_tokio::StateKeys::new(KEY).seal(incoming, state, lifetime),
        }
    }

    /// The state that came with the request, if one did.
    pub(super) fn open_state(&self) -> Result<Option<String>, ErrorObject> {
        match self {
            Self::Blocking(incoming) => mcp_blocking::StateKeys::new(KEY).open(incoming),
            Self::Tokio(incoming) => mcp_tokio::StateKeys::new(KEY).open(incoming),
        }
    }

    pub(super) async fn publish(&self, notification: Notification) -> Result<(), UsageError> {
        match self {
            Self::Blocking(incoming) => incoming.publish(notification),
            Self::Tokio(incoming) => incoming.publish(notification).await,
        }
    }

    pub(super) async fn progress(&self, progress: Progress) {
        match self {
            Self::Blocking(incoming) => incoming.progress(progress),
            Self::Tokio(incoming) => incoming.progress(progress).await,
        }
    }

    pub(super) async fn log(&self, level: LoggingLevel, logger: &str, data: Json) -> Result<(), UsageError> {
        match self {
            Self::Blocking(incoming) => incoming.log(level, Some(logger), data),
            Self::Tokio(incoming) => incoming.log(level, Some(logger), data).await,
        }
    }

    pub(super) async fn ask(&self, call: Call) -> Result<Outcome, UsageError> {
        match self {
            Self::Blocking(incoming) => incoming.ask(call),
            Self::Tokio(incoming) => incoming.ask(call).await,
        }
    }

    pub(super) fn release(&self) {
        match self {
            Self::Blocking(incoming) => incoming.release(),
            Self::Tokio(incoming) => incoming.release(),
        }
    }

    pub(super) async fn sleep(&self, time: Duration) {
        match self {
            Self::Blocking(_) => thread::sleep(time),
            Self::Tokio(_) => tokio::time::sleep(time).await,
        }
    }
}

/// Polls a future until it is ready, without a waker: everything that it awaits blocks instead.
pub(super) fn run<T>(future: impl Future<Output = T>) -> T {
    let mut future = pin!(future);
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
            return output;
        }
    }
}
