//! A blocking client of a server over HTTP.
//!
//! One thread owns the machine. Calls from any number of threads go to it through a bounded channel, and each waits for
//! its own answer; a slow call delays no other.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use mcp_proto::client::{
    self as proto, Call, Config, Event, ExchangeKey, Http, HttpAction, HttpConfig, HttpTransport, Outcome, Unavailable,
};
use mcp_proto::{
    ErrorObject, Failed, Fault, Instant, Json, Method, Notification, Output, ProtocolVersion, Quirk, RequestKey,
    Ticket, UsageError, code,
};

use crate::gate::Gate;
use crate::http_client::{HttpOptions, Pool, Received};
use crate::mailbox::{Mailbox, News, Postman};

/// How often it is looked at whether a request has been sent that was not sent yet.
const UNSENT: Duration = Duration::from_millis(20);
/// Events that wait for the handler. It may be waiting for the client itself, so nothing ever waits for it: with more
/// than this, notifications are dropped and requests refused.
const EVENTS: usize = 256;

/// Deals with what the server tells and asks. All of it is called on one thread of its own, in order.
///
/// A handler may call the client, for instance to list tools again when they have changed.
pub trait Handler: Send + 'static {
    /// The server tells something.
    fn notified(&mut self, notification: Notification) {
        let _ = notification;
    }

    /// The server asks for something. Without a handler of your own, it is told that there is no such method.
    ///
    /// # Errors
    ///
    /// The error is the server's answer.
    fn requested(&mut self, method: &Method, params: Option<&Json>) -> Result<Json, ErrorObject> {
        let _ = params;
        Err(ErrorObject::new(code::METHOD_NOT_FOUND, &format!("the client cannot do {method}")))
    }

    /// Something happened that needs no answer: the connection was lost or made again, the server was odd.
    fn observed(&mut self, observation: Observation) {
        let _ = observation;
    }
}

/// The handler of a client that listens to nothing.
impl Handler for () {}

/// What a [`Handler`] may observe.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Observation {
    /// The session was lost, and has been opened again.
    Reconnected,
    /// There is no connection now.
    Unavailable(Failed),
    /// The server did something wrong that could be coped with.
    Faulted(Fault),
    /// The server did something odd that could be put up with.
    QuirkMet(Quirk),
}

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
    inbox: SyncSender<Input>,
    owner: Option<JoinHandle<()>>,
    server: String,
    greeting: Greeting,
}

/// How the server answered when the connection was made.
#[derive(Debug)]
struct Greeting {
    version: ProtocolVersion,
    result: Json,
    transport: HttpTransport,
}

/// Prepares a [`Client`].
///
/// # Example
///
/// ```no_run
/// use std::time::Duration;
/// use mcp_blocking::Client;
///
/// let client = Client::builder("https://example.com/mcp")?
///     .name("my-app", "1.0.0")
///     .bearer("secret")?
///     .request_timeout(Duration::from_secs(20))
///     .connect()?;
/// # Ok::<(), mcp_blocking::Error>(())
/// ```
pub struct Builder {
    http: HttpConfig,
    config: Config,
    options: HttpOptions,
    handler: Box<dyn Handler>,
}

