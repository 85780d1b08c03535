//! How the application handles the server's notifications and requests.

use mcp_proto::client::{NotRestored, Unavailable};
use mcp_proto::{ErrorObject, Fault, Json, Method, Notification, Quirk, code};

/// Handles the server's notifications and requests. All methods are called in order on one dedicated thread.
///
/// A handler may call the client, for instance to list the tools again when they have changed. If a handler panics at a
/// request, the server gets an error, and the handler is called again for the next event.
pub trait Handler: Send + 'static {
    /// The server sent a notification.
    fn notified(&mut self, notification: Notification) {
        let _ = notification;
    }

    /// The server sent a request. By default, it is answered with the error `METHOD_NOT_FOUND`.
    ///
    /// # Errors
    ///
    /// The error is sent to the server.
    fn requested(&mut self, method: &Method, params: Option<&Json>) -> Result<Json, ErrorObject> {
        let _ = params;
        Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("the client cannot do {method}")))
    }

    /// Something happened that needs no answer: the connection was lost or made again, or the server deviated from the
    /// protocol.
    fn observed(&mut self, observation: Observation) {
        let _ = observation;
    }
}

/// A handler that ignores notifications and refuses requests.
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
        /// The reason.
        reason: NotRestored,
    },
    /// A request waits because the server already has as many requests as
    /// [`HttpOptions::max_workers`](crate::HttpOptions::max_workers) allows. Reported once.
    RequestWaits {
        /// Requests that may be in flight at one time.
        limit: usize,
    },
    /// There is no connection now, for this reason.
    Unavailable(Unavailable),
    /// The server violated the protocol, and the client carried on.
    Faulted(Fault),
    /// The server deviated from the protocol in a way that the client tolerates.
    QuirkMet(Quirk),
}
