//! A connection over a pair of byte streams, such as the stdin and stdout of a server.

use std::io;
use std::process::ExitStatus;
use std::time::Duration;

use bytes::{Bytes, BytesMut};
use mcp_proto::client as proto;
use mcp_proto::{Stdio, StdioAction};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::process::ChildStdin;
use tokio::sync::mpsc;
use tokio::task::JoinHandle;
use tokio::time::timeout;
use tracing::Instrument;

use super::driver::now;
use super::link::Link;
use crate::child::Child;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// Lines that wait to be written. Further ones wait in the machine, which then wants no input in the end.
const LINES: usize = 64;
/// How long the last lines may take to be written after everything else has ended.
const FLUSH: Duration = Duration::from_secs(1);

/// Both streams, and the process that is at their other end.
pub(super) struct ByteStream<R> {
    read: R,
    is_readable: bool,
    buffer: BytesMut,
    /// Where lines are taken to be written, until the machine closes that.
    lines: Option<mpsc::Sender<Bytes>>,
    /// A line that found no room.
    unwritten: Option<Bytes>,
    writer: JoinHandle<()>,
    child: Option<Child>,
    /// Starts the process anew.
    restart: Option<Start<R>>,
    /// The stream ended outside of a turn.
    has_failed: bool,
}

/// Starts a process.
struct Start<R>(Box<dyn FnMut() -> io::Result<(Child, ChildStdin, R)> + Send>);

impl<R: AsyncRead + Send + Unpin + 'static> ByteStream<R> {
    /// The stream to a process that `start` starts, and starts again.
    pub(super) fn start(
        mut start: impl FnMut() -> io::Result<(Child, ChildStdin, R)> + Send + 'static,
    ) -> io::Result<Self> {
        let (child, write, read) = start()?;
        let stream = Self::new(read, write);
        Ok(Self { child: Some(child), restart: Some(Start(Box::new(start))), ..stream })
    }

    pub(super) fn new(read: R, write: impl AsyncWrite + Send + Unpin + 'static) -> Self {
        let (lines, writer) = spawn_writer(write);
        Self {
            read,
            is_readable: true,
            buffer: BytesMut::with_capacity(CHUNK),
            lines: Some(lines),
            unwritten: None,
            writer,
            child: None,
            restart: None,
            has_failed: false,
        }
    }

    /// Goes on with a new process; the old one has ended, or does so without being waited for.
    fn respawn(&mut self) {
        self.lines = None;
        self.unwritten = None;
        self.buffer.clear();
        self.writer.abort();
        if let Some(child) = self.child.take() {
            tokio::spawn(child.end().in_current_span());
        }
        match self.restart.as_mut().map(|start| (start.0)()) {
            Some(Ok((child, write, read))) => {
                tracing::info!("the server ended when it was asked for its revisions; it is started anew");
                let (lines, writer) = spawn_writer(write);
                (self.read, self.is_readable) = (read, true);
                (self.lines, self.writer, self.child) = (Some(lines), writer, Some(child));
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "the server cannot be started anew");
                self.has_failed = true;
            }
            None => self.has_failed = true,
        }
    }

    fn has_ended(&mut self, machine: &mut proto::Client<Stdio>) {
        self.is_readable = false;
        machine.handle_eof(now());
    }
}

impl<R: AsyncRead + Send + Unpin + 'static> Link for ByteStream<R> {
    type Transport = Stdio;

    fn act(&mut self, action: StdioAction) {
        match action {
            StdioAction::Write(line) => {
                let sent = self.lines.as_ref().map(|lines| lines.try_send(line));
                if let Some(Err(mpsc::error::TrySendError::Full(line))) = sent {
                    self.unwritten = Some(line);
                }
            }
            StdioAction::CloseWrite => self.lines = None,
            StdioAction::Respawn => self.respawn(),
            _ => {}
        }
    }

    fn has_room(&self) -> bool {
        self.unwritten.is_none()
    }

    async fn turn(&mut self, machine: &mut proto::Client<Stdio>) {
        if std::mem::take(&mut self.has_failed) {
            return self.has_ended(machine);
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
            is_gone = hand_on(self.lines.as_ref(), &mut self.unwritten), if self.unwritten.is_some() => if is_gone {
                // Nobody reads what is written.
                self.has_ended(machine);
            },
            else => std::future::pending().await,
        }
    }

    async fn end(mut self) -> Option<ExitStatus> {
        drop(self.lines);
        // The last lines are written, but a server that does not read them is not waited for.
        if timeout(FLUSH, &mut self.writer).await.is_err() {
            self.writer.abort();
        }
        drop(self.read);
        self.child?.end().await
    }
}

/// Writes lines until the sender is dropped or the other side takes no more.
fn spawn_writer(mut write: impl AsyncWrite + Send + Unpin + 'static) -> (mpsc::Sender<Bytes>, JoinHandle<()>) {
    let (lines, mut waiting) = mpsc::channel::<Bytes>(LINES);
    let task = tokio::spawn(async move {
        while let Some(line) = waiting.recv().await {
            if write.write_all(&line).await.is_err() {
                return;
            }
            if waiting.is_empty() && write.flush().await.is_err() {
                return;
            }
        }
        let _ = write.shutdown().await;
    });
    (lines, task)
}

/// Hands a line to the writer once that has room; `true` if it is gone.
async fn hand_on(lines: Option<&mpsc::Sender<Bytes>>, unwritten: &mut Option<Bytes>) -> bool {
    let permit = match lines {
        Some(lines) => lines.reserve().await.ok(),
        None => None,
    };
    match (permit, unwritten.take()) {
        (Some(permit), Some(line)) => permit.send(line),
        (Some(_), None) => {}
        (None, _) => return true,
    }
    false
}