impl Client {
    /// Prepares a client of the server at `url`.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the URL cannot be used.
    pub fn builder(url: &str) -> Result<Builder, Error> {
        let mut config = Config::new("mcp-blocking", env!("CARGO_PKG_VERSION"));
        config.reconnect = true;
        Ok(Builder { http: HttpConfig::new(url)?, config, options: HttpOptions::new(), handler: Box::new(()) })
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

    /// Makes a request, and returns at once.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the request cannot be made.
    pub fn call(&self, call: Call) -> Result<InFlight, Error> {
        let (postman, mailbox) = Mailbox::new();
        let (accept, accepted) = sync_channel(1);
        self.send(Input::Request { call, postman, accept })?;
        let request = accepted.recv().map_err(|_| UsageError::Closed)??;
        Ok(InFlight {
            request,
            mailbox,
            inbox: self.shared.inbox.clone(),
            server: self.shared.server.clone(),
            has_ended: false,
        })
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

    /// The server's answer to `initialize`: its name, capabilities and instructions.
    #[must_use]
    pub fn initialize_result(&self) -> &Json {
        &self.shared.greeting.result
    }

    /// The HTTP transport that the server turned out to have.
    #[must_use]
    pub fn transport(&self) -> HttpTransport {
        self.shared.greeting.transport
    }

    fn send(&self, input: Input) -> Result<(), Error> {
        self.shared.inbox.send(input).map_err(|_| Error::Usage(UsageError::Closed))
    }
}

/// Ends the session, for which the server has the time of `HttpConfig::close_timeout`.
impl Drop for Shared {
    fn drop(&mut self) {
        let _ = self.inbox.send(Input::Close);
        if let Some(owner) = self.owner.take() {
            let _ = owner.join();
        }
    }
}

impl Builder {
    /// Names the application, as the server will see it.
    #[must_use]
    pub fn name(mut self, name: &str, version: &str) -> Self {
        let own = Config::new(name, version);
        self.config.client_info = own.client_info;
        self
    }

    /// Declares what the server may ask for, as the object `capabilities` of `initialize`.
    #[must_use]
    pub fn capabilities(mut self, capabilities: Json) -> Self {
        self.config.capabilities = capabilities;
        self
    }

    /// Deals with what the server tells and asks.
    #[must_use]
    pub fn handler(mut self, handler: impl Handler) -> Self {
        self.handler = Box::new(handler);
        self
    }

    /// Adds a header to every request.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the protocol sets that header itself, or it has characters that no header may have.
    pub fn header(mut self, name: &str, value: &str) -> Result<Self, Error> {
        self.http.header(name, value)?;
        Ok(self)
    }

    /// Authorizes every request with a bearer token.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`] if the token has characters that no header may have.
    pub fn bearer(self, token: &str) -> Result<Self, Error> {
        self.header("Authorization", &format!("Bearer {token}"))
    }

    /// How long an answer may take.
    #[must_use]
    pub fn request_timeout(mut self, timeout: Duration) -> Self {
        self.config.request_timeout = timeout;
        self
    }

    /// Changes anything of the machine's configuration.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config, &mut HttpConfig, &mut HttpOptions)) -> Self {
        change(&mut self.config, &mut self.http, &mut self.options);
        self
    }

    /// Connects, and waits until the server has answered.
    ///
    /// # Errors
    ///
    /// [`Error::Server`] if the server refused, [`Error::Failed`] if it did not answer, [`Error::Usage`] if the
    /// configuration cannot be worked with.
    pub fn connect(self) -> Result<Client, Error> {
        let Self { http, mut config, options, handler } = self;
        config.limits.exchanges = options.max_workers;
        let server = http.server();
        let machine = proto::Client::new(Http::new(http), config)?;
        let (inbox, inputs) = sync_channel(64);
        let (connected, answer) = sync_channel(1);
        let owner_inbox = inbox.clone();
        let owner = thread::Builder::new()
            .name("mcp-client".to_owned())
            .spawn(move || Owner::new(machine, options, owner_inbox, connected).run(&inputs, handler))
            .map_err(Error::Thread)?;
        let answer = answer.recv().map_err(|_| UsageError::Closed)?;
        match answer {
            Ok(greeting) => {
                let shared = Shared { inbox, owner: Some(owner), server, greeting };
                Ok(Client { shared: Arc::new(shared) })
            }
            Err(reason) => {
                let _ = inbox.send(Input::Close);
                let _ = owner.join();
                Err(match reason {
                    Unavailable::Error(error) => Error::Server(error),
                    Unavailable::Failed(reason) => Error::Failed { server, reason },
                })
            }
        }
    }
}

impl fmt::Debug for Builder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder").field("http", &self.http).finish_non_exhaustive()
    }
}

