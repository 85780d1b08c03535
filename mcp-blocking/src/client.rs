//! A blocking client of a server, over HTTP or in a child process.
//!
//! One thread owns the machine. Calls from any number of threads reach it through a bounded channel. Each call waits
//! for its own response; a slow call delays no other.
//!
//! | file | what it does |
//! |---|---|
//! | `builder` | the client's configuration, and how it connects |
//! | `driver` | the thread that owns the machine |
//! | `subscription` | changes that the application has subscribed to |
//! | `handler` | how the application handles the server's notifications and requests |

mod builder;
mod driver;
mod handler;
mod subscription;

use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;

use mcp_proto::client::{Call, DetectedEra, HttpTransport, Outcome};
use mcp_proto::model::{ModelError, Payload, Request};
use mcp_proto::{ErrorObject, Failed, Json, Method, Notification, ProtocolVersion, RequestKey, UsageError};

use crate::bounded::bounded;
use crate::response_slot::{ResponseSlot, ResponseUpdate};
use driver::{Commands, Input};

pub use builder::{Builder, ChildServer, HttpServer};
pub use handler::{Handler, Observation};
pub use subscription::{Change, Subscription};

/// Changes queued for the application; more are dropped and counted.
const CHANGES: usize = 256;
/// The same in bytes.
const CHANGE_BYTES: usize = 4 * 1024 * 1024;

/// A client of one server.
///
/// It may be cloned and used from several threads. The session is ended when the last clone is dropped.
///
/// # Example: list the tools of a server
///
/// ```no_run
/// use mcp_blocking::Client;
///
/// let client = Client::builder("https://example.com/mcp")?.connect()?;
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
    driver: Option<JoinHandle<()>>,
    server: String,
    greeting: Greeting,
    /// Bytes of progress queued for callers.
    progress: Arc<AtomicUsize>,
}

/// What the server answered when the connection was made.
#[derive(Debug)]
struct Greeting {
    version: ProtocolVersion,
    result: Json,
    transport: Option<HttpTransport>,
    detected_era: DetectedEra,
}

impl Client {
    /// Prepares a client of the server at `url`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the URL cannot be used.
    pub fn builder(url: &str) -> Result<Builder, Error> {
        Builder::http(url)
    }

    /// Prepares a client of a server that is started as a child process. The child inherits this process's stderr,
    /// unless the command sets another.
    ///
    /// The child is ended as [`Proxy::child`](crate::Proxy::child) ends it; dropping the last clone of the client waits
    /// for that. A server that exits while its era is being detected is started once more (ER-06).
    ///
    /// # Example
    ///
    /// ```
    /// use std::process::Command;
    /// use mcp_blocking::{Client, Error};
    ///
    /// let outcome = Client::child(Command::new("/no/such/server")).name("my-app", "1.0.0").connect();
    /// assert!(matches!(outcome, Err(Error::Start(_))));
    /// ```
    #[must_use]
    pub fn child(command: Command) -> Builder<ChildServer> {
        Builder::child(command)
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
    /// use mcp_proto::model::{CallToolRequest, CallToolRequestParams, ListToolsRequest, PaginatedRequestParams};
    ///
    /// # fn example(client: mcp_blocking::Client) -> Result<(), mcp_blocking::Error> {
    /// let tools = client.request_as::<ListToolsRequest>(&PaginatedRequestParams::new())?.tools;
    /// let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello"))?;
    /// # Ok(())
    /// # }
    /// ```
    pub fn request_as<R: Request>(&self, params: &R::Params) -> Result<R::Result, Error> {
        let result = self.request(R::METHOD, Some(params.to_json()))?;
        R::Result::from_json(&result).map_err(Error::Result)
    }

    /// Sends a request, and returns without waiting for its outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the request cannot be sent.
    pub fn call(&self, call: Call) -> Result<InFlight, Error> {
        let (responder, slot) = ResponseSlot::new(Arc::clone(&self.shared.progress));
        let (accept, accepted) = sync_channel(1);
        self.send(Input::Request { call, responder, accept })?;
        let request = accepted.recv().map_err(|_| UsageError::Closed)??;
        Ok(InFlight {
            request,
            slot,
            commands: self.shared.commands.clone(),
            server: self.shared.server.clone(),
            has_ended: false,
        })
    }

    /// Subscribes to changes, at servers of revision 2026-07-28. `filter` is the object `notifications` in the
    /// parameters of `subscriptions/listen`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the client cannot subscribe. Servers of older revisions have no such request: they send
    /// their notifications to [`Handler::notified`] without a subscription, and accept `resources/subscribe`.
    pub fn listen(&self, filter: impl Into<Json>) -> Result<Subscription, Error> {
        let (listener, events) = bounded(CHANGES, CHANGE_BYTES);
        let (accept, accepted) = sync_channel(1);
        self.send(Input::Listen { filter: filter.into(), listener, accept })?;
        let key = accepted.recv().map_err(|_| UsageError::Closed)??;
        Ok(Subscription { key, server: self.shared.server.clone(), events, commands: self.shared.commands.clone() })
    }

    /// Sends a notification.
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

    /// The revision in force when the connection was made.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.shared.greeting.version
    }

