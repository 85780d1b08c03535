//! Signing in: the thread that drives the machine of `mcp_proto::auth`.

mod listener;
mod signing;

use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::sync::{Arc, Weak};
use std::time::Duration;
use std::{fmt, io, thread};

use mcp_proto::Output;
use mcp_proto::auth::{Action, Authorizer, Cause, Config, Event, KeyUse, Lock, Seed};

use self::listener::Listener;
use crate::clock::{now, unix_time};
use crate::http_client::{HttpOptions, fetch};

pub(crate) use signing::proof_header;

pub use signing::PrivateKey;

pub use mcp_token_store::{FileStore, MemoryStore, Store};

/// How often a lock that is taken is tried again, and the open port is looked at.
const PAUSE: Duration = Duration::from_millis(50);

/// The inputs that may wait for the thread.
const INBOX: usize = 64;

/// Shows a URL to a person, in a browser or elsewhere.
type OpenUrl = Box<dyn FnMut(&str) + Send>;

/// Gets a token that another program issues.
type ObtainToken = Box<dyn FnMut() -> io::Result<String> + Send>;

/// Signs messages with the key of the client.
type Sign = Box<dyn FnMut(&[u8]) -> io::Result<Vec<u8>> + Send>;

/// Receives what a sign-in reports.
type Observe = Box<dyn FnMut(&Event) + Send>;

/// How a client signs in: what it needs to know, where it keeps tokens, and how it asks a person.
pub struct Authorization {
    config: Config,
    store: Box<dyn Store>,
    open_url: OpenUrl,
    obtain_token: Option<ObtainToken>,
    sign: Option<Sign>,
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
        let config = Config::new(server, client_name)?;
        let open_url = |url: &str| log::warn!("open this URL in a browser to sign in: {url}");
        let (inbox, inputs) = sync_channel(INBOX);
        Ok(Self {
            config,
            store: Box::new(MemoryStore::new()),
            open_url: Box::new(open_url),
            obtain_token: None,
            sign: None,
            observe: Box::new(|_| {}),
            inbox: Arc::new(inbox),
            inputs,
        })
    }

    /// Sets where tokens are kept.
    #[must_use]
    pub fn store(mut self, store: impl Store) -> Self {
        self.store = Box::new(store);
        self
    }

    /// Sets how a URL is opened in the person's browser. The function is called on the thread that serves the redirect,
    /// so it must not wait for the sign-in; it must not pass the URL to a shell.
    #[must_use]
    pub fn open_url(mut self, open_url: impl FnMut(&str) + Send + 'static) -> Self {
        self.open_url = Box::new(open_url);
        self
    }

    /// Sets where tokens come from that another program issues: the platform's assertion, an ID token or an access token,
    /// as [`Grant`](mcp_proto::auth::Grant) demands. The function is called on the thread of the sign-in, for each new
    /// token, and must return within [`Config::request_timeout`].
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

    /// Like [`Authorization::private_key`], for a key that is kept elsewhere. The signature has the form of RFC 7518.
    #[must_use]
    pub fn sign_with(mut self, sign: impl FnMut(&[u8]) -> io::Result<Vec<u8>> + Send + 'static) -> Self {
        self.sign = Some(Box::new(sign));
        self
    }

    /// Sets a function that receives each event of the sign-in before the client does, on the thread that drives it.
    #[must_use]
    pub fn observe(mut self, observe: impl FnMut(&Event) + Send + 'static) -> Self {
        self.observe = Box::new(observe);
        self
    }

    /// Changes the configuration of the machine, for settings without a method of their own.
    #[must_use]
    pub fn configure(mut self, change: impl FnOnce(&mut Config)) -> Self {
        change(&mut self.config);
        self
    }

    /// Passes URLs to this function first; those for which it returns `false` are opened as before.
    pub(crate) fn divert_urls(mut self, mut divert: impl FnMut(&str) -> bool + Send + 'static) -> Self {
        let mut open_url = self.open_url;
        self.open_url = Box::new(move |url| {
            if !divert(url) {
                open_url(url);
            }
        });
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
        Redirects(Arc::downgrade(&self.inbox))
    }

    /// Starts a sign-in without a client, for a program that obtains or imports tokens for later. `report` receives its
    /// events, on the thread that drives it.
    ///
    /// # Errors
    ///
    /// The thread could not be started.
    pub fn start(self, options: HttpOptions, report: impl FnMut(Event) + Send + 'static) -> io::Result<SignIn> {
        let Self { config, store, open_url, obtain_token, sign, observe, inbox, inputs } = self;
        let driver = Driver {
            key: config.store_key(),
            authorizer: Authorizer::new(config),
            options,
            store,
            open_url,
            obtain_token,
            sign,
            observe,
            report: Box::new(report),
            listener: None,
            awaited: None,
        };
        thread::Builder::new().name("mcp-sign-in".to_owned()).spawn(move || driver.run(&inputs))?;
        Ok(SignIn { inbox })
    }
}

