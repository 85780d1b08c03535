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
mod driver;
mod handler;
pub(crate) mod link;
mod subscription;

use std::process::ExitStatus;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use mcp_proto::client::{Call, DetectedEra, HttpTransport, Outcome, Unavailable};
use mcp_proto::model::{ModelError, Payload, Request};
use mcp_proto::{ErrorObject, Failed, Json, Method, Notification, ProtocolVersion, UsageError};
use tokio::sync::{mpsc, oneshot};

use driver::{CallNumber, Caller, Input, Refused};

pub use builder::Builder;
pub use handler::Handler;
pub use subscription::{Change, Subscription};

/// Progress of one call that waits to be heard. More is dropped.
const PROGRESS_CAPACITY: usize = 256;

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
    /// Unbounded, because a destructor cannot wait; each request says this once.
    cancel: mpsc::UnboundedSender<CallNumber>,
    next_call: Arc<AtomicU64>,
    /// The server, for people to read.
    server: Arc<str>,
    greeting: Arc<Greeting>,
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
        // Nobody hears of progress, and that it was accepted is part of the outcome.
        self.hand_in(call, None, None).await?.outcome().await
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
    /// let tools = client.request_as::<ListToolsRequest>(&PaginatedRequestParams::new()).await?.tools;
    /// let called = client.request_as::<CallToolRequest>(&CallToolRequestParams::new("hello")).await?;
    /// # Ok(())
    /// # }
    /// ```
    pub async fn request_as<R: Request>(&self, params: &R::Params) -> Result<R::Result, Error> {
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
        let (progress, heard) = mpsc::channel(PROGRESS_CAPACITY);
        let waiting = self.hand_in(call, Some(progress), Some(accept)).await?;
        match accepted.await {
            Ok(()) => Ok(InFlight { waiting, progress: heard }),
            Err(_) => Err(waiting.refusal().await),
        }
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
    pub fn detected_era(&self) -> DetectedEra {
        self.greeting.detected_era
    }

    /// The HTTP transport that the server turned out to have; `None` on a byte stream.
    #[must_use]
    pub fn transport(&self) -> Option<HttpTransport> {
        self.greeting.transport
    }

    /// Ends the connection, for all clones, and waits until it has ended; a child process has ended then too.
    ///
    /// Requests in flight fail at once with [`Failed::Closed`]. What the server does not do in time is not waited for:
    ///
    /// | what | at most |
    /// |---|---|
    /// | a byte stream takes what waits to be written | 1 s |
    /// | a child process ends once its stdin is closed, and again once it was asked to; then it is killed | 2 s each |
    /// | a server over HTTP ends the session | `HttpConfig::close_timeout`, by default 3 s |
    /// | the handler takes the last notifications | 1 s |
    ///
    /// Dropping the last clone does the same in the background.
    pub async fn close(&self) {
        let (done, is_done) = oneshot::channel();
        if self.send(Input::Close(Some(done))).await.is_ok() {
            let _ = is_done.await;
        }
    }

    /// Hands a request to the task. One that is not accepted is told its reason instead of an outcome.
    async fn hand_in(
        &self,
        call: Call,
        progress: Option<mpsc::Sender<Json>>,
        accept: Option<oneshot::Sender<()>>,
    ) -> Result<Waiting, Error> {
        let span = tracing::debug_span!(
            "mcp_request",
            method = %call.method(),
            request = tracing::field::Empty,
            outcome = tracing::field::Empty,
        );
        let number = CallNumber(self.next_call.fetch_add(1, Ordering::Relaxed));
        let (outcome, waiting) = oneshot::channel();
        let caller = Caller { number, outcome, progress, span };
        self.send(Input::Request { call, caller, accept }).await?;
        let (server, cancel) = (Arc::clone(&self.server), self.cancel.clone());
        Ok(Waiting { number, server, outcome: Some(waiting), cancel })
    }

    async fn send(&self, input: Input) -> Result<(), Error> {
        self.commands.send(input).await.map_err(|_| Error::Usage(UsageError::Closed))
    }
}

/// A request that has no outcome yet. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "a request that nobody waits for is cancelled"]
pub struct InFlight {
    waiting: Waiting,
    progress: mpsc::Receiver<Json>,
}

impl InFlight {
    /// Waits for the outcome.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server answered with an error, [`Error::Failed`] if it did not answer.
    pub async fn wait(self) -> Result<Json, Error> {
        self.waiting.outcome().await
    }

    /// The parameters of the next progress notification; `None` once the request has ended.
    pub async fn progress(&mut self) -> Option<Json> {
        self.progress.recv().await
    }

    /// Takes the request back; its outcome is [`Failed::Cancelled`] unless it has ended.
    pub fn cancel(&self) {
        self.waiting.cancel();
    }
}

/// Whoever waits for an outcome. If it is dropped before that, the request is cancelled.
#[derive(Debug)]
struct Waiting {
    number: CallNumber,
    server: Arc<str>,
    outcome: Option<oneshot::Receiver<Result<Outcome, UsageError>>>,
    cancel: mpsc::UnboundedSender<CallNumber>,
}

impl Waiting {
    async fn outcome(mut self) -> Result<Json, Error> {
        let failed = |reason| Err(Error::failed(&self.server, reason));
        match ended(&mut self.outcome).await {
            Some(Ok(Outcome::Result(result))) => Ok(result),
            Some(Ok(Outcome::Error(error))) => Err(Error::Server(error)),
            Some(Ok(Outcome::Failed(reason))) => failed(reason),
            Some(Err(refusal)) => Err(Error::Usage(refusal)),
            None => failed(Failed::Closed),
        }
    }

    /// Why the request was not accepted.
    async fn refusal(mut self) -> Error {
        match ended(&mut self.outcome).await {
            Some(Err(refusal)) => Error::Usage(refusal),
            Some(Ok(_)) | None => Error::Usage(UsageError::Closed),
        }
    }

    fn cancel(&self) {
        let _ = self.cancel.send(self.number);
    }
}

impl Drop for Waiting {
    fn drop(&mut self) {
        if let Some(outcome) = &mut self.outcome {
            // In this order: a task that has not taken the request yet finds that nobody waits for it.
            outcome.close();
            self.cancel();
        }
    }
}

/// How a request has ended; `None` if the task has ended before.
async fn ended<T>(outcome: &mut Option<oneshot::Receiver<T>>) -> Option<T> {
    let ended = outcome.as_mut()?.await.ok();
    *outcome = None;
    ended
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
