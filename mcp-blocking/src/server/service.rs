//! The application's handler for requests.

use std::sync::Arc;

use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Json, Notification, SessionKey};

use super::{Incoming, ServerPublisher};

/// The application's side of a server: serves requests. A closure implements it.
///
/// It is called on several threads at the same time, once for each request.
pub trait Service: Send + Sync + 'static {
    /// Serves a request.
    ///
    /// # Errors
    ///
    /// The error is sent to the client.
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject>;

    /// A client sent a notification.
    fn notified(&self, session: SessionKey, notification: Notification) {
        let _ = (session, notification);
    }

    /// A client's session has ended.
    fn ended(&self, session: SessionKey, reason: CloseReason) {
        let _ = (session, reason);
    }

    /// A client has subscribed to the resource of this URI, and no other client was subscribed to it. From now on,
    /// publish its changes by [`ServerPublisher::publish`] with `notifications/resources/updated`. Clients can
    /// subscribe if the server's capabilities have `resources.subscribe`; the server itself answers these requests.
    ///
    /// Calls of this method and of [`Service::unsubscribed`] never overlap. A call that blocks delays the next one, so
    /// watch the resource on another thread.
    ///
    /// # Example: a resource that changes once a client has subscribed to it
    ///
    /// ```
    /// use std::sync::Arc;
    ///
    /// use mcp_blocking::{Change, Client, Incoming, Server, ServerPublisher, Service};
    /// use mcp_proto::model::{ResourcesCapability, ServerCapabilities};
    /// use mcp_proto::server::Config;
    /// use mcp_proto::{ErrorObject, Json, Notification};
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
    /// let server = Server::bind("127.0.0.1:0", Config::new("my-files", "1.0.0").with_capabilities(capabilities))?;
    /// let (address, stopper) = (server.address(), server.stopper());
    /// let running = std::thread::spawn(move || server.run(Files));
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

    /// No client is subscribed to the resource any more.
    fn unsubscribed(&self, uri: Arc<str>) {
        let _ = uri;
    }
}

impl<F: Fn(&Incoming) -> Result<Json, ErrorObject> + Send + Sync + 'static> Service for F {
    fn serve(&self, incoming: &Incoming) -> Result<Json, ErrorObject> {
        self(incoming)
    }
}
