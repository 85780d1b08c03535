//! stdin and stdout of this process, on threads of their own: the runtime ends without waiting for a thread that is
//! blocked by a client that does not read.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The size of each buffer between a thread and the runtime.
const CHUNK: usize = 64 * 1024;
/// How long a thread waits for a non-blocking stream. Another program that shares a stream with this process can make
/// it non-blocking.
const NOT_READY: Duration = Duration::from_millis(10);

/// Both streams. Only one server of this process may use them.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) read: DuplexStream,
    pub(crate) write: DuplexStream,
    pub(crate) written: Written,
}

/// Counts the bytes of [`Streams::write`] that were written to stdout.
#[derive(Debug)]
pub(crate) struct Written {
    bytes: Arc<AtomicUsize>,
    /// The sender is dropped when nothing more is written.
    end: oneshot::Receiver<()>,
}

impl Written {
    /// Waits until everything was written after [`Streams::write`] was closed, or until stdout is closed.
    pub(crate) async fn ended(&mut self) {
        let _ = (&mut self.end).await;
    }

    /// The number of bytes that were written; it wraps around.
    pub(crate) fn bytes(&self) -> usize {
        self.bytes.load(Ordering::Acquire)
    }
}

impl Streams {
    pub(crate) fn open() -> io::Result<Self> {
        let ((read, fed), (write, taken)) = (duplex(CHUNK), duplex(CHUNK));
        let (is_writing, end) = oneshot::channel();
        let written = Written { bytes: Arc::default(), end };
        let (reader, writer, bytes) = (Handle::current(), Handle::current(), Arc::clone(&written.bytes));
        thread::Builder::new().name("mcp-stdin".to_owned()).spawn(move || feed(&reader, fed))?;
        thread::Builder::new().name("mcp-stdout".to_owned()).spawn(move || {
            if let Err(error) = take(&writer, taken, &bytes) {
                tracing::debug!(%error, "stdout is closed");
            }
            drop(is_writing);
        })?;
        Ok(Self { read, write, written })
    }
}

fn feed(runtime: &Handle, mut fed: DuplexStream) {
    let mut buffer = vec![0; CHUNK];
    loop {
        match io::stdin().lock().read(&mut buffer) {
            Err(error) if is_passing(&error) => {}
            Ok(length @ 1..) => {
                let bytes = buffer.get(..length).unwrap_or_default();
                if runtime.block_on(fed.write_all(bytes)).is_err() {
                    return;
                }
            }
            Ok(0) => return,
            Err(error) => {
                tracing::warn!(%error, "reading stdin failed");
                return;
            }
        }
    }
}

fn take(runtime: &Handle, mut taken: DuplexStream, written: &AtomicUsize) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = runtime.block_on(taken.read(&mut buffer))?;
        if length == 0 {
            return Ok(());
        }
        write_all(&mut io::stdout().lock(), buffer.get(..length).unwrap_or_default())?;
        written.fetch_add(length, Ordering::AcqRel);
    }
}

/// Like `Write::write_all`, which does not return how much it has written when the output is not ready; and flushes.
fn write_all(out: &mut impl Write, mut bytes: &[u8]) -> io::Result<()> {
    loop {
        let written = if bytes.is_empty() { out.flush().map(|()| 0) } else { out.write(bytes) };
        match written {
            Ok(0) if bytes.is_empty() => return Ok(()),
            Ok(0) => return Err(io::ErrorKind::WriteZero.into()),
            Ok(length) => bytes = bytes.get(length..).unwrap_or_default(),
            Err(error) if is_passing(&error) => {}
            Err(error) => return Err(error),
        }
    }
}

/// Whether the same call succeeds later; waits for that time.
fn is_passing(error: &io::Error) -> bool {
    if error.kind() == io::ErrorKind::WouldBlock {
        thread::sleep(NOT_READY);
    }
    matches!(error.kind(), io::ErrorKind::Interrupted | io::ErrorKind::WouldBlock)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// An output that takes one byte at a time, is not ready before each, and fails after some.
    struct Slow {
        taken: Vec<u8>,
        room: usize,
        is_ready: bool,
    }

    impl Write for Slow {
        fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
            self.is_ready = !self.is_ready;
            match bytes {
                _ if !self.is_ready => Err(io::ErrorKind::WouldBlock.into()),
                [first, ..] if self.taken.len() < self.room => {
                    self.taken.push(*first);
                    Ok(1)
                }
                _ => Err(io::ErrorKind::BrokenPipe.into()),
            }
        }

        fn flush(&mut self) -> io::Result<()> {
            self.is_ready = !self.is_ready;
            if self.is_ready { Ok(()) } else { Err(io::ErrorKind::Interrupted.into()) }
        }
    }

    #[test]
    fn everything_is_written_to_an_output_that_is_not_ready_at_times_and_a_failure_is_reported() {
        for (room, outcome) in [(4, Ok(())), (2, Err(io::ErrorKind::BrokenPipe))] {
            let mut out = Slow { taken: Vec::new(), room, is_ready: false };
            assert_eq!(write_all(&mut out, b"line").map_err(|error| error.kind()), outcome);
            assert_eq!(out.taken, b"line"[..room]);
        }
    }
}
