//! A worker's few buffers for bodies.

use std::ops::Deref;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};

/// Size of a buffer in bytes. A body that fits into one is sent together with its head.
pub(super) const CHUNK: usize = 64 * 1024;
/// Buffers in use at one time per worker. This bounds how much of a body is queued for the driver.
const MOST: usize = 4;

/// A part of a body. When it is dropped, its buffer returns to the worker.
#[derive(Debug)]
pub(crate) struct Chunk {
    buffer: Box<[u8]>,
    length: usize,
    returns: Option<SyncSender<Box<[u8]>>>,
}

impl Chunk {
    /// A chunk without a buffer.
    pub(super) fn empty() -> Self {
        Self { buffer: Box::default(), length: 0, returns: None }
    }

    /// The free part of the buffer, to read into.
    pub(super) fn room(&mut self) -> &mut [u8] {
        self.buffer.get_mut(self.length..).unwrap_or_default()
    }

    /// Adds the bytes that were read into the free part.
    pub(super) fn grow(&mut self, by: usize) {
        self.length += by;
    }
}

impl Deref for Chunk {
    type Target = [u8];

    fn deref(&self) -> &[u8] {
        self.buffer.get(..self.length).unwrap_or_default()
    }
}

impl Drop for Chunk {
    fn drop(&mut self) {
        if let Some(returns) = &self.returns {
            // If the worker has ended, the buffer is freed.
            let _ = returns.try_send(std::mem::take(&mut self.buffer));
        }
    }
}

/// A worker's buffers.
#[derive(Debug)]
pub(super) struct Buffers {
    made: usize,
    returns: SyncSender<Box<[u8]>>,
    free: Receiver<Box<[u8]>>,
}

impl Buffers {
    pub(super) fn new() -> Self {
        let (returns, free) = sync_channel(MOST);
        Self { made: 0, returns, free }
    }

    /// Returns a free buffer; waits for one if all are in use.
    pub(super) fn take(&mut self) -> Chunk {
        let buffer = self.free.try_recv().ok().or_else(|| {
            if self.made == MOST {
                return self.free.recv().ok();
            }
            self.made += 1;
            None
        });
        let buffer = buffer.unwrap_or_else(|| vec![0; CHUNK].into_boxed_slice());
        Chunk { buffer, length: 0, returns: Some(self.returns.clone()) }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::channel;
    use std::thread;
    use std::time::Duration;

    use mcp_testkit::waiting::LONG;

    use super::*;

    #[test]
    fn a_chunk_is_what_was_read_into_it() {
        let mut chunk = Buffers::new().take();
        assert_eq!((chunk.len(), chunk.room().len()), (0, CHUNK));
        chunk.room()[..3].copy_from_slice(b"abc");
        chunk.grow(3);
        chunk.room()[..2].copy_from_slice(b"de");
        chunk.grow(2);
        assert_eq!(&*chunk, b"abcde");
        assert_eq!(chunk.room().len(), CHUNK - 5);
        assert_eq!((Chunk::empty().len(), Chunk::empty().room().len()), (0, 0));
    }

    #[test]
    fn a_worker_has_a_few_buffers_which_it_uses_again() {
        let mut buffers = Buffers::new();
        let mut out: Vec<_> = (0..MOST).map(|_| buffers.take()).collect();
        let last = out.pop().map(|mut chunk| chunk.room().as_ptr() as usize);
        // The buffer that was returned is reused.
        let mut again = buffers.take();
        assert_eq!(Some(again.room().as_ptr() as usize), last);
        assert!(again.is_empty() && again.room().len() == CHUNK);
        out.push(again);
        let (taken, waiting) = channel();
        thread::spawn(move || taken.send(buffers.take().room().len()));
        assert!(waiting.recv_timeout(Duration::from_millis(50)).is_err(), "all are out");
        drop(out);
        assert_eq!(waiting.recv_timeout(LONG), Ok(CHUNK));
    }
}
