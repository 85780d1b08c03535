//! Signing in: the task that drives the machine of `mcp_proto::auth`.

mod listener;
mod signing;

use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use std::{fmt, io};

use http::Response;
use mcp_proto::Output;
use mcp_proto::auth::{
    Action, Authorizer, Cause, Config, Event, FetchFailure, FetchKey, KeyUse, Lock, Secret, Seed, SignKey,
};
use mcp_proto::client::{Challenged, Credentials};
use mcp_proto::machine::HandleAuthorization;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::Instrument;

use crate::authorize::Authorize;
use crate::clock::{Alarm, now, unix_time};
use crate::http_client::fetch::Fetcher;
use crate::http_client::{HttpClientError, HttpOptions};
use listener::{Callback, Listener};

pub(crate) use signing::proof_header;

pub use mcp_token_store::{FileStore, MemoryStore, Store};
pub use signing::PrivateKey;

/// How often a lock that is taken is tried again.
const PAUSE: Duration = Duration::from_millis(50);

/// The inputs that may wait for the task.
const INBOX: usize = 64;

/// The outcomes that may wait for the task of the client. The sign-in waits while there is no room.
const OUTCOMES: usize = 4;

/// Shows a URL to a person, in a browser or elsewhere.
type OpenUrl = Box<dyn FnMut(&str) + Send>;

/// Gets a token that another program issues.
type ObtainToken = Box<dyn FnMut() -> io::Result<String> + Send>;

/// Signs messages with the key of the client.
type Sign = Box<dyn FnMut(&[u8]) -> io::Result<Vec<u8>> + Send>;

/// How a client signs in: what it needs to know, where it keeps tokens, and how it asks a person.
pub struct Authorization {
    config: Config,
    store: Box<dyn Store>,
    open_url: OpenUrl,
    obtain_token: Option<ObtainToken>,
    sign: Option<Sign>,
    options: Option<HttpOptions>,
    inbox: mpsc::Sender<Input>,
    inputs: mpsc::Receiver<Input>,
}

impl Authorization {
    /// Signs in to the server with this URL, as an application with this name. Tokens are kept in memory, and URLs for
    /// people are logged, until [`Authorization::store`] and [`Authorization::open_url`] set something better.
    ///
    /// # Errors
    ///
    /// [`Error::Usage`](crate::Error::Usage) if the URL cannot be used.
    pub fn new(server: &str, client_name: &str) -> Result<Self, crate::Error> {
        let config = Config::new(server, client_name)?;
        let open_url = |url: &str| tracing::warn!("open this URL in a browser to sign in: {url}");
        let (inbox, inputs) = mpsc::channel(INBOX);
        Ok(Self {
            config,
            store: Box::new(MemoryStore::new()),
            open_url: Box::new(open_url),
            obtain_token: None,
            sign: None,
            options: None,
            inbox,
            inputs,
        })
    }

