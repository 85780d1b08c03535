//! stdin and stdout of this process, on threads of their own: the runtime ends without waiting for a thread that is
//! blocked by a client that does not read.

use std::io::{self, Read, Write};
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
    /// Receives a value when everything was written after `write` was closed.
    pub(crate) written: oneshot::Receiver<()>,
}

impl Streams {
    pub(crate) fn open() -> io::Result<Self> {
        let ((read, fed), (write, taken)) = (duplex(CHUNK), duplex(CHUNK));
        let (report, written) = oneshot::channel();
        let (reader, writer) = (Handle::current(), Handle::current());
        thread::Builder::new().name("mcp-stdin".to_owned()).spawn(move || feed(&reader, fed))?;
        thread::Builder::new().name("mcp-stdout".to_owned()).spawn(move || {
            if take(&writer, taken).is_ok() {
                let _ = report.send(());
            }
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
            Ok(0) | Err(_) => return,
        }
    }
}

fn take(runtime: &Handle, mut taken: DuplexStream) -> io::Result<()> {
    let mut buffer = vec![0; CHUNK];
    loop {
        let length = runtime.block_on(taken.read(&mut buffer))?;
        if length == 0 {
            return Ok(());
        }
        let mut out = io::stdout().lock();
        out.write_all(buffer.get(..length).unwrap_or_default())?;
        out.flush()?;
    }
}
