//! A connection over a pair of byte streams, such as the stdin and stdout of a server.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::BytesMut;
use mcp_proto::client as proto;
use mcp_proto::{Stdio, StdioAction};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{Instant, sleep_until, timeout};
use tracing::Instrument;

use super::link::Link;
use crate::child::Child;
use crate::clock::now;
use crate::lines::{FLUSH, Lines};

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// How long reading goes on after the other side has closed its input: what it has taken before may yet be answered.
const AFTER_CLOSED: Duration = Duration::from_secs(2);

/// Both streams, and the process that is at their other end.
pub(super) struct ByteStream<R, W> {
    read: R,
    is_readable: bool,
    buffer: BytesMut,
    /// Nothing once the other side takes no more.
    lines: Option<Lines<W>>,
    /// When reading ends because the other side takes no more.
    closed_until: Option<Instant>,
    /// Bytes that will not be written, and that the machine counts as waiting.
    discarded: usize,
    child: Option<Child>,
    /// Starts the process anew.
    start: Option<Start<R, W>>,
    /// The process could not be started anew, and the machine does not know it yet.
    has_failed: bool,
}

/// Starts a process.
struct Start<R, W>(Box<dyn FnMut() -> io::Result<(Child, W, R)> + Send>);

impl<R: AsyncRead + Send + Unpin + 'static, W: AsyncWrite + Send + Unpin + 'static> ByteStream<R, W> {
    pub(super) fn new(read: R, write: W) -> Self {
        let (buffer, lines) = (BytesMut::with_capacity(CHUNK), Some(Lines::new(write)));
        Self {
            read,
            is_readable: true,
            buffer,
            lines,
            closed_until: None,
            discarded: 0,
            child: None,
            start: None,
            has_failed: false,
        }
    }

    /// The streams of a process that `start` starts, and may have to start once more.
    pub(super) fn start(mut start: impl FnMut() -> io::Result<(Child, W, R)> + Send + 'static) -> io::Result<Self> {
        let (child, write, read) = start()?;
        Ok(Self { child: Some(child), start: Some(Start(Box::new(start))), ..Self::new(read, write) })
    }

    fn respawn(&mut self) {
        tracing::info!("the server ended when it was asked for its revisions; it is started anew");
        self.discard_lines();
        self.closed_until = None;
        if let Some(child) = self.child.take() {
            tokio::spawn(child.end().in_current_span());
        }
        match self.start.as_mut().map(|start| (start.0)()) {
            Some(Ok((child, write, read))) => {
                (self.read, self.is_readable) = (read, true);
                (self.lines, self.child) = (Some(Lines::new(write)), Some(child));
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "the server cannot be started anew");
                self.has_failed = true;
            }
            None => self.has_failed = true,
        }
    }

    /// Drops what was not written.
    fn discard_lines(&mut self) {
        self.discarded += self.lines.take().map_or(0, |lines| lines.unwritten());
    }

    fn has_ended(&mut self, machine: &mut proto::Client<Stdio>) {
        (self.is_readable, self.closed_until) = (false, None);
        machine.handle_eof(now());
    }
}

impl<R: AsyncRead + Send + Unpin + 'static, W: AsyncWrite + Send + Unpin + 'static> Link for ByteStream<R, W> {
    type Transport = Stdio;

    fn act(&mut self, action: StdioAction) {
        match (action, &mut self.lines) {
            (StdioAction::Write(line), Some(lines)) => lines.push(line),
            (StdioAction::Write(line), None) => self.discarded += line.len(),
            (StdioAction::CloseWrite, Some(lines)) => lines.complete(),
            (StdioAction::Respawn, _) => self.respawn(),
            _ => {}
        }
    }

    async fn turn(&mut self, machine: &mut proto::Client<Stdio>) {
        if std::mem::take(&mut self.has_failed) {
            return self.has_ended(machine);
        }
        if self.discarded > 0 {
            return machine.handle_written(std::mem::take(&mut self.discarded), now());
        }
        // Reading goes on while a line waits: a server that does one thing at a time may be waiting for that.
        let wants_input = self.is_readable && machine.wants_input();
        tokio::select! {
            length = self.read.read_buf(&mut self.buffer), if wants_input => match length {
                Ok(0) | Err(_) => self.has_ended(machine),
                Ok(_) => {
                    machine.handle_bytes(&self.buffer, now());
                    self.buffer.clear();
                }
            },
            written = write(&mut self.lines) => match written {
                Ok(0) => {}
                Ok(bytes) => machine.handle_written(bytes, now()),
                Err(error) => {
                    tracing::debug!(%error, "the server has closed its input");
                    self.discard_lines();
                    self.closed_until = Some(Instant::now() + AFTER_CLOSED);
                }
            },
            () = sleep_until(self.closed_until.unwrap_or_else(Instant::now)), if self.closed_until.is_some() => {
                self.has_ended(machine);
            }
        }
    }

    async fn end(self) -> Option<ExitStatus> {
        if let Some(lines) = self.lines {
            // The last lines are written, but a server that does not read them is not waited for.
            let _ = timeout(FLUSH, lines.finish()).await;
        }
        drop(self.read);
        self.child?.end().await
    }
}

/// Writes some of what waits, once something does.
async fn write(lines: &mut Option<Lines<impl AsyncWrite + Unpin>>) -> io::Result<usize> {
    match lines {
        Some(lines) if !lines.is_idle() => lines.write_some().await,
        Some(_) | None => std::future::pending().await,
    }
}
