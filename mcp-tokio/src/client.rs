//! A client of one server.
//!
//! | file | what it does |
//! |---|---|
//! | `builder` | the configuration of a client |
//! | `builder/functions` | functions of the application for single kinds of requests and notifications |
//! | `builder/in_memory` | a server in this process |
//! | `driver` | the task that owns the machine |
//! | `in_flight` | a request that has no outcome yet |
//! | `progress` | the progress of a call, from the task to the caller |
//! | `subscription` | changes that the application has subscribed to |
//! | `typed` | calls with typed parameters and results |
//! | `tool_task` | calls of tools whose results may be tasks |
//! | `list_items` | all entries of a list |
//! | `handler` | the application's handler for the server's notifications and requests |
//! | `typed_handler` | calls the functions of the application for single kinds of them |

mod builder;
mod driver;
mod handler;
mod in_flight;
mod list_items;
mod progress;
mod subscription;
mod tool_task;
mod typed;
mod typed_handler;

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use driver::{CallNumber, Caller, Input, Remark};
use in_flight::Waiting;
use mcp_application::{CallHooks, Error, ProgressBytes, SharedConnected};
use mcp_model::{Implementation, Payload, RequestMethod, ServerCapabilities};
use mcp_proto::client::{Call, DetectedEra, HttpTransport};
use mcp_proto::{Fault, Json, Method, Notification, ProtocolVersion, UsageError};
use progress::{ProgressSender, progress};
use tokio::sync::{mpsc, oneshot};
use tool_task::TaskInputs;

use crate::operations::Operations;

#[cfg(feature = "http-client")]
pub use builder::HttpServer;
pub use builder::{Builder, ChildServer, InMemoryServer, StreamServer};
pub use handler::Handler;
pub use in_flight::InFlight;
pub use list_items::ListItems;
pub use subscription::Subscription;
pub use tool_task::ToolTask;

/// A client of one server.
///
/// It may be cloned and used from several tasks. The connection is ended when the last clone is dropped.
///
/// # Example: a byte stream without a server
///
/// ```
/// use mcp_tokio::{Client, Error};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (ours, theirs) = tokio::io::duplex(1024);
/// drop(theirs); // There is no server.
/// let (read, write) = tokio::io::split(ours);
/// assert!(matches!(Client::builder().stream(read, write).connect().await, Err(Error::Failed { .. })));
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    commands: mpsc::Sender<Input>,
    /// Unbounded, because `Drop` cannot wait; each request sends at most two of these.
    remarks: mpsc::UnboundedSender<Remark>,
    next_call: Arc<AtomicU64>,
    /// The server's description for error messages.
    server: Arc<str>,
    connected: SharedConnected,
    progress: ProgressBytes,
    hooks: CallHooks,
    input: Arc<TaskInputs>,
    operations: Operations,
}

