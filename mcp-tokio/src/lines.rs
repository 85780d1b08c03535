//! Lines that are queued for a byte stream.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// With this many bytes queued, nothing more should be pushed.
const ROOM: usize = 64 * 1024;
/// How long the last lines may take to be written after everything else has ended.
pub(crate) const FLUSH: Duration = mcp_application::STREAM_FLUSH_TIMEOUT;
/// The maximum number of lines that are written at once.
const PIECES: usize = 32;

/// The writing half of a byte stream, with its queue.
#[derive(Debug)]
pub(crate) struct Lines<W> {
    /// `None` after the stream was ended.
    write: Option<W>,
    waiting: VecDeque<Bytes>,
    length: usize,
    /// The bytes of all lines that were ever pushed; this number wraps around.
    pushed: usize,
    /// Bytes that were written, but not returned to the caller yet.
    unreported: usize,
    /// Something was written after the last flush.
    is_unflushed: bool,
    /// Nothing more is pushed, and the stream ends after the queue.
    is_complete: bool,
}

impl<W: AsyncWrite + Unpin> Lines<W> {
    pub(crate) const fn new(write: W) -> Self {
        Self {
            write: Some(write),
            waiting: VecDeque::new(),
            length: 0,
            pushed: 0,
            unreported: 0,
            is_unflushed: false,
            is_complete: false,
        }
    }

    pub(crate) fn push(&mut self, line: Bytes) {
        if !line.is_empty() {
            self.length += line.len();
            self.pushed = self.pushed.wrapping_add(line.len());
            self.waiting.push_back(line);
        }
    }

    /// Whether more should be pushed.
    pub(crate) const fn has_room(&self) -> bool {
        self.length < ROOM
    }

    /// The bytes that were pushed, but not reported as written.
    pub(crate) const fn unwritten(&self) -> usize {
        self.length + self.unreported
    }

    /// The bytes that were pushed, but not written.
    pub(crate) const fn waiting(&self) -> usize {
        self.length
    }

    /// The bytes of all lines that were ever pushed; this number wraps around.
    pub(crate) const fn pushed(&self) -> usize {
        self.pushed
    }

    /// Ends the stream after the queued lines: nothing may be pushed any more.
    pub(crate) const fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Whether there is nothing to write and nothing to end.
    pub(crate) fn is_idle(&self) -> bool {
        self.write.is_none() || self.waiting.is_empty() && !self.is_unflushed && !self.is_complete
    }

    /// Writes some of the queued bytes; returns how many were written. If the future is dropped, no bytes are lost,
    /// written twice or missing from the next count.
    pub(crate) async fn write_some(&mut self) -> io::Result<usize> {
        let Some(write) = &mut self.write else { return Ok(0) };
        if !self.waiting.is_empty() {
            let mut pieces = [IoSlice::new(&[]); PIECES];
            for (piece, line) in pieces.iter_mut().zip(&self.waiting) {
                *piece = IoSlice::new(line);
            }
            let count = self.waiting.len().min(PIECES);
            let written = write.write_vectored(pieces.get(..count).unwrap_or_default()).await?;
            if written == 0 {
                return Err(ErrorKind::WriteZero.into());
            }
            self.is_unflushed = true;
            self.forget(written);
            self.unreported += written;
        }
        if self.waiting.is_empty() {
            self.flush().await?;
        }
        Ok(std::mem::take(&mut self.unreported))
    }

    /// Writes everything, and ends the stream.
    pub(crate) async fn finish(&mut self) -> io::Result<()> {
        self.complete();
        while !self.is_idle() {
            self.write_some().await?;
        }
        Ok(())
    }

    async fn flush(&mut self) -> io::Result<()> {
        let Some(write) = &mut self.write else { return Ok(()) };
        if self.is_unflushed {
            write.flush().await?;
            self.is_unflushed = false;
        }
        if self.is_complete {
            write.shutdown().await?;
            self.write = None;
        }
        Ok(())
    }

    fn forget(&mut self, mut written: usize) {
        self.length = self.length.saturating_sub(written);
        while let Some(line) = self.waiting.front_mut() {
            if written < line.len() {
                line.advance(written);
                return;
            }
            written -= line.len();
            self.waiting.pop_front();
        }
    }
}

#[cfg(test)]
mod tests {
    use std::pin::Pin;
    use std::task::{Context, Poll, Waker};

    use tokio::io::AsyncReadExt;

    use super::*;

    /// A stream that takes a few bytes at a time, and buffers them until it is flushed.
    #[derive(Debug, Default)]
    struct Buffered {
        taken: Vec<u8>,
        flushed: usize,
        flushes: usize,
        is_ended: bool,
        /// The maximum bytes that it takes at a time.
        most: usize,
        /// Whether a flush does not finish.
        is_stuck: bool,
        /// Whether it cannot be ended.
        is_broken: bool,
    }

    impl AsyncWrite for &mut Buffered {
        fn poll_write(mut self: Pin<&mut Self>, _: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
            let length = bytes.len().min(self.most);
            self.taken.extend_from_slice(&bytes[..length]);
            Poll::Ready(Ok(length))
        }

        fn poll_flush(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.is_stuck {
                return Poll::Pending;
            }
            self.flushes += 1;
            self.flushed = self.taken.len();
            Poll::Ready(Ok(()))
        }

        fn poll_shutdown(mut self: Pin<&mut Self>, _: &mut Context<'_>) -> Poll<io::Result<()>> {
            if self.is_broken {
                return Poll::Ready(Err(ErrorKind::BrokenPipe.into()));
            }
            self.is_ended = true;
            Poll::Ready(Ok(()))
        }
    }

