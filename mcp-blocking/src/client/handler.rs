//! What the application does about what the server tells and asks.

use mcp_proto::client::{NotRestored, Unavailable};
use mcp_proto::{ErrorObject, Fault, Json, Method, Notification, Quirk, code};

/// Deals with what the server tells and asks. All of it is called on one thread of its own, in order.
///
/// A handler may call the client, for instance to list tools again when they have changed. A request whose handler panics
/// is answered with an error, and the handler is called again for what comes next.
pub trait Handler: Send + 'static {
    /// The server tells something.
    fn notified(&mut self, notification: Notification) {
        let _ = notification;
    }

    /// The server asks for something. Without a handler of your own, it is told that there is no such method.
    ///
    /// # Errors
    ///
    /// The error is the server's answer.
    fn requested(&mut self, method: &Method, params: Option<&Json>) -> Result<Json, ErrorObject> {
        let _ = params;
        Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("the client cannot do {method}")))
    }

    /// Something happened that needs no answer: the connection was lost or made again, the server was odd.
    fn observed(&mut self, observation: Observation) {
        let _ = observation;
    }
}

/// The handler of a client that listens to nothing.
impl Handler for () {}

/// What a [`Handler`] may observe.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// The session was lost, and has been opened again.
    Reconnected,
    /// The session was opened again without something that was set in the lost one.
    NotRestored {
        /// The method of the request that had set it: `resources/subscribe` or `logging/setLevel`.
        method: Method,
        /// The request's parameters; `None` if they were not kept.
        params: Option<Json>,
        /// Why.
        reason: NotRestored,
    },
    /// A request waits because as many requests as [`HttpOptions::max_workers`](crate::HttpOptions::max_workers) allows are
    /// with the server. This is told once.
    RequestWaits {
        /// Requests that can be with the server at one time.
        limit: usize,
    },
    /// There is no connection now, for this reason.
    Unavailable(Unavailable),
    /// The server did something wrong that could be coped with.
    Faulted(Fault),
    /// The server did something odd that could be put up with.
    QuirkMet(Quirk),
}
