//! A server in a child process, over its stdin and stdout. By default, it inherits this process's stderr. A server that
//! is no child is reached in the same way, over a pair of byte streams.
//!
//! | file | what it does |
//! |---|---|
//! | `process` | starts the server's process; ends it and all processes that it has started |
//! | `group` | signals the server and all processes that it has started |

mod group;
mod process;
#[cfg(test)]
#[cfg(unix)]
mod tests;

use std::io::{self, Read, Write};
use std::process::{Command, ExitStatus};
use std::sync::Arc;
use std::time::Duration;

use mcp_proto::driver::{CLOSED_INPUT_TIMEOUT, STREAM_FLUSH_TIMEOUT};
use mcp_proto::machine::{HandleBytes, ServerStream};
use mcp_proto::{Instant, StdioAction};

use crate::backpressure::Backpressure;
use crate::clock;
use crate::inbox::Inbox;
use crate::link::{Feed, Link};
use crate::stdio::{Happened, MayBlock, Output, Pipe, Writer, spawn_reader};

pub(crate) use process::Process;

/// Inputs queued for the driver.
pub(crate) const INBOX: usize = 64;
/// How often to check whether the last lines are written.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// What happened to one of the processes; a restarted server has another `incarnation`.
#[derive(Debug)]
pub(crate) struct FromChild {
    incarnation: u64,
    happened: Happened,
}

impl FromChild {
    /// The bytes that were read, if any were.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        if let Happened::Read(bytes) = &self.happened { Some(bytes) } else { None }
    }
}

/// The process, and the threads that read from it and write to it.
#[derive(Debug)]
pub(crate) struct Child<I> {
    /// `None` if this process has not started it.
    command: Option<Command>,
    process: Process,
    incarnation: u64,
    writer: Option<Writer>,
    /// Where the threads send what happens.
    inbox: Arc<dyn Inbox<I>>,
    /// Closed while nothing more should be read from the server.
    backpressure: Arc<Backpressure>,
    /// When a server that no longer reads is killed.
    kill_at: Option<Instant>,
    /// Restarting it has failed, and the machine has not been notified yet.
    has_failed: bool,
    /// Its stdout ended before its stdin was closed.
    exited_first: bool,
}

impl<I: From<FromChild> + Send + 'static> Child<I> {
    pub(crate) fn start(
        command: Command,
        process: Process,
        inbox: Arc<dyn Inbox<I>>,
        backpressure: Arc<Backpressure>,
    ) -> io::Result<Self> {
        let mut child = Self::new(Some(command), process, inbox, backpressure);
        child.spawn()?;
        Ok(child)
    }

    /// A server that is not a child of this process, at the other end of these streams.
    pub(crate) fn over(
        read: impl Read + Send + 'static,
        write: impl Write + Send + 'static,
        inbox: Arc<dyn Inbox<I>>,
        backpressure: Arc<Backpressure>,
    ) -> io::Result<Self> {
        let mut child = Self::new(None, Process::default(), inbox, backpressure);
        child.connect(read, MayBlock(write))?;
        Ok(child)
    }

    fn new(
        command: Option<Command>,
        process: Process,
        inbox: Arc<dyn Inbox<I>>,
        backpressure: Arc<Backpressure>,
    ) -> Self {
        Self {
            command,
            process,
            incarnation: 0,
            writer: None,
            inbox,
            backpressure,
            kill_at: None,
            has_failed: false,
            exited_first: false,
        }
    }

    fn spawn(&mut self) -> io::Result<()> {
        let Some(command) = &mut self.command else { return Err(io::ErrorKind::Unsupported.into()) };
        let (input, output) = self.process.start(command)?;
        self.connect(output, Pipe::new(input))
    }

    /// Starts the threads that read and write.
    fn connect(&mut self, read: impl Read + Send + 'static, write: impl Output + 'static) -> io::Result<()> {
        self.incarnation += 1;
        let incarnation = self.incarnation;
        let hand_in = move |happened| I::from(FromChild { incarnation, happened });
        self.writer = Some(Writer::spawn(write, Arc::clone(&self.inbox), hand_in)?);
        spawn_reader(read, Arc::clone(&self.inbox), Arc::clone(&self.backpressure), hand_in)
    }

    /// The number of bytes that the server has not accepted yet.
    pub(crate) fn waiting(&self) -> usize {
        self.writer.as_ref().map_or(0, Writer::waiting)
    }

    fn close_write(&mut self) {
        if let Some(writer) = self.writer.take() {
            writer.close();
        }
    }

    /// Waits until everything is written, unless the server does not read it in time.
    fn flush(&self, pause: &mut dyn FnMut(Duration) -> bool) {
        let Some(writer) = &self.writer else { return };
        writer.close();
        let until = clock::now() + STREAM_FLUSH_TIMEOUT;
        while !writer.is_done() && clock::now() < until {
            pause(CHECK_INTERVAL);
        }
    }

    fn respawn(&mut self) {
        log::info!("the server exited at `server/discover`; it is restarted");
        if let Some(writer) = self.writer.take() {
            writer.discard();
        }
        self.kill_at = None;
        if let Err(error) = self.spawn() {
            log::warn!("{error}");
            self.has_failed = true;
        }
    }
}