    /// Polls the future once.
    fn poll_once<T>(future: impl Future<Output = T>) -> Poll<T> {
        std::pin::pin!(future).poll(&mut Context::from_waker(Waker::noop()))
    }

    #[tokio::test]
    async fn what_was_written_is_flushed_once_nothing_waits_and_the_end_follows() {
        let mut buffered = Buffered { most: 3, ..Buffered::default() };
        let mut lines = Lines::new(&mut buffered);
        lines.push(Bytes::from_static(b"abcde"));
        lines.push(Bytes::new());
        for (written, unwritten, flushes) in [(3, 2, 0), (2, 0, 1)] {
            assert_eq!(lines.write_some().await.unwrap(), written);
            assert_eq!((lines.unwritten(), lines.write.as_ref().unwrap().flushes), (unwritten, flushes));
        }
        assert!(lines.is_idle());
        // Without new bytes nothing is flushed, and an empty line has none.
        lines.push(Bytes::new());
        assert!(lines.is_idle());
        assert_eq!(lines.write_some().await.unwrap(), 0);
        lines.complete();
        assert!(!lines.is_idle() && !lines.write.as_ref().unwrap().is_ended);
        assert_eq!(lines.write_some().await.unwrap(), 0);
        assert!(lines.is_idle() && lines.write.is_none());
        lines.push(Bytes::from_static(b"late"));
        assert!(lines.is_idle());
        assert_eq!(lines.write_some().await.unwrap(), 0);
        assert_eq!((buffered.flushes, buffered.flushed, buffered.is_ended), (1, 5, true));
    }

    #[tokio::test]
    async fn what_is_written_is_counted_once_however_often_the_future_is_dropped() {
        let mut buffered = Buffered { most: 100, is_stuck: true, ..Buffered::default() };
        let mut lines = Lines::new(&mut buffered);
        for line in ["ab", "cde", "f"] {
            lines.push(Bytes::from(line));
        }
        // Each call writes one line. That of the last does not return, because the flush does not finish.
        for written in [2, 3] {
            assert!(matches!(poll_once(lines.write_some()), Poll::Ready(Ok(count)) if count == written));
        }
        for _ in 0..3 {
            assert!(poll_once(lines.write_some()).is_pending());
            assert_eq!((lines.length, lines.unwritten(), lines.is_idle()), (0, 1, false));
        }
        lines.push(Bytes::from_static(b"gh"));
        assert!(poll_once(lines.write_some()).is_pending());
        assert_eq!(lines.unwritten(), 3);
        lines.write.as_mut().unwrap().is_stuck = false;
        assert_eq!(lines.write_some().await.unwrap(), 3);
        assert_eq!((lines.unwritten(), lines.is_idle()), (0, true));
        assert_eq!(buffered.taken, b"abcdefgh");
    }

    #[test]
    fn there_is_room_up_to_a_number_of_bytes() {
        let mut lines = Lines::new(tokio::io::sink());
        for (length, has_room) in [(ROOM - 2, true), (1, true), (1, false), (1, false)] {
            lines.push(vec![0; length].into());
            assert_eq!(lines.has_room(), has_room, "{length}");
        }
        assert_eq!(lines.unwritten(), ROOM + 1);
    }

    #[tokio::test]
    async fn a_stream_that_takes_nothing_is_an_error() {
        let mut buffered = Buffered::default();
        let mut lines = Lines::new(&mut buffered);
        lines.push(Bytes::from_static(b"line\n"));
        assert_eq!(lines.write_some().await.unwrap_err().kind(), ErrorKind::WriteZero);
        assert!(lines.finish().await.is_err());
    }

    #[tokio::test]
    async fn a_stream_that_cannot_be_ended_is_an_error() {
        let mut buffered = Buffered { most: 100, is_broken: true, ..Buffered::default() };
        let mut lines = Lines::new(&mut buffered);
        lines.push(Bytes::from_static(b"line\n"));
        assert_eq!(lines.finish().await.unwrap_err().kind(), ErrorKind::BrokenPipe);
    }

    #[tokio::test]
    async fn lines_leave_whole_and_in_order_through_a_narrow_stream() {
        let (ours, mut theirs) = tokio::io::duplex(7);
        let mut lines = Lines::new(ours);
        let mut expected = Vec::new();
        for length in 0..100_usize {
            let line = vec![u8::try_from(length).unwrap(); length];
            expected.extend_from_slice(&line);
            lines.push(line.into());
        }
        assert!(!lines.is_idle() && lines.has_room());
        let mut read = Vec::new();
        let (finished, length) = tokio::join!(lines.finish(), theirs.read_to_end(&mut read));
        finished.unwrap();
        assert_eq!(length.unwrap(), expected.len());
        assert_eq!(read, expected);
    }

    #[tokio::test]
    async fn a_stream_that_is_complete_ends_after_its_last_line() {
        let (ours, mut theirs) = tokio::io::duplex(64);
        let mut lines = Lines::new(ours);
        lines.push(Bytes::from_static(b"line\n"));
        lines.complete();
        while !lines.is_idle() {
            lines.write_some().await.unwrap();
        }
        let mut read = Vec::new();
        theirs.read_to_end(&mut read).await.unwrap();
        assert_eq!(read, b"line\n");
    }

    #[tokio::test]
    async fn a_closed_reader_is_an_error() {
        let (ours, theirs) = tokio::io::duplex(7);
        drop(theirs);
        let mut lines = Lines::new(ours);
        lines.push(Bytes::from_static(b"line\n"));
        assert!(lines.write_some().await.is_err());
    }
}
