//! A connection over a pair of byte streams, such as the stdin and stdout of a server.

use std::io;
use std::time::Duration;

use bytes::{Buf, BytesMut};
use mcp_application::{ChildEnd, not_read};
use mcp_proto::machine::HandleBytes;
use mcp_proto::{ProcessEnd, StartFailure, StdioAction};
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::time::{sleep, timeout};
use tracing::Instrument;

use crate::child::Child;
use crate::clock::now;
use crate::lines::{FLUSH, Lines};
use crate::link::{Feed, Link};
use crate::stdio::Written;

/// The number of bytes that are read, and passed to the machine, at once.
const CHUNK: usize = 64 * 1024;
/// The maximum number of bytes that [`ByteStream::reading_ahead`] reads: a pipe holds at most as much.
const AHEAD: usize = 1 << 20;

/// Both streams, and the child process at their other end, if there is one. `S` is the machine's name of them.
pub(crate) struct ByteStream<S, R, W> {
    stream: S,
    read: R,
    is_readable: bool,
    buffer: BytesMut,
    /// The maximum number of bytes that are read while the machine accepts none.
    ahead: usize,
    /// `None` after the peer has closed its input.
    lines: Option<Lines<W>>,
    /// When the peer has ended.
    end: ChildEnd,
    /// Bytes that will not be written, but that the machine still counts as queued.
    discarded: usize,
    child: Option<Child>,
    /// Restarts the process.
    start: Option<Start<R, W>>,
    /// Why the process could not be restarted, if the machine is not informed yet.
    not_restarted: Option<StartFailure>,
}

/// What happened to a byte stream.
#[derive(Debug)]
pub(crate) enum FromStream {
    /// Bytes were added to the buffer.
    Read,
    /// This number of bytes was written or discarded.
    Written(usize),
    /// The peer has closed its input.
    Closed,
    /// The peer has closed its output.
    Ended,
    /// The process at the other end has ended.
    Exited(ProcessEnd),
    /// It is time to decide whether the peer has ended.
    Due,
    /// The process could not be restarted.
    NotRestarted(StartFailure),
}

/// Starts a process.
struct Start<R, W>(Box<dyn FnMut() -> io::Result<(Child, W, R)> + Send>);

