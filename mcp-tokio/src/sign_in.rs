//! Signing in: how a client is configured for it, and the handles of a sign-in that runs.

mod driver;
mod listener;

use std::sync::Arc;
use std::{fmt, io};

use driver::Report;
use mcp_auth::{Cause, Config, Event, SignInOutcome};
use mcp_proto::auth::Challenged;
use mcp_proto::machine::HandleAuthorization;
use tokio::runtime::Handle;
use tokio::sync::{mpsc, oneshot};

pub use mcp_token_store::{FileStore, MemoryStore, Store};

use crate::authorize::Authorize;
use crate::clock::now;
use crate::http_client::{HttpClientError, HttpOptions};

pub use crate::signing::PrivateKey;

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
    /// as [`Grant`](mcp_auth::Grant) demands. The function is called on one of the runtime's threads for blocking
    /// functions, for each new token, and must return within [`Config::request_timeout`].
    #[must_use]
    pub fn obtain_token(mut self, obtain: impl FnMut() -> io::Result<String> + Send + 'static) -> Self {
        self.obtain_token = Some(Box::new(obtain));
        self
    }

    /// Sets the key with which the client authenticates, if its identity says so
    /// ([`ClientIdentity::with_key`](mcp_auth::ClientIdentity::with_key)).
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
        driver::spawn(self, &runtime, options, Report::Function(Box::new(report)))
            .map(|inbox| SignIn { inbox })
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
        let report = Report::Client { outcomes: report, server: name };
        let inbox = driver::spawn(self, &Handle::current(), options, report)?;
        Ok(ClientSignIn { sign_in: SignIn { inbox }, outcomes })
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
    /// A token is needed, as for [`Authorizer::begin`](mcp_auth::Authorizer::begin).
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
        // The sender would keep the sign-in running.
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
    outcomes: mpsc::Receiver<SignInOutcome>,
}

impl<M: HandleAuthorization> Authorize<M> for ClientSignIn {
    type Outcome = SignInOutcome;

    fn start(&self) -> bool {
        self.sign_in.begin(Cause::Start);
        true
    }

    fn challenged(&self, challenged: Challenged) {
        self.sign_in.begin(challenged.into());
    }

    async fn outcome(&mut self) -> SignInOutcome {
        match self.outcomes.recv().await {
            Some(outcome) => outcome,
            None => std::future::pending().await,
        }
    }

    fn apply(&mut self, machine: &mut M, outcome: SignInOutcome) -> bool {
        let ends_sign_in = outcome.ends_sign_in();
        outcome.pass_to(machine, now());
        ends_sign_in
    }
}
