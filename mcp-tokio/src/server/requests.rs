//! Requests in progress: connects the machine and the handlers.

use std::collections::BTreeMap;
use std::sync::Arc;

use mcp_application::{IncomingRequest, OperationEnd};
use mcp_proto::client::Outcome;
use mcp_proto::server::{Event, Scope, Server, ServerTransport};
use mcp_proto::{ErrorObject, Instant, Json, Method, Notification, RequestKey, Ticket, TicketKey, UsageError};
use tokio::sync::{mpsc, oneshot, watch};
use tokio::task::AbortHandle;
use tracing::Instrument;

use super::commands::{Accept, Command, FinalCommand};
use super::incoming::Incoming;
use super::notices::Notices;
#[cfg(feature = "http-server")]
use super::publisher::ServerPublisher;
use super::running::{Running, Stage, register};
use super::service::AnyService;
use crate::clock::unix_time;
use crate::operations::{Begun, Operations};
use crate::panics::caught_call;

/// The capacity of the channel for commands of handlers. A handler that finds it full waits.
const COMMANDS: usize = 64;

/// The receiving ends of both channels for commands.
#[derive(Debug)]
pub(super) struct Commands {
    pub(super) commands: mpsc::Receiver<Command>,
    pub(super) final_commands: mpsc::UnboundedReceiver<FinalCommand>,
}

/// The requests that handlers are processing, and the requests of handlers to clients.
pub(super) struct Requests {
    service: Arc<dyn AnyService>,
    operations: Operations,
    /// Publishers reach the server as long as it runs.
    _running: Arc<Running>,
    /// The machine limits their number.
    open: BTreeMap<TicketKey, (Ticket, AbortHandle)>,
    asked: BTreeMap<RequestKey, oneshot::Sender<Outcome>>,
    commands: mpsc::Sender<Command>,
    final_commands: mpsc::UnboundedSender<FinalCommand>,
    notices: Notices,
    stage: Arc<watch::Sender<Stage>>,
    /// The callers that wait until the server is drained.
    draining: Vec<oneshot::Sender<usize>>,
}

impl Requests {
    /// The requests of a stream or an HTTP service of this server.
    pub(super) fn new(
        service: Arc<dyn AnyService>,
        running: &Arc<Running>,
        operations: Operations,
    ) -> (Self, Commands) {
        let (to_commands, commands) = mpsc::channel(COMMANDS);
        let (to_final_commands, final_commands) = mpsc::unbounded_channel();
        register(running, &to_final_commands);
        let notices = Notices::new(&service, to_final_commands.clone());
        let requests = Self {
            service,
            operations,
            _running: Arc::clone(running),
            open: BTreeMap::new(),
            asked: BTreeMap::new(),
            commands: to_commands,
            final_commands: to_final_commands,
            notices,
            stage: Arc::new(watch::Sender::new(Stage::Serving)),
            draining: Vec::new(),
        };
        (requests, Commands { commands, final_commands })
    }

    /// Carries out a command of a handler; the returned result is sent to the handler once there is room for more.
    pub(super) fn on_command<T: ServerTransport>(
        &mut self,
        command: Command,
        machine: &mut Server<T>,
        now: Instant,
    ) -> Accepted {
        match command {
            Command::Progress { ticket, progress, accept } => {
                if let Some((ticket, _)) = self.open.get(&ticket) {
                    machine.progress(ticket, &progress, now);
                }
                Accepted::new(accept, Ok(()))
            }
            Command::Notify { scope, notification, accept } => {
                Accepted::new(accept, machine.notify(scope, notification, now))
            }
            Command::Log { ticket, level, logger, data, accept } => {
                let scope = Scope::Request(ticket);
                Accepted::new(accept, machine.log(scope, level, logger.as_deref(), &data, now))
            }
            Command::Ask { ticket, call, accept, outcome } => {
                let accepted = machine.request(Scope::Request(ticket), call, now);
                if let Ok(request) = accepted {
                    self.asked.insert(request, outcome);
                }
                // The handler may have been dropped before its command was received.
                if let Err(Ok(request)) = accept.send(accepted) {
                    machine.cancel(request, None, now);
                }
                Accepted::at_once()
            }
        }
    }

    /// Carries out a final command of a handler.
    pub(super) fn on_final_command<T: ServerTransport>(
        &mut self,
        command: FinalCommand,
        machine: &mut Server<T>,
        now: Instant,
    ) {
        match command {
            FinalCommand::Answer(ticket, answer) => {
                if let Some((ticket, _)) = self.open.remove(&ticket) {
                    if let Err(error) = machine.respond(ticket, answer, now) {
                        tracing::warn!(%error, "a handler's answer was replaced");
                    }
                }
            }
            FinalCommand::Release(ticket) => {
                if let Some((ticket, _)) = self.open.get(&ticket) {
                    machine.release(ticket, now);
                }
            }
            FinalCommand::Withdraw(request) => machine.cancel(request, None, now),
            FinalCommand::Publish { change, accept } => {
                let _ = accept.send(machine.publish(change, now));
            }
            FinalCommand::Reported => self.notices.on_reported(),
            FinalCommand::Drain { timeout, done } => {
                self.draining.push(done);
                self.stage.send_replace(Stage::Draining);
                machine.drain(timeout, now);
            }
        }
    }

    /// Passes the changes of subscriptions to the service, unless it is still handling earlier ones.
    pub(super) fn report_subscriptions<T: ServerTransport>(&mut self, machine: &mut Server<T>) {
        self.notices.report(machine);
    }

