//! The thread that drives the machine of a sign-in.

use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;
use std::{io, thread};

use mcp_auth::{Action, Authorizer, AwaitedLock, Cause, Cryptography as _, Event, KeyUse, Lock, Seed, Settings};
use mcp_proto::Output;

use super::listener::Listener;
use super::{Authorization, Input, Observe, Store};
use crate::clock::{now, unix_time};
use crate::http_client::{HttpOptions, fetch};
use crate::signing::Ring;

/// How often a lock that is taken is tried again, and the open port is looked at.
const PAUSE: Duration = Duration::from_millis(50);

struct Driver {
    key: String,
    authorizer: Authorizer,
    settings: Settings<dyn Store>,
    options: Box<dyn Fn() -> HttpOptions + Send>,
    observe: Observe,
    report: Box<dyn FnMut(Event) + Send>,
    listener: Option<Listener>,
    /// The lock that another process has.
    awaited: AwaitedLock,
}

/// Starts the thread, and returns where its inputs are sent.
pub(super) fn spawn(
    authorization: Authorization,
    options: Box<dyn Fn() -> HttpOptions + Send>,
    report: Box<dyn FnMut(Event) + Send>,
) -> io::Result<Arc<SyncSender<Input>>> {
    let Authorization { settings, observe, inbox, inputs } = authorization;
    let key = settings.config.store_key();
    let authorizer = Authorizer::new(settings.config.clone());
    let driver =
        Driver { key, authorizer, settings, options, observe, report, listener: None, awaited: AwaitedLock::default() };
    thread::Builder::new().name("mcp-sign-in".to_owned()).spawn(move || driver.run(&inputs))?;
    Ok(inbox)
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
            let is_polling = self.awaited.lock().is_some() || self.listener.is_some();
            let wait = due.unwrap_or(Duration::from_secs(3600)).min(if is_polling { PAUSE } else { Duration::MAX });
            match inputs.recv_timeout(wait) {
                Ok(Input::Begin(cause)) => self.begin(cause),
                Ok(Input::Redirected(url, belongs)) => {
                    let _ = belongs.send(self.authorizer.handle_redirect(&url, now()));
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return self.close(),
            }
            if let Some(lock) = self.awaited.lock() {
                self.try_lock(lock);
            }
            if let Some(listener) = &mut self.listener {
                listener.serve(|head| self.authorizer.handle_callback(head, now()));
            }
            self.authorizer.handle_timeout(now());
        }
    }

    fn begin(&mut self, cause: Cause) {
        let seed = Ring::random().inspect_err(|error| {
            log::error!("cannot sign in: the operating system gives no random bytes: {error}");
        });
        let Ok(seed) = seed else { return };
        self.authorizer.begin(cause, Seed::new(seed), unix_time(), now());
    }

    fn act(&mut self, action: Action) {
        match action {
            Action::Fetch { fetch: key, request, reach, limit, timeout } => {
                let outcome = fetch::fetch(&(self.options)(), request, reach, limit, timeout);
                self.authorizer.handle_fetched(key, outcome, now());
            }
            Action::Lock(lock) => self.try_lock(lock),
            Action::Unlock(lock) => {
                if self.awaited.unlock(lock) {
                    self.settings.store.unlock(&self.key, lock);
                }
            }
            Action::Load => {
                let stored = self.settings.store.load(&self.key).unwrap_or_else(|error| {
                    log::warn!("cannot read the stored tokens: {error}");
                    None
                });
                self.authorizer.handle_loaded(stored.as_deref(), now());
            }
            Action::Store(record) => {
                if let Err(error) = self.settings.store.store(&self.key, record.reveal().as_bytes()) {
                    log::warn!("cannot store the tokens, which are lost when this program ends: {error}");
                }
            }
            Action::Erase => {
                if let Err(error) = self.settings.store.erase(&self.key) {
                    log::warn!("cannot remove the stored tokens: {error}");
                }
            }
            Action::Listen { host, port } => {
                self.listener =
                    Listener::open(host, port).inspect_err(|error| log::debug!("cannot listen: {error}")).ok();
                let port = self.listener.as_ref().map(Listener::port);
                self.authorizer.handle_listening(port, now());
            }
            Action::Unlisten => self.listener = None,
            Action::OpenBrowser { url } => (self.settings.open_url)(&url),
            Action::ObtainToken => {
                let token = self.settings.obtain_token.as_mut().map(|obtain| obtain());
                let token = token.and_then(|token| {
                    token.inspect_err(|error| log::warn!("the program that issues the token failed: {error}")).ok()
                });
                self.authorizer.handle_obtained(token.as_deref(), now());
            }
            Action::CreateKey => self.authorizer.handle_key(Ring::create_proof_key(), now()),
            Action::Sign { sign, key, message } => {
                let signature = match key {
                    KeyUse::Proof(key) => Ring::sign_with_proof_key(&key, &message),
                    KeyUse::Client(_) => self.settings.sign.as_mut().and_then(|sign| {
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
        let is_taken = self.settings.store.try_lock(&self.key, lock).unwrap_or_else(|error| {
            // Without locks, each process signs in by itself.
            log::warn!("cannot lock the stored tokens: {error}");
            true
        });
        if self.awaited.tried(lock, is_taken) {
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
