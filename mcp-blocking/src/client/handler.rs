//! The application's handler for the server's notifications and requests.

use mcp_application::Observation;
use mcp_proto::{ErrorObject, Json, Method, Notification, code};

/// Handles the server's notifications and requests. The functions of [`Builder`](super::Builder), such as
/// [`Builder::on_elicit_form`](super::Builder::on_elicit_form), handle single kinds of them with typed parameters.
///
/// Notifications and observations are passed in order on one thread. Each request has a thread of its own, so that a
/// handler that waits for a person delays nothing else.
///
/// A handler may call the client, for example to list the tools again when they have changed. If it panics at a
/// request, the request is answered with error -32603; the handler is still called for later events.
///
/// At most 256 requests are handled at one time; further ones are answered with an error. At most 256 notifications and
/// observations wait for the handler, of at most 4 MiB together; further ones are dropped, and
/// [`Fault::Dropped`](mcp_proto::Fault::Dropped) counts them.
///
/// # Example
///
/// ```
/// use mcp_blocking::Handler;
/// use mcp_blocking::model::ElicitResult;
/// use mcp_blocking::proto::{ErrorObject, Json, Method};
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
    /// Handles a notification of the server.
    fn notified(&self, notification: Notification) {
        let _ = notification;
    }

    /// Handles a request of the server. By default, it is answered with error -32601 (method not found).
    ///
    /// # Errors
    ///
    /// The error is sent to the server.
    fn requested(&self, method: Method, params: Option<Json>) -> Result<Json, ErrorObject> {
        let _ = params;
        Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("the client cannot do {method}")))
    }

    /// Handles an observation: the connection was lost or made again, or the server deviated from the protocol.
    fn observed(&self, observation: Observation) {
        let _ = observation;
    }
}

/// The handler of a client without one: it ignores notifications and refuses requests.
impl Handler for () {}
