//! The application's handler for the server's notifications and requests.

use std::pin::Pin;

use mcp_application::Observation;
use mcp_proto::{ErrorObject, Json, Method, Notification, code};

/// Handles the server's notifications and requests. The functions of [`Builder`](super::Builder), such as
/// [`Builder::on_elicit_form`](super::Builder::on_elicit_form), handle single kinds of them with typed parameters.
///
/// A handler may call the client, for example to list the tools again when they have changed. If it panics at a
/// request, the request is answered with error -32603; the handler is still called for later events.
///
/// At most 256 notifications and observations wait for the handler, of at most 4 MiB together. Further ones are
/// dropped, and [`Fault::Dropped`](mcp_proto::Fault::Dropped) counts them.
///
/// # Example
///
/// ```
/// use mcp_tokio::model::ElicitResult;
/// use mcp_tokio::proto::{ErrorObject, Json, Method};
/// use mcp_tokio::Handler;
///
/// struct Person;
///
/// impl Handler for Person {
///     async fn requested(&self, method: Method, _params: Option<Json>) -> Result<Json, ErrorObject> {
///         assert_eq!(method.as_str(), "elicitation/create");
///         Ok(ElicitResult::decline().into())
///     }
/// }
/// ```
pub trait Handler: Send + Sync + 'static {
    /// Handles a notification of the server. Notifications and observations are passed one after the other, in order.
    fn notified(&self, notification: Notification) -> impl Future<Output = ()> + Send {
        let _ = notification;
        async {}
    }

    /// Handles a request of the server. By default, it is answered with error -32601 (method not found). Requests are
    /// handled concurrently, each in its own task, which is aborted if the server cancels the request.
    ///
    /// # Errors
    ///
    /// The error is sent to the server.
    fn requested(
        &self,
        method: Method,
        params: Option<Json>,
    ) -> impl Future<Output = Result<Json, ErrorObject>> + Send {
        let _ = params;
        async move { Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("the client cannot do {method}"))) }
    }

    /// Handles an observation: the connection was lost or made again, or the server deviated from the protocol.
    fn observed(&self, observation: Observation) -> impl Future<Output = ()> + Send {
        let _ = observation;
        async {}
    }
}

/// The handler of a client without one: it ignores notifications and refuses requests.
impl Handler for () {}

type Served<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

/// A type-erased handler.
pub(super) trait AnyHandler: Send + Sync + 'static {
    fn notified(&self, notification: Notification) -> Served<'_, ()>;
    fn requested(&self, method: Method, params: Option<Json>) -> Served<'_, Result<Json, ErrorObject>>;
    fn observed(&self, observation: Observation) -> Served<'_, ()>;
}

impl<H: Handler> AnyHandler for H {
    fn notified(&self, notification: Notification) -> Served<'_, ()> {
        Box::pin(Handler::notified(self, notification))
    }

    fn requested(&self, method: Method, params: Option<Json>) -> Served<'_, Result<Json, ErrorObject>> {
        Box::pin(Handler::requested(self, method, params))
    }

    fn observed(&self, observation: Observation) -> Served<'_, ()> {
        Box::pin(Handler::observed(self, observation))
    }
}