impl fmt::Debug for Authorization {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Authorization").field("config", &self.config).finish_non_exhaustive()
    }
}

/// A running sign-in: a thread with a machine. Dropping it gives up a flow that runs.
pub struct SignIn {
    inbox: Arc<SyncSender<Input>>,
}

impl fmt::Debug for SignIn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SignIn").finish_non_exhaustive()
    }
}

/// Passes in URLs to which a person was redirected, from [`Authorization::redirects`].
#[derive(Clone)]
pub struct Redirects(Weak<SyncSender<Input>>);

impl Redirects {
    /// Passes in a URL, as it stands in the address bar of the browser. Returns whether it belongs to a sign-in that is in
    /// progress; any other text has no effect (OA-Q-03). Before the sign-in is started, this waits.
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
    #[must_use]
    pub fn pass(&self, url: &str) -> bool {
        let (belongs, answer) = sync_channel(1);
        let Some(inbox) = self.0.upgrade() else { return false };
        let is_sent = inbox.send(Input::Redirected(url.to_owned(), belongs)).is_ok();
        drop(inbox);
        is_sent && answer.recv().unwrap_or(false)
    }
}

impl fmt::Debug for Redirects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Redirects").finish_non_exhaustive()
    }
}

/// An input of the thread.
enum Input {
    Begin(Cause),
    Redirected(String, SyncSender<bool>),
}

impl SignIn {
    /// A token is needed, as for [`Authorizer::begin`].
    pub fn begin(&self, cause: Cause) {
        // A full queue means that the thread has enough causes already.
        let _ = self.inbox.try_send(Input::Begin(cause));
    }
}

struct Driver {
    key: String,
    authorizer: Authorizer,
    options: HttpOptions,
    store: Box<dyn Store>,
    open_url: OpenUrl,
    obtain_token: Option<ObtainToken>,
    sign: Option<Sign>,
    observe: Observe,
    report: Box<dyn FnMut(Event) + Send>,
    listener: Option<Listener>,
    /// The lock that another process has.
    awaited: Option<Lock>,
}

