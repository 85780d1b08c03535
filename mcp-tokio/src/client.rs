//! A client of one server.
//!
//! | file | what it does |
//! |---|---|
//! | `builder` | what the client is told before it connects |
//! | `driver` | the task that owns the machine |
//! | `link` | what that task needs of a transport |
//! | `byte_stream` | a pair of byte streams |
//! | `subscription` | changes that the application has subscribed to |
//! | `handler` | what the application does about what the server tells and asks |

mod builder;
mod byte_stream;
pub(crate) mod driver;
mod handler;
pub(crate) mod link;
mod subscription;

use std::process::ExitStatus;
use std::sync::Arc;

use mcp_proto::client::{Call, HttpTransport, Outcome, Unavailable, Verdict};
use mcp_proto::model::{ModelError, Payload, Request};
use mcp_proto::{ErrorObject, Failed, Json, Method, Notification, ProtocolVersion, RequestKey, UsageError};
use tokio::sync::{mpsc, oneshot};

use driver::{Dropped, Input, Refused};

pub use builder::Builder;
pub use handler::Handler;
pub use subscription::{Change, Subscription};

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
/// assert!(matches!(Client::builder().connect(read, write).await, Err(Error::Failed { .. })));
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
    transport: Option<HttpTransport>,
    verdict: Verdict,
}

impl Client {
    /// Prepares a client.
    pub fn builder() -> Builder {
        Builder::new()
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

    /// Makes a request with typed parameters, and reads its result. Dropping the future cancels the request.
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
    /// # async fn example(client: mcp_tokio::Client) -> Result<(), mcp_tokio::Error> {
    /// let tools = client.request_as::<ListToolsRequest>(PaginatedRequestParams::new()).await?.tools;
    /// let called = client.request_as::<CallToolRequest>(CallToolRequestParams::new("hello")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn request_as<R: Request>(&self, params: R::Params) -> Result<R::Result, Error> {
        let result = self.request(R::METHOD, Some(params.to_json())).await?;
        R::Result::from_json(&result).map_err(Error::Result)
    }

    /// Makes a request, and returns when it was accepted.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the request cannot be made.
    pub async fn call(&self, call: Call) -> Result<InFlight, Error> {
        let (accept, accepted) = oneshot::channel();
        let span = tracing::debug_span!(
            "mcp_request",
            method = %call.method(),
            request = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        // One that is dropped before it was accepted is cancelled by the task.
        self.send(Input::Request { call, span, accept }).await?;
        accepted.await.map_err(|_| UsageError::Closed)?.map_err(Error::Usage)
    }

    /// Subscribes to changes, at servers of revision 2026-07-28. `filter` is the object `notifications` of
    /// `subscriptions/listen`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if that cannot be done; older servers tell [`Handler::notified`] without being asked, and take
    /// `resources/subscribe`.
    pub async fn listen(&self, filter: impl Into<Json>) -> Result<Subscription, Error> {
        let (accept, accepted) = oneshot::channel();
        self.send(Input::Listen { filter: filter.into(), accept }).await?;
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

    /// The revision in force when the connection was made.
    #[must_use]
    pub fn version(&self) -> ProtocolVersion {
        self.greeting.version
    }

    /// The server's answer to `initialize` or `server/discover`: its name, capabilities and instructions.
    #[must_use]
    pub fn initialize_result(&self) -> &Json {
        &self.greeting.result
    }

    /// Which era the server belongs to, and what told so.
    #[must_use]
    pub fn verdict(&self) -> Verdict {
        self.greeting.verdict
    }

    /// The HTTP transport that the server turned out to have; `None` on a byte stream.
    #[must_use]
    pub fn transport(&self) -> Option<HttpTransport> {
        self.greeting.transport
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

/// A request that has no outcome yet. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "a request that nobody waits for is cancelled"]
pub struct InFlight {
    request: RequestKey,
    server: Arc<str>,
    outcome: Option<oneshot::Receiver<Outcome>>,
    progress: mpsc::Receiver<Json>,
    /// Unbounded, because a destructor cannot wait; each request says this once.
    cancel: mpsc::UnboundedSender<Dropped>,
}

impl InFlight {
    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub async fn wait(mut self) -> Result<Json, Error> {
        let outcome = match &mut self.outcome {
            Some(outcome) => outcome.await.unwrap_or(Outcome::Failed(Failed::Closed)),
            None => Outcome::Failed(Failed::Closed),
        };
        self.outcome = None;
        match outcome {
            Outcome::Result(result) => Ok(result),
            Outcome::Error(error) => Err(Error::Server(error)),
            Outcome::Failed(reason) => Err(Error::failed(&self.server, reason)),
        }
    }

    /// The parameters of the next progress notification; `None` once the request has ended.
    pub async fn progress(&mut self) -> Option<Json> {
        self.progress.recv().await
    }

    /// Takes the request back; its outcome is [`Failed::Cancelled`] unless it has ended.
    pub fn cancel(&self) {
        let _ = self.cancel.send(Dropped::Request(self.request));
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
    #[error("{}", reason.describe(server))]
    Failed {
        /// The server, as the subject of a sentence: with its URL, without the query, if it has one.
        server: Box<str>,
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
    #[error("the server cannot be started: {0}")]
    Start(std::io::Error),
    /// The server's process ended before it had answered `initialize`.
    #[error("the server ended ({status}) before it answered; what it wrote to its stderr may say why")]
    Exited {
        /// How it ended.
        status: ExitStatus,
    },
    /// The HTTP client cannot be set up.
    #[cfg(feature = "http-client")]
    #[error("the HTTP client cannot be set up: {}", crate::http_client::in_words(.0))]
    HttpClient(reqwest::Error),
}

impl Error {
    fn failed(server: &str, reason: Failed) -> Self {
        Self::Failed { server: server.into(), reason }
    }

    fn not_connected(refused: Refused, server: &str) -> Self {
        match (refused.reason, refused.exited) {
            (Unavailable::Error(error), _) => Self::Server(error),
            (Unavailable::Failed(Failed::Closed), Some(status)) => Self::Exited { status },
            (Unavailable::Failed(reason), _) => Self::failed(server, reason),
        }
    }
}
