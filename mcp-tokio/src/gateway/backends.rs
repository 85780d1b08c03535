//! Connects the machine of a gateway and the tasks of its backends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use mcp_application::Observation;
use mcp_intermediary::gateway::{Action, BackendKey, Event, Gateway};
use mcp_intermediary::relay;
use mcp_proto::client::CloseReason;
use mcp_proto::server::{HttpAction, Principal};
use mcp_proto::{Instant, Output};
use tokio::sync::{mpsc, oneshot, watch};
use tracing::Instrument;

use super::Start;
use super::monitor::{GatewayMonitor, GatewayStatus};
use super::task::{self, Command, FromBackend};
use crate::clock::now;
use crate::server::{Accepted, Application, Stage};

/// The machine of a gateway, and the backends that were started and have not ended.
pub(super) struct Backends {
    machine: Gateway,
    start: Arc<Start>,
    log_stderr: bool,
    running: BTreeMap<BackendKey, Running>,
    received: mpsc::UnboundedReceiver<(BackendKey, FromBackend)>,
    /// For the tasks of backends. A task sends only what the machine has given it to write and one chunk that it has read.
    sender: mpsc::UnboundedSender<(BackendKey, FromBackend)>,
    asked: mpsc::UnboundedReceiver<oneshot::Sender<GatewayStatus>>,
    monitor: GatewayMonitor,
    stage: Arc<watch::Sender<Stage>>,
    draining: Vec<oneshot::Sender<usize>>,
    closing: Vec<oneshot::Sender<()>>,
    /// The number of cancelled requests, once all are over.
    drained: Option<usize>,
}

/// A backend that has not ended.
struct Running {
    /// `None` if it is being stopped.
    commands: Option<mpsc::UnboundedSender<Command>>,
    /// What was received while the machine accepts none: one chunk, and the rest before the end of the stream.
    untaken: Vec<Bytes>,
}

impl Running {
    fn send(&self, command: Command) {
        // A task that has ended is reported as stopped.
        let _ = self.commands.as_ref().map(|commands| commands.send(command));
    }
}

/// Something that has happened behind a gateway.
pub(crate) enum Happened {
    Received(BackendKey, FromBackend),
    Asked(oneshot::Sender<GatewayStatus>),
}

impl Backends {
    pub(super) fn new(machine: Gateway, start: Arc<Start>, log_stderr: bool) -> Self {
        let (sender, received) = mpsc::unbounded_channel();
        let (ask, asked) = mpsc::unbounded_channel();
        Self {
            machine,
            start,
            log_stderr,
            running: BTreeMap::new(),
            received,
            sender,
            asked,
            monitor: GatewayMonitor::new(ask),
            stage: Arc::new(watch::Sender::new(Stage::Serving)),
            draining: Vec::new(),
            closing: Vec::new(),
            drained: None,
        }
    }

    pub(super) fn stage(&self) -> Arc<watch::Sender<Stage>> {
        Arc::clone(&self.stage)
    }

    pub(super) fn monitor(&self) -> GatewayMonitor {
        self.monitor.clone()
    }

    fn start(&mut self, backend: BackendKey, principal: Option<Principal>) {
        let span = tracing::info_span!("mcp_gateway_backend", %backend);
        let start = Arc::clone(&self.start);
        // A panic of the function is then one of the task.
        let starting = Box::pin(async move { start(principal).await });
        let (commands, received) = mpsc::unbounded_channel();
        let running = task::run(backend, starting, self.log_stderr, received, self.sender.clone());
        tokio::spawn(running.instrument(span));
        self.running.insert(backend, Running { commands: Some(commands), untaken: Vec::new() });
    }

    fn on_received(&mut self, backend: BackendKey, received: FromBackend, now: Instant) {
        match received {
            FromBackend::Bytes(bytes) => {
                if let Some(running) = self.running.get_mut(&backend) {
                    running.untaken.push(bytes);
                }
                self.pass_on(backend, now);
            }
            FromBackend::Written(bytes) => {
                self.machine.handle_backend_written(backend, bytes, now);
                // The machine may accept bytes again, because a backend has read the answers to its own requests.
                self.pass_on(backend, now);
            }
            FromBackend::Ended => {
                self.take_all(backend, now);
                self.machine.handle_backend_eof(backend, now);
            }
            FromBackend::Exited(end) => {
                self.take_all(backend, now);
                self.machine.handle_backend_process_end(backend, end, now);
            }
            FromBackend::NotStarted(failure) => {
                self.running.remove(&backend);
                self.machine.handle_not_started(backend, failure, now);
            }
            FromBackend::Stopped => {
                self.running.remove(&backend);
                self.machine.handle_stopped(backend, now);
            }
        }
    }

    /// Passes on what a backend has written, if the machine accepts it.
    fn pass_on(&mut self, backend: BackendKey, now: Instant) {
        let has_untaken = self.running.get(&backend).is_some_and(|running| !running.untaken.is_empty());
        if has_untaken && self.machine.wants_backend_bytes(backend) {
            self.take_all(backend, now);
            if let Some(running) = self.running.get(&backend) {
                running.send(Command::Taken);
            }
        }
    }

