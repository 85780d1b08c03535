//! The task that drives the machine of a sign-in.

use std::io;
use std::pin::Pin;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::Response;
use mcp_auth::{
    Action, Authorizer, AwaitedLock, Cause, Cryptography as _, Event, FetchFailure, FetchKey, KeyUse, Lock,
    ObtainToken, OpenUrl, Seed, Settings, Sign, SignInOutcome, SignInReport, SignKey,
};
use mcp_proto::auth::Secret;
use mcp_proto::{Output, Severity};
use tokio::runtime::Handle;
use tokio::sync::mpsc;
use tokio::task::spawn_blocking;
use tokio::time::sleep;
use tracing::Instrument;

use super::listener::{Callback, Listener};
use super::{Authorization, Input, Store};
use crate::clock::{Alarm, now, unix_time};
use crate::http_client::fetch::Fetcher;
use crate::http_client::{HttpClientError, HttpOptions};
use crate::signing::AwsLc;

/// How often a lock that is taken is tried again.
const PAUSE: Duration = Duration::from_millis(50);

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
    awaited: AwaitedLock,
}

/// Where events go.
pub(super) enum Report {
    Function(Box<dyn FnMut(Event) + Send>),
    /// To the log, and to the task of the client what a sign-in has led to.
    Client {
        outcomes: mpsc::Sender<SignInOutcome>,
        server: Arc<str>,
    },
}

impl Report {
    async fn event(&mut self, event: Event) {
        let (outcomes, server) = match self {
            Self::Function(report) => return report(event),
            Self::Client { outcomes, server } => (outcomes, server),
        };
        let SignInReport { outcome, log, .. } = SignInReport::new(event, server);
        match log {
            Some((Severity::Warning, text)) => tracing::warn!("{text}"),
            Some((Severity::Info, text)) => tracing::info!("{text}"),
            Some((Severity::Debug, text)) => tracing::debug!("{text}"),
            None => {}
        }
        let Some(outcome) = outcome else { return };
        // The client may have ended.
        let _ = outcomes.send(outcome).await;
    }
}

/// Starts the task, and returns where its inputs are sent.
pub(super) fn spawn(
    authorization: Authorization,
    runtime: &Handle,
    options: HttpOptions,
    report: Report,
) -> Result<mpsc::Sender<Input>, HttpClientError> {
    let Authorization { settings, options: _, inbox, inputs } = authorization;
    let Settings { config, store, open_url, obtain_token, sign, .. } = settings;
    let driver = Driver {
        key: config.store_key().into(),
        authorizer: Authorizer::new(config),
        fetcher: Arc::new(Fetcher::new(options)?),
        fetching: None,
        store: Arc::new(Mutex::new(store)),
        open_url: Arc::new(Mutex::new(open_url)),
        obtain_token: obtain_token.map(|obtain| Arc::new(Mutex::new(obtain))),
        sign: sign.map(|sign| Arc::new(Mutex::new(sign))),
        calling: None,
        report,
        listener: None,
        awaited: AwaitedLock::default(),
    };
    runtime.spawn(driver.run(inputs).in_current_span());
    Ok(inbox)
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
                () = sleep(PAUSE), if self.awaited.lock().is_some() => if let Some(lock) = self.awaited.lock() {
                    self.try_lock(lock).await;
                },
                () = alarm.wait(due) => {}
            }
            self.authorizer.handle_timeout(now());
        }
    }

    fn begin(&mut self, cause: Cause) {
        let seed = AwsLc::random().inspect_err(|error| {
            tracing::error!("cannot sign in: the operating system gives no random bytes: {error}");
        });
        let Ok(seed) = seed else { return };
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
                if self.awaited.unlock(lock) {
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
            Action::Listen { host, port } => {
                let opened = Listener::open(host, port);
                self.listener = opened.inspect_err(|error| tracing::debug!("cannot listen: {error}")).ok();
                let port = self.listener.as_ref().map(Listener::port);
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
            Action::CreateKey => self.authorizer.handle_key(AwsLc::create_proof_key(), now()),
            Action::Sign { sign, key: KeyUse::Proof(key), message } => {
                let signature = AwsLc::sign_with_proof_key(&key, &message);
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
        self.authorizer.handle_fetched(key, outcome, now());
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
        if self.awaited.tried(lock, is_taken) {
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