    /// The server's result of `initialize` or `server/discover`: its name, capabilities and instructions.
    #[must_use]
    pub fn initialize_result(&self) -> &Json {
        &self.shared.greeting.result
    }

    /// The era that the server belongs to, and how it was detected.
    #[must_use]
    pub fn detected_era(&self) -> DetectedEra {
        self.shared.greeting.detected_era
    }

    /// The HTTP transport that was detected; `None` for a child process.
    #[must_use]
    pub fn transport(&self) -> Option<HttpTransport> {
        self.shared.greeting.transport
    }

    fn send(&self, input: Input) -> Result<(), Error> {
        self.shared.commands.send(input)
    }
}

/// Ends the session, which may take up to `HttpConfig::close_timeout`, or the child process.
impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.commands.send(Input::Close);
        if let Some(driver) = self.driver.take() {
            let _ = driver.join();
        }
    }
}

/// A request that has no outcome yet. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "a request that nobody waits for is cancelled"]
pub struct InFlight {
    request: RequestKey,
    slot: ResponseSlot,
    commands: Commands,
    server: String,
    has_ended: bool,
}

impl InFlight {
    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub fn wait(self) -> Result<Json, Error> {
        self.wait_with(|_| {})
    }

    /// Waits for the outcome, and passes the parameters of each progress notification to `progressed` until then.
    ///
    /// # Errors
    ///
    /// As [`InFlight::wait`].
    pub fn wait_with(mut self, mut progressed: impl FnMut(&Json)) -> Result<Json, Error> {
        let outcome = loop {
            match self.slot.wait() {
                ResponseUpdate::Progress(params) => progressed(&params),
                ResponseUpdate::Outcome(outcome) => break outcome,
            }
        };
        self.has_ended = true;
        match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(Error::Server(error)),
            Outcome::Failed(reason) => Err(Error::Failed { server: self.server.clone(), reason }),
        }
    }

    /// Cancels the request. Its outcome is then [`Failed::Cancelled`], unless it has already ended.
    pub fn cancel(&self) {
        let _ = self.commands.send(Input::Cancel(self.request));
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if !self.has_ended {
            self.cancel();
        }
    }
}

/// Why a call has no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an error.
    #[error("the server answered with error {}: {}", .0.code(), .0.message())]
    Server(ErrorObject),
    /// The server did not answer.
    #[error("{}", reason.describe(server))]
    Failed {
        /// The server, phrased as the subject of a sentence: with its URL, but without the query, if it has a URL.
        server: String,
        /// The reason.
        reason: Failed,
    },
    /// The result does not have the shape that this method's results have.
    #[error("the server's result is not one of this method: {0}")]
    Result(ModelError),
    /// The call is invalid as given.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The server could not be started.
    #[error(transparent)]
    Start(std::io::Error),
    /// The server's process ended before it answered.
    #[error("the server ended ({status}) before it answered; what it wrote to its stderr may say why")]
    Exited {
        /// How it ended.
        status: ExitStatus,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
