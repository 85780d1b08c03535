//! Pipes in memory.

use std::io::{self, Read, Write};
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// The maximum length of a piece that is written at once, in bytes.
const PIECE: usize = 4096;
/// The number of pieces that are written before they are read.
const PIECES: usize = 16;

/// Creates a pipe in memory, which two threads use. It holds at most 64 KiB: a thread that writes more waits until the
/// other one reads.
///
/// Two pipes connect a client ([`Builder::stream`](crate::Builder::stream)) and a server
/// ([`StreamService::serve`](crate::StreamService::serve)) of one process.
/// [`Builder::in_memory`](crate::Builder::in_memory) does that in one call.
///
/// # Example
///
/// ```
/// use std::io::{Read, Write};
///
/// let (mut read, mut write) = mcp_blocking::pipe();
/// write.write_all(b"hello")?;
/// drop(write); // The end of the stream.
/// let mut text = String::new();
/// read.read_to_string(&mut text)?;
/// assert_eq!(text, "hello");
/// # Ok::<(), std::io::Error>(())
/// ```
#[must_use]
pub fn pipe() -> (PipeReader, PipeWriter) {
    let (pieces, unread) = sync_channel(PIECES);
    (PipeReader { unread, piece: io::Cursor::default() }, PipeWriter { pieces })
}

/// The end of a [`pipe`] that is read. It ends when the [`PipeWriter`] is dropped.
#[derive(Debug)]
pub struct PipeReader {
    unread: Receiver<Vec<u8>>,
    /// The piece that is being read.
    piece: io::Cursor<Vec<u8>>,
}

impl Read for PipeReader {
    fn read(&mut self, buffer: &mut [u8]) -> io::Result<usize> {
        loop {
            let read = self.piece.read(buffer)?;
            if read > 0 || buffer.is_empty() {
                return Ok(read);
            }
            let Ok(piece) = self.unread.recv() else { return Ok(0) };
            self.piece = io::Cursor::new(piece);
        }
    }
}

/// The end of a [`pipe`] that is written. Writing fails with [`io::ErrorKind::BrokenPipe`] once the [`PipeReader`] is
/// dropped.
#[derive(Debug)]
pub struct PipeWriter {
    pieces: SyncSender<Vec<u8>>,
}

impl Write for PipeWriter {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        let piece = bytes.get(..PIECE).unwrap_or(bytes);
        if !piece.is_empty() {
            self.pieces.send(piece.to_vec()).map_err(|_| io::ErrorKind::BrokenPipe)?;
        }
        Ok(piece.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::thread;

    use super::*;

    #[test]
    fn bytes_arrive_in_order_and_a_writer_waits_for_its_reader() {
        let (mut read, mut write) = pipe();
        let sent: Vec<u8> = (0..=u8::MAX).cycle().take(3 * PIECES * PIECE + 1).collect();
        let expected = sent.clone();
        let writer = thread::spawn(move || write.write_all(&sent));
        let mut received = Vec::new();
        read.read_to_end(&mut received).unwrap();
        writer.join().unwrap().unwrap();
        assert!(received == expected);
    }

    #[test]
    fn an_empty_write_does_not_end_the_stream_and_an_empty_read_does_not_wait() {
        let (mut read, mut write) = pipe();
        assert_eq!(read.read(&mut []).unwrap(), 0);
        assert_eq!(write.write(b"").unwrap(), 0);
        write.write_all(b"x").unwrap();
        let mut buffer = [0; 4];
        assert_eq!(read.read(&mut buffer).unwrap(), 1);
    }

    #[test]
    fn a_dropped_end_is_reported_to_the_other() {
        let (mut read, write) = pipe();
        drop(write);
        assert_eq!(read.read(&mut [0; 4]).unwrap(), 0);
        let (read, mut write) = pipe();
        drop(read);
        assert_eq!(write.write(b"x").unwrap_err().kind(), io::ErrorKind::BrokenPipe);
    }
}
