//! The application's handler for the server's notifications and requests.

use std::pin::Pin;

use mcp_proto::driver::Observation;
use mcp_proto::{ErrorObject, Json, Method, Notification, code};

/// Handles the server's notifications and requests.
///
/// A request whose handler panics is answered with error -32603; the handler stays in use.
///
/// # Example
///
/// ```
/// use mcp_proto::model::ElicitResult;
/// use mcp_proto::{ErrorObject, Json, Method};
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
    /// Handles a notification of the server. Notifications are passed one after the other, in order.
    fn notified(&self, notification: Notification) -> impl Future<Output = ()> + Send {
        let _ = notification;
        async {}
    }

    /// Handles a request of the server. Requests run concurrently, each in its own task, which is dropped if the server
    /// cancels the request. The default implementation answers with the error "method not found".
    fn requested(
        &self,
        method: Method,
        params: Option<Json>,
    ) -> impl Future<Output = Result<Json, ErrorObject>> + Send {
        let _ = params;
        async move { Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("the client cannot do {method}"))) }
    }

    /// Something happened that needs no answer: the connection was lost or made again, or the server deviated from the
    /// protocol. These calls and those of [`Handler::notified`] never overlap.
    fn observed(&self, observation: Observation) -> impl Future<Output = ()> + Send {
        let _ = observation;
        async {}
    }
}

/// The handler of a client that ignores notifications and refuses requests.
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
