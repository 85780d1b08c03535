//! Signing in: how a client is configured for it, and the handles of a sign-in that runs.

mod driver;
mod listener;

use std::io;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::sync::{Arc, Weak};

use mcp_auth::{Cause, Event, Settings, SignInInput};

pub use mcp_token_store::{FileStore, MemoryStore, Store};

use crate::http_client::HttpOptions;

pub use crate::signing::PrivateKey;

/// The inputs that may wait for the thread.
const INBOX: usize = 64;

/// Receives what a sign-in reports.
type Observe = Box<dyn FnMut(&Event) + Send>;

/// How a client signs in: what it needs to know, where it keeps tokens, and how it asks a person.
pub struct Authorization {
    settings: Settings<dyn Store>,
    observe: Observe,
    inbox: Arc<SyncSender<Input>>,
    inputs: Receiver<Input>,
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
        let open_url = |url: &str| log::warn!("open this URL in a browser to sign in: {url}");
        let (inbox, inputs) = sync_channel(INBOX);
        Ok(Self {
            settings: Settings::new(server, client_name, store, open_url)?,
            observe: Box::new(|_| {}),
            inbox: Arc::new(inbox),
            inputs,
        })
    }

    mcp_auth::authorization_methods! {
        store: "",
        open_url: "on the thread that serves the redirect, so it must not wait for the sign-in",
        obtain_token: "on the thread of the sign-in",
        sign_with: "",
    }

    /// Sets a function that receives each event of the sign-in before the client does, on the thread that drives it.
    #[must_use]
    pub fn observe(mut self, observe: impl FnMut(&Event) + Send + 'static) -> Self {
        self.observe = Box::new(observe);
        self
    }

    /// Passes URLs to this function first; those for which it returns `false` are opened as before.
    pub(crate) fn divert_urls(mut self, mut divert: impl FnMut(&str) -> bool + Send + 'static) -> Self {
        let mut open_url = self.settings.open_url;
        self.settings.open_url = Box::new(move |url| {
            if !divert(url) {
                open_url(url);
            }
        });
        self
    }

    /// Returns a handle that passes in the URL to which a person was redirected, for people whose browser is on another
    /// machine.
    ///
    /// Rules: OA-B-04.
    #[must_use]
    pub fn redirects(&self) -> Redirects {
        Redirects(Arc::downgrade(&self.inbox))
    }

    /// Starts a sign-in without a client, for a program that obtains or imports tokens for later. `report` receives its
    /// events, on the thread that drives it.
    ///
    /// # Errors
    ///
    /// The thread could not be started.
    pub fn start(self, options: HttpOptions, report: impl FnMut(Event) + Send + 'static) -> io::Result<SignIn> {
        self.start_with(move || options.clone(), report)
    }

    /// As [`Authorization::start`], with the options that each request finds.
    pub(crate) fn start_with(
        self,
        options: impl Fn() -> HttpOptions + Send + 'static,
        report: impl FnMut(Event) + Send + 'static,
    ) -> io::Result<SignIn> {
        driver::spawn(self, Box::new(options), Box::new(report)).map(|inbox| SignIn { inbox })
    }
}

mcp_application::opaque_debug!(Authorization, authorization => config: authorization.config());

/// A running sign-in: a thread with a machine. Dropping it gives up a flow that runs.
pub struct SignIn {
    inbox: Arc<SyncSender<Input>>,
}

mcp_application::opaque_debug!(SignIn);

/// Passes in URLs to which a person was redirected, from [`Authorization::redirects`].
#[derive(Clone)]
pub struct Redirects(Weak<SyncSender<Input>>);

impl Redirects {
    /// Passes in a URL, as it stands in the address bar of the browser. Returns whether it belongs to a sign-in that is in
    /// progress; any other text has no effect. Before the sign-in is started, this waits.
    ///
    /// # Example
    ///
    /// ```
    /// use mcp_blocking::sign_in::Authorization;
    ///
    /// let redirects = Authorization::new("https://example.com/mcp", "my-app")?.redirects();
    /// assert!(!redirects.pass("http://127.0.0.1:4000/callback?code=c&state=s"), "there is no sign-in");
    /// # Ok::<(), mcp_blocking::Error>(())
    /// ```
    ///
    /// Rules: OA-Q-03.
    #[must_use]
    pub fn pass(&self, url: &str) -> bool {
        let (belongs, answer) = sync_channel(1);
        let Some(inbox) = self.0.upgrade() else { return false };
        let is_sent = inbox.send(Input::Redirected(url.to_owned(), belongs)).is_ok();
        drop(inbox);
        is_sent && answer.recv().unwrap_or(false)
    }
}

mcp_application::opaque_debug!(Redirects);

/// An input of the thread.
type Input = SignInInput<SyncSender<bool>>;

impl SignIn {
    /// A token is needed, as for [`Authorizer::begin`](mcp_auth::Authorizer::begin).
    pub fn begin(&self, cause: Cause) {
        // A full queue means that the thread has enough causes already.
        let _ = self.inbox.try_send(Input::Begin(cause));
    }
}
