//! The loop that passes input to the machine, and carries out its actions.

use std::collections::BTreeMap;
use std::io::{self, Read};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, SyncSender};
use std::thread;
use std::time::Duration;

use mcp_application::{PROXY_FLUSH_TIMEOUT, URGENT_PROXY_FLUSH_TIMEOUT, not_read};
use mcp_intermediary::aggregate::{Action, Aggregate, Event, ServerKey};
use mcp_proto::client::CloseReason;
use mcp_proto::machine::{HandleBytes, ServerStream};
use mcp_proto::{Instant, ProcessEnd, StartFailure, StdioAction};

use super::AggregateProxy;
use super::filters::ChangedFilters;
use super::server::AggregateServer;
use crate::backpressure::Backpressure;
use crate::child::{Child, FromChild, Process};
use crate::clock;
use crate::inbox::Inbox;
use crate::link::{Feed, Link};
use crate::stdio::{Happened, Output, Writer, spawn_reader};

/// How often to check whether the last lines are written.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// What threads send to the loop.
#[derive(Debug)]
pub(super) enum Input {
    Client(Happened),
    /// What happened to a server, and the number of its start.
    Server(ServerKey, u64, FromChild),
    /// A server that was stopped has ended.
    ServerStopped(ServerKey),
    /// The proxy was stopped, or filters were changed.
    Woken,
}

/// The inbox for what happens to one server.
#[derive(Debug)]
struct ServerInbox {
    server: ServerKey,
    start: u64,
    inbox: SyncSender<Input>,
}

impl Inbox<FromChild> for ServerInbox {
    fn send(&self, input: FromChild) -> bool {
        self.inbox.send(Input::Server(self.server, self.start, input)).is_ok()
    }

    fn try_send(&self, input: FromChild) {
        let _ = self.inbox.try_send(Input::Server(self.server, self.start, input));
    }
}

/// A server that is running.
struct Running {
    child: Child<FromChild>,
    /// The number of its start.
    start: u64,
    backpressure: Arc<Backpressure>,
}

/// The stream of one server of the machine.
struct OneServer<'a> {
    aggregate: &'a mut Aggregate,
    server: ServerKey,
}

impl HandleBytes<ServerStream> for OneServer<'_> {
    fn handle_bytes(&mut self, _: ServerStream, bytes: &[u8], now: Instant) {
        self.aggregate.handle_server_bytes(self.server, bytes, now);
    }

    fn handle_written(&mut self, _: ServerStream, bytes: usize, now: Instant) {
        self.aggregate.handle_server_written(self.server, bytes, now);
    }

    fn handle_eof(&mut self, _: ServerStream, now: Instant) {
        self.aggregate.handle_server_eof(self.server, now);
    }

    fn handle_process_end(&mut self, _: ServerStream, end: ProcessEnd, now: Instant) {
        self.aggregate.handle_server_process_end(self.server, end, now);
    }

    fn wants_bytes(&self, _: ServerStream) -> bool {
        self.aggregate.wants_server_bytes(self.server)
    }
}

/// The machine, the streams of its client, and its servers.
pub(super) struct AggregateLoop {
    aggregate: Aggregate,
    servers: Vec<AggregateServer>,
    processes: Vec<Process>,
    running: BTreeMap<ServerKey, Running>,
    /// The number of starts of all servers.
    starts: u64,
    writer: Writer,
    /// Closed while nothing more should be read from the client.
    backpressure: Arc<Backpressure>,
    inbox: SyncSender<Input>,
    inputs: Receiver<Input>,
    is_stopped: Arc<AtomicBool>,
    changed: Arc<ChangedFilters>,
    is_closing: bool,
    on_event: Box<dyn FnMut(&Event) + Send>,
    closed: Option<CloseReason>,
}

impl AggregateLoop {
    /// Starts the threads that read from the client and write to it.
    pub(super) fn start(
        aggregate: Aggregate,
        proxy: AggregateProxy,
        input: impl Read + Send + 'static,
        output: impl Output + 'static,
    ) -> io::Result<Self> {
        let AggregateProxy { servers, on_event, processes, is_stopped, changed, inbox, inputs, config: _ } = proxy;
        let backpressure = Arc::new(Backpressure::new());
        let to_loop: Arc<dyn Inbox<Input>> = Arc::new(inbox.clone());
        let writer = Writer::spawn(output, Arc::clone(&to_loop), Input::Client)?;
        spawn_reader(input, to_loop, Arc::clone(&backpressure), Input::Client)?;
        Ok(Self {
            aggregate,
            servers,
            processes,
            running: BTreeMap::new(),
            starts: 0,
            writer,
            backpressure,
            inbox,
            inputs,
            is_stopped,
            changed,
            is_closing: false,
            on_event,
            closed: None,
        })
    }

    /// Runs until the machine is closed and its last lines are written.
    pub(super) fn run(mut self) -> io::Result<CloseReason> {
        let mut input = None;
        let reason = loop {
            let now = clock::now();
            self.catch_up(now);
            for (name, filter) in self.changed.take() {
                if let Some(server) = self.aggregate.server_named(&name) {
                    self.aggregate.set_filter(server, filter, now);
                }
            }
            if let Some(input) = input.take() {
                self.handle(input, now);
            }
            if self.is_stopped() && !std::mem::replace(&mut self.is_closing, true) {
                self.aggregate.close(now);
            }
            if self.aggregate.poll_timeout().is_some_and(|due| due <= now) {
                self.aggregate.handle_timeout(now);
            }
            self.act();
            if let Some(reason) = self.closed {
                break reason;
            }
            self.set_backpressure();
            input = self.wait();
        };
        self.flush()?;
        Ok(reason)
    }

