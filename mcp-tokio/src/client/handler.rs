//! What the application does about what the server tells and asks.

use std::pin::Pin;

use mcp_proto::{ErrorObject, Json, Method, Notification, code};

/// Deals with what the server tells and asks.
///
/// A request whose handler panics is answered with error -32603; the handler goes on being called.
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
    /// The server tells something. Notifications are handed over one after the other, in order.
    fn notified(&self, notification: Notification) -> impl Future<Output = ()> + Send {
        let _ = notification;
        async {}
    }

    /// The server asks for something. Requests are served at the same time, each in a task of its own, which is dropped
    /// if the server takes the request back. Without a handler of your own, there is no such method.
    fn requested(
        &self,
        method: Method,
        params: Option<Json>,
    ) -> impl Future<Output = Result<Json, ErrorObject>> + Send {
        let _ = params;
        async move { Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("the client cannot do {method}"))) }
    }
}

/// The handler of a client that listens to nothing.
impl Handler for () {}

type Served<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

/// A handler whose type is forgotten.
pub(super) trait AnyHandler: Send + Sync + 'static {
    fn notified(&self, notification: Notification) -> Served<'_, ()>;
    fn requested(&self, method: Method, params: Option<Json>) -> Served<'_, Result<Json, ErrorObject>>;
}

impl<H: Handler> AnyHandler for H {
    fn notified(&self, notification: Notification) -> Served<'_, ()> {
        Box::pin(Handler::notified(self, notification))
    }

    fn requested(&self, method: Method, params: Option<Json>) -> Served<'_, Result<Json, ErrorObject>> {
        Box::pin(Handler::requested(self, method, params))
    }
}
