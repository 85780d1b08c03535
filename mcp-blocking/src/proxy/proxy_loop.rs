//! The loop that connects the two sides of a proxy.
//!
//! No thread owns the relay. The thread that has read something passes it to the relay itself, under a lock, and
//! carries out the resulting actions, none of which waits for a peer: waking another thread would take longer than all
//! the work of the relay. If another thread holds the lock, the input is queued for that thread. One more thread
//! handles timeouts.

#[cfg(test)]
#[cfg(unix)]
mod tests;

use std::fmt;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

use mcp_application::{PROXY_FLUSH_TIMEOUT, STORED_TOKEN_TIMEOUT, URGENT_PROXY_FLUSH_TIMEOUT, not_read};
use mcp_auth::{Cause, SignInOutcome, SignInReport};
use mcp_intermediary::relay::{Action, Relay};
use mcp_intermediary::{ObservedOutput, Observer, poll_observed};
use mcp_proto::auth::Challenged;
use mcp_proto::client::{ClientTransport, CloseReason};
use mcp_proto::{Instant, StdioAction};

use super::input_lock::InputLock;
use crate::backpressure::Backpressure;
use crate::child::INBOX;
use crate::clock;
use crate::http_client::HttpSettings;
use crate::inbox::Inbox;
use crate::link::{Feed, Link};
use crate::log_level::level_of;
use crate::sign_in::{Authorization, SignIn};
use crate::stdio::{Happened, Output, Writer, spawn_reader};

/// How often timeouts are checked while there is input, so that not every new deadline has to wake the thread that
/// handles timeouts.
const TICK: Duration = Duration::from_millis(20);

/// How a relay is authorized.
pub(super) struct Authorizing<T: ClientTransport> {
    pub(super) authorization: Authorization,
    pub(super) settings: HttpSettings,
    /// The server, for the log.
    pub(super) server: String,
    /// Passes the outcome of a sign-in to the relay.
    pub(super) authorize: Authorize<T>,
}

type Authorize<T> = fn(&mut Relay<T>, SignInOutcome, Instant);

/// A sign-in that is running, and where its outcomes go.
struct Authorized<T: ClientTransport> {
    sign_in: SignIn,
    server: String,
    authorize: Authorize<T>,
    /// Until when the client's first message waits for a stored token.
    holds_client_until: Option<Instant>,
    /// Whether the client opens URLs.
    client_opens_urls: Arc<AtomicBool>,
}

/// A relay that is running or will be run.
pub(super) struct ProxyLoop<T: ClientTransport, L: Link> {
    shared: Arc<Shared<T, L>>,
    alarms: Receiver<()>,
}

/// What the threads of a proxy share.
struct Shared<T: ClientTransport, L: Link> {
    lock: InputLock<State<T, L>, Input<L::Received>>,
    /// Wakes the thread that handles timeouts.
    alarm: SyncSender<()>,
    is_stopped: AtomicBool,
}

enum State<T: ClientTransport, L: Link> {
    /// Input is discarded.
    NotRunning,
    Running(Box<Running<T, L>>),
    /// The relay is closed, and input no longer matters.
    Ending,
}

/// A relay, its link to the server and the streams of its client.
struct Running<T: ClientTransport, L: Link> {
    relay: Relay<T>,
    link: L,
    /// Closed while nothing more should be read from the server.
    backpressure: Arc<Backpressure>,
    /// Closed while nothing more should be read from the client.
    client_backpressure: Arc<Backpressure>,
    writer: Writer,
    observer: Box<dyn Observer + Send>,
    authorized: Option<Authorized<T>>,
    /// Whether the relay was closed because the proxy was stopped.
    is_closing: bool,
    closed: Option<CloseReason>,
    /// When the next timeout of the relay or the link is due.
    due: Option<Instant>,
    /// When the thread that handles timeouts checks next.
    next_check: Option<Instant>,
    /// Whether there was input since that thread last checked.
    is_active: bool,
}

