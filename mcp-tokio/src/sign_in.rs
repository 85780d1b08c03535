//! Signing in: how a client is configured for it, and the handles of a sign-in that runs.

mod driver;
mod listener;

use std::sync::Arc;

use driver::Report;
use mcp_auth::{Cause, Event, Settings, SignInInput, SignInOutcome};
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

/// How a client signs in: what it needs to know, where it keeps tokens, and how it asks a person.
pub struct Authorization {
    settings: Settings<dyn Store>,
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
        let store: Box<dyn Store> = Box::new(MemoryStore::new());
        let open_url = |url: &str| tracing::warn!("open this URL in a browser to sign in: {url}");
        let (inbox, inputs) = mpsc::channel(INBOX);
        Ok(Self { settings: Settings::new(server, client_name, store, open_url)?, options: None, inbox, inputs })
    }

    mcp_auth::authorization_methods! {
        store: "The store is called on the runtime's threads for blocking functions.",
        open_url: "on one of the runtime's threads for blocking functions",
        obtain_token: "on one of the runtime's threads for blocking functions",
        sign_with: "The function is called on one of the runtime's threads for blocking functions.",
    }

    /// Sets the options of the HTTP client for requests to authorization servers. Default: those for the server, without
    /// [`HttpOptions::client`].
    ///
    /// Its name resolution is replaced by one that leaves out addresses that must not be reached. The addresses of HTTP
    /// proxies are not checked.
    ///
    /// Rules: OA-N-02.
    #[must_use]
    pub fn http_options(mut self, options: HttpOptions) -> Self {
        self.options = Some(options);
        self
    }

    /// Returns a handle that passes in the URL to which a person was redirected, for people whose browser is on another
    /// machine.
    ///
    /// Rules: OA-B-04.
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

mcp_application::opaque_debug!(Authorization, authorization => config: authorization.config());

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

mcp_application::opaque_debug!(SignIn);

/// Passes in URLs to which a person was redirected, from [`Authorization::redirects`].
#[derive(Clone)]
pub struct Redirects(mpsc::WeakSender<Input>);

impl Redirects {
    /// Passes in a URL, as it stands in the address bar of the browser. Returns whether it belongs to a sign-in that is in
    /// progress; any other text has no effect. Before the sign-in is started, this waits.
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
    ///
    /// Rules: OA-Q-03.
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

mcp_application::opaque_debug!(Redirects);

/// An input of the task.
type Input = SignInInput<oneshot::Sender<bool>>;

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