    /// Sets where tokens are kept. The store is called on the runtime's threads for blocking functions.
    #[must_use]
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Box::new(store);
        self
    }

    /// Sets how a URL is opened in the person's browser. The function is called on one of the runtime's threads for
    /// blocking functions; it must not pass the URL to a shell.
    #[must_use]
    pub fn open_url(mut self, open_url: impl FnMut(&str) + Send + 'static) -> Self {
        self.open_url = Box::new(open_url);
        self
    }

    /// Sets where tokens come from that another program issues: the platform's assertion, an ID token or an access token,
    /// as [`Grant`](mcp_proto::auth::Grant) demands. The function is called on one of the runtime's threads for blocking
    /// functions, for each new token, and must return within [`Config::request_timeout`].
    #[must_use]
    pub fn obtain_token(mut self, obtain: impl FnMut() -> io::Result<String> + Send + 'static) -> Self {
        self.obtain_token = Some(Box::new(obtain));
        self
    }

    /// Sets the key with which the client authenticates, if its identity says so
    /// ([`ClientIdentity::with_key`](mcp_proto::auth::ClientIdentity::with_key)).
    #[must_use]
    pub fn private_key(self, key: PrivateKey) -> Self {
        self.sign_with(move |message| key.sign(message))
    }

    /// Like [`Authorization::private_key`], for a key that is kept elsewhere. The signature has the form of RFC 7518. The
    /// function is called on one of the runtime's threads for blocking functions.
    #[must_use]
    pub fn sign_with(mut self, sign: impl FnMut(&[u8]) -> io::Result<Vec<u8>> + Send + 'static) -> Self {
        self.sign = Some(Box::new(sign));
        self
    }

    /// Sets the options of the HTTP client for requests to authorization servers. Default: those for the server, without
    /// [`HttpOptions::client`].
    ///
    /// Its name resolution is replaced by one that leaves out addresses that must not be reached (OA-N-02). The addresses
    /// of HTTP proxies are not checked.
    #[must_use]
    pub fn http_options(mut self, options: HttpOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Changes the configuration of the machine, for settings without a method of their own.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// The configuration.
    #[must_use]
    pub const fn config(&self) -> &Config {
        &self.config
    }

    /// Returns a handle that passes in the URL to which a person was redirected, for people whose browser is on another
    /// machine (OA-B-04).
    #[must_use]
    pub fn redirects(&self) -> Redirects {
        Redirects(self.inbox.downgrade())
    }

    /// Starts a sign-in without a client, for a program that obtains or imports tokens for later. `report` receives its
    /// events, in the task that drives it. `options` are those of [`Authorization::http_options`], unless these are set.
    ///
    /// # Errors
    ///
    /// [`Error::SetUp`](crate::Error::SetUp) if the HTTP client could not be set up, or outside of a runtime.
    pub fn start(
        mut self,
        options: HttpOptions,
        report: impl FnMut(Event) + Send + 'static,
    ) -> Result<SignIn, crate::Error> {
        let runtime = Handle::try_current().map_err(|error| crate::Error::SetUp(error.into()))?;
        let options = self.options.take().unwrap_or(options);
        self.spawn(&runtime, options, Report::Function(Box::new(report)))
            .map_err(|error| crate::Error::SetUp(error.into()))
    }

    /// Starts the sign-in of a client. `server` are the options for its server, whose name in the log is `name`.
    pub(crate) fn start_for_client(
        mut self,
        server: &HttpOptions,
        name: Arc<str>,
    ) -> Result<ClientSignIn, HttpClientError> {
        let (report, outcomes) = mpsc::channel(OUTCOMES);
        let options = self.options.take().unwrap_or_else(|| server.for_other_servers());
        let sign_in = self.spawn(&Handle::current(), options, Report::Client { outcomes: report, server: name })?;
        Ok(ClientSignIn { sign_in, outcomes })
    }

    fn spawn(self, runtime: &Handle, options: HttpOptions, report: Report) -> Result<SignIn, HttpClientError> {
        let driver = Driver {
            key: self.config.store_key().into(),
            authorizer: Authorizer::new(self.config),
            fetcher: Arc::new(Fetcher::new(options)?),
            fetching: None,
            store: Arc::new(Mutex::new(self.store)),
            open_url: Arc::new(Mutex::new(self.open_url)),
            obtain_token: self.obtain_token.map(|obtain| Arc::new(Mutex::new(obtain))),
            sign: self.sign.map(|sign| Arc::new(Mutex::new(sign))),
            calling: None,
            report,
            listener: None,
            awaited: None,
        };
        runtime.spawn(driver.run(self.inputs).in_current_span());
        Ok(SignIn { inbox: self.inbox })
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A running sign-in: a task with a machine. Dropping it gives up a flow that runs.
pub struct SignIn {
    inbox: mpsc::Sender<Input>,
}

impl SignIn {
    /// A token is needed, as for [`Authorizer::begin`].
    pub fn begin(&self, cause: Cause) {
        // A full queue means that the task has enough causes already.
        let _ = self.inbox.try_send(Input::Begin(cause));
    }
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn").finish_non_exhaustive()
    }
}

/// Passes in URLs to which a person was redirected, from [`Authorization::redirects`].
#[derive(Clone)]
pub struct Redirects(mpsc::WeakSender<Input>);

impl Redirects {
    /// Passes in a URL, as it stands in the address bar of the browser. Returns whether it belongs to a sign-in that is in
    /// progress; any other text has no effect (OA-Q-03). Before the sign-in is started, this waits.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_tokio::sign_in::Authorization;
    ///
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), mcp_tokio::Error> {
    /// let redirects = Authorization::new("https://example.com/mcp", "my-app")?.redirects();
    /// assert!(!redirects.pass("http://127.0.0.1:4000/callback?code=c&state=s").await, "there is no sign-in");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use]
    pub async fn pass(&self, url: &str) -> bool {
        let (belongs, answer) = oneshot::channel();
        let Some(inbox) = self.0.upgrade() else { return false };
        let is_sent = inbox.send(Input::Redirected(url.to_owned(), belongs)).await.is_ok();
        // It would keep the sign-in running.
        drop(inbox);
        is_sent && answer.await.unwrap_or(false)
    }
}

impl fmt::Debug for Redirects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redirects").finish_non_exhaustive()
    }
}