impl<T, L> ProxyLoop<T, L>
where
    T: ClientTransport<Action: Send> + Send + 'static,
    L: Feed<Relay<T>, Action = T::Action, Received: Send + 'static> + Send + 'static,
{
    pub(super) fn new() -> Self {
        let (alarm, alarms) = sync_channel(1);
        let lock = InputLock::new(State::NotRunning, INBOX);
        let shared = Shared { lock, alarm, is_stopped: AtomicBool::new(false) };
        Self { shared: Arc::new(shared), alarms }
    }

    /// Returns a function that stops the relay, whatever the threads are doing.
    pub(super) fn stop(&self) -> Arc<dyn Fn() + Send + Sync> {
        let shared = Arc::clone(&self.shared);
        Arc::new(move || {
            shared.is_stopped.store(true, Ordering::Release);
            shared.wake();
        })
    }

    /// Runs the relay with the link that `start` creates, until the relay is closed and its last lines are written.
    pub(super) fn run(
        self,
        relay: Relay<T>,
        start: impl FnOnce(Arc<dyn Inbox<Input<L::Received>>>, Arc<Backpressure>) -> io::Result<L>,
        authorizing: Option<Authorizing<T>>,
        input: impl Read + Send + 'static,
        output: impl Output + 'static,
        observer: impl Observer + Send + 'static,
    ) -> io::Result<CloseReason> {
        let outcome = self.start(relay, start, authorizing, input, output, observer).and_then(|()| {
            let (running, reason) = self.keep_time();
            self.end(*running).map(|()| reason)
        });
        *self.shared.lock.state() = State::NotRunning;
        outcome
    }

    fn start(
        &self,
        relay: Relay<T>,
        start: impl FnOnce(Arc<dyn Inbox<Input<L::Received>>>, Arc<Backpressure>) -> io::Result<L>,
        authorizing: Option<Authorizing<T>>,
        input: impl Read + Send + 'static,
        output: impl Output + 'static,
        observer: impl Observer + Send + 'static,
    ) -> io::Result<()> {
        let inbox: Arc<dyn Inbox<_>> = Arc::<Shared<T, L>>::clone(&self.shared);
        // The lock is held, so that the first input waits until the relay runs.
        let mut state = self.shared.lock.state();
        let (backpressure, client_backpressure) = (Arc::new(Backpressure::new()), Arc::new(Backpressure::new()));
        let link = start(Arc::clone(&inbox), Arc::clone(&backpressure))?;
        let writer = Writer::spawn(output, Arc::clone(&inbox), Input::Client)?;
        let authorized = authorizing.map(|authorizing| authorizing.start(Arc::clone(&inbox))).transpose()?;
        // The first request is sent with the stored token, if there is one.
        client_backpressure.set(authorized.is_none());
        spawn_reader(input, inbox, Arc::clone(&client_backpressure), Input::Client)?;
        *state = State::Running(Box::new(Running {
            relay,
            link,
            backpressure,
            client_backpressure,
            writer,
            observer: Box::new(observer),
            authorized,
            is_closing: false,
            closed: None,
            due: None,
            next_check: None,
            is_active: false,
        }));
        Ok(())
    }

    /// Handles timeouts until the relay is closed.
    fn keep_time(&self) -> (Box<Running<T, L>>, CloseReason) {
        loop {
            let mut state = self.shared.lock.state();
            self.shared.pass_queued_input(&mut state);
            if let State::Running(running) = &mut *state {
                running.step(None, self.shared.is_stopped());
                if let Some(reason) = running.closed.take() {
                    if let State::Running(running) = std::mem::replace(&mut *state, State::Ending) {
                        drop(state);
                        // The input passed to the relay in this thread may include the message that the writer is done.
                        self.shared.wake();
                        return (running, reason);
                    }
                    continue;
                }
                let tick = std::mem::take(&mut running.is_active).then(|| clock::now() + TICK);
                running.next_check = earlier(running.due, tick);
                let next_check = running.next_check;
                drop(state);
                if self.shared.lock.has_input() {
                    continue;
                }
                self.pause(next_check.map_or(Duration::MAX, |at| at.saturating_duration_since(clock::now())));
            }
        }
    }

    fn end(&self, mut running: Running<T, L>) -> io::Result<()> {
        let writer = &running.writer;
        writer.close();
        let closed = clock::now();
        running.link.end(&mut |time| {
            self.pause(time);
            self.shared.is_stopped()
        });
        while !writer.is_done() {
            let timeout = if self.shared.is_stopped() { URGENT_PROXY_FLUSH_TIMEOUT } else { PROXY_FLUSH_TIMEOUT };
            let left = timeout.saturating_sub(clock::now() - closed);
            if left.is_zero() {
                return Err(not_read(writer.waiting()));
            }
            self.pause(left);
        }
        Ok(())
    }

    /// Waits until this thread is woken, but no longer than `time`.
    fn pause(&self, time: Duration) {
        // This cannot report a disconnection, because `shared` holds a sender.
        let _ = self.alarms.recv_timeout(time);
    }
}

