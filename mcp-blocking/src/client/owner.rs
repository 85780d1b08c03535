//! The thread that owns the machine.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::thread;
use std::time::Duration;

use mcp_proto::client::{
    self as proto, Call, Event, ExchangeKey, Http, HttpAction, Scope, SubscriptionKey, Unavailable,
};
use mcp_proto::{
    ErrorObject, Failed, Fault, Instant, Json, Method, Notification, Output, RequestKey, Ticket, UsageError, code,
};

use super::subscription::Told;
use super::{Greeting, Handler, Observation};
use crate::gate::Gate;
use crate::http_client::{HttpOptions, Pool, Received};
use crate::mailbox::Postman;

/// How often it is looked at whether a request has been sent that was not sent yet.
const UNSENT: Duration = Duration::from_millis(20);
/// Events that wait for the handler. It may be waiting for the client itself, so nothing ever waits for it: with more
/// than this, notifications are dropped and requests refused.
const EVENTS: usize = 256;

#[derive(Debug)]
pub(super) enum Input {
    Exchange(ExchangeKey, Received),
    Request { call: Call, postman: Postman, accept: SyncSender<Result<RequestKey, UsageError>> },
    Notify { notification: Notification, accept: SyncSender<Result<(), UsageError>> },
    Cancel(RequestKey),
    Listen { filter: Json, listener: SyncSender<Told>, accept: SyncSender<Result<SubscriptionKey, UsageError>> },
    Unlisten(SubscriptionKey),
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
pub(super) struct Owner {
    machine: proto::Client<Http>,
    pool: Pool<Input>,
    gate: Arc<Gate>,
    inbox: SyncSender<Input>,
    callers: BTreeMap<RequestKey, Postman>,
    listeners: BTreeMap<SubscriptionKey, SyncSender<Told>>,
    /// Events that the handler had no room for.
    dropped: u64,
    connected: Option<SyncSender<Result<Greeting, Unavailable>>>,
}

impl Owner {
    pub(super) fn new(
        machine: proto::Client<Http>,
        options: HttpOptions,
        inbox: SyncSender<Input>,
        connected: SyncSender<Result<Greeting, Unavailable>>,
    ) -> Self {
        let gate = Arc::new(Gate::new());
        let pool = Pool::new(options, inbox.clone(), Arc::clone(&gate));
        Self {
            machine,
            pool,
            gate,
            inbox,
            callers: BTreeMap::new(),
            listeners: BTreeMap::new(),
            dropped: 0,
            connected: Some(connected),
        }
    }

    pub(super) fn run(mut self, inputs: &Receiver<Input>, handler: Box<dyn Handler>) {
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
            Input::Listen { filter, listener, accept } => {
                let accepted = self.machine.listen(filter, now);
                if let Ok(subscription) = accepted {
                    self.listeners.insert(subscription, listener);
                }
                let _ = accept.send(accepted);
            }
            Input::Unlisten(subscription) => self.machine.unlisten(subscription, now),
            Input::Answer { ticket, answer } => self.machine.answer(ticket, answer, now),
            Input::Close => self.machine.close(now),
        }
    }

    /// Serves the callers, and returns what is for the handler.
    fn on_event(&mut self, event: Event) -> Option<ForHandler> {
        match event {
            Event::Connected { version, result, verdict, .. } => match self.connected.take() {
                Some(connected) => {
                    let transport = self.machine.http_transport();
                    let _ = connected.send(Ok(Greeting { version, result, transport, verdict }));
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
            Event::Notified { scope: Scope::Subscription(subscription), method, params } => {
                self.tell(subscription, Told::Notified(Notification { method, params }))
            }
            Event::Listening { subscription, filter } => self.tell(subscription, Told::Listening(filter)),
            Event::ListeningInterrupted { subscription, reason, .. } => {
                self.tell(subscription, Told::Interrupted(reason))
            }
            Event::ListeningEnded { subscription, outcome } => {
                self.tell(subscription, Told::Ended(outcome));
                self.listeners.remove(&subscription);
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

    /// A listener that is behind misses what it has no room for.
    fn tell(&self, subscription: SubscriptionKey, told: Told) -> Option<ForHandler> {
        if let Some(listener) = self.listeners.get(&subscription) {
            let _ = listener.try_send(told);
        }
        None
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
