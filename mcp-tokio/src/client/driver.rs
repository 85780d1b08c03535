//! The task that owns the machine.

use std::collections::BTreeMap;
use std::process::ExitStatus;
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::client::{
    self as proto, Call, CloseReason, Event, Occasion, Outcome, Scope, SubscriptionKey, Unavailable, Verdict,
};
use mcp_proto::{
    ErrorObject, Instant, Json, Notification, Output, ProtocolVersion, RequestKey, Ticket, TicketKey, UsageError,
};
use tokio::sync::{mpsc, oneshot};
use tokio::task::{AbortHandle, JoinHandle};
use tokio::time::{sleep_until, timeout};
use tracing::{Instrument, Span};

use super::handler::AnyHandler;
use super::link::Link;
use super::subscription::Told;
use super::{Greeting, InFlight, Subscription};

/// Progress and notifications that wait to be heard; more are dropped, because a handler may be waiting for an answer
/// that comes behind them.
const UNHEARD: usize = 256;
/// How long the last notifications may take to be heard after everything else has ended.
const HEARD: Duration = Duration::from_secs(1);

/// What a client asks of its task.
#[derive(Debug)]
pub(super) enum Input {
    Request { call: Call, span: Span, accept: oneshot::Sender<Result<InFlight, UsageError>> },
    Listen { filter: Json, accept: oneshot::Sender<Result<Subscription, UsageError>> },
    Notify { notification: Notification, accept: oneshot::Sender<Result<(), UsageError>> },
    Close(Option<oneshot::Sender<()>>),
}

/// What nobody waits for any more.
#[derive(Debug)]
pub(super) enum Dropped {
    Request(RequestKey),
    Subscription(SubscriptionKey),
}

/// Why the connection could not be made, and how the server's process ended, if it did so by itself.
#[derive(Debug)]
pub(super) struct Refused {
    pub(super) reason: Unavailable,
    pub(super) exited: Option<ExitStatus>,
}

pub(super) struct Driver<L: Link> {
    machine: proto::Client<L::Transport>,
    link: L,
    handler: Arc<dyn AnyHandler>,
    /// The server, for people to read.
    server: Arc<str>,
    connected: Option<oneshot::Sender<Result<Greeting, Refused>>>,
    refused: Option<Unavailable>,
    callers: BTreeMap<RequestKey, Caller>,
    listeners: BTreeMap<SubscriptionKey, mpsc::Sender<Told>>,
    /// Requests of the server's that are being served.
    serving: BTreeMap<TicketKey, (Ticket, AbortHandle)>,
    answers: mpsc::UnboundedSender<(TicketKey, Result<Json, ErrorObject>)>,
    answered: mpsc::UnboundedReceiver<(TicketKey, Result<Json, ErrorObject>)>,
    cancel: mpsc::UnboundedSender<Dropped>,
    cancelled: mpsc::UnboundedReceiver<Dropped>,
    /// Who waits for the end.
    closing: Vec<oneshot::Sender<()>>,
}

struct Caller {
    outcome: oneshot::Sender<Outcome>,
    progress: mpsc::Sender<Json>,
    span: Span,
}

/// Whether the task goes on.
#[derive(PartialEq, Eq)]
enum Next {
    GoOn,
    End,
}

impl<L: Link> Driver<L> {
    pub(super) fn new(
        machine: proto::Client<L::Transport>,
        link: L,
        handler: Arc<dyn AnyHandler>,
        server: Arc<str>,
        connected: oneshot::Sender<Result<Greeting, Refused>>,
    ) -> Self {
        // The machine bounds both: what the server asks at one time, and what is in flight.
        let (answers, answered) = mpsc::unbounded_channel();
        let (cancel, cancelled) = mpsc::unbounded_channel();
        Self {
            machine,
            link,
            handler,
            server,
            connected: Some(connected),
            refused: None,
            callers: BTreeMap::new(),
            listeners: BTreeMap::new(),
            serving: BTreeMap::new(),
            answers,
            answered,
            cancel,
            cancelled,
            closing: Vec::new(),
        }
    }