impl<T: ClientTransport, L: Link> Shared<T, L> {
    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    fn wake(&self) {
        // If the channel is full, the thread is about to wake anyway.
        let _ = self.alarm.try_send(());
    }
}

impl<T, L> Shared<T, L>
where
    T: ClientTransport,
    L: Feed<Relay<T>, Action = T::Action>,
{
    /// Passes all queued input to the relay. Returns whether the relay is running or ending.
    fn pass_queued_input(&self, state: &mut State<T, L>) -> bool {
        loop {
            let Some(input) = self.lock.next() else { break };
            match state {
                State::NotRunning => {}
                State::Running(running) if running.closed.is_none() => {
                    running.step(Some(input), self.is_stopped());
                    running.is_active = true;
                    let is_early =
                        running.due.is_some_and(|due| running.next_check.is_none_or(|next_check| due < next_check));
                    if running.closed.is_some() || is_early {
                        self.wake();
                    }
                }
                State::Running(_) | State::Ending => self.wake(),
            }
        }
        !matches!(state, State::NotRunning)
    }
}

impl<T, L> Inbox<Input<L::Received>> for Shared<T, L>
where
    T: ClientTransport<Action: Send> + Send,
    L: Feed<Relay<T>, Action = T::Action, Received: Send> + Send,
{
    fn send(&self, input: Input<L::Received>) -> bool {
        self.lock.send(input, |state| self.pass_queued_input(state))
    }

    fn try_send(&self, input: Input<L::Received>) {
        self.send(input);
    }
}

impl<T: ClientTransport, L: Link> fmt::Debug for Shared<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Shared").finish_non_exhaustive()
    }
}

impl<T: ClientTransport, L: Link> fmt::Debug for ProxyLoop<T, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ProxyLoop").finish_non_exhaustive()
    }
}

