//! Lines that wait to be written to a byte stream.

use std::collections::VecDeque;
use std::io::{self, ErrorKind, IoSlice};
use std::time::Duration;

use bytes::{Buf, Bytes};
use tokio::io::{AsyncWrite, AsyncWriteExt};

/// With more bytes than this waiting, nothing more shall be pushed.
const ROOM: usize = 64 * 1024;
/// How long the last lines may take to be written after everything else has ended.
pub(crate) const FLUSH: Duration = Duration::from_secs(1);
/// Pieces that are written at once.
const PIECES: usize = 32;

/// The writing half of a byte stream.
#[derive(Debug)]
pub(crate) struct Lines<W> {
    /// Nothing once the stream was ended.
    write: Option<W>,
    waiting: VecDeque<Bytes>,
    length: usize,
    /// Bytes that were written and not returned yet.
    unreported: usize,
    /// Something was written that may not have left yet.
    is_unflushed: bool,
    /// Nothing more is pushed.
    is_complete: bool,
}

impl<W: AsyncWrite + Unpin> Lines<W> {
    pub(crate) const fn new(write: W) -> Self {
        Self {
            write: Some(write),
            waiting: VecDeque::new(),
            length: 0,
            unreported: 0,
            is_unflushed: false,
            is_complete: false,
        }
    }

    pub(crate) fn push(&mut self, line: Bytes) {
        if !line.is_empty() {
            self.length += line.len();
            self.waiting.push_back(line);
        }
    }

    /// Whether more may be pushed.
    pub(crate) const fn has_room(&self) -> bool {
        self.length < ROOM
    }

    /// Bytes that were pushed and not reported as written.
    pub(crate) const fn unwritten(&self) -> usize {
        self.length + self.unreported
    }

    /// Ends the stream after what waits: nothing may be pushed any more.
    pub(crate) const fn complete(&mut self) {
        self.is_complete = true;
    }

    /// Whether there is nothing to write and nothing to end.
    pub(crate) fn is_idle(&self) -> bool {
        self.write.is_none() || self.waiting.is_empty() && !self.is_unflushed && !self.is_complete
    }

    /// Writes some of what waits; returns how many bytes were written. If the future is dropped, nothing is lost, written
    /// twice or left out of the next count.
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
    pub(crate) async fn finish(mut self) -> io::Result<()> {
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
    use tokio::io::AsyncReadExt;

    use super::*;

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
    async fn a_reader_that_is_gone_is_an_error() {
        let (ours, theirs) = tokio::io::duplex(7);
        drop(theirs);
        let mut lines = Lines::new(ours);
        lines.push(Bytes::from_static(b"line\n"));
        assert!(lines.write_some().await.is_err());
    }
}