    /// Runs until the connection has ended.
    pub(super) async fn run(mut self, mut inputs: mpsc::Receiver<Input>) {
        let (notices, noticing) = self.spawn_notifier();
        let mut has_clients = true;
        let connecting = self.machine.connect(now());
        debug_assert!(connecting.is_ok(), "nothing was connected before");

        while self.drain(&notices) == Next::GoOn {
            let due = self.machine.poll_timeout();
            tokio::select! {
                () = self.link.turn(&mut self.machine) => {}
                input = inputs.recv(), if has_clients => if let Some(input) = input {
                    self.on_input(input);
                } else {
                    has_clients = false;
                    self.machine.close(now());
                },
                Some(dropped) = self.cancelled.recv() => match dropped {
                    Dropped::Request(request) => self.machine.cancel(request, None, now()),
                    Dropped::Subscription(subscription) => self.machine.unlisten(subscription, now()),
                },
                Some((ticket, answer)) = self.answered.recv() => {
                    if let Some((ticket, _)) = self.serving.remove(&ticket) {
                        self.machine.answer(ticket, answer, now());
                    }
                }
                () = sleep(due), if due.is_some() => self.machine.handle_timeout(now()),
            }
        }
        drop(notices);
        self.end(noticing).await;
    }

    async fn end(mut self, mut noticing: JoinHandle<()>) {
        for (_, (_, task)) in std::mem::take(&mut self.serving) {
            task.abort();
        }
        let exited = self.link.end().await;
        // The last notifications are heard, but a handler that does not do so is not waited for.
        if timeout(HEARD, &mut noticing).await.is_err() {
            noticing.abort();
        }
        if let (Some(connected), Some(reason)) = (self.connected, self.refused) {
            let _ = connected.send(Err(Refused { reason, exited }));
        }
        for done in self.closing {
            let _ = done.send(());
        }
    }

    /// Carries out what the machine says, until there is nothing more or no room for it.
    fn drain(&mut self, notices: &mpsc::Sender<Notification>) -> Next {
        while self.link.has_room() {
            match self.machine.poll_output() {
                None => return Next::GoOn,
                Some(Output::Action(action)) => self.link.act(action),
                Some(Output::Event(Event::Closed(reason))) => {
                    if reason == CloseReason::Local {
                        tracing::debug!("the connection has ended");
                    } else {
                        tracing::warn!(?reason, "the connection has ended, and nobody here has closed it");
                    }
                    return Next::End;
                }
                Some(Output::Event(event)) => self.on_event(event, notices),
            }
        }
        Next::GoOn
    }

    fn on_input(&mut self, input: Input) {
        match input {
            Input::Request { call, span, accept } => {
                let accepted = self.machine.request(call, now()).map(|request| {
                    let (outcome, waiting) = oneshot::channel();
                    let (progress, heard) = mpsc::channel(UNHEARD);
                    span.record("request", tracing::field::debug(request));
                    self.callers.insert(request, Caller { outcome, progress, span });
                    let (server, cancel) = (Arc::clone(&self.server), self.cancel.clone());
                    InFlight { request, server, outcome: Some(waiting), progress: heard, cancel }
                });
                // A caller that is gone drops what it is given, which cancels the request.
                let _ = accept.send(accepted);
            }
            Input::Listen { filter, accept } => {
                let accepted = self.machine.listen(filter, now()).map(|key| {
                    let (listener, told) = mpsc::channel(UNHEARD);
                    self.listeners.insert(key, listener);
                    Subscription { key, server: Arc::clone(&self.server), told, dropped: self.cancel.clone() }
                });
                let _ = accept.send(accepted);
            }
            Input::Notify { notification, accept } => {
                let _ = accept.send(self.machine.notify(notification, now()));
            }
            Input::Close(done) => {
                self.closing.extend(done);
                self.machine.close(now());
            }
        }
    }

