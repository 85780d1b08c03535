//! A blocking client of a server: over HTTP, in a child process, or on a byte stream.
//!
//! One thread owns the machine. Calls from any number of threads reach it through a bounded channel. Each call waits
//! for its own response; a slow call delays no other.
//!
//! | file | what it does |
//! |---|---|
//! | `builder` | the client's configuration, and how it connects |
//! | `builder/in_memory` | a server in this process |
//! | `builder/functions` | functions of the application for single kinds of requests and notifications |
//! | `commands` | commands of clients to the driver |
//! | `driver` | the thread that owns the machine |
//! | `in_flight` | a request that waits for its outcome |
//! | `subscription` | changes that the application has subscribed to |
//! | `typed` | calls with typed parameters and results |
//! | `tool_task` | calls of tools whose results may be tasks |
//! | `list_items` | all entries of a list |
//! | `handler` | the application's handler for the server's notifications and requests |
//! | `handlers` | the threads that call it |
//! | `typed_handler` | calls the functions of the application for single kinds of them |

mod builder;
mod commands;
mod driver;
mod handler;
mod handlers;
mod in_flight;
mod list_items;
mod subscription;
mod tool_task;
mod typed;
mod typed_handler;

use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::JoinHandle;

use commands::{Commands, Input};
use mcp_application::{CallHooks, Error, MAX_CHANGE_BYTES, MAX_CHANGES, ProgressBytes, SharedConnected};
use mcp_model::{Implementation, Payload, RequestMethod, ServerCapabilities};
use mcp_proto::client::{Call, DetectedEra, HttpTransport};
use mcp_proto::{Fault, Json, Method, Notification, ProtocolVersion, UsageError};
use tool_task::TaskInputs;

pub use builder::{Builder, ChildServer, HttpServer, InMemoryServer, ServerProcess, StreamServer};
pub use handler::Handler;
pub use in_flight::InFlight;
pub use list_items::ListItems;
pub use subscription::Subscription;
pub use tool_task::ToolTask;

use crate::bounded::bounded;
use crate::response_slot::ResponseSlot;

/// A client of one server.
///
/// It may be cloned and used from several threads. The connection is ended when the last clone is dropped.
///
/// # Example: list the tools of a server
///
/// ```no_run
/// use mcp_blocking::Client;
///
/// let client = Client::builder().http("https://example.com/mcp")?.connect()?;
/// let tools = client.request("tools/list", None)?;
/// println!("{}", tools.to_text());
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    commands: Commands,
    /// `None` once its end was waited for.
    driver: Mutex<Option<JoinHandle<()>>>,
    /// The server's name for errors.
    server: Arc<str>,
    connected: SharedConnected,
    progress: ProgressBytes,
    hooks: CallHooks,
    input: TaskInputs,
}

impl Client {
    /// Creates the builder of a client.
    pub fn builder() -> Builder {
        Builder::new()
    }