/// An input of the task.
enum Input {
    Begin(Cause),
    Redirected(String, oneshot::Sender<bool>),
}

/// The sign-in of a client or of a proxy.
pub(crate) struct ClientSignIn {
    sign_in: SignIn,
    outcomes: mpsc::Receiver<Outcome>,
}

/// What ends a sign-in.
#[derive(Debug)]
pub(crate) enum Outcome {
    Authorized(Credentials),
    /// There is no token, for this reason.
    Refused(String),
    /// No token is stored, and none was demanded.
    NoToken,
}

impl<M: HandleAuthorization> Authorize<M> for ClientSignIn {
    type Outcome = Outcome;

    fn start(&self) -> bool {
        self.sign_in.begin(Cause::Start);
        true
    }

    fn challenged(&self, challenged: Challenged) {
        self.sign_in.begin(challenged.into());
    }

    async fn outcome(&mut self) -> Outcome {
        match self.outcomes.recv().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    fn apply(&mut self, machine: &mut M, outcome: Outcome) {
        match outcome {
            Outcome::Authorized(credentials) => machine.authorize(credentials, now()),
            Outcome::Refused(reason) => machine.refuse_authorization(&reason, now()),
            Outcome::NoToken => {}
        }
    }
}

/// The response to a request, or why there is none.
type Fetched = (FetchKey, Result<Response<Vec<u8>>, FetchFailure>);

/// What a function of the application has returned; `None` if it failed.
enum Called {
    Obtained(Option<Secret>),
    Signed(SignKey, Option<Vec<u8>>),
}

type Pending<T> = Option<Pin<Box<dyn Future<Output = T> + Send>>>;

struct Driver {
    key: Arc<str>,
    authorizer: Authorizer,
    fetcher: Arc<Fetcher>,
    /// The current request. A later one replaces it, because the machine waits for one at a time.
    fetching: Pending<Fetched>,
    store: Arc<Mutex<Box<dyn Store>>>,
    open_url: Arc<Mutex<OpenUrl>>,
    obtain_token: Option<Arc<Mutex<ObtainToken>>>,
    sign: Option<Arc<Mutex<Sign>>>,
    /// The current call of one of these two. A later one replaces it too.
    calling: Pending<Called>,
    report: Report,
    listener: Option<Listener>,
    /// The lock that another process has.
    awaited: Option<Lock>,
}

/// Where events go.
enum Report {
    Function(Box<dyn FnMut(Event) + Send>),
    /// To the log, and what ends a sign-in to the task of the client.
    Client {
        outcomes: mpsc::Sender<Outcome>,
        server: Arc<str>,
    },
}

impl Report {
    async fn event(&mut self, event: Event) {
        let (outcomes, server) = match self {
            Self::Function(report) => return report(event),
            Self::Client { outcomes, server } => (outcomes, server),
        };
        let outcome = match event {
            Event::Authorized(authorized) => Outcome::Authorized(authorized.credentials),
            Event::Refused(error) => {
                tracing::warn!("{server} could not be signed in to: {error}");
                Outcome::Refused(error.to_string())
            }
            Event::NoToken => Outcome::NoToken,
            Event::Waiting(waiting) => return tracing::info!("signing in to {server}: {waiting}"),
            Event::Step(step) => return tracing::debug!("signing in to {server}: {step}"),
            Event::SignedOut { .. } | _ => return,
        };
        // The client may have ended.
        let _ = outcomes.send(outcome).await;
    }
}

impl Driver {
    async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let mut alarm = Alarm::new();
        loop {
            while let Some(output) = self.authorizer.poll_output() {
                match output {
                    Output::Action(action) => self.act(action).await,
                    Output::Event(event) => self.report.event(event).await,
                }
            }
            let due = self.authorizer.poll_timeout();
            tokio::select! {
                input = inputs.recv() => match input {
                    Some(Input::Begin(cause)) => self.begin(cause),
                    Some(Input::Redirected(url, belongs)) => {
                        let _ = belongs.send(self.authorizer.handle_redirect(&url, now()));
                    }
                    None => return self.close().await,
                },
                fetched = done(&mut self.fetching) => self.on_fetched(fetched),
                called = done(&mut self.calling) => self.on_called(called),
                (head, answer) = callback(&mut self.listener) => {
                    // The browser may have closed the connection.
                    let _ = answer.send(self.authorizer.handle_callback(&head, now()));
                }
                () = sleep(PAUSE), if self.awaited.is_some() => if let Some(lock) = self.awaited {
                    self.try_lock(lock).await;
                },
                () = alarm.wait(due) => {}
            }
            self.authorizer.handle_timeout(now());
        }
    }

