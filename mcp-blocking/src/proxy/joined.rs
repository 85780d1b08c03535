//! The loop of a proxy.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
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

/// How long the client may take to read the last lines.
const FLUSH_TIMEOUT: Duration = Duration::from_secs(5);
/// The same once the proxy was stopped.
const URGENT_FLUSH_TIMEOUT: Duration = Duration::from_secs(1);

/// A relay, and what carries its messages to the server.
pub(super) struct Joined<T: ClientTransport, L: Link> {
    pub(super) relay: Relay<T>,
    pub(super) link: L,
    /// Closed while no more of what the server says should be read.
    pub(super) gate: Arc<Gate>,
    pub(super) mail: Mail<L::Received>,
    /// The relay was closed because the proxy was stopped.
    pub(super) is_closing: bool,
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
        let writer = Writer::spawn(output, self.mail.inbox.clone(), Input::Client)?;
        spawn_reader(input, self.mail.inbox.clone(), Arc::clone(&client_gate), Input::Client)?;
        let reason = loop {
            if let Some(reason) = self.drain(&writer, observer) {
                break reason;
            }
            self.gate.set(self.relay.wants_body());
            client_gate.set(self.relay.wants_bytes());
            self.turn(&writer, observer);
        };
        writer.close();
        let closed = Instant::now();
        let exited = self.link.end(&mut |time| self.mail.pause(time));
        if let Some(status) = exited {
            log::warn!("the server has ended ({status}); what it wrote to its stderr may say why");
        }
        while !writer.is_done() {
            let timeout = if self.mail.is_stopped() { URGENT_FLUSH_TIMEOUT } else { FLUSH_TIMEOUT };
            let left = timeout.saturating_sub(closed.elapsed());
            if left.is_zero() {
                let text = format!("the client does not read: {} bytes were not written to it", writer.waiting());
                return Err(io::Error::new(io::ErrorKind::TimedOut, text));
            }
            self.mail.pause(left);
        }
        Ok(reason)
    }

    /// Carries out all that the relay says. Returns why it has ended, once it has.
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

    /// Waits for something to happen, and reports it to the relay.
    fn turn(&mut self, writer: &Writer, observer: &mut dyn Observer) {
        let now = Instant::now();
        let is_stalled = !self.relay.wants_bytes() || !self.relay.wants_body();
        let input = if is_stalled && !writer.wake_when_written() {
            self.mail.inputs.try_recv().map_err(|_| RecvTimeoutError::Timeout)
        } else {
            let due = self.relay.poll_timeout().map_or(Duration::MAX, |at| at.saturating_duration_since(now));
            self.mail.inputs.recv_timeout(due.min(self.link.patience(is_stalled, now)))
        };
        let now = Instant::now();
        let written = writer.take_written();
        if written > 0 {
            self.relay.handle_written(written, now);
        }
        self.link.catch_up(&mut self.relay, now);
        match input {
            Ok(Input::Server(received)) => self.link.feed(&mut self.relay, received, now),
            Ok(Input::Client(Happened::Read(bytes))) => {
                observer.received(&bytes);
                self.relay.handle_bytes(&bytes, now);
            }
            Ok(Input::Client(Happened::InputEnded)) => self.relay.handle_eof(now),
            // No client is left to serve.
            Ok(Input::Client(Happened::OutputClosed)) => self.relay.close(now),
            // `self` holds a sender.
            Ok(Input::Stop | Input::Client(Happened::Written))
            | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
        }
        if self.mail.is_stopped() && !self.is_closing {
            self.is_closing = true;
            self.relay.close(now);
        }
        if self.relay.poll_timeout().is_some_and(|at| at <= now) {
            self.relay.handle_timeout(now);
        }
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
    is_stopped: Arc<AtomicBool>,
}

impl<R: Send + 'static> Mail<R> {
    pub(super) fn new() -> Self {
        let (inbox, inputs) = sync_channel(INBOX);
        Self { inbox, inputs, is_stopped: Arc::default() }
    }

    /// What stops the owner, whatever waits in its inbox.
    pub(super) fn stop(&self) -> Arc<dyn Fn() + Send + Sync> {
        let (inbox, is_stopped) = (self.inbox.clone(), Arc::clone(&self.is_stopped));
        Arc::new(move || {
            is_stopped.store(true, Ordering::Release);
            // Where the inbox is full, the owner is awake; where it is closed, the proxy has ended.
            let _ = inbox.try_send(Input::Stop);
        })
    }

    fn is_stopped(&self) -> bool {
        self.is_stopped.load(Ordering::Acquire)
    }

    /// Waits for something to happen, but not longer than `time`, and ignores it. Returns whether the proxy was stopped.
    fn pause(&self, time: Duration) -> bool {
        if let Err(RecvTimeoutError::Disconnected) = self.inputs.recv_timeout(time) {
            thread::sleep(time);
        }
        self.is_stopped()
    }
}
