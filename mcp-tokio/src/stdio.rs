//! stdin and stdout of this process, on threads of their own: the runtime ends without waiting for a thread that is
//! blocked by a client that does not read.

use std::io::{self, Read, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tokio::io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex};
use tokio::runtime::Handle;
use tokio::sync::oneshot;

/// The size of each buffer between a thread and the runtime.
const CHUNK: usize = 64 * 1024;

/// Both streams. Only one server of this process may use them.
#[derive(Debug)]
pub(crate) struct Streams {
    pub(crate) read: DuplexStream,
    pub(crate) write: DuplexStream,
    pub(crate) written: Written,
}

/// What was written to stdout of the bytes that were written to [`Streams::write`].
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
            Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
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
        let mut out = io::stdout().lock();
        out.write_all(buffer.get(..length).unwrap_or_default())?;
        out.flush()?;
        written.fetch_add(length, Ordering::AcqRel);
    }
}
