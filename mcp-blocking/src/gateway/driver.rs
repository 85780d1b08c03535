//! The thread that owns the machine of a server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender};
use std::time::Duration;
use std::{io, thread};

use mcp_intermediary::gateway::{Action, BackendKey, Event, Gateway};
use mcp_intermediary::relay;
use mcp_intermediary::relay::Filter;
use mcp_proto::machine::{HandleBytes, ServerStream};
use mcp_proto::server::{HttpAction, HttpConfig, OpenSessions, Principal};
use mcp_proto::{Instant, Output, ProcessEnd, StartFailure, StdioAction};

use super::backend::{Backend, Start, Started};
use super::status::{Counters, add};
use super::stopper::{Ending, GatewayStopper};
use crate::child::FromChild;
use crate::clock;
use crate::inbox::Inbox;
use crate::server::http_exchanges::{Arrived, HttpExchanges};

/// Input to the driver.
pub(super) enum Input {
    /// Something has arrived from a connection.
    Client(Arrived),
    /// A process was started, or could not be.
    Started { backend: BackendKey, outcome: io::Result<Box<Started>> },
    /// Something has happened to a process.
    Backend { backend: BackendKey, received: FromChild },
    /// A process has ended.
    Stopped(BackendKey),
    /// The gateway, or this server, must end.
    End(Ending),
    /// These filters apply from now on: to the server, and to the servers of an aggregate by their names.
    Filter { own: Filter, members: BTreeMap<Box<str>, Filter> },
    /// Others may access the server from now on, and processes are started in another way.
    Change { http: Box<HttpConfig>, start: Start },
    /// The open sessions are asked for.
    ListSessions(SyncSender<OpenSessions>),
    /// The credentials of these clients were withdrawn.
    EndWithdrawn(Arc<IsWithdrawn>),
}

/// Whether the credentials of a client were withdrawn.
type IsWithdrawn = dyn Fn(Option<&Principal>) -> bool + Send + Sync;

impl Inbox<Ending> for SyncSender<Input> {
    fn send(&self, ending: Ending) -> bool {
        Self::send(self, Input::End(ending)).is_ok()
    }

    fn try_send(&self, ending: Ending) {
        let _ = Self::try_send(self, Input::End(ending));
    }
}

impl Inbox<Arrived> for SyncSender<Input> {
    fn send(&self, arrived: Arrived) -> bool {
        Self::send(self, Input::Client(arrived)).is_ok()
    }

    fn try_send(&self, arrived: Arrived) {
        let _ = Self::try_send(self, Input::Client(arrived));
    }
}

/// Where the threads of one process send what happens.
#[derive(Debug)]
struct BackendInbox {
    backend: BackendKey,
    driver: SyncSender<Input>,
}

impl Inbox<FromChild> for BackendInbox {
    fn send(&self, received: FromChild) -> bool {
        self.driver.send(Input::Backend { backend: self.backend, received }).is_ok()
    }

    fn try_send(&self, received: FromChild) {
        let _ = self.driver.try_send(Input::Backend { backend: self.backend, received });
    }
}

/// The machine, as one of its processes sees it.
struct OneBackend<'g> {
    machine: &'g mut Gateway,
    backend: BackendKey,
}

impl HandleBytes<ServerStream> for OneBackend<'_> {
    fn handle_bytes(&mut self, _: ServerStream, bytes: &[u8], now: Instant) {
        self.machine.handle_backend_bytes(self.backend, bytes, now);
    }

    fn handle_written(&mut self, _: ServerStream, bytes: usize, now: Instant) {
        self.machine.handle_backend_written(self.backend, bytes, now);
    }

    fn handle_eof(&mut self, _: ServerStream, now: Instant) {
        self.machine.handle_backend_eof(self.backend, now);
    }

    fn handle_process_end(&mut self, _: ServerStream, end: ProcessEnd, now: Instant) {
        self.machine.handle_backend_process_end(self.backend, end, now);
    }

    fn wants_bytes(&self, _: ServerStream) -> bool {
        self.machine.wants_backend_bytes(self.backend)
    }
}

/// A process that is not being stopped.
enum Process {
    /// The process is being started. The actions for it, and what was already received, are kept.
    Starting {
        actions: Vec<StdioAction>,
        received: Vec<FromChild>,
    },
    Running(Box<Started>),
}

/// The thread that owns the machine of a server.
pub(super) struct Driver {
    machine: Gateway,
    exchanges: HttpExchanges,
    backend: Backend,
    processes: BTreeMap<BackendKey, Process>,
    /// Processes to look at again: unread input, closed stdin, or paused reading.
    unsettled: BTreeSet<BackendKey>,
    inbox: SyncSender<Input>,
    stopper: GatewayStopper,
    counters: Arc<Counters>,
    /// The filters of the servers of an aggregate.
    members: BTreeMap<Box<str>, Filter>,
    /// No requests are left, and no new ones are served.
    is_ending: bool,
}