impl Client {
    /// Creates the builder of a client.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Sends a request and waits for its outcome. Dropping the future cancels the request.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub async fn request(&self, method: impl Into<Method>, params: Option<Json>) -> Result<Json, Error> {
        let call = Call::new(method);
        let call = if let Some(params) = params { call.params(params) } else { call };
        self.complete_call(call).await
    }

    /// Sends a request with typed parameters, and parses its result. Dropping the future cancels the request.
    ///
    /// # Errors
    ///
    /// [`Error::Result`] if the result does not have the shape that this method's results have; otherwise as for
    /// [`Client::request`].
    ///
    /// # Example
    ///
    /// ```no_run
    /// use mcp_tokio::model::{CallToolRequest, CallToolRequestParams, ListToolsRequest, PaginatedRequestParams};
    ///
    /// # async fn example(client: mcp_tokio::Client) -> Result<(), mcp_tokio::Error> {
    /// let tools = client.request_as::<ListToolsRequest>(&PaginatedRequestParams::new()).await?.tools;
    /// let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn request_as<R: RequestMethod>(&self, params: &R::Params) -> Result<R::Result, Error> {
        let call = Call::new(R::METHOD).params(params.to_json());
        // No receiver for progress, and none for the acceptance, because the outcome includes that.
        self.hand_in(call, None, None).await?.typed_outcome().await
    }

    /// Sends a request, and returns without waiting for its outcome, which the returned [`InFlight`] receives.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the request cannot be sent.
    pub async fn call(&self, call: Call) -> Result<InFlight, Error> {
        let (accept, accepted) = oneshot::channel();
        let (sender, progress) = progress(self.progress.queue());
        let waiting = self.hand_in(call, Some(sender), Some(accept)).await?;
        match accepted.await {
            Ok(()) => Ok(InFlight::new(waiting, progress)),
            Err(_) => Err(waiting.refusal().await),
        }
    }

    /// Sends a request with typed parameters, and returns without waiting for its outcome. The request asks for
    /// progress.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the request cannot be sent.
    pub async fn call_as<R: RequestMethod>(&self, params: &R::Params) -> Result<InFlight<R::Result>, Error> {
        let call = Call::new(R::METHOD).params(params.to_json()).with_progress();
        Ok(self.call(call).await?.typed::<R>())
    }

    /// Subscribes to changes, at servers of revision 2026-07-28. `filter` is a
    /// [`SubscriptionFilter`](mcp_model::SubscriptionFilter), or the object `notifications` in the parameters of
    /// `subscriptions/listen`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the client cannot subscribe, for example at a server of an older revision. Changes of the
    /// lists of such a server reach [`Handler::notified`] without a subscription, and changes of a resource after the
    /// request `resources/subscribe`.
    ///
    /// # Example
    ///
    /// ```no_run
    /// use mcp_tokio::model::SubscriptionFilter;
    ///
    /// # async fn example(client: mcp_tokio::Client) -> Result<(), mcp_tokio::Error> {
    /// let filter = SubscriptionFilter::new().tools_list_changed(true).resource("file:///notes.txt");
    /// let changes = client.listen(filter).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn listen(&self, filter: impl Into<Json>) -> Result<Subscription, Error> {
        let (accept, accepted) = oneshot::channel();
        self.send(Input::Listen { filter: filter.into(), accept }).await?;
        accepted.await.map_err(|_| UsageError::Closed)?.map_err(Error::Usage)
    }

    /// Sends a notification.
    ///
    /// Since 2026-07-28, the protocol has no notifications from clients besides those that cancel requests, which are sent
    /// by themselves: servers may ignore others, as those of this crate do.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if it cannot be sent.
    pub async fn notify(&self, notification: Notification) -> Result<(), Error> {
        let (accept, accepted) = oneshot::channel();
        self.send(Input::Notify { notification, accept }).await?;
        accepted.await.map_err(|_| UsageError::Closed)?.map_err(Error::Usage)
    }

    /// The protocol revision of the current connection, or of the last one.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.connected.get().version
    }

    /// The server's result of `initialize` or `server/discover`: its name, capabilities and instructions. It is that of
    /// the current connection, or of the last one, as are the values of the functions below.
    #[must_use]
    pub fn initialize_result(&self) -> Json {
        self.connected.get().result.clone()
    }

    /// The server's capabilities; `None` if they do not have the form of the specification.
    #[must_use]
    pub fn server_capabilities(&self) -> Option<ServerCapabilities> {
        self.connected.get().server_capabilities()
    }

    /// The server's name and version; `None` if it does not state them, as it need not since 2026-07-28.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.connected.get().server_info()
    }

    /// The server's instructions for the language model, if there are any.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.connected.get().instructions()
    }

    /// The era that the server belongs to, and how it was detected.
    #[must_use]
    pub fn detected_era(&self) -> DetectedEra {
        self.connected.get().detected_era
    }

    /// The HTTP transport that was detected; `None` on a byte stream, such as that of a child process.
    #[must_use]
    pub fn transport(&self) -> Option<HttpTransport> {
        self.connected.get().transport
    }

    /// Ends the connection for all clones, and waits until it has ended. A child process has exited by then.
    ///
    /// Requests in flight fail at once with [`Failed::Closed`](mcp_proto::Failed::Closed). Each step has a
    /// time limit:
    ///
    /// | step | limit |
    /// |---|---|
    /// | the data that is queued for a byte stream is written | 1 s |
    /// | a child process exits after its stdin closes, (on Unix) again after SIGTERM; then it is killed | 2 s each |
    /// | a server over HTTP ends the session | `HttpConfig::close_timeout`, by default 3 s |
    /// | the handler handles the last notifications | 1 s |
    ///
    /// Dropping the last clone does the same in the background.
    pub async fn close(&self) {
        let (done, is_done) = oneshot::channel();
        if self.send(Input::Close(Some(done))).await.is_ok() {
            let _ = is_done.await;
        }
    }

    /// Sends a request, and waits for its outcome.
    async fn complete_call(&self, call: Call) -> Result<Json, Error> {
        // No receiver for progress, and none for the acceptance, because the outcome includes that.
        self.hand_in(call, None, None).await?.outcome().await
    }

    /// Sends a request to the task. If it is not accepted, the reason is sent instead of an outcome.
    async fn hand_in(
        &self,
        call: Call,
        progress: Option<ProgressSender>,
        accept: Option<oneshot::Sender<()>>,
    ) -> Result<Waiting, Error> {
        let (call, hooked) = self.hooks.begin(call)?;
        let (begun, call) = self.operations.calling(call);
        let number = CallNumber(self.next_call.fetch_add(1, Ordering::Relaxed));
        let (outcome, waiting) = oneshot::channel();
        let caller = Caller { number, outcome, progress, begun };
        self.send(Input::Request { call, caller, accept }).await?;
        let (server, remarks) = (Arc::clone(&self.server), self.remarks.clone());
        Ok(Waiting { number, server, outcome: Some(waiting), remarks, hooked })
    }

    /// Reports to the handler what could not be read of a result.
    fn report(&self, fault: Fault) {
        let _ = self.remarks.send(Remark::Faulted(fault));
    }

    async fn send(&self, input: Input) -> Result<(), Error> {
        self.commands.send(input).await.map_err(|_| Error::Usage(UsageError::Closed))
    }
}