    fn begin(&mut self, cause: Cause) {
        let mut seed = [0; 32];
        if let Err(error) = getrandom::fill(&mut seed) {
            tracing::error!("cannot sign in: the operating system gives no random bytes: {error}");
            return;
        }
        self.authorizer.begin(cause, Seed::new(seed), unix_time(), now());
    }

    /// Carries out an action. What follows it waits for the store, so that tokens are stored before they are used
    /// (OA-F-03), but not for other programs.
    async fn act(&mut self, action: Action) {
        match action {
            Action::Fetch { fetch: key, request, reach, limit, timeout } => {
                let fetcher = Arc::clone(&self.fetcher);
                // The earlier request ends first.
                self.fetching = None;
                self.fetching =
                    Some(Box::pin(async move { (key, fetcher.fetch(request, reach, limit, timeout).await) }));
            }
            Action::Lock(lock) => self.try_lock(lock).await,
            Action::Unlock(lock) => {
                if self.awaited == Some(lock) {
                    self.awaited = None;
                } else {
                    let unlocked = self.with_store(move |store, key| {
                        store.unlock(key, lock);
                        Ok(())
                    });
                    if let Err(error) = unlocked.await {
                        tracing::warn!("cannot unlock the stored tokens: {error}");
                    }
                }
            }
            Action::Load => {
                let stored = self.with_store(Store::load).await.unwrap_or_else(|error| {
                    tracing::warn!("cannot read the stored tokens: {error}");
                    None
                });
                self.authorizer.handle_loaded(stored.as_deref(), now());
            }
            Action::Store(record) => {
                let stored = self.with_store(move |store, key| store.store(key, record.reveal().as_bytes()));
                if let Err(error) = stored.await {
                    tracing::warn!("cannot store the tokens, which are lost when this program ends: {error}");
                }
            }
            Action::Listen { port } => {
                let opened = Listener::open(port).await;
                self.listener = opened.inspect_err(|error| tracing::debug!("cannot listen: {error}")).ok();
                let port = self.listener.as_ref().and_then(|listener| listener.port().ok());
                self.authorizer.handle_listening(port, now());
            }
            Action::Unlisten => self.listener = None,
            Action::OpenBrowser { url } => {
                let open_url = Arc::clone(&self.open_url);
                spawn_blocking(move || open_url.lock().unwrap_or_else(PoisonError::into_inner)(&url));
            }
            Action::ObtainToken => {
                let obtain = self.obtain_token.clone();
                self.calling = Some(Box::pin(async move {
                    let token = call(obtain, "the program that issues the token", |obtain| obtain()).await;
                    Called::Obtained(token.map(Secret::new))
                }));
            }
            Action::CreateKey => self.authorizer.handle_key(signing::create_proof_key(), now()),
            Action::Sign { sign, key: KeyUse::Proof(key), message } => {
                let signature = signing::sign_with_proof_key(&key, &message);
                self.authorizer.handle_signed(sign, signature.as_deref(), now());
            }
            Action::Sign { sign: key, key: KeyUse::Client(_), message } => {
                let sign = self.sign.clone();
                self.calling = Some(Box::pin(async move {
                    Called::Signed(key, call(sign, "the key of the client", move |sign| sign(&message)).await)
                }));
            }
            Action::Erase => {
                if let Err(error) = self.with_store(Store::erase).await {
                    tracing::warn!("cannot erase the stored tokens: {error}");
                }
            }
            other @ (Action::Sign { .. } | _) => {
                tracing::error!("this version cannot carry out {other:?}");
            }
        }
    }