impl<I: From<FromChild> + Send + 'static> Link for Child<I> {
    type Action = StdioAction;
    type Received = FromChild;

    fn act(&mut self, action: StdioAction) {
        match (action, &self.writer) {
            (StdioAction::Write(bytes), Some(writer)) => writer.push(bytes),
            (StdioAction::CloseWrite, _) => self.close_write(),
            (StdioAction::Respawn, _) => self.respawn(),
            _ => {}
        }
    }

    fn max_wait(&self, is_stalled: bool, now: Instant) -> Duration {
        let is_taken = is_stalled && self.writer.as_ref().is_some_and(|writer| !writer.wake_when_written());
        if self.has_failed || is_taken {
            return Duration::ZERO;
        }
        self.kill_at.map_or(Duration::MAX, |at| at.saturating_duration_since(now))
    }

    fn end(&mut self, pause: &mut dyn FnMut(Duration) -> bool) -> Option<ExitStatus> {
        if self.command.is_none() {
            self.flush(pause);
        }
        self.close_write();
        // A server that blocks on writing cannot end, so its output is still read, and discarded.
        self.backpressure.set(true);
        self.process.end(pause).filter(|_| self.exited_first)
    }
}

impl<M: HandleBytes<ServerStream>, I: From<FromChild> + Send + 'static> Feed<M> for Child<I> {
    fn catch_up(&mut self, machine: &mut M, now: Instant) {
        let written = self.writer.as_ref().map_or(0, Writer::take_written);
        if written > 0 {
            machine.handle_written(ServerStream, written, now);
        }
        if self.kill_at.is_some_and(|at| at <= now) {
            log::warn!("the server has closed its stdin and does not exit; it is killed");
            self.kill_at = None;
            self.process.kill();
        }
        if std::mem::take(&mut self.has_failed) {
            machine.handle_eof(ServerStream, now);
        }
    }

    fn feed(&mut self, machine: &mut M, FromChild { incarnation, happened }: FromChild, now: Instant) {
        if incarnation != self.incarnation {
            return;
        }
        match happened {
            Happened::Read(bytes) => machine.handle_bytes(ServerStream, &bytes, now),
            Happened::InputEnded => {
                self.exited_first = self.writer.is_some();
                self.kill_at = None;
                machine.handle_eof(ServerStream, now);
            }
            // What the server wrote before it ended is still read.
            Happened::OutputClosed => self.kill_at = Some(now + CLOSED_INPUT_TIMEOUT),
            Happened::Written => {}
        }
    }
}

/// Kills the process and everything that it has started.
impl<I> Drop for Child<I> {
    fn drop(&mut self) {
        self.process.kill();
    }
}
