//! A server in a child process, over its stdin and stdout. By default, it inherits this process's stderr. A server that
//! is no child is reached in the same way, over a pair of byte streams.
//!
//! | file | what it does |
//! |---|---|
//! | `process` | starts the server's process; ends it and all processes that it has started |
//! | `watch` | waits for the end of the process on a thread of its own |

mod process;
#[cfg(test)]
#[cfg(unix)]
mod tests;
mod watch;

use std::io::{self, Read, Write};
use std::process::Command;
use std::sync::Arc;
use std::time::Duration;

use mcp_application::{ChildEnd, STREAM_FLUSH_TIMEOUT};
use mcp_proto::machine::{HandleBytes, ServerStream};
use mcp_proto::{Instant, ProcessEnd, StartFailure, StdioAction};

pub(crate) use process::Process;

use crate::backpressure::Backpressure;
use crate::clock;
use crate::inbox::Inbox;
use crate::link::{Feed, Link};
use crate::platform::{Reading, ServerOutput};
use crate::stdio::{Happened, MayBlock, Output, Pipe, Writer, spawn_reader};

/// Inputs queued for the driver.
pub(crate) const INBOX: usize = 64;
/// How often to check whether the last lines are written.
const CHECK_INTERVAL: Duration = Duration::from_millis(5);

/// What happened to one of the processes; a restarted server has another `incarnation`.
#[derive(Debug)]
pub(crate) struct FromChild {
    incarnation: u64,
    happened: What,
}

#[derive(Debug)]
enum What {
    /// Something happened on the streams of the process.
    Stream(Happened),
    /// Its process has ended.
    Exited(ProcessEnd),
}

impl FromChild {
    /// The bytes that were read, if any were.
    pub(crate) fn bytes(&self) -> Option<&[u8]> {
        if let What::Stream(Happened::Read(bytes)) = &self.happened { Some(bytes) } else { None }
    }
}

/// The process, and the threads that read from it, write to it and wait for its end.
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
    /// Ends the thread that reads the output of the process.
    reading: Option<Reading>,
    /// When the server has ended.
    end: ChildEnd,
    /// Why restarting it has failed, if the machine has not been notified yet.
    not_restarted: Option<StartFailure>,
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
        let end = ChildEnd::of_stream();
        let (writer, reading, not_restarted) = (None, None, None);
        Self { command, process, incarnation: 0, writer, inbox, backpressure, reading, end, not_restarted }
    }

    fn spawn(&mut self) -> io::Result<()> {
        let Some(command) = &mut self.command else { return Err(io::ErrorKind::Unsupported.into()) };
        let (input, output) = self.process.start(command)?;
        let (output, reading) = ServerOutput::new(output)?;
        self.reading = Some(reading);
        self.connect(output, Pipe::new(input))?;
        self.end = ChildEnd::of_process();
        let (incarnation, inbox) = (self.incarnation, Arc::clone(&self.inbox));
        self.process.watch(move |end| {
            inbox.send(I::from(FromChild { incarnation, happened: What::Exited(end) }));
        })
    }

    /// Starts the threads that read and write.
    fn connect(&mut self, read: impl Read + Send + 'static, write: impl Output + 'static) -> io::Result<()> {
        self.incarnation += 1;
        let incarnation = self.incarnation;
        let hand_in = move |happened| I::from(FromChild { incarnation, happened: What::Stream(happened) });
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
        self.backpressure.bind();
        if let Err(error) = self.spawn() {
            log::warn!("{error}");
            self.not_restarted = Some(StartFailure::from(&error));
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
        if self.not_restarted.is_some() || is_taken {
            return Duration::ZERO;
        }
        self.end.due().map_or(Duration::MAX, |at| at.saturating_duration_since(now))
    }

    fn end(&mut self, pause: &mut dyn FnMut(Duration) -> bool) {
        if self.command.is_none() {
            self.flush(pause);
        }
        self.close_write();
        // A server that blocks on writing cannot end, so its output is still read, and discarded.
        self.backpressure.release();
        self.process.end(pause);
    }
}

impl<M: HandleBytes<ServerStream>, I: From<FromChild> + Send + 'static> Feed<M> for Child<I> {
    fn catch_up(&mut self, machine: &mut M, now: Instant) {
        let written = self.writer.as_ref().map_or(0, Writer::take_written);
        if written > 0 {
            machine.handle_written(ServerStream, written, now);
        }
        self.end.pass_to(machine, ServerStream, now);
        if let Some(failure) = self.not_restarted.take() {
            machine.handle_not_started(ServerStream, failure, now);
        }
    }

    fn feed(&mut self, machine: &mut M, FromChild { incarnation, happened }: FromChild, now: Instant) {
        if incarnation != self.incarnation {
            return;
        }
        match happened {
            What::Stream(Happened::Read(bytes)) => {
                machine.handle_bytes(ServerStream, &bytes, now);
                self.end.on_read(bytes.len());
            }
            What::Stream(Happened::InputEnded) => self.end.on_output_ended(now),
            // What the server wrote before it ended is still read.
            What::Stream(Happened::OutputClosed) => self.end.on_input_closed(now),
            What::Stream(Happened::Written) => {}
            What::Exited(end) => {
                self.end.on_exited(end, now);
                self.backpressure.release();
            }
        }
        self.end.pass_to(machine, ServerStream, now);
    }
}

/// Kills the process and everything that it has started.
impl<I> Drop for Child<I> {
    fn drop(&mut self) {
        self.process.kill();
    }
}