    /// Reports to the machine what has changed without an input.
    fn catch_up(&mut self, now: Instant) {
        let written = self.writer.take_written();
        if written > 0 {
            self.aggregate.handle_written(written, now);
        }
        for (server, running) in &mut self.running {
            let mut machine = OneServer { aggregate: &mut self.aggregate, server: *server };
            running.child.catch_up(&mut machine, now);
        }
    }

    fn handle(&mut self, input: Input, now: Instant) {
        match input {
            Input::Client(Happened::Read(bytes)) => self.aggregate.handle_bytes(&bytes, now),
            Input::Client(Happened::InputEnded) => self.aggregate.handle_eof(now),
            // The client no longer reads, so there is nothing left to do.
            Input::Client(Happened::OutputClosed) => self.aggregate.close(now),
            Input::Server(server, start, received) => {
                // A server that was stopped may still send something, with the number of an earlier start.
                if let Some(running) = self.running.get_mut(&server).filter(|running| running.start == start) {
                    let mut machine = OneServer { aggregate: &mut self.aggregate, server };
                    running.child.feed(&mut machine, received, now);
                }
            }
            Input::ServerStopped(server) => self.aggregate.handle_stopped(server, now),
            Input::Client(Happened::Written) | Input::Woken => {}
        }
    }

    /// Carries out all outputs of the machine.
    fn act(&mut self) {
        while let Some(output) = self.aggregate.poll_output() {
            match output {
                mcp_proto::Output::Action(Action::Client(StdioAction::Write(bytes))) => self.writer.push(bytes),
                mcp_proto::Output::Action(Action::Client(_)) => self.writer.close(),
                mcp_proto::Output::Action(Action::Start { server }) => self.start_server(server),
                mcp_proto::Output::Action(Action::Server { server, action }) => {
                    if let Some(running) = self.running.get_mut(&server) {
                        running.child.act(action);
                    }
                }
                mcp_proto::Output::Action(Action::Stop { server }) => self.stop_server(server),
                mcp_proto::Output::Action(_) => {}
                mcp_proto::Output::Event(event) => {
                    (self.on_event)(&event);
                    if let Event::Closed(reason) = event {
                        self.closed = Some(reason);
                    }
                }
            }
        }
    }

    fn start_server(&mut self, server: ServerKey) {
        self.starts += 1;
        let (start, backpressure) = (self.starts, Arc::new(Backpressure::new()));
        let inbox = Arc::new(ServerInbox { server, start, inbox: self.inbox.clone() });
        let parts = self.servers.get_mut(server.index()).zip(self.processes.get(server.index()));
        let started = parts.map(|(make, process)| make.start(process, inbox, Arc::clone(&backpressure)));
        match started {
            Some(Ok(child)) => {
                self.running.insert(server, Running { child, start, backpressure });
            }
            Some(Err(error)) => {
                log::warn!("{error}");
                self.aggregate.handle_not_started(server, StartFailure::from(&error), clock::now());
            }
            None => self.aggregate.handle_stopped(server, clock::now()),
        }
    }

    /// Ends a server on a thread of its own, because that may take some seconds.
    fn stop_server(&mut self, server: ServerKey) {
        let Some(Running { mut child, .. }) = self.running.remove(&server) else { return };
        let (inbox, is_stopped) = (self.inbox.clone(), Arc::clone(&self.is_stopped));
        let end = move || {
            child.end(&mut |time| {
                thread::sleep(time);
                is_stopped.load(Ordering::Acquire)
            });
            // The same process is killed when this is dropped, which must not be a later one.
            drop(child);
            let _ = inbox.send(Input::ServerStopped(server));
        };
        let ended = thread::Builder::new().name("mcp-stop".to_owned()).spawn(end);
        // The closure was dropped, and the child with it, which kills the process.
        if let Err(error) = ended {
            log::warn!("a server was killed, because no thread could be started: {error}");
            self.aggregate.handle_stopped(server, clock::now());
        }
    }

    fn set_backpressure(&self) {
        self.backpressure.set(self.aggregate.wants_bytes());
        for (server, running) in &self.running {
            running.backpressure.set(self.aggregate.wants_server_bytes(*server));
        }
    }

    /// Waits for the next input, but no longer than until the next timeout.
    fn wait(&self) -> Option<Input> {
        let now = clock::now();
        if !self.writer.wake_when_written() {
            return None;
        }
        let of_machine = self.aggregate.poll_timeout().map(|due| due.saturating_duration_since(now));
        let of_children = self.running.values().map(|running| running.child.max_wait(true, now));
        let time = of_children.chain(of_machine).min().unwrap_or(Duration::MAX);
        self.inputs.recv_timeout(time).ok()
    }

    /// Waits until the client has read everything, but not for ever.
    fn flush(&self) -> io::Result<()> {
        self.writer.close();
        let closed = clock::now();
        while !self.writer.is_done() {
            let timeout = if self.is_stopped() { URGENT_PROXY_FLUSH_TIMEOUT } else { PROXY_FLUSH_TIMEOUT };
            if clock::now() - closed >= timeout {
                return Err(not_read(self.writer.waiting()));
            }
            thread::sleep(CHECK_INTERVAL);
        }
        Ok(())
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }
}