    fn on_fetched(&mut self, (key, outcome): Fetched) {
        self.fetching = None;
        match outcome {
            Ok(response) => {
                let (head, body) = response.into_parts();
                self.authorizer.handle_response(key, &head, &body, now());
            }
            Err(reason) => self.authorizer.handle_failure(key, reason, now()),
        }
    }

    fn on_called(&mut self, called: Called) {
        self.calling = None;
        match called {
            Called::Obtained(token) => {
                self.authorizer.handle_obtained(token.as_ref().map(Secret::reveal), now());
            }
            Called::Signed(sign, signature) => self.authorizer.handle_signed(sign, signature.as_deref(), now()),
        }
    }

    async fn try_lock(&mut self, lock: Lock) {
        let is_taken = self.with_store(move |store, key| store.try_lock(key, lock)).await.unwrap_or_else(|error| {
            // Without locks, each process signs in by itself.
            tracing::warn!("cannot lock the stored tokens: {error}");
            true
        });
        self.awaited = (!is_taken).then_some(lock);
        if is_taken {
            self.authorizer.handle_locked(lock, now());
        }
    }

    /// Calls the store on a thread that may be blocked.
    async fn with_store<R: Send + 'static>(
        &mut self,
        call: impl FnOnce(&mut dyn Store, &str) -> io::Result<R> + Send + 'static,
    ) -> io::Result<R> {
        let (store, key) = (Arc::clone(&self.store), Arc::clone(&self.key));
        let called = spawn_blocking(move || call(&mut **store.lock().unwrap_or_else(PoisonError::into_inner), &key));
        called.await.unwrap_or_else(|_| Err(io::Error::other("the store panicked")))
    }

    async fn close(mut self) {
        // A refresh token can be used once: the tokens of a response that is still coming are stored (OA-F-03).
        if let Some(fetching) = self.fetching.take() {
            let fetched = fetching.await;
            self.on_fetched(fetched);
            self.finish().await;
        }
        self.authorizer.close(now());
        self.finish().await;
    }

    /// Carries out what concerns the store and the port, and begins nothing new.
    async fn finish(&mut self) {
        while let Some(output) = self.authorizer.poll_output() {
            match output {
                Output::Action(
                    Action::Fetch { .. }
                    | Action::Listen { .. }
                    | Action::OpenBrowser { .. }
                    | Action::ObtainToken
                    | Action::Sign { .. },
                )
                | Output::Event(_) => {}
                Output::Action(action) => self.act(action).await,
            }
        }
    }
}

async fn done<T>(pending: &mut Pending<T>) -> T {
    match pending {
        Some(pending) => pending.as_mut().await,
        None => std::future::pending().await,
    }
}

/// Calls a function of the application on a thread that may be blocked; `None` if there is none, or if it failed.
async fn call<F, R>(
    function: Option<Arc<Mutex<F>>>,
    what: &'static str,
    call: impl FnOnce(&mut F) -> io::Result<R> + Send + 'static,
) -> Option<R>
where
    F: Send + 'static,
    R: Send + 'static,
{
    let function = function?;
    let called = spawn_blocking(move || call(&mut function.lock().unwrap_or_else(PoisonError::into_inner)));
    let outcome = called.await.unwrap_or_else(|_| Err(io::Error::other("it panicked")));
    outcome.inspect_err(|error| tracing::warn!("{what} failed: {error}")).ok()
}

async fn callback(listener: &mut Option<Listener>) -> Callback {
    match listener {
        Some(listener) => listener.callback().await,
        None => std::future::pending().await,
    }
}