impl<T, L> Running<T, L>
where
    T: ClientTransport,
    L: Feed<Relay<T>, Action = T::Action>,
{
    /// Passes input to the relay, and carries out the resulting actions.
    fn step(&mut self, input: Option<Input<L::Received>>, is_stopped: bool) {
        let mut input = input;
        while self.closed.is_none() {
            let now = clock::now();
            self.report(input.take(), is_stopped, now);
            self.closed = self.drain(now);
            let (wants_body, wants_bytes) = (self.relay.wants_body(), self.relay.wants_bytes());
            self.backpressure.set(wants_body);
            let held_until = self.authorized.as_ref().and_then(|authorized| authorized.holds_client_until);
            self.client_backpressure.set(wants_bytes && held_until.is_none());
            let is_stalled = !wants_bytes || !wants_body;
            if is_stalled && !self.writer.wake_when_written() {
                continue;
            }
            let max_wait = self.link.max_wait(is_stalled, now);
            if max_wait.is_zero() {
                continue;
            }
            let due = earlier(self.relay.poll_timeout(), held_until);
            self.due = earlier(due, Some(now + max_wait));
            if due.is_none_or(|due| due > now) {
                return;
            }
        }
    }

    fn report(&mut self, input: Option<Input<L::Received>>, is_stopped: bool, now: Instant) {
        let written = self.writer.take_written();
        if written > 0 {
            self.relay.handle_written(written, now);
        }
        self.link.catch_up(&mut self.relay, now);
        match input {
            Some(Input::Server(received)) => self.link.feed(&mut self.relay, received, now),
            Some(Input::Client(Happened::Read(bytes))) => {
                self.observer.received(&bytes);
                self.relay.handle_bytes(&bytes, now);
            }
            Some(Input::Client(Happened::InputEnded)) => self.relay.handle_eof(now),
            // The client no longer reads, so there is nothing left to do.
            Some(Input::Client(Happened::OutputClosed)) => self.relay.close(now),
            Some(Input::SignIn(event)) => self.on_sign_in(event, now),
            Some(Input::OpenUrl(url)) => self.relay.ask_to_open_url(&url, now),
            Some(Input::Client(Happened::Written)) | None => {}
        }
        if let Some(authorized) = &mut self.authorized {
            authorized.holds_client_until = authorized.holds_client_until.filter(|until| *until > now);
            authorized.client_opens_urls.store(self.relay.client_opens_urls(), Ordering::Release);
        }
        if is_stopped && !self.is_closing {
            self.is_closing = true;
            self.relay.close(now);
        }
        // Of both, only the first is asked on nearly every turn.
        if self.due.is_some_and(|at| at <= now) && self.relay.poll_timeout().is_some_and(|at| at <= now) {
            self.relay.handle_timeout(now);
        }
    }

    fn on_sign_in(&mut self, event: mcp_auth::Event, now: Instant) {
        let Some(authorized) = &mut self.authorized else { return };
        let SignInReport { outcome, log, .. } = SignInReport::new(event, &authorized.server);
        if let Some((severity, text)) = log {
            log::log!(level_of(severity), "{text}");
        }
        let Some(outcome) = outcome else { return };
        if outcome.ends_sign_in() {
            authorized.holds_client_until = None;
        }
        (authorized.authorize)(&mut self.relay, outcome, now);
    }

    fn on_challenged(&self, challenged: Challenged) {
        if let Some(authorized) = &self.authorized {
            authorized.sign_in.begin(challenged.into());
        }
    }

    /// Carries out all outputs of the relay. Returns the reason once the relay is closed.
    fn drain(&mut self, now: Instant) -> Option<CloseReason> {
        while let Some(output) = poll_observed(&mut self.relay, &mut *self.observer) {
            match output {
                ObservedOutput::Closed(reason) => return Some(reason),
                ObservedOutput::Challenged(challenged) => self.on_challenged(challenged),
                ObservedOutput::PinsStored(pins) => self.relay.handle_pins(pins, now),
                ObservedOutput::Action(Action::Server(action)) => self.link.act(action),
                ObservedOutput::Action(Action::Client(StdioAction::Write(bytes))) => self.writer.push(bytes),
                ObservedOutput::Action(Action::Client(StdioAction::CloseWrite)) => self.writer.close(),
                ObservedOutput::Action(Action::Client(_)) => {}
            }
        }
        None
    }
}

impl<T: ClientTransport> Authorizing<T> {
    /// Starts the thread of the sign-in, which reads the stored token first.
    fn start<R: Send + 'static>(self, inbox: Arc<dyn Inbox<Input<R>>>) -> io::Result<Authorized<T>> {
        let client_opens_urls = Arc::new(AtomicBool::new(false));
        let (opens_urls, to_client) = (Arc::clone(&client_opens_urls), Arc::clone(&inbox));
        // The client may run on the machine whose screen the person sees.
        let authorization = self.authorization.divert_urls(move |url| {
            opens_urls.load(Ordering::Acquire) && to_client.send(Input::OpenUrl(url.to_owned()))
        });
        let report = move |event| {
            // The relay may have ended.
            inbox.send(Input::SignIn(event));
        };
        let settings = self.settings;
        let sign_in = authorization.start_with(move || settings.current().1, report)?;
        sign_in.begin(Cause::Start);
        let holds_client_until = Some(clock::now() + STORED_TOKEN_TIMEOUT);
        let (server, authorize) = (self.server, self.authorize);
        Ok(Authorized { sign_in, server, authorize, holds_client_until, client_opens_urls })
    }
}

/// Input to a relay.
#[derive(Debug)]
pub(super) enum Input<R> {
    Server(R),
    Client(Happened),
    SignIn(mcp_auth::Event),
    /// A person signs in at this URL.
    OpenUrl(String),
}

impl<R> From<R> for Input<R> {
    fn from(received: R) -> Self {
        Self::Server(received)
    }
}

fn earlier(a: Option<Instant>, b: Option<Instant>) -> Option<Instant> {
    match (a, b) {
        (Some(a), Some(b)) => Some(a.min(b)),
        (one, other) => one.or(other),
    }
}