impl Driver {
    fn run(mut self, inputs: &Receiver<Input>) {
        loop {
            while let Some(output) = self.authorizer.poll_output() {
                match output {
                    Output::Action(action) => self.act(action),
                    Output::Event(event) => {
                        (self.observe)(&event);
                        (self.report)(event);
                    }
                }
            }
            let due = self.authorizer.poll_timeout().map(|due| due.saturating_duration_since(now()));
            let is_polling = self.awaited.is_some() || self.listener.is_some();
            let wait = due.unwrap_or(Duration::from_secs(3600)).min(if is_polling { PAUSE } else { Duration::MAX });
            match inputs.recv_timeout(wait) {
                Ok(Input::Begin(cause)) => self.begin(cause),
                Ok(Input::Redirected(url, belongs)) => {
                    let _ = belongs.send(self.authorizer.handle_redirect(&url, now()));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
            if let Some(lock) = self.awaited {
                self.try_lock(lock);
            }
            if let Some(listener) = &self.listener {
                listener.serve(|head| self.authorizer.handle_callback(head, now()));
            }
            self.authorizer.handle_timeout(now());
        }
    }

    fn begin(&mut self, cause: Cause) {
        let mut seed = [0; 32];
        if let Err(error) = getrandom::fill(&mut seed) {
            log::error!("cannot sign in: the operating system gives no random bytes: {error}");
            return;
        }
        self.authorizer.begin(cause, Seed::new(seed), unix_time(), now());
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Fetch { fetch: key, request, reach, limit, timeout } => {
                match fetch::fetch(&self.options, request, reach, limit, timeout) {
                    Ok(response) => {
                        let (head, body) = response.into_parts();
                        self.authorizer.handle_response(key, &head, &body, now());
                    }
                    Err(reason) => self.authorizer.handle_failure(key, reason, now()),
                }
            }
            Action::Lock(lock) => self.try_lock(lock),
            Action::Unlock(lock) => {
                if self.awaited == Some(lock) {
                    self.awaited = None;
                } else {
                    self.store.unlock(&self.key, lock);
                }
            }
            Action::Load => {
                let stored = self.store.load(&self.key).unwrap_or_else(|error| {
                    log::warn!("cannot read the stored tokens: {error}");
                    None
                });
                self.authorizer.handle_loaded(stored.as_deref(), now());
            }
            Action::Store(record) => {
                if let Err(error) = self.store.store(&self.key, record.reveal().as_bytes()) {
                    log::warn!("cannot store the tokens, which are lost when this program ends: {error}");
                }
            }
            Action::Erase => {
                if let Err(error) = self.store.erase(&self.key) {
                    log::warn!("cannot remove the stored tokens: {error}");
                }
            }
            Action::Listen { port } => {
                self.listener = Listener::open(port).inspect_err(|error| log::debug!("cannot listen: {error}")).ok();
                let port = self.listener.as_ref().and_then(|listener| listener.port().ok());
                self.authorizer.handle_listening(port, now());
            }
            Action::Unlisten => self.listener = None,
            Action::OpenBrowser { url } => (self.open_url)(&url),
            Action::ObtainToken => {
                let token = self.obtain_token.as_mut().map(|obtain| obtain());
                let token = token.and_then(|token| {
                    token.inspect_err(|error| log::warn!("the program that issues the token failed: {error}")).ok()
                });
                self.authorizer.handle_obtained(token.as_deref(), now());
            }
            Action::CreateKey => self.authorizer.handle_key(signing::create_proof_key(), now()),
            Action::Sign { sign, key, message } => {
                let signature = match key {
                    KeyUse::Proof(key) => signing::sign_with_proof_key(&key, &message),
                    KeyUse::Client(_) => self.sign.as_mut().and_then(|sign| {
                        sign(&message).inspect_err(|error| log::warn!("the key of the client failed: {error}")).ok()
                    }),
                    _ => None,
                };
                self.authorizer.handle_signed(sign, signature.as_deref(), now());
            }
            other => log::error!("this version cannot carry out {other:?}"),
        }
    }

    fn try_lock(&mut self, lock: Lock) {
        let is_taken = self.store.try_lock(&self.key, lock).unwrap_or_else(|error| {
            // Without locks, each process signs in by itself.
            log::warn!("cannot lock the stored tokens: {error}");
            true
        });
        self.awaited = (!is_taken).then_some(lock);
        if is_taken {
            self.authorizer.handle_locked(lock, now());
        }
    }

    fn close(mut self) {
        self.authorizer.close(now());
        while let Some(output) = self.authorizer.poll_output() {
            if let Output::Action(action @ (Action::Unlock(_) | Action::Unlisten)) = output {
                self.act(action);
            }
        }
    }
}
