//! The application's service, which handles requests.

use std::sync::Arc;

use mcp_application::InvalidService;
use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Json, Notification, SessionKey};

use super::{Incoming, ServerPublisher};

/// Handles the requests of clients. A function is enough.
///
/// Requests are handled concurrently, each on a thread of a pool (`max_handlers`). If the client cancels a request,
/// [`Incoming::is_cancelled`] returns `true`; a request that still waits for a thread is dropped. A request whose
/// handler panics is answered with error -32603.
pub trait Service: Send + Sync + 'static {
    /// Handles a request.
    ///
    /// # Errors
    ///
    /// The error is sent to the client as the answer.
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject>;

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
    /// It is called by the thread that serves all clients, so that it must not wait. If it panics, the notification is not
    /// passed on.
    fn takes(&self, notification: &Notification, client_capabilities: &Json) -> bool {
        let _ = (notification, client_capabilities);
        true
    }

    /// Handles a notification of a client. Several threads may do so at the same time, so that the order in which
    /// notifications are handled is not guaranteed. At most 256 wait for a thread, of at most 4 MiB
    /// together; further ones are dropped.
    fn notified(&self, session: SessionKey, notification: Notification) {
        let _ = (session, notification);
    }

    /// The session of a client has ended.
    fn ended(&self, session: SessionKey, reason: CloseReason) {
        let _ = (session, reason);
    }

    /// A client has subscribed to the resource of this URI, and no other client was subscribed to it. From now on,
    /// publish its changes with [`ServerPublisher::publish`], as `notifications/resources/updated`. Clients can
    /// subscribe if the server's capabilities contain `resources.subscribe`; the server itself answers these requests.
    ///
    /// Calls of this method and of [`Service::unsubscribed`] never overlap. A call that blocks delays the next one, so
    /// watch the resource on another thread.
    ///
    /// # Example: a resource that changes once a client has subscribed to it
    ///
    /// ```
    /// use std::net::TcpListener;
    /// use std::sync::Arc;
    ///
    /// use mcp_blocking::{Change, Client, Incoming, Server, ServerPublisher, Service};
    /// use mcp_blocking::model::{ResourcesCapability, ServerCapabilities};
    /// use mcp_blocking::proto::server::{Config, HttpConfig};
    /// use mcp_blocking::proto::{ErrorObject, Json, Notification};
    ///
    /// struct Files;
    ///
    /// impl Service for Files {
    ///     fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
    ///         Err(ErrorObject::method_not_found(incoming.method()))
    ///     }
    ///
    ///     fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) {
    ///         let params = Json::empty_object().with_member("uri", &Json::from(&*uri));
    ///         let change = Notification::with_params("notifications/resources/updated", params);
    ///         std::thread::spawn(move || publisher.publish(change));
    ///     }
    /// }
    ///
    /// let capabilities = ServerCapabilities::new().resources(ResourcesCapability::new().subscribe(true));
    /// let config = Config::new("my-files", "1.0.0").capabilities(capabilities);
    /// let service = Server::new(config, Files).http(HttpConfig::new())?;
    /// let listener = TcpListener::bind("127.0.0.1:0")?;
    /// let (address, stopper) = (listener.local_addr()?, service.stopper());
    /// let running = std::thread::spawn(move || service.serve(listener));
    /// let client = Client::builder().http(&format!("http://{address}/mcp"))?.connect()?;
    /// let mut changes = client.listen(Json::parse(r#"{"resourceSubscriptions":["file:///log"]}"#)?)?;
    /// assert!(matches!(changes.next(), Some(Change::Listening(_))));
    /// let Some(Change::Notified(change)) = changes.next() else { panic!() };
    /// assert_eq!(change.method.as_str(), "notifications/resources/updated");
    /// drop((changes, client));
    /// stopper.stop();
    /// running.join().expect("it does not panic")?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    fn subscribed(&self, uri: Arc<str>, publisher: ServerPublisher) {
        let _ = (uri, publisher);
    }

    /// The last client has unsubscribed from the resource, or its subscription has ended.
    fn unsubscribed(&self, uri: Arc<str>) {
        let _ = uri;
    }
}

impl<F: Fn(&Incoming) -> Result<Json, ErrorObject> + Send + Sync + 'static> Service for F {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        self(incoming)
    }
}
