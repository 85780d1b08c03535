//! What a server does with requests.

use std::pin::Pin;
use std::sync::Arc;

use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Json, Notification, SessionKey};

use super::{Incoming, ServerPublisher};

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

    /// A client has subscribed to the resource of this URI, and none had before: its changes are to be published from now
    /// on, by [`ServerPublisher::publish`] with `notifications/resources/updated`. Clients subscribe where the server's
    /// capabilities have `resources.subscribe`, and the server answers them itself.
    ///
    /// This and what clients tell is handed over one after the other: watch the resource in a task of its own.
    ///
    /// # Example: a resource that changes once a client has subscribed to it
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_proto::model::{ResourcesCapability, ServerCapabilities};
    /// use mcp_proto::server::Config;
    /// use mcp_proto::{ErrorObject, Json, Notification};
    /// use mcp_tokio::{Client, Handler, Incoming, Server, ServerPublisher, Service};
    /// use tokio::sync::mpsc;
    ///
    /// struct Files;
    ///
    /// impl Service for Files {
    ///     async fn serve(&self, incoming: Incoming) -> Result<Json, ErrorObject> {
    ///         Err(ErrorObject::method_not_found(incoming.method()))
    ///     }
    ///
    ///     async fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) {
    ///         let params = Json::empty_object().with_member("uri", &Json::from(&*uri));
    ///         let change = Notification::with_params("notifications/resources/updated", params);
    ///         tokio::spawn(async move { publisher.publish(change).await });
    ///     }
    /// }
    ///
    /// struct Changes(mpsc::UnboundedSender<Notification>);
    ///
    /// impl Handler for Changes {
    ///     async fn notified(&self, change: Notification) {
    ///         let _ = self.0.send(change);
    ///     }
    /// }
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_tokio::Error> {
    /// let capabilities = ServerCapabilities::new().resources(ResourcesCapability::new().subscribe(true));
    /// let server = Server::new(Config::new("my-files", "1.0.0").with_capabilities(capabilities), Files);
    /// let (ours, theirs) = tokio::io::duplex(64 * 1024);
    /// tokio::spawn(async move {
    ///     let (read, write) = tokio::io::split(theirs);
    ///     server.serve_stream(read, write).await
    /// });
    /// let (read, write) = tokio::io::split(ours);
    /// let (changed, mut changes) = mpsc::unbounded_channel();
    /// let client = Client::builder().handler(Changes(changed)).connect(read, write).await?;
    /// let log = Json::parse(r#"{"uri":"file:///log"}"#).expect("JSON");
    /// assert_eq!(client.request("resources/subscribe", Some(log.clone())).await?, Json::empty_object());
    /// assert_eq!(changes.recv().await.expect("a change").params, Some(log));
    /// # Ok(())
    /// # }
    /// ```
    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) -> impl Future<Output = ()> + Send {
        let _ = (uri, publisher);
        async {}
    }

    /// No client is subscribed to the resource any more.
    fn unsubscribed(&self, uri: Arc<str>) -> impl Future<Output = ()> + Send {
        let _ = uri;
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
    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) -> Served<'_, ()>;
    fn unsubscribed(&self, uri: Arc<str>) -> Served<'_, ()>;
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

    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) -> Served<'_, ()> {
        Box::pin(Service::subscribed(self, uri, publisher))
    }

    fn unsubscribed(&self, uri: Arc<str>) -> Served<'_, ()> {
        Box::pin(Service::unsubscribed(self, uri))
    }
}
