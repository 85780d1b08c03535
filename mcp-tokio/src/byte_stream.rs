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

use crate::child::Child;
use crate::clock::now;
use crate::lines::{FLUSH, Lines};
use crate::link::Link;

/// The maximum number of bytes per read.
const CHUNK: usize = 64 * 1024;
/// How long reading continues after the peer has closed its input: the peer may still answer earlier requests.
const AFTER_CLOSED: Duration = Duration::from_secs(2);

/// Both streams, and the child process at their other end, if there is one.
pub(crate) struct ByteStream<R, W> {
    read: R,
    is_readable: bool,
    buffer: BytesMut,
    /// `None` after the peer has closed its input.
    lines: Option<Lines<W>>,
    /// When reading ends after the peer has closed its input.
    closed_until: Option<Instant>,
    /// Bytes that will not be written, but that the machine still counts as queued.
    discarded: usize,
    child: Option<Child>,
    /// Restarts the process.
    start: Option<Start<R, W>>,
    /// The process could not be restarted, and the machine is not informed yet.
    has_failed: bool,
}

/// Starts a process.
struct Start<R, W>(Box<dyn FnMut() -> io::Result<(Child, W, R)> + Send>);

impl<R: AsyncRead + Send + Unpin + 'static, W: AsyncWrite + Send + Unpin + 'static> ByteStream<R, W> {
    pub(crate) fn new(read: R, write: W) -> Self {
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

    /// Creates the streams of a process that `start` starts, and may have to restart once.
    pub(crate) fn start(mut start: impl FnMut() -> io::Result<(Child, W, R)> + Send + 'static) -> io::Result<Self> {
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

    /// Drops the lines that were not written.
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
        // Reading continues while a line is queued: a server that does one thing at a time may be blocked on its
        // output.
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
            // The last lines are written, unless the server does not read them in time.
            let _ = timeout(FLUSH, lines.finish()).await;
        }
        drop(self.read);
        self.child?.end().await
    }
}

/// Writes some of the queued lines, as soon as there are any.
async fn write(lines: &mut Option<Lines<impl AsyncWrite + Unpin>>) -> io::Result<usize> {
    match lines {
        Some(lines) if !lines.is_idle() => lines.write_some().await,
        Some(_) | None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use mcp_proto::Output;
    use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, split};

    use super::*;

    type Memory = ByteStream<ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

    /// A stream with a buffer of this many bytes, and its other end.
    fn narrow(bytes: usize) -> (Memory, DuplexStream) {
        let (ours, theirs) = duplex(bytes);
        let (read, write) = split(ours);
        (ByteStream::new(read, write), theirs)
    }

    fn machine() -> proto::Client<Stdio> {
        let mut machine = proto::Client::new(Stdio::new(), proto::Config::new("t", "1")).unwrap();
        machine.connect(now()).unwrap();
        machine
    }

    #[tokio::test]
    async fn what_will_not_be_written_is_reported_as_written() {
        let (mut stream, _theirs) = narrow(4);
        stream.act(StdioAction::Write(Bytes::from_static(b"abcdef")));
        assert_eq!(write(&mut stream.lines).await.unwrap(), 4);
        stream.closed_until = Some(Instant::now());
        // No process can be restarted here.
        stream.act(StdioAction::Respawn);
        assert_eq!((stream.discarded, stream.lines.is_none(), stream.has_failed), (2, true, true));
        assert!(stream.closed_until.is_none(), "the old process's time is not the new one's");
        stream.act(StdioAction::Write(Bytes::from_static(b"ghi")));
        assert_eq!(stream.discarded, 5);
        stream.has_failed = false;
        stream.turn(&mut machine()).await;
        assert_eq!(stream.discarded, 0);
    }

    #[tokio::test]
    async fn a_stream_that_cannot_be_started_anew_has_ended() {
        let (mut stream, _theirs) = narrow(4);
        stream.has_failed = true;
        let mut machine = machine();
        stream.turn(&mut machine).await;
        assert_eq!((stream.has_failed, stream.is_readable), (false, false));
        let mut outputs = std::iter::from_fn(|| machine.poll_output());
        assert!(outputs.any(|output| matches!(output, Output::Event(proto::Event::Closed(_)))));
    }

    #[tokio::test]
    async fn closing_the_other_sides_input_leaves_its_output_open() {
        let (mut stream, mut theirs) = narrow(64);
        stream.act(StdioAction::Write(Bytes::from_static(b"last\n")));
        stream.act(StdioAction::CloseWrite);
        assert_eq!(write(&mut stream.lines).await.unwrap(), 5);
        let mut read = String::new();
        theirs.read_to_string(&mut read).await.unwrap();
        assert_eq!((read.as_str(), stream.is_readable), ("last\n", true));
    }
}