    /// Passes on the last changes of subscriptions after the machine has ended, which ends all of them.
    pub(super) fn report_end<T: ServerTransport>(&mut self, machine: &mut Server<T>) {
        self.notices.report_all(machine);
    }

    /// Publishes changes outside of requests.
    #[cfg(feature = "http-server")]
    pub(super) fn publisher(&self) -> ServerPublisher {
        ServerPublisher::of(self.final_commands.clone())
    }

    /// Reports whether the server is being stopped.
    #[cfg(feature = "http-server")]
    pub(super) fn stage(&self) -> Arc<watch::Sender<Stage>> {
        Arc::clone(&self.stage)
    }

    /// Handles an event of the machine.
    #[expect(clippy::wildcard_enum_match_arm, reason = "the other events concern no handler")]
    pub(super) fn on_event<T: ServerTransport>(&mut self, event: Event, machine: &mut Server<T>) {
        match event {
            Event::Connected { session, version, .. } => {
                tracing::debug!(?session, %version, "a session was opened");
            }
            Event::Requested { ticket, method, params } => self.serve(ticket, method, params, machine),
            Event::Cancelled { ticket, .. } => {
                if let Some((_, task)) = self.open.remove(&ticket) {
                    task.abort();
                }
            }
            Event::Notified { session, method, params } => {
                let notification = Notification { method, params };
                let capabilities = machine.client_capabilities(session).unwrap_or(Json::empty_object());
                if self.takes(&notification, &capabilities) {
                    self.notices.notified(session, notification);
                }
            }
            Event::Responded { request, outcome } => {
                if let Some(waiting) = self.asked.remove(&request) {
                    let _ = waiting.send(outcome);
                }
            }
            Event::Faulted(fault) => tracing::info!(%fault, "a client caused a fault"),
            Event::Drained { cancelled } => {
                if cancelled > 0 {
                    tracing::warn!(cancelled, "requests were cancelled, because the server is being stopped");
                }
                for done in self.draining.drain(..) {
                    let _ = done.send(cancelled);
                }
                self.stage.send_replace(Stage::Closed);
            }
            Event::Closed { session, reason } => {
                tracing::debug!(?session, ?reason, "a session has ended");
                self.notices.ended(session, reason);
            }
            _ => {}
        }
    }

    /// Whether the service takes a notification: not if it panics when it is asked, which must not end the server.
    fn takes(&self, notification: &Notification, capabilities: &Json) -> bool {
        caught_call(|| self.service.takes(notification, capabilities)).unwrap_or_else(|| {
            tracing::error!(method = %notification.method, "the service panicked when asked whether it takes a notification");
            false
        })
    }

    fn serve<T: ServerTransport>(
        &mut self,
        ticket: Ticket,
        method: Method,
        params: Option<Json>,
        machine: &mut Server<T>,
    ) {
        let key = ticket.key();
        // The client may have cancelled the request meanwhile.
        let Some(request) = IncomingRequest::new(machine, &ticket, method, params, unix_time) else { return };
        let begun = self.operations.received(&request, machine.request_id(&ticket));
        let span = begun.span().clone();
        let incoming = Incoming::new(request, self.commands.clone(), self.final_commands.clone());
        let service = Arc::clone(&self.service);
        let unanswered = Unanswered { ticket: key, final_commands: self.final_commands.clone(), begun: Some(begun) };
        let serving = async move {
            let answer = service.serve(incoming).await;
            unanswered.answer(answer);
        };
        let task = tokio::spawn(serving.instrument(span));
        self.open.insert(key, (ticket, task.abort_handle()));
    }
}

/// Aborts all handlers, because their answers can no longer be sent.
impl Drop for Requests {
    fn drop(&mut self) {
        for (_, task) in self.open.values() {
            task.abort();
        }
    }
}

/// The result of a command, to be sent to the handler once there is room for more.
#[derive(Debug)]
#[must_use = "the handler waits until it is reported"]
pub(crate) struct Accepted {
    accept: Accept<()>,
    outcome: Result<(), UsageError>,
}

impl Accepted {
    pub(super) const fn new(accept: Accept<()>, outcome: Result<(), UsageError>) -> Self {
        Self { accept, outcome }
    }

    fn at_once() -> Self {
        Self::new(oneshot::channel().0, Ok(()))
    }

    pub(super) fn report(self) {
        let _ = self.accept.send(self.outcome);
    }
}

/// A handler that has not answered. If it panics, its request is answered with an error.
struct Unanswered {
    ticket: TicketKey,
    final_commands: mpsc::UnboundedSender<FinalCommand>,
    /// `None` once the end of the request was reported.
    begun: Option<Begun>,
}

impl Unanswered {
    fn answer(mut self, answer: Result<Json, ErrorObject>) {
        self.report(|| OperationEnd::of_answer(&answer));
        let _ = self.final_commands.send(FinalCommand::Answer(self.ticket, answer));
    }

    fn report(&mut self, how: impl FnOnce() -> OperationEnd) {
        if let Some(begun) = self.begun.take() {
            begun.ended(how);
        }
    }
}

impl Drop for Unanswered {
    fn drop(&mut self) {
        if std::thread::panicking() {
            self.report(|| OperationEnd::PANICKED);
            let _ = self.final_commands.send(FinalCommand::Answer(self.ticket, Err(ErrorObject::internal())));
        } else {
            self.report(|| OperationEnd::CANCELLED);
        }
    }
}
