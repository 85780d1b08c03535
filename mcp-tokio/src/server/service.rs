//! What a server does with requests.

use std::pin::Pin;

use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Json, Notification, SessionKey};

use super::Incoming;

/// Serves requests. A function will do.
///
/// Requests are served at the same time, each in a task of its own. A task whose client takes its request back is
/// dropped at its next `await`.
///
/// # Example: a function
///
/// ```
/// use mcp_proto::{ErrorObject, Json, code};
/// use mcp_tokio::{Incoming, Service};
///
/// async fn serve(incoming: Incoming) -> Result<Json, ErrorObject> {
///     match incoming.method().as_str() {
///         "tools/list" => Ok(Json::parse(r#"{"tools":[]}"#).expect("JSON")),
///         _ => Err(ErrorObject::new(code::METHOD_NOT_FOUND, "method not found")),
///     }
/// }
///
/// fn is_service(_: impl Service) {}
/// is_service(serve);
/// ```
pub trait Service: Send + Sync + 'static {
    /// Serves a request.
    ///
    /// # Errors
    ///
    /// The error is the client's answer.
    fn serve(&self, incoming: Incoming) -> impl Future<Output = Result<Json, ErrorObject>> + Send;

    /// A client tells something. Notifications of all clients are handed over one after the other, in order.
    fn notified(&self, session: SessionKey, notification: Notification) -> impl Future<Output = ()> + Send {
        let _ = (session, notification);
        async {}
    }

    /// A client's session has ended.
    fn ended(&self, session: SessionKey, reason: CloseReason) -> impl Future<Output = ()> + Send {
        let _ = (session, reason);
        async {}
    }
}

impl<F, A> Service for F
where
    F: Fn(Incoming) -> A + Send + Sync + 'static,
    A: Future<Output = Result<Json, ErrorObject>> + Send,
{
    fn serve(&self, incoming: Incoming) -> impl Future<Output = Result<Json, ErrorObject>> + Send {
        self(incoming)
    }
}

type Served<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

/// A service whose type is forgotten.
pub(super) trait AnyService: Send + Sync + 'static {
    fn serve(&self, incoming: Incoming) -> Served<'_, Result<Json, ErrorObject>>;
    fn notified(&self, session: SessionKey, notification: Notification) -> Served<'_, ()>;
    fn ended(&self, session: SessionKey, reason: CloseReason) -> Served<'_, ()>;
}

impl<S: Service> AnyService for S {
    fn serve(&self, incoming: Incoming) -> Served<'_, Result<Json, ErrorObject>> {
        Box::pin(Service::serve(self, incoming))
    }

    fn notified(&self, session: SessionKey, notification: Notification) -> Served<'_, ()> {
        Box::pin(Service::notified(self, session, notification))
    }

    fn ended(&self, session: SessionKey, reason: CloseReason) -> Served<'_, ()> {
        Box::pin(Service::ended(self, session, reason))
    }
}