impl Driver {
    pub(super) fn new(
        machine: Gateway,
        backend: Backend,
        inbox: SyncSender<Input>,
        stopper: GatewayStopper,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            machine,
            exchanges: HttpExchanges::default(),
            members: backend.members.clone(),
            backend,
            processes: BTreeMap::new(),
            unsettled: BTreeSet::new(),
            inbox,
            stopper,
            counters,
            is_ending: false,
        }
    }

    /// Runs until the gateway is stopped and all processes have ended.
    pub(super) fn run(mut self, inputs: &Receiver<Input>) {
        let mut wait = None;
        while !self.is_ending || self.machine.backends() > 0 {
            let due = self.machine.poll_timeout().map(|at| at.saturating_duration_since(clock::now()));
            let input = match [due, wait].into_iter().flatten().min() {
                Some(time) => inputs.recv_timeout(time),
                // This cannot report a disconnection, because this driver holds a sender.
                None => inputs.recv().map_err(|_| RecvTimeoutError::Disconnected),
            };
            let now = clock::now();
            self.exchanges.report(&mut self.machine, now);
            if let Ok(input) = input {
                self.on_input(input, now);
            }
            if self.machine.poll_timeout().is_some_and(|at| at <= now) {
                self.machine.handle_timeout(now);
            }
            wait = self.settle(now);
            self.counters.sessions.store(self.machine.sessions(), Ordering::Relaxed);
            self.counters.backends.store(self.machine.backends(), Ordering::Relaxed);
        }
    }

    /// Carries out all that the machine returns. Returns how long the driver may wait because of a process.
    fn settle(&mut self, now: Instant) -> Option<Duration> {
        loop {
            self.carry_out(now);
            let mut wait = None;
            for backend in std::mem::take(&mut self.unsettled) {
                let Some(Process::Running(started)) = self.processes.get_mut(&backend) else { continue };
                started.catch_up(&mut OneBackend { machine: &mut self.machine, backend }, now);
                if let Some(time) = started.max_wait(now) {
                    self.unsettled.insert(backend);
                    wait = Some(wait.map_or(time, |wait: Duration| wait.min(time)));
                }
            }
            let is_due = wait.is_some_and(|wait| wait.is_zero());
            if !self.carry_out(now) && !is_due {
                return wait.filter(|wait| *wait != Duration::MAX);
            }
        }
    }

    /// Carries out all outputs of the machine. Returns whether there were any.
    fn carry_out(&mut self, now: Instant) -> bool {
        let mut is_any = false;
        while let Some(output) = self.machine.poll_output() {
            is_any = true;
            match output {
                Output::Action(action) => self.act(action, now),
                Output::Event(event) => self.on_event(&event, now),
            }
        }
        is_any
    }

    fn act(&mut self, action: Action, now: Instant) {
        match action {
            Action::Client(action) => {
                self.count(&action);
                self.exchanges.carry_out(&mut self.machine, action, now);
            }
            Action::Start { backend, principal } => self.start(backend, principal, now),
            Action::Backend { backend, action } => {
                if let StdioAction::Write(bytes) = &action {
                    self.backend.observer.written(backend, bytes);
                }
                self.unsettled.insert(backend);
                match self.processes.get_mut(&backend) {
                    Some(Process::Starting { actions, .. }) => actions.push(action),
                    Some(Process::Running(started)) => started.act(action),
                    None => {}
                }
            }
            Action::Stop { backend } => {
                self.unsettled.remove(&backend);
                // One that is being started is stopped then.
                if let Some(Process::Running(started)) = self.processes.remove(&backend) {
                    self.stop(backend, *started, now);
                }
            }
            _ => {}
        }
    }

    /// Starts a process on a thread of its own.
    fn start(&mut self, backend: BackendKey, principal: Option<Principal>, now: Instant) {
        add(&self.counters.backends_started, 1);
        let (start, stopper, driver) = (self.backend.start.clone(), self.stopper.clone(), self.inbox.clone());
        self.processes.insert(backend, Process::Starting { actions: Vec::new(), received: Vec::new() });
        let spawned = thread::Builder::new().name("mcp-start".to_owned()).spawn(move || {
            let inbox = Arc::new(BackendInbox { backend, driver: driver.clone() });
            let outcome = start.start(principal.as_ref(), inbox, &stopper).map(Box::new);
            let _ = driver.send(Input::Started { backend, outcome });
        });
        if let Err(error) = spawned {
            self.on_not_started(backend, &error, now);
        }
    }

    /// Stops a process on a thread of its own.
    fn stop(&mut self, backend: BackendKey, started: Started, now: Instant) {
        let (stopper, driver) = (self.stopper.clone(), self.inbox.clone());
        let spawned = thread::Builder::new().name("mcp-stop".to_owned()).spawn(move || {
            started.stop(&stopper);
            let _ = driver.send(Input::Stopped(backend));
        });
        // The process was killed, because the thread that was to stop it was dropped.
        if let Err(error) = spawned {
            log::warn!("cannot start a thread; a process was killed: {error}");
            self.on_stopped(backend, now);
        }
    }

    fn on_input(&mut self, input: Input, now: Instant) {
        match input {
            Input::Client(arrived) => {
                match &arrived {
                    Arrived::Request { body, .. } => {
                        add(&self.counters.requests, 1);
                        add(&self.counters.bytes_received, body.len());
                    }
                    Arrived::Body { body, .. } => add(&self.counters.bytes_received, body.len()),
                    Arrived::HalfClosed(_) | Arrived::Disconnected(_) | Arrived::Written => {}
                }
                self.exchanges.pass_in(&mut self.machine, arrived, now);
            }
            Input::Started { backend, outcome } => self.on_started(backend, outcome, now),
            Input::Backend { backend, received } => {
                if let Some(bytes) = received.bytes() {
                    self.backend.observer.received(backend, bytes);
                }
                match self.processes.get_mut(&backend) {
                    Some(Process::Running(started)) => {
                        started.feed(&mut OneBackend { machine: &mut self.machine, backend }, received, now);
                        self.unsettled.insert(backend);
                    }
                    // Nothing is read yet, but the process may have ended already.
                    Some(Process::Starting { received: early, .. }) => early.push(received),
                    None => {}
                }
            }
            Input::Stopped(backend) => self.on_stopped(backend, now),
            Input::End(Ending::Drained(timeout)) => self.machine.drain(timeout, now),
            Input::End(Ending::AtOnce) => {
                self.machine.close(now);
                self.is_ending = true;
            }
            Input::Filter { own, members } => {
                self.machine.set_filter(own, now);
                for process in self.processes.values() {
                    if let Process::Running(started) = process {
                        started.set_filters(&members);
                    }
                }
                self.members = members;
            }
            Input::Change { http, start } => {
                self.machine.set_access(*http);
                self.backend.start = start;
            }
            // The gateway that has asked may have ended.
            Input::ListSessions(reply) => drop(reply.try_send(self.machine.open_sessions())),
            Input::EndWithdrawn(is_withdrawn) => self.machine.end_withdrawn(|client| is_withdrawn(client), now),
        }
    }

    fn on_started(&mut self, backend: BackendKey, outcome: io::Result<Box<Started>>, now: Instant) {
        match (outcome, self.processes.remove(&backend)) {
            (Ok(mut started), Some(Process::Starting { actions, received })) => {
                // They may have changed while it was started.
                started.set_filters(&self.members);
                for action in actions {
                    started.act(action);
                }
                for received in received {
                    started.feed(&mut OneBackend { machine: &mut self.machine, backend }, received, now);
                }
                self.processes.insert(backend, Process::Running(started));
                self.unsettled.insert(backend);
            }
            (Ok(started), _) => self.stop(backend, *started, now),
            (Err(error), _) => self.on_not_started(backend, &error, now),
        }
    }

    fn on_not_started(&mut self, backend: BackendKey, error: &io::Error, now: Instant) {
        log::warn!("{error}");
        self.processes.remove(&backend);
        add(&self.counters.backends_stopped, 1);
        self.machine.handle_not_started(backend, StartFailure::from(error), now);
    }

    fn on_stopped(&mut self, backend: BackendKey, now: Instant) {
        add(&self.counters.backends_stopped, 1);
        self.machine.handle_stopped(backend, now);
    }

    fn on_event(&mut self, event: &Event, now: Instant) {
        self.is_ending |= matches!(event, Event::Drained { .. });
        if let Event::Backend { event: relay::Event::Unavailable { .. }, .. } = event {
            add(&self.counters.backends_failed, 1);
        }
        self.backend.observer.event(event);
        if let Event::Backend { event: relay::Event::PinsChanged(pins), .. } = event {
            let stored = self.backend.observer.store_pins(pins);
            self.machine.handle_pins(stored.unwrap_or_else(|| pins.clone()), now);
        }
    }

    fn count(&self, action: &HttpAction) {
        match action {
            HttpAction::Respond { response, .. } => {
                self.counters.answered(response.status());
                add(&self.counters.bytes_sent, response.body().len());
            }
            HttpAction::Write { chunk, .. } => add(&self.counters.bytes_sent, chunk.len()),
            HttpAction::Continue { .. }
            | HttpAction::Stream { .. }
            | HttpAction::Finish { .. }
            | HttpAction::Abort { .. }
            | _ => {}
        }
    }
}
