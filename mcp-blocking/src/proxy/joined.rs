//! The loop of a proxy.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread;
use std::time::Duration;

use mcp_proto::client::{ClientTransport, CloseReason};
use mcp_proto::relay::{Action, Event, Relay};
use mcp_proto::{Instant, Output, StdioAction};

use super::Observer;
use crate::child::INBOX;
use crate::gate::Gate;
use crate::link::{Feed, Link};
use crate::stdio::{Happened, Writer, spawn_reader};

/// How long the last lines may take to be written after everything else has ended.
const FLUSH: Duration = Duration::from_secs(1);

/// A relay, and what carries its messages to the server.
pub(super) struct Joined<T: ClientTransport, L: Link> {
    pub(super) relay: Relay<T>,
    pub(super) link: L,
    /// Closed while no more of what the server says should be read.
    pub(super) gate: Arc<Gate>,
    pub(super) mail: Mail<L::Received>,
    /// Bytes of answers at which the machine stops reading.
    pub(super) queue_bytes: usize,
}

impl<T, L> Joined<T, L>
where
    T: ClientTransport,
    L: Feed<Relay<T>, Action = T::Action, Received: Send + 'static>,
{
    pub(super) fn run(
        mut self,
        input: impl Read + Send + 'static,
        output: impl Write + Send + 'static,
        observer: &mut dyn Observer,
    ) -> io::Result<CloseReason> {
        let client_gate = Arc::new(Gate::new());
        let writer = Writer::spawn(output, self.queue_bytes, self.mail.inbox.clone(), Input::Client)?;
        spawn_reader(input, self.mail.inbox.clone(), Arc::clone(&client_gate), Input::Client)?;
        let mut is_urgent = false;
        let reason = loop {
            if let Some(reason) = self.drain(&writer, observer) {
                break reason;
            }
            self.gate.set(self.relay.wants_body());
            client_gate.set(self.relay.wants_bytes());
            is_urgent |= self.turn(&writer, observer);
        };
        writer.flush(FLUSH);
        let exited = self.link.end(&mut |time| {
            match self.mail.inputs.recv_timeout(time) {
                Ok(Input::Stop) => is_urgent = true,
                Ok(Input::Client(_) | Input::Server(_)) | Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(time),
            }
            is_urgent
        });
        if let Some(status) = exited {
            log::warn!("the server has ended ({status}); what it wrote to its stderr may say why");
        }
        Ok(reason)
    }

    /// Carries out what the relay says, until there is nothing more. Returns why it has ended, once it has.
    fn drain(&mut self, writer: &Writer, observer: &mut dyn Observer) -> Option<CloseReason> {
        while let Some(output) = self.relay.poll_output() {
            match output {
                Output::Action(Action::Client(StdioAction::Write(bytes))) => {
                    observer.written(&bytes);
                    writer.push(bytes);
                }
                Output::Action(Action::Client(StdioAction::CloseWrite)) => writer.close(),
                Output::Action(Action::Client(_)) => {}
                Output::Action(Action::Server(action)) => self.link.act(action),
                Output::Event(event) => {
                    observer.told(&event);
                    if let Event::Closed(reason) = event {
                        return Some(reason);
                    }
                }
            }
        }
        None
    }

    /// Waits for something to happen, and tells the relay. Returns whether the proxy was stopped.
    fn turn(&mut self, writer: &Writer, observer: &mut dyn Observer) -> bool {
        let now = Instant::now();
        let due = self.relay.poll_timeout().map_or(Duration::MAX, |at| at.saturating_duration_since(now));
        let input = self.mail.inputs.recv_timeout(due.min(self.link.patience(now)));
        let now = Instant::now();
        self.link.catch_up(&mut self.relay, now);
        let written = writer.take_written();
        if written > 0 {
            self.relay.handle_written(written, now);
        }
        let mut is_stopped = false;
        match input {
            Ok(Input::Server(received)) => self.link.feed(&mut self.relay, received, now),
            Ok(Input::Client(Happened::Read(bytes))) => {
                observer.received(&bytes);
                self.relay.handle_bytes(&bytes, now);
            }
            Ok(Input::Client(Happened::InputEnded)) => self.relay.handle_eof(now),
            // Nobody is left to serve.
            Ok(Input::Client(Happened::OutputClosed)) => self.relay.close(now),
            Ok(Input::Stop) => {
                is_stopped = true;
                self.relay.close(now);
            }
            // `self` holds a sender.
            Ok(Input::Client(Happened::Writable)) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {
            }
        }
        if self.relay.poll_timeout().is_some_and(|at| at <= now) {
            self.relay.handle_timeout(now);
        }
        is_stopped
    }
}

/// What the owner of a relay waits for.
#[derive(Debug)]
pub(super) enum Input<R> {
    Server(R),
    Client(Happened),
    Stop,
}

impl<R> From<R> for Input<R> {
    fn from(received: R) -> Self {
        Self::Server(received)
    }
}

/// The channel to the owner.
#[derive(Debug)]
pub(super) struct Mail<R> {
    pub(super) inbox: SyncSender<Input<R>>,
    inputs: Receiver<Input<R>>,
}

impl<R: Send + 'static> Mail<R> {
    pub(super) fn new() -> Self {
        let (inbox, inputs) = sync_channel(INBOX);
        Self { inbox, inputs }
    }

    /// What stops the owner.
    pub(super) fn stop(&self) -> Arc<dyn Fn() + Send + Sync> {
        let inbox = self.inbox.clone();
        // A proxy that is gone has stopped.
        Arc::new(move || drop(inbox.send(Input::Stop)))
    }
}