impl<S, R, W: AsyncWrite + Send + Unpin + 'static> ByteStream<S, R, W> {
    pub(crate) fn new(stream: S, read: R, write: W) -> Self {
        let (buffer, lines) = (BytesMut::with_capacity(CHUNK), Some(Lines::new(write)));
        Self {
            stream,
            read,
            is_readable: true,
            buffer,
            ahead: 0,
            lines,
            end: ChildEnd::of_stream(),
            discarded: 0,
            child: None,
            start: None,
            not_restarted: None,
        }
    }

    /// Creates the streams of a process that `start` starts, and may have to restart once.
    pub(crate) fn start(
        stream: S,
        mut start: impl FnMut() -> io::Result<(Child, W, R)> + Send + 'static,
    ) -> io::Result<Self> {
        let (child, write, read) = start()?;
        Ok(Self { start: Some(Start(Box::new(start))), ..Self::new(stream, read, write).of_child(child) })
    }

    /// The streams are those of this process, which ends with them.
    pub(crate) fn of_child(self, child: Child) -> Self {
        Self { child: Some(child), end: ChildEnd::of_process(), ..self }
    }

    /// Reads also while the machine accepts no input, up to a limit, so that the end of the stream is detected then.
    pub(crate) fn reading_ahead(self) -> Self {
        Self { ahead: AHEAD, ..self }
    }

    fn respawn(&mut self) {
        tracing::info!("the server exited at `server/discover`; it is restarted");
        self.discard_lines();
        self.buffer.clear();
        self.end = ChildEnd::of_stream();
        if let Some(child) = self.child.take() {
            tokio::spawn(child.end().in_current_span());
        }
        match self.start.as_mut().map(|start| (start.0)()) {
            Some(Ok((child, write, read))) => {
                (self.read, self.is_readable) = (read, true);
                (self.lines, self.child) = (Some(Lines::new(write)), Some(child));
                self.end = ChildEnd::of_process();
            }
            Some(Err(error)) => {
                tracing::warn!(%error, "the server cannot be restarted");
                self.not_restarted = Some(StartFailure::from(&error));
            }
            // The application has provided the stream, which has ended.
            None => {
                self.is_readable = false;
                self.end.on_output_ended(now());
            }
        }
    }

    /// The bytes that are passed to the machine next.
    pub(crate) fn unread(&self) -> &[u8] {
        self.buffer.get(..CHUNK).unwrap_or(&self.buffer)
    }

    /// Whether more should be written.
    pub(crate) fn has_room(&self) -> bool {
        self.lines.as_ref().is_none_or(Lines::has_room)
    }

    /// Writes everything, and ends the stream. `written` reports what has left the process, if this is stdout.
    ///
    /// Returns an error once it is `too_late`.
    pub(crate) async fn flush(mut self, mut written: Option<Written>, too_late: impl Future) -> io::Result<()> {
        let writing = async {
            self.finish().await;
            if let Some(written) = &mut written {
                written.ended().await;
            }
        };
        tokio::select! {
            () = writing => return Ok(()),
            _ = too_late => {}
        }
        let unwritten = self.lines.as_ref().map_or(0, |lines| match &written {
            Some(written) => lines.pushed().wrapping_sub(written.bytes()),
            None => lines.waiting(),
        });
        Err(not_read(unwritten))
    }

    /// Writes everything, and ends the stream. Lines that the peer does not accept are dropped.
    async fn finish(&mut self) {
        if let Some(lines) = &mut self.lines {
            let _ = lines.finish().await;
        }
    }

    /// Drops the lines that were not written.
    fn discard_lines(&mut self) {
        self.discarded += self.lines.take().map_or(0, |lines| lines.unwritten());
    }
}

impl<S, R, W> Link for ByteStream<S, R, W>
where
    S: Send + 'static,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
{
    type Action = StdioAction;
    type Received = FromStream;

    fn act(&mut self, action: StdioAction) {
        match (action, &mut self.lines) {
            (StdioAction::Write(line), Some(lines)) => lines.push(line),
            (StdioAction::Write(line), None) => self.discarded += line.len(),
            (StdioAction::CloseWrite, Some(lines)) => lines.complete(),
            (StdioAction::Respawn, _) => self.respawn(),
            _ => {}
        }
    }

    async fn receive(&mut self, wants_input: bool) -> FromStream {
        if let Some(failure) = self.not_restarted.take() {
            return FromStream::NotRestarted(failure);
        }
        if self.discarded > 0 {
            return FromStream::Written(std::mem::take(&mut self.discarded));
        }
        if wants_input && !self.buffer.is_empty() {
            return FromStream::Read;
        }
        self.buffer.reserve(CHUNK);
        // What a process wrote before its end is read, although the machine may never accept more.
        let ahead = if self.end.has_exited() { AHEAD } else { self.ahead };
        let reads = self.is_readable && (wants_input || self.buffer.len() < ahead);
        let (due, has_exited) = (self.end.due(), self.end.has_exited());
        // Reading continues while a line is queued: a peer that does one thing at a time may be blocked on its output.
        tokio::select! {
            length = self.read.read_buf(&mut self.buffer), if reads => match length {
                Ok(0) => FromStream::Ended,
                Ok(_) => FromStream::Read,
                Err(error) => {
                    tracing::warn!(%error, "reading from the peer failed");
                    FromStream::Ended
                }
            },
            written = write(&mut self.lines) => match written {
                Ok(bytes) => FromStream::Written(bytes),
                Err(error) => {
                    tracing::debug!(%error, "the peer has closed its input");
                    FromStream::Closed
                }
            },
            end = ended(&mut self.child), if !has_exited => FromStream::Exited(end),
            () = sleep(due.map_or(Duration::ZERO, |due| due.saturating_duration_since(now()))), if due.is_some() => {
                FromStream::Due
            }
        }
    }

    async fn end(mut self) {
        // The last lines are written, unless the server does not read them in time.
        let _ = timeout(FLUSH, self.finish()).await;
        drop((self.lines, self.read));
        if let Some(child) = self.child {
            child.end().await;
        }
    }
}

