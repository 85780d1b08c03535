//! A pair of byte streams on two threads: one that reads, one that writes.
//!
//! What happens to them is handed in through `hand_in`, which makes an input of the owner's of it.

use std::collections::VecDeque;
use std::io::{self, Read, Write};
use std::sync::mpsc::SyncSender;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use bytes::Bytes;

use crate::gate::Gate;

/// Bytes that are read at once.
pub(crate) const CHUNK: usize = 64 * 1024;
/// Bytes that may wait for the writing thread before it is behind, at most.
const ROOM: usize = 256 * 1024;

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
pub(crate) fn spawn_reader<I: Send + 'static>(
    mut input: impl Read + Send + 'static,
    inbox: SyncSender<I>,
    gate: Arc<Gate>,
    hand_in: impl Fn(Happened) -> I + Send + 'static,
) -> io::Result<()> {
    thread::Builder::new().name("mcp-reader".to_owned()).stack_size(256 * 1024).spawn(move || {
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
            if inbox.send(hand_in(happened)).is_err() || is_last {
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
    /// Bytes that were written and not taken account of.
    written: usize,
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
    /// A thread that writes what it is given. The machine stops reading when `queue_bytes` wait; once there are fewer,
    /// [`Happened::Writable`] follows.
    pub(crate) fn spawn<I: Send + 'static>(
        output: impl Write + Send + 'static,
        queue_bytes: usize,
        inbox: SyncSender<I>,
        hand_in: impl Fn(Happened) -> I + Send + 'static,
    ) -> io::Result<Self> {
        let shared = Arc::new(Shared { state: Mutex::default(), changed: Condvar::new() });
        let thread_shared = Arc::clone(&shared);
        thread::Builder::new().name("mcp-writer".to_owned()).stack_size(256 * 1024).spawn(move || {
            let tell = |happened| inbox.send(hand_in(happened)).is_ok();
            let outcome = write_all(output, &thread_shared, queue_bytes.min(ROOM), &tell);
            thread_shared.state().is_done = true;
            thread_shared.changed.notify_all();
            if let Err(error) = outcome {
                log::info!("the output is closed: {error}");
                tell(Happened::OutputClosed);
            }
        })?;
        Ok(Self { shared })
    }

    /// Takes bytes to write. The machine bounds how many wait.
    pub(crate) fn push(&self, bytes: Bytes) {
        let mut state = self.shared.state();
        if !state.is_done {
            state.bytes += bytes.len();
            state.queue.push_back(bytes);
            drop(state);
            self.shared.changed.notify_all();
        }
    }

    /// Bytes that were written since this was last asked.
    pub(crate) fn take_written(&self) -> usize {
        std::mem::take(&mut self.shared.state().written)
    }

    /// Ends the thread once everything is written.
    pub(crate) fn close(&self) {
        self.shared.state().is_closing = true;
        self.shared.changed.notify_all();
    }

    /// Ends the thread, and drops what it has not begun to write.
    pub(crate) fn discard(&self) {
        self.shared.state().queue.clear();
        self.close();
    }

    /// Waits until everything is written, but not longer than `timeout`.
    pub(crate) fn flush(&self, timeout: Duration) {
        self.close();
        let state = self.shared.state();
        drop(self.shared.changed.wait_timeout_while(state, timeout, |state| !state.is_done));
    }
}

fn write_all(mut output: impl Write, shared: &Shared, room: usize, tell: &dyn Fn(Happened) -> bool) -> io::Result<()> {
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
        let mut is_behind = false;
        for bytes in batch {
            output.write_all(&bytes)?;
            let mut state = shared.state();
            is_behind |= state.bytes >= room;
            state.bytes -= bytes.len();
            state.written += bytes.len();
        }
        output.flush()?;
        state = shared.state();
        if is_behind && state.bytes < room {
            drop(state);
            if !tell(Happened::Writable) {
                return Ok(());
            }
            state = shared.state();
        }
    }
}