    fn on_event(&mut self, event: Event, notices: &mpsc::Sender<Notification>) {
        match event {
            Event::Connected { version, result, occasion, verdict, .. } => {
                tracing::debug!(era = ?verdict.era, "{}", verdict.evidence);
                self.on_connected(version, result, occasion, verdict);
            }
            Event::Unavailable { reason, .. } => {
                if self.connected.is_some() {
                    self.refused = Some(reason);
                    self.machine.close(now());
                } else {
                    let reason = match reason {
                        Unavailable::Error(error) => format!("it answered with error {}", error.code()),
                        Unavailable::Failed(reason) => reason.describe("it"),
                    };
                    tracing::warn!(reason, "there is no connection now");
                }
            }
            Event::SessionLost => tracing::info!("the session was lost; it is opened again"),
            Event::Responded { request, outcome } => {
                if let Some(caller) = self.callers.remove(&request) {
                    caller.ended(outcome);
                }
            }
            Event::Progressed { request, params } => {
                if let Some(caller) = self.callers.get(&request) {
                    let _ = caller.progress.try_send(params);
                }
            }
            Event::Requested { ticket, method, params, .. } => {
                tracing::debug!(%method, "the server asks");
                let (handler, answers, key) = (Arc::clone(&self.handler), self.answers.clone(), ticket.key());
                let task = async move {
                    let answer = handler.requested(method, params).await;
                    let _ = answers.send((key, answer));
                };
                let task = tokio::spawn(task.in_current_span());
                self.serving.insert(key, (ticket, task.abort_handle()));
            }
            Event::RequestCancelled { ticket, .. } => {
                if let Some((_, task)) = self.serving.remove(&ticket) {
                    task.abort();
                }
            }
            Event::Notified { scope: Scope::Subscription(subscription), method, params } => {
                self.tell(subscription, Told::Notified(Notification { method, params }));
            }
            Event::Listening { subscription, filter } => self.tell(subscription, Told::Listening(filter)),
            Event::ListeningInterrupted { subscription, reason, .. } => {
                self.tell(subscription, Told::Interrupted(reason));
            }
            Event::ListeningEnded { subscription, outcome } => {
                self.tell(subscription, Told::Ended(outcome));
                self.listeners.remove(&subscription);
            }
            Event::Notified { method, params, .. } => {
                let outcome = notices.try_send(Notification { method, params });
                outcome.unwrap_or_else(|_| tracing::warn!("a notification was dropped: the handler is behind"));
            }
            Event::Faulted(fault) => tracing::info!(%fault, "the server did something wrong"),
            Event::QuirkMet(quirk) => tracing::debug!(%quirk, "the server is odd"),
            // `Closed` ends the task. What later versions of the core may tell is no business of the callers'.
            Event::Closed(_) | _ => {}
        }
    }

    /// A listener that is behind misses what it has no room for.
    fn tell(&mut self, subscription: SubscriptionKey, told: Told) {
        if let Some(listener) = self.listeners.get(&subscription) {
            let _ = listener.try_send(told);
        }
    }

    fn on_connected(&mut self, version: ProtocolVersion, result: Json, occasion: Occasion, verdict: Verdict) {
        let transport = L::http_transport(&self.machine);
        let spoken = transport.map(tracing::field::display);
        match occasion {
            Occasion::First => tracing::debug!(%version, transport = spoken, "connected"),
            Occasion::Again => tracing::info!(%version, transport = spoken, "connected again"),
        }
        if let Some(connected) = self.connected.take() {
            let _ = connected.send(Ok(Greeting { version, result, transport, verdict }));
        }
    }

    fn spawn_notifier(&self) -> (mpsc::Sender<Notification>, JoinHandle<()>) {
        let (notices, mut heard) = mpsc::channel::<Notification>(UNHEARD);
        let handler = Arc::clone(&self.handler);
        let task = async move {
            while let Some(notification) = heard.recv().await {
                handler.notified(notification).await;
            }
        };
        (notices, tokio::spawn(task.in_current_span()))
    }
}

impl Caller {
    fn ended(self, outcome: Outcome) {
        let how = match &outcome {
            Outcome::Result(_) => "result",
            Outcome::Error(_) => "error",
            Outcome::Failed(reason) => reason.name(),
        };
        self.span.record("outcome", how);
        let _ = self.outcome.send(outcome);
    }
}

async fn sleep(due: Option<Instant>) {
    if let Some(due) = due {
        sleep_until(due.into()).await;
    }
}

pub(crate) fn now() -> Instant {
    tokio::time::Instant::now().into_std()
}
