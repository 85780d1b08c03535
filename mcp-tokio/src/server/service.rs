//! The application's service, which handles requests.

use std::pin::Pin;
use std::sync::Arc;

use mcp_application::InvalidService;
use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Json, Notification, SessionKey};

use super::{Incoming, ServerPublisher};

/// Handles the requests of clients. A function is enough.
///
/// Requests are handled concurrently, each in its own task. If the client cancels a request, its task is aborted at the
/// next `await`. A request whose handler panics is answered with error -32603.
///
/// # Example: a function
///
/// ```
/// use mcp_tokio::proto::{ErrorObject, Json, code};
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
    /// Handles a request.
    ///
    /// # Errors
    ///
    /// The error is sent to the client as the answer.
    fn serve(&self, incoming: Incoming) -> impl Future<Output = Result<Json, ErrorObject>> + Send;

    /// The capabilities that the service has, besides those of the configuration: an object in the form of
    /// `ServerCapabilities`. By default none. It is called when a server is created.
    ///
    /// # Errors
    ///
    /// The service cannot be served, because the application has made a mistake.
    fn capabilities(&self) -> Result<Json, InvalidService> {
        Ok(Json::empty_object())
    }

    /// A server with this service was created. The publisher sends changes to its clients, over all transports.
    fn created(&self, publisher: ServerPublisher) {
        let _ = publisher;
    }

    /// Whether a notification of a client with these capabilities is passed to [`Service::notified`]. One that is not is
    /// ignored. By default, all are passed on.
    ///
    /// It is called by the task that serves all clients, so that it must not wait. If it panics, the notification is not
    /// passed on.
    fn takes(&self, notification: &Notification, client_capabilities: &Json) -> bool {
        let _ = (notification, client_capabilities);
        true
    }

    /// Handles a notification of a client. Notifications of all clients are passed one after the other, in order. At
    /// most 256 are queued, of at most 4 MiB together; further ones are dropped.
    fn notified(&self, session: SessionKey, notification: Notification) -> impl Future<Output = ()> + Send {
        let _ = (session, notification);
        async {}
    }

    /// The session of a client has ended.
    fn ended(&self, session: SessionKey, reason: CloseReason) -> impl Future<Output = ()> + Send {
        let _ = (session, reason);
        async {}
    }

    /// A client has subscribed to the resource of this URI, and no other client was subscribed to it. From now on,
    /// publish its changes with [`ServerPublisher::publish`], as `notifications/resources/updated`. Clients can
    /// subscribe if the server's capabilities contain `resources.subscribe`; the server itself answers these requests.
    ///
    /// Calls of this method, [`Service::unsubscribed`], [`Service::notified`] and [`Service::ended`] never overlap. A
    /// call that waits delays the next one, so watch the resource in another task.
    ///
    /// # Example: a resource that changes once a client has subscribed to it
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_tokio::model::{ResourcesCapability, ServerCapabilities};
    /// use mcp_tokio::proto::server::Config;
    /// use mcp_tokio::proto::{ErrorObject, Json, Notification};
    /// use mcp_tokio::{Change, Client, Incoming, Server, ServerPublisher, Service};
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
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_tokio::Error> {
    /// let capabilities = ServerCapabilities::new().resources(ResourcesCapability::new().subscribe(true));
    /// let server = Server::new(Config::new("my-files", "1.0.0").capabilities(capabilities), Files);
    /// let (ours, theirs) = tokio::io::duplex(64 * 1024);
    /// tokio::spawn(async move {
    ///     let (read, write) = tokio::io::split(theirs);
    ///     server.serve_stream(read, write).await
    /// });
    /// let (read, write) = tokio::io::split(ours);
    /// let client = Client::builder().stream(read, write).connect().await?;
    /// let filter = Json::parse(r#"{"resourceSubscriptions":["file:///log"]}"#).expect("JSON");
    /// let mut changes = client.listen(filter).await?;
    /// assert!(matches!(changes.next().await, Some(Change::Listening(_))));
    /// let Some(Change::Notified(change)) = changes.next().await else { panic!() };
    /// assert_eq!(change.method.as_str(), "notifications/resources/updated");
    /// # Ok(())
    /// # }
    /// ```
    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) -> impl Future<Output = ()> + Send {
        let _ = (uri, publisher);
        async {}
    }

    /// The last client has unsubscribed from the resource, or its subscription has ended.
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

pub(crate) type Served<'s, T> = Pin<Box<dyn Future<Output = T> + Send + 's>>;

/// A type-erased service.
pub(crate) trait AnyService: Send + Sync + 'static {
    fn capabilities(&self) -> Result<Json, InvalidService>;
    fn created(&self, publisher: ServerPublisher);
    fn serve(&self, incoming: Incoming) -> Served<'_, Result<Json, ErrorObject>>;
    fn takes(&self, notification: &Notification, client_capabilities: &Json) -> bool;
    fn notified(&self, session: SessionKey, notification: Notification) -> Served<'_, ()>;
    fn ended(&self, session: SessionKey, reason: CloseReason) -> Served<'_, ()>;
    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) -> Served<'_, ()>;
    fn unsubscribed(&self, uri: Arc<str>) -> Served<'_, ()>;
}

impl<S: Service> AnyService for S {
    fn capabilities(&self) -> Result<Json, InvalidService> {
        Service::capabilities(self)
    }

    fn created(&self, publisher: ServerPublisher) {
        Service::created(self, publisher);
    }

    fn serve(&self, incoming: Incoming) -> Served<'_, Result<Json, ErrorObject>> {
        Box::pin(Service::serve(self, incoming))
    }

    fn takes(&self, notification: &Notification, client_capabilities: &Json) -> bool {
        Service::takes(self, notification, client_capabilities)
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