/// A request that has no outcome yet. Dropping it cancels the request.
#[derive(Debug)]
#[must_use = "a request that nobody waits for is cancelled"]
pub struct InFlight {
    request: RequestKey,
    mailbox: Mailbox,
    inbox: SyncSender<Input>,
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
            match self.mailbox.wait() {
                News::Progress(params) => progressed(&params),
                News::Outcome(outcome) => break outcome,
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
        let _ = self.inbox.send(Input::Cancel(self.request));
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
    #[error("{}", reason.describe(&format!("the server at {server}")))]
    Failed {
        /// The server's URL, without its query.
        server: String,
        /// Why not.
        reason: Failed,
    },
    /// The command cannot be carried out as given.
    #[error(transparent)]
    Usage(#[from] UsageError),
    /// A thread could not be started.
    #[error("cannot start a thread: {0}")]
    Thread(std::io::Error),
}

#[derive(Debug)]
enum Input {
    Exchange(ExchangeKey, Received),
    Request { call: Call, postman: Postman, accept: SyncSender<Result<RequestKey, UsageError>> },
    Notify { notification: Notification, accept: SyncSender<Result<(), UsageError>> },
    Cancel(RequestKey),
    Answer { ticket: Ticket, answer: Result<Json, ErrorObject> },
    Close,
}

/// What the handler's thread is given.
#[derive(Debug)]
enum ForHandler {
    Notified(Notification),
    Requested(Ticket, Method, Option<Json>),
    Observed(Observation),
}

/// The thread that owns the machine.
struct Owner {
    machine: proto::Client<Http>,
    pool: Pool<Input>,
    gate: Arc<Gate>,
    inbox: SyncSender<Input>,
    callers: BTreeMap<RequestKey, Postman>,
    /// Events that the handler had no room for.
    dropped: u64,
    connected: Option<SyncSender<Result<Greeting, Unavailable>>>,
}

impl Owner {
    fn new(
        machine: proto::Client<Http>,
        options: HttpOptions,
        inbox: SyncSender<Input>,
        connected: SyncSender<Result<Greeting, Unavailable>>,
    ) -> Self {
        let gate = Arc::new(Gate::new());
        let pool = Pool::new(options, inbox.clone(), Arc::clone(&gate));
        Self { machine, pool, gate, inbox, callers: BTreeMap::new(), dropped: 0, connected: Some(connected) }
    }

    fn run(mut self, inputs: &Receiver<Input>, handler: Box<dyn Handler>) {
        let (events, for_handler) = sync_channel(EVENTS);
        let answers = self.inbox.clone();
        let handling = thread::Builder::new()
            .name("mcp-handler".to_owned())
            .spawn(move || handle(handler, &for_handler, &answers));
        if let Err(error) = handling {
            log::warn!("cannot start a thread for the handler: {error}");
        }
        let connecting = self.machine.connect(Instant::now());
        debug_assert!(connecting.is_ok(), "nothing was connected before");
        loop {
            while let Some(output) = self.machine.poll_output() {
                match output {
                    Output::Action(HttpAction::Open { exchange, request }) => self.pool.open(exchange, request),
                    Output::Action(HttpAction::Abort { exchange }) => self.pool.abort(exchange),
                    Output::Action(_) => {}
                    Output::Event(Event::Closed(_)) => return,
                    Output::Event(event) => {
                        if let Some(event) = self.on_event(event) {
                            self.deliver(event, &events);
                        }
                    }
                }
            }
            self.gate.set(self.machine.wants_input());
            self.wait(inputs);
        }
    }

    fn wait(&mut self, inputs: &Receiver<Input>) {
        let now = Instant::now();
        let mut wait = self.machine.poll_timeout().map_or(Duration::MAX, |at| at.saturating_duration_since(now));
        if self.pool.has_unsent() {
            wait = wait.min(UNSENT);
        }
        let input = inputs.recv_timeout(wait);
        let now = Instant::now();
        self.pool.report_sent(&mut self.machine, now);
        match input {
            Ok(input) => self.on_input(input, now),
            Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if self.machine.poll_timeout().is_some_and(|at| at <= now) {
            self.machine.handle_timeout(now);
        }
    }

    fn on_input(&mut self, input: Input, now: Instant) {
        match input {
            Input::Exchange(exchange, received) => self.pool.feed(&mut self.machine, exchange, received, now),
            Input::Request { call, postman, accept } => {
                let accepted = self.machine.request(call, now);
                if let Ok(request) = accepted {
                    self.callers.insert(request, postman);
                }
                // The caller waits for this, unless its thread is gone.
                let _ = accept.send(accepted);
            }
            Input::Notify { notification, accept } => {
                let _ = accept.send(self.machine.notify(notification, now));
            }
            Input::Cancel(request) => self.machine.cancel(request, None, now),
            Input::Answer { ticket, answer } => self.machine.answer(ticket, answer, now),
            Input::Close => self.machine.close(now),
        }
    }

    /// Serves the callers, and returns what is for the handler.
    fn on_event(&mut self, event: Event) -> Option<ForHandler> {
        match event {
            Event::Connected { version, result, .. } => match self.connected.take() {
                Some(connected) => {
                    let transport = self.machine.http_transport();
                    let _ = connected.send(Ok(Greeting { version, result, transport }));
                    None
                }
                None => Some(ForHandler::Observed(Observation::Reconnected)),
            },
            Event::Unavailable { reason, .. } => match (self.connected.take(), reason) {
                (Some(connected), reason) => {
                    let _ = connected.send(Err(reason));
                    None
                }
                (None, Unavailable::Failed(reason)) => Some(ForHandler::Observed(Observation::Unavailable(reason))),
                (None, Unavailable::Error(_)) => {
                    Some(ForHandler::Observed(Observation::Unavailable(Failed::SessionLost)))
                }
            },
            Event::Responded { request, outcome } => {
                if let Some(caller) = self.callers.remove(&request) {
                    caller.outcome(outcome);
                }
                None
            }
            Event::Progressed { request, params } => {
                if let Some(caller) = self.callers.get(&request) {
                    caller.progress(params);
                }
                None
            }
            Event::Requested { ticket, method, params, .. } => Some(ForHandler::Requested(ticket, method, params)),
            Event::Notified { method, params, .. } => Some(ForHandler::Notified(Notification { method, params })),
            Event::Faulted(fault) => Some(ForHandler::Observed(Observation::Faulted(fault))),
            Event::QuirkMet(quirk) => Some(ForHandler::Observed(Observation::QuirkMet(quirk))),
            // An answer to a request that was cancelled meanwhile goes nowhere.
            Event::RequestCancelled { .. } | Event::SessionLost | Event::Closed(_) | _ => None,
        }
    }

    /// Gives an event to the handler's thread, as far as it keeps up.
    fn deliver(&mut self, event: ForHandler, events: &SyncSender<ForHandler>) {
        let now = Instant::now();
        if self.dropped > 0 {
            let fault = Fault::Dropped { count: self.dropped };
            if events.try_send(ForHandler::Observed(Observation::Faulted(fault))).is_ok() {
                self.dropped = 0;
            }
        }
        if let Err(TrySendError::Full(event)) = events.try_send(event) {
            if let ForHandler::Requested(ticket, ..) = event {
                let busy = ErrorObject::new(code::INTERNAL_ERROR, "the client is busy");
                self.machine.answer(ticket, Err(busy), now);
            } else {
                self.dropped += 1;
            }
        }
    }
}

fn handle(mut handler: Box<dyn Handler>, events: &Receiver<ForHandler>, answers: &SyncSender<Input>) {
    while let Ok(event) = events.recv() {
        match event {
            ForHandler::Notified(notification) => handler.notified(notification),
            ForHandler::Observed(observation) => handler.observed(observation),
            ForHandler::Requested(ticket, method, params) => {
                let answer = handler.requested(&method, params.as_ref());
                if answers.send(Input::Answer { ticket, answer }).is_err() {
                    return;
                }
            }
        }
    }
}

impl From<(ExchangeKey, Received)> for Input {
    fn from((exchange, received): (ExchangeKey, Received)) -> Self {
        Self::Exchange(exchange, received)
    }
}
