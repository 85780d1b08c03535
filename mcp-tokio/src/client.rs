//! A client on a byte stream.

mod driver;
mod handler;

use std::sync::Arc;
use std::time::Duration;

use mcp_proto::client::{self as proto, Call, Config, Outcome, Unavailable};
use mcp_proto::{ErrorObject, Failed, Json, Method, Notification, ProtocolVersion, RequestKey, Stdio, UsageError};
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::process::Command;
use tokio::sync::{mpsc, oneshot};

use crate::child;
use driver::{Driver, Input};
use handler::AnyHandler;

pub use handler::Handler;

/// Commands that wait for the task.
const COMMANDS: usize = 64;

/// A client of one server.
///
/// It may be cloned and used from several tasks. The connection ends when the last clone is dropped.
///
/// # Example: a server on a byte stream of your own
///
/// ```
/// use mcp_tokio::{Client, Error};
///
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() {
/// let (ours, theirs) = tokio::io::duplex(1024);
/// drop(theirs); // Nobody is there.
/// let (read, write) = tokio::io::split(ours);
/// assert!(matches!(Client::builder().connect(read, write).await, Err(Error::Failed(_))));
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Client {
    commands: mpsc::Sender<Input>,
    greeting: Arc<Greeting>,
}

/// How the server answered when the connection was made.
#[derive(Debug)]
struct Greeting {
    version: ProtocolVersion,
    result: Json,
}

/// Prepares a [`Client`].
pub struct Builder {
    config: Config,
    handler: Arc<dyn AnyHandler>,
}

impl Client {
    /// Prepares a client.
    #[must_use]
    pub fn builder() -> Builder {
        Builder { config: Config::new("mcp-tokio", env!("CARGO_PKG_VERSION")), handler: Arc::new(()) }
    }

    /// Makes a request and waits for its outcome. Dropping the future cancels the request.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub async fn request(&self, method: impl Into<Method>, params: Option<Json>) -> Result<Json, Error> {
        let call = Call::new(method);
        let call = if let Some(params) = params { call.params(params) } else { call };
        self.call(call).await?.wait().await
    }

    /// Makes a request, and returns when it was accepted.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the request cannot be made.
    pub async fn call(&self, call: Call) -> Result<InFlight, Error> {
        let (accept, accepted) = oneshot::channel();
        // One that is dropped before it was accepted is cancelled by the task.
        self.send(Input::Request { call, accept }).await?;
        accepted.await.map_err(|_| UsageError::Closed)?.map_err(Error::Usage)
    }

    /// Sends a notification.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if it cannot be sent.
    pub async fn notify(&self, notification: Notification) -> Result<(), Error> {
        let (accept, accepted) = oneshot::channel();
        self.send(Input::Notify { notification, accept }).await?;
        accepted.await.map_err(|_| UsageError::Closed)?.map_err(Error::Usage)
    }

    /// The revision in force.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.greeting.version
    }

    /// The server's answer to `initialize`: its name, capabilities and instructions.
    #[must_use]
    pub fn initialize_result(&self) -> &Json {
        &self.greeting.result
    }

    /// Ends the connection, for all clones, and waits until it has ended; a child process has ended then too.
    pub async fn close(&self) {
        let (done, is_done) = oneshot::channel();
        if self.send(Input::Close(Some(done))).await.is_ok() {
            let _ = is_done.await;
        }
    }

    async fn send(&self, input: Input) -> Result<(), Error> {
        self.commands.send(input).await.map_err(|_| Error::Usage(UsageError::Closed))
    }
}

impl Builder {
    /// Names the application, as the server will see it.
    #[must_use]
    pub fn name(mut self, name: &str, version: &str) -> Self {
        self.config.client_info = Config::new(name, version).client_info;
        self
    }

    /// Declares what the server may ask for, as the object `capabilities` of `initialize`.
    #[must_use]
    pub fn capabilities(mut self, capabilities: impl Into<Json>) -> Self {
        self.config.capabilities = capabilities.into();
        self
    }

    /// Deals with what the server tells and asks.
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Arc::new(handler);
        self
    }

    /// How long an answer may take.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self
    }

    /// Changes anything of the machine's configuration.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Connects over a pair of byte streams, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server refused, [`Error::Failed`] if it did not answer, [`Error::Usage`] if the
    /// configuration cannot be worked with.
    pub async fn connect(
        self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
    ) -> Result<Client, Error> {
        self.connect_with(read, write, None).await
    }

    /// Starts a server as a child process, and connects over its stdin and stdout. Its stderr is this process's, unless
    /// the command says otherwise.
    ///
    /// At the end its stdin is closed; a server that goes on is asked to end, and at last killed (ST-17, ST-18).
    ///
    /// # Errors
    ///
    /// [`Error::Start`] if it could not be started, and as [`Builder::connect`].
    pub async fn spawn(self, command: Command) -> Result<Client, Error> {
        let (child, write, read) = child::start(command).map_err(Error::Start)?;
        self.connect_with(read, write, Some(child)).await
    }

    async fn connect_with(
        self,
        read: impl AsyncRead + Send + Unpin + 'static,
        write: impl AsyncWrite + Send + Unpin + 'static,
        child: Option<child::Child>,
    ) -> Result<Client, Error> {
        let machine = proto::Client::new(Stdio::new(), self.config)?;
        let (commands, inputs) = mpsc::channel(COMMANDS);
        let (connected, answer) = oneshot::channel();
        let driver = Driver::new(machine, self.handler, connected);
        tokio::spawn(driver.run(read, write, inputs, child));
        match answer.await.map_err(|_| UsageError::Closed)? {
            Ok(greeting) => Ok(Client { commands, greeting: Arc::new(greeting) }),
            Err(Unavailable::Error(error)) => Err(Error::Server(error)),
            Err(Unavailable::Failed(reason)) => Err(Error::Failed(reason)),
        }
    }
}

impl std::fmt::Debug for Builder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Builder").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A request that has no outcome yet. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "a request that nobody waits for is cancelled"]
pub struct InFlight {
    request: RequestKey,
    outcome: Option<oneshot::Receiver<Outcome>>,
    progress: mpsc::Receiver<Json>,
    /// Unbounded, because a destructor cannot wait; each request says this once.
    cancel: mpsc::UnboundedSender<RequestKey>,
}

impl InFlight {
    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub async fn wait(mut self) -> Result<Json, Error> {
        let Some(outcome) = &mut self.outcome else { return Err(Error::Failed(Failed::Closed)) };
        let outcome = outcome.await.unwrap_or(Outcome::Failed(Failed::Closed));
        self.outcome = None;
        match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(Error::Server(error)),
            Outcome::Failed(reason) => Err(Error::Failed(reason)),
        }
    }

    /// The parameters of the next progress notification; `None` once the request has ended.
    pub async fn progress(&mut self) -> Option<Json> {
        self.progress.recv().await
    }

    /// Takes the request back; its outcome is [`Failed::Cancelled`] unless it has ended.
    pub fn cancel(&self) {
        let _ = self.cancel.send(self.request);
    }
}

impl Drop for InFlight {
    fn drop(&mut self) {
        if self.outcome.is_some() {
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
    #[error(transparent)]
    Failed(Failed),
    /// The command cannot be carried out as given.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// The server could not be started.
    #[error("the server cannot be started: {0}")]
    Start(std::io::Error),
}