impl<S, R, W, M> Feed<M> for ByteStream<S, R, W>
where
    S: Copy + Send + 'static,
    R: AsyncRead + Send + Unpin + 'static,
    W: AsyncWrite + Send + Unpin + 'static,
    M: HandleBytes<S>,
{
    fn wants_input(&self, machine: &M) -> bool {
        machine.wants_bytes(self.stream)
    }

    fn feed(&mut self, machine: &mut M, received: FromStream) {
        match received {
            FromStream::Read => {
                if machine.wants_bytes(self.stream) {
                    machine.handle_bytes(self.stream, self.unread(), now());
                    let length = self.unread().len();
                    self.buffer.advance(length);
                    self.end.on_read(length);
                }
            }
            // The time alone matters.
            FromStream::Written(0) | FromStream::Due => {}
            FromStream::Written(bytes) => machine.handle_written(self.stream, bytes, now()),
            FromStream::Closed => {
                self.discard_lines();
                self.end.on_input_closed(now());
            }
            FromStream::Ended => {
                self.is_readable = false;
                self.end.on_output_ended(now());
            }
            FromStream::Exited(end) => self.end.on_exited(end, now()),
            FromStream::NotRestarted(failure) => {
                self.is_readable = false;
                machine.handle_not_started(self.stream, failure, now());
            }
        }
        let Self { end, buffer, stream, .. } = self;
        if end.has_ended(now()) && !buffer.is_empty() {
            machine.handle_bytes(*stream, buffer, now());
            buffer.clear();
        }
        end.pass_to(machine, *stream, now());
    }
}

/// Waits for the end of the process, if there is one.
async fn ended(child: &mut Option<Child>) -> ProcessEnd {
    match child {
        Some(child) => child.ended().await,
        None => std::future::pending().await,
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
    use mcp_proto::machine::ServerStream;
    use mcp_proto::{Output, Stdio, client as proto};
    use tokio::io::{DuplexStream, ReadHalf, WriteHalf, duplex, split};

    use super::*;

    type Memory = ByteStream<ServerStream, ReadHalf<DuplexStream>, WriteHalf<DuplexStream>>;

    /// A stream with a buffer of this many bytes, and its other end.
    fn narrow(bytes: usize) -> (Memory, DuplexStream) {
        let (ours, theirs) = duplex(bytes);
        let (read, write) = split(ours);
        (ByteStream::new(ServerStream, read, write), theirs)
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
        stream.end.on_input_closed(now());
        stream.start = Some(Start(Box::new(|| Err(io::ErrorKind::NotFound.into()))));
        stream.act(StdioAction::Respawn);
        assert_eq!((stream.discarded, stream.lines.is_none()), (2, true));
        assert_eq!(stream.not_restarted, Some(StartFailure::NotFound));
        assert!(stream.end.due().is_none(), "the old process's time is not the new one's");
        stream.act(StdioAction::Write(Bytes::from_static(b"ghi")));
        assert_eq!(stream.discarded, 5);
        stream.not_restarted = None;
        let received = stream.receive(true).await;
        stream.feed(&mut machine(), received);
        assert_eq!(stream.discarded, 0);
    }

    #[tokio::test]
    async fn a_stream_that_cannot_be_restarted_has_ended() {
        let (mut stream, _theirs) = narrow(4);
        stream.not_restarted = Some(StartFailure::NotFound);
        let mut machine = machine();
        let received = stream.receive(true).await;
        stream.feed(&mut machine, received);
        assert_eq!((stream.not_restarted, stream.is_readable), (None, false));
        let mut outputs = std::iter::from_fn(|| machine.poll_output());
        let closed = proto::CloseReason::NotStarted(StartFailure::NotFound);
        assert!(
            outputs.any(|output| matches!(output, Output::Event(proto::Event::Closed(reason)) if reason == closed))
        );
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