    fn take_all(&mut self, backend: BackendKey, now: Instant) {
        let Some(running) = self.running.get_mut(&backend) else { return };
        for bytes in std::mem::take(&mut running.untaken) {
            self.machine.handle_backend_bytes(backend, &bytes, now);
        }
    }

    fn status(&self) -> GatewayStatus {
        let Self { machine, .. } = self;
        GatewayStatus { sessions: machine.sessions(), backends: machine.backends(), load: machine.load() }
    }

    /// Informs those who wait for the end, if it has come.
    fn report_end(&mut self) {
        if !self.running.is_empty() {
            return;
        }
        for done in self.closing.drain(..) {
            let _ = done.send(());
        }
        if let Some(cancelled) = self.drained {
            for done in self.draining.drain(..) {
                let _ = done.send(cancelled);
            }
            self.stage.send_replace(Stage::Closed);
        }
    }
}

impl Application for Backends {
    type Machine = Gateway;
    type Happened = Happened;

    fn machine(&self) -> &Gateway {
        &self.machine
    }

    fn machine_mut(&mut self) -> &mut Gateway {
        &mut self.machine
    }

    async fn happened(&mut self) -> Happened {
        tokio::select! {
            Some((backend, received)) = self.received.recv() => Happened::Received(backend, received),
            Some(asked) = self.asked.recv() => Happened::Asked(asked),
            // Both have a sender here, so that this does not occur.
            else => std::future::pending().await,
        }
    }

    fn handle(&mut self, happened: Happened, now: Instant) -> Option<Accepted> {
        match happened {
            Happened::Received(backend, received) => self.on_received(backend, received, now),
            Happened::Asked(asked) => {
                let _ = asked.send(self.status());
            }
        }
        None
    }

    fn poll_action(&mut self) -> Option<HttpAction> {
        loop {
            match self.machine.poll_output()? {
                Output::Action(Action::Client(action)) => return Some(action),
                Output::Action(Action::Start { backend, principal }) => self.start(backend, principal),
                Output::Action(Action::Backend { backend, action }) => {
                    if let Some(running) = self.running.get(&backend) {
                        running.send(Command::Act(action));
                    }
                }
                Output::Action(Action::Stop { backend }) => {
                    if let Some(running) = self.running.get_mut(&backend) {
                        *running = Running { commands: None, untaken: Vec::new() };
                    }
                }
                Output::Action(_) => {}
                Output::Event(Event::Drained { cancelled }) => self.drained = Some(cancelled),
                Output::Event(event) => {
                    log(&event);
                    // This driver stores no pins, so the machine receives its own pins back at once.
                    if let Event::Backend { event: relay::Event::PinsChanged(pins), .. } = event {
                        self.machine.handle_pins(pins, now());
                    }
                }
            }
        }
    }

    fn limit_to_connections(&mut self, connections: usize) {
        self.machine.limit_to_connections(connections);
    }

    fn drain(&mut self, timeout: Duration, done: oneshot::Sender<usize>, now: Instant) {
        self.draining.push(done);
        self.stage.send_replace(Stage::Draining);
        self.machine.drain(timeout, now);
    }

    fn on_closed(&mut self, done: oneshot::Sender<()>) {
        self.closing.push(done);
    }

    fn on_settled(&mut self) {
        self.report_end();
    }
}

/// Logs an event, without payloads.
#[expect(clippy::wildcard_enum_match_arm, reason = "the other events are not logged")]
fn log(event: &Event) {
    use relay::Event as E;
    match event {
        Event::Backend { backend, event: E::Connected { version, .. } } => {
            tracing::debug!(%backend, %version, "a server behind the gateway has answered");
        }
        Event::Backend { backend, event: E::Unavailable { reason, .. } } => {
            let reason = Observation::Unavailable(reason.clone());
            tracing::warn!(%backend, %reason, "a server behind the gateway cannot be used");
        }
        Event::Backend { backend, event: E::Closed(reason) } => match reason {
            CloseReason::Garbage { limit } => {
                tracing::warn!(%backend, limit, "a server behind the gateway writes lines that are no messages, and no message");
            }
            CloseReason::Peer => tracing::warn!(%backend, "a server behind the gateway has ended by itself"),
            CloseReason::ProcessEnded(end) => {
                tracing::warn!(%backend, "a server behind the gateway {end}; see its stderr for the reason");
            }
            reason => tracing::debug!(%backend, ?reason, "a server behind the gateway is stopped"),
        },
        Event::Backend { backend, event: E::Faulted { side, fault } } => {
            tracing::info!(%backend, ?side, %fault, "a message behind the gateway is at fault");
        }
        Event::NotStarted { reason, retry_in } => {
            let reason = reason.describe("the server");
            tracing::warn!(?retry_in, %reason, "servers behind the gateway cannot be used; none is started for a while");
        }
        Event::Faulted(fault) => tracing::info!(%fault, "a client caused a fault"),
        _ => {}
    }
}
