//! How the application handles the server's notifications and requests.

use mcp_proto::driver::Observation;
use mcp_proto::{ErrorObject, Json, Method, Notification, code};

/// Handles the server's notifications and requests. All methods are called in order on one dedicated thread.
///
/// A handler may call the client, for instance to list the tools again when they have changed. If a handler panics at a
/// request, the server gets an error, and the handler is called again for the next event.
///
/// # Example
///
/// ```
/// use mcp_blocking::Handler;
/// use mcp_proto::model::ElicitResult;
/// use mcp_proto::{ErrorObject, Json, Method};
///
/// struct Person;
///
/// impl Handler for Person {
///     fn requested(&self, method: Method, _params: Option<Json>) -> Result<Json, ErrorObject> {
///         assert_eq!(method.as_str(), "elicitation/create");
///         Ok(ElicitResult::decline().into())
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// The server sent a notification.
    fn notified(&self, notification: Notification) {
        let _ = notification;
    }

    /// The server sent a request. By default, it is answered with the error `METHOD_NOT_FOUND`.
    ///
    /// # Errors
    ///
    /// The error is sent to the server.
    fn requested(&self, method: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        let _ = params;
        Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("the client cannot do {method}")))
    }

    /// Something happened that needs no answer: the connection was lost or made again, or the server deviated from the
    /// protocol.
    fn observed(&self, observation: Observation) {
        let _ = observation;
    }
}

/// A handler that ignores notifications and refuses requests.
impl Handler for () {}