    /// Sends a request and waits for its outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub fn request(&self, method: impl Into<Method>, params: Option<Json>) -> Result<Json, Error> {
        let call = Call::new(method);
        self.call(params.map_or(call.clone(), |params| call.params(params)))?.wait()
    }

    /// Sends a request with typed parameters, and parses its result.
    ///
    /// # Errors
    ///
    /// [`Error::Result`] if the result does not have the shape that this method's results have; otherwise as for
    /// [`Client::request`].
    ///
    /// # Example
    ///
    /// ```no_run
    /// use mcp_blocking::model::{CallToolRequest, CallToolRequestParams, ListToolsRequest, PaginatedRequestParams};
    ///
    /// # fn example(client: mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
    /// let tools = client.request_as::<ListToolsRequest>(&PaginatedRequestParams::new())?.tools;
    /// let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_as<R: RequestMethod>(&self, params: &R::Params) -> Result<R::Result, Error> {
        self.call(Call::new(R::METHOD).params(params.to_json()))?.typed::<R>().wait()
    }

    /// Sends a request, and returns without waiting for its outcome, which the returned [`InFlight`] receives.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the request cannot be sent.
    pub fn call(&self, call: Call) -> Result<InFlight, Error> {
        let (responder, slot) = ResponseSlot::new(self.shared.progress.queue());
        let (accept, accepted) = sync_channel(1);
        let (call, hooked) = self.shared.hooks.begin(call)?;
        self.send(Input::Request { call, responder, accept })?;
        let request = accepted.recv().map_err(|_| UsageError::Closed)??;
        let (commands, server) = (self.shared.commands.clone(), Arc::clone(&self.shared.server));
        Ok(InFlight::new(request, slot, commands, server, hooked))
    }

    /// Sends a request with typed parameters, and returns without waiting for its outcome. The request asks for
    /// progress.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the request cannot be sent.
    pub fn call_as<R: RequestMethod>(&self, params: &R::Params) -> Result<InFlight<R::Result>, Error> {
        let call = Call::new(R::METHOD).params(params.to_json()).with_progress();
        Ok(self.call(call)?.typed::<R>())
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
    /// use mcp_blocking::model::SubscriptionFilter;
    ///
    /// # fn example(client: mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
    /// let filter = SubscriptionFilter::new().tools_list_changed(true).resource("file:///notes.txt");
    /// let changes = client.listen(filter)?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn listen(&self, filter: impl Into<Json>) -> Result<Subscription, Error> {
        let (listener, changes) = bounded(MAX_CHANGES, MAX_CHANGE_BYTES);
        let (accept, accepted) = sync_channel(1);
        self.send(Input::Listen { filter: filter.into(), listener, accept })?;
        let key = accepted.recv().map_err(|_| UsageError::Closed)??;
        Ok(Subscription { key, changes, commands: self.shared.commands.clone() })
    }

    /// Sends a notification.
    ///
    /// Since 2026-07-28, the protocol has no notifications from clients besides those that cancel requests, which are sent
    /// by themselves: servers may ignore others, as those of this crate do.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if it cannot be sent.
    pub fn notify(&self, notification: Notification) -> Result<(), Error> {
        let (accept, accepted) = sync_channel(1);
        self.send(Input::Notify { notification, accept })?;
        accepted.recv().map_err(|_| UsageError::Closed)??;
        Ok(())
    }

    /// The protocol revision of the current connection, or of the last one.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.shared.connected.get().version
    }

    /// The server's result of `initialize` or `server/discover`: its name, capabilities and instructions. It is that of
    /// the current connection, or of the last one, as are the values of the functions below.
    #[must_use]
    pub fn initialize_result(&self) -> Json {
        self.shared.connected.get().result.clone()
    }

    /// The server's capabilities; `None` if they do not have the form of the specification.
    #[must_use]
    pub fn server_capabilities(&self) -> Option<ServerCapabilities> {
        self.shared.connected.get().server_capabilities()
    }

    /// The server's name and version; `None` if it does not state them, as it need not since 2026-07-28.
    #[must_use]
    pub fn server_info(&self) -> Option<Implementation> {
        self.shared.connected.get().server_info()
    }

    /// The server's instructions for the language model, if there are any.
    #[must_use]
    pub fn instructions(&self) -> Option<String> {
        self.shared.connected.get().instructions()
    }

    /// The era that the server belongs to, and how it was detected.
    #[must_use]
    pub fn detected_era(&self) -> DetectedEra {
        self.shared.connected.get().detected_era
    }

    /// The HTTP transport that was detected; `None` on a byte stream, such as that of a child process.
    #[must_use]
    pub fn transport(&self) -> Option<HttpTransport> {
        self.shared.connected.get().transport
    }

    /// Ends the connection for all clones, and waits until it has ended. A child process has exited by then.
    ///
    /// Requests in flight fail at once with [`Failed::Closed`](mcp_proto::Failed::Closed). Ending a session takes at
    /// most `HttpConfig::close_timeout`, by default 3 s. Ending a child process takes at most the times of
    /// [`Builder::child`]. Dropping the last clone does the same, and waits, too.
    pub fn close(&self) {
        self.shared.close();
    }

    fn send(&self, input: Input) -> Result<(), Error> {
        self.shared.commands.send(input)
    }

    /// Reports to the handler what could not be read of a result.
    fn report(&self, fault: Fault) {
        let _ = self.send(Input::Faulted(fault));
    }
}

impl Shared {
    fn new(
        commands: Commands,
        driver: JoinHandle<()>,
        server: Arc<str>,
        connected: SharedConnected,
        input: TaskInputs,
        hooks: CallHooks,
    ) -> Self {
        let (driver, progress) = (Mutex::new(Some(driver)), ProgressBytes::default());
        Self { commands, driver, server, connected, progress, hooks, input }
    }

    fn close(&self) {
        let _ = self.commands.send(Input::Close);
        // Another clone that closes the client at the same time waits here.
        let mut driver = self.driver.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(driver) = driver.take() {
            let _ = driver.join();
        }
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.close();
    }
}
