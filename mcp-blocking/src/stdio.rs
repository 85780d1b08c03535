//! A pair of byte streams on two threads: one that reads, one that writes.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use crate::gate::Gate;

/// Bytes that are read at once.
const CHUNK: usize = 64 * 1024;
/// Bytes that may wait for the writing thread before it takes no more.
const WRITER_ROOM: usize = 256 * 1024;

/// What the two threads hand in.
#[derive(Debug)]
pub(crate) enum Happened {
    /// Bytes were read.
    Read(Vec<u8>),
    /// The input has ended.
    InputEnded,
    /// The output can take more again.
    Writable,
    /// The output takes nothing any more.
    OutputClosed,
}

/// Reads until the end, as fast as the gate allows.
pub(crate) fn spawn_reader<I: From<Happened> + Send + 'static>(
    mut input: impl Read + Send + 'static,
    inbox: SyncSender<I>,
    gate: Arc<Gate>,
) -> io::Result<()> {
    thread::Builder::new().name("mcp-stdin".to_owned()).stack_size(256 * 1024).spawn(move || {
        let mut buffer = vec![0; CHUNK].into_boxed_slice();
        loop {
            gate.wait();
            let happened = match input.read(&mut buffer) {
                Ok(0) => Happened::InputEnded,
                Ok(length) => Happened::Read(buffer.get(..length).unwrap_or_default().to_vec()),
                Err(error) if error.kind() == io::ErrorKind::Interrupted => continue,
                Err(error) => {
                    log::warn!("reading the input failed: {error}");
                    Happened::InputEnded
                }
            };
            let is_last = matches!(happened, Happened::InputEnded);
            if inbox.send(I::from(happened)).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(())
}

/// The owner's end of the writing thread.
#[derive(Debug)]
pub(crate) struct Writer {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    queue: VecDeque<Bytes>,
    /// Bytes in the queue and in the hands of the thread.
    bytes: usize,
    /// The owner waits for room.
    is_awaited: bool,
    /// Nothing more will be written.
    is_closing: bool,
    /// The thread has ended.
    is_done: bool,
}

impl Shared {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Writer {
    pub(crate) fn spawn<I: From<Happened> + Send + 'static>(
        output: impl Write + Send + 'static,
        inbox: SyncSender<I>,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let thread_shared = Arc::clone(&shared);
        thread::Builder::new().name("mcp-stdout".to_owned()).stack_size(256 * 1024).spawn(move || {
            let outcome = write_all(output, &thread_shared, &inbox);
            thread_shared.state().is_done = true;
            thread_shared.changed.notify_all();
            if let Err(error) = outcome {
                log::info!("the output is closed: {error}");
                let _ = inbox.send(I::from(Happened::OutputClosed));
            }
        })?;
        Ok(Self { shared })
    }

    /// Takes bytes to write, or gives them back if there is no room; [`Happened::Writable`] follows then.
    pub(crate) fn push(&self, bytes: Bytes) -> Result<(), Bytes> {
        let mut state = self.shared.state();
        if state.bytes >= WRITER_ROOM && !state.is_done {
            state.is_awaited = true;
            return Err(bytes);
        }
        if !state.is_done {
            state.bytes += bytes.len();
            state.queue.push_back(bytes);
            drop(state);
            self.shared.changed.notify_all();
        }
        Ok(())
    }

    /// Ends the thread once everything is written.
    pub(crate) fn close(&self) {
        self.shared.state().is_closing = true;
        self.shared.changed.notify_all();
    }

    /// Waits until everything is written, but not longer than `timeout`.
    pub(crate) fn flush(&self, timeout: Duration) {
        self.close();
        let state = self.shared.state();
        drop(self.shared.changed.wait_timeout_while(state, timeout, |state| !state.is_done));
    }
}

fn write_all<I: From<Happened>>(mut output: impl Write, shared: &Shared, inbox: &SyncSender<I>) -> io::Result<()> {
    let mut state = shared.state();
    loop {
        state = shared
            .changed
            .wait_while(state, |state| state.queue.is_empty() && !state.is_closing)
            .unwrap_or_else(PoisonError::into_inner);
        if state.queue.is_empty() {
            return Ok(());
        }
        let batch = std::mem::take(&mut state.queue);
        drop(state);
        let mut written = 0;
        for bytes in batch {
            output.write_all(&bytes)?;
            written += bytes.len();
        }
        output.flush()?;
        state = shared.state();
        state.bytes -= written;
        if state.is_awaited && state.bytes < WRITER_ROOM {
            state.is_awaited = false;
            drop(state);
            if inbox.send(I::from(Happened::Writable)).is_err() {
                return Ok(());
            }
            state = shared.state();
        }
    }
}
