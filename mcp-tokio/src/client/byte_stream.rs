//! A connection over a pair of byte streams, such as the stdin and stdout of a server.

use std::io;
use std::process::ExitStatus;

use bytes::BytesMut;
use mcp_proto::client as proto;
use mcp_proto::{Stdio, StdioAction};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::timeout;

use super::link::Link;
use crate::child::Child;
use crate::clock::now;
use crate::lines::{FLUSH, Lines};

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;

/// Both streams, and the process that is at their other end.
pub(super) struct ByteStream<R, W> {
    read: R,
    is_readable: bool,
    buffer: BytesMut,
    /// Nothing once the other side takes no more.
    lines: Option<Lines<W>>,
    child: Option<Child>,
}

impl<R: AsyncRead + Send + Unpin + 'static, W: AsyncWrite + Send + Unpin + 'static> ByteStream<R, W> {
    pub(super) fn new(read: R, write: W, child: Option<Child>) -> Self {
        let lines = Some(Lines::new(write));
        Self { read, is_readable: true, buffer: BytesMut::with_capacity(CHUNK), lines, child }
    }

    fn has_ended(&mut self, machine: &mut proto::Client<Stdio>) {
        self.is_readable = false;
        machine.handle_eof(now());
    }
}

impl<R: AsyncRead + Send + Unpin + 'static, W: AsyncWrite + Send + Unpin + 'static> Link for ByteStream<R, W> {
    type Transport = Stdio;

    fn act(&mut self, action: StdioAction) {
        let Some(lines) = &mut self.lines else { return };
        match action {
            StdioAction::Write(line) => lines.push(line),
            StdioAction::CloseWrite => lines.complete(),
            _ => {}
        }
    }

    fn has_room(&self) -> bool {
        self.lines.as_ref().is_none_or(Lines::has_room)
    }

    async fn turn(&mut self, machine: &mut proto::Client<Stdio>) {
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
            written = write(&mut self.lines) => if let Err(error) = written {
                tracing::debug!(%error, "the server reads no more");
                self.lines = None;
                self.has_ended(machine);
            },
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
async fn write(lines: &mut Option<Lines<impl AsyncWrite + Unpin>>) -> io::Result<()> {
    match lines {
        Some(lines) if !lines.is_idle() => lines.write_some().await,
        Some(_) | None => std::future::pending().await,
    }
}
