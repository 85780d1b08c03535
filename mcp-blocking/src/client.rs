//! A blocking client of a server, over HTTP or in a process of its own.
//!
//! One thread owns the machine. Calls from any number of threads go to it through a bounded channel, and each waits for
//! its own answer; a slow call delays no other.
//!
//! | file | what it does |
//! |---|---|
//! | `builder` | what the client is told before it connects |
//! | `driver` | the thread that owns the machine |
//! | `subscription` | changes that the application has subscribed to |
//! | `handler` | what the application does about what the server tells and asks |

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

/// Changes that wait for the application; more are missed.
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
    /// Bytes of progress that wait for callers.
    progress: Arc<AtomicUsize>,
}

/// How the server answered when the connection was made.
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

    /// Prepares a client of a server that is started as a child process. Its stderr is this process's, unless the command
    /// says otherwise.
    ///
    /// It is ended as [`Proxy::child`](crate::Proxy::child) ends it, which dropping the last clone of the client waits
    /// for. A server that ends when it is asked which era it belongs to is started once more (ER-06).
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

    /// Makes a request and waits for its outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub fn request(&self, method: impl Into<Method>, params: Option<Json>) -> Result<Json, Error> {
        let call = Call::new(method);
        self.call(params.map_or(call.clone(), |params| call.params(params)))?.wait()
    }

    /// Makes a request with typed parameters, and reads its result.
    ///
    /// # Errors
    ///
    /// [`Error::Result`] if the result does not have the shape that the method's results have, and as
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

    /// Makes a request, and returns at once.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the request cannot be made.
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

    /// Subscribes to changes, at servers of revision 2026-07-28. `filter` is the object `notifications` of
    /// `subscriptions/listen`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if that cannot be done; older servers tell [`Handler::notified`] without being asked, and take
    /// `resources/subscribe`.
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

    /// The server's answer to `initialize` or `server/discover`: its name, capabilities and instructions.
    #[must_use]
    pub fn initialize_result(&self) -> &Json {
        &self.shared.greeting.result
    }

    /// Which era the server belongs to, and what told so.
    #[must_use]
    pub fn detected_era(&self) -> DetectedEra {
        self.shared.greeting.detected_era
    }

    /// The HTTP transport that the server turned out to have; `None` for a child process.
    #[must_use]
    pub fn transport(&self) -> Option<HttpTransport> {
        self.shared.greeting.transport
    }

    fn send(&self, input: Input) -> Result<(), Error> {
        self.shared.commands.send(input)
    }
}

/// Ends the session, for which the server has the time of `HttpConfig::close_timeout`, or the process.
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

    /// Waits for the outcome, and hands every progress notification's parameters to `progressed` meanwhile.
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

    /// Takes the request back; its outcome is [`Failed::Cancelled`] unless it has ended.
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

/// Why there is no result.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The server answered with an error.
    #[error("the server answered with error {}: {}", .0.code(), .0.message())]
    Server(ErrorObject),
    /// The server did not answer.
    #[error("{}", reason.describe(server))]
    Failed {
        /// The server, as the subject of a sentence: with its URL, without the query, if it has one.
        server: String,
        /// Why not.
        reason: Failed,
    },
    /// The result does not have the shape that the method's results have.
    #[error("the server's result is not one of this method: {0}")]
    Result(ModelError),
    /// The command cannot be carried out as given.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The server could not be started.
    #[error(transparent)]
    Start(std::io::Error),
    /// The server's process ended before it had answered.
    #[error("the server ended ({status}) before it answered; what it wrote to its stderr may say why")]
    Exited {
        /// How it ended.
        status: ExitStatus,
    },
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}
