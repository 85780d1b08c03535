//! The task of one backend: its stream, and the end of its process.

use std::io;

use bytes::Bytes;
use mcp_intermediary::gateway::BackendKey;
use mcp_proto::machine::HandleBytes;
use mcp_proto::{Instant, ProcessEnd, StartFailure, StdioAction};
use tokio::sync::mpsc;

use super::Starting;
use super::backend::Opened;
use crate::link::{Feed, Link};

/// A command of the driver. When the driver drops its sender, the backend is stopped.
pub(super) enum Command {
    Act(StdioAction),
    /// The bytes that were received are with the machine: more may be read.
    Taken,
}

/// What the driver receives of a backend.
pub(super) enum FromBackend {
    /// Bytes that were read. Until they are taken, nothing more is read, except the rest before the end of the stream.
    Bytes(Bytes),
    /// This number of bytes was written, or will never be.
    Written(usize),
    /// The stream has ended.
    Ended,
    /// The process has ended.
    Exited(ProcessEnd),
    /// The process could not be started.
    NotStarted(StartFailure),
    /// The backend has ended, or was not started. This is the last message, and there is always one.
    Stopped,
}

/// The interface of the stream to the machine, which is in the task of the driver.
struct Remote {
    backend: BackendKey,
    driver: mpsc::UnboundedSender<(BackendKey, FromBackend)>,
    /// The driver has bytes that the machine has not taken.
    is_full: bool,
}

impl Remote {
    fn send(&self, received: FromBackend) {
        // Without a driver, the backend is being stopped.
        let _ = self.driver.send((self.backend, received));
    }
}

impl HandleBytes<BackendKey> for Remote {
    fn handle_bytes(&mut self, _: BackendKey, bytes: &[u8], _: Instant) {
        self.is_full = true;
        self.send(FromBackend::Bytes(Bytes::copy_from_slice(bytes)));
    }

    fn handle_written(&mut self, _: BackendKey, bytes: usize, _: Instant) {
        self.send(FromBackend::Written(bytes));
    }

    fn handle_eof(&mut self, _: BackendKey, _: Instant) {
        self.send(FromBackend::Ended);
    }

    fn handle_process_end(&mut self, _: BackendKey, end: ProcessEnd, _: Instant) {
        self.send(FromBackend::Exited(end));
    }

    fn wants_bytes(&self, _: BackendKey) -> bool {
        !self.is_full
    }
}

/// Reports the end, also if the function that starts the backend has panicked.
impl Drop for Remote {
    fn drop(&mut self) {
        self.send(FromBackend::Stopped);
    }
}

/// Runs a backend until it is stopped and has ended.
pub(super) async fn run(
    backend: BackendKey,
    starting: Starting,
    log_stderr: bool,
    mut commands: mpsc::UnboundedReceiver<Command>,
    driver: mpsc::UnboundedSender<(BackendKey, FromBackend)>,
) {
    let mut remote = Remote { backend, driver, is_full: false };
    let Opened { mut stream, relayed } = match start(backend, starting, log_stderr, &mut commands).await {
        Some(Ok(opened)) => opened,
        Some(Err(error)) => {
            tracing::warn!(%error, "the server behind the gateway could not be started");
            return remote.send(FromBackend::NotStarted(StartFailure::from(&error)));
        }
        None => return,
    };
    loop {
        let wants_bytes = remote.wants_bytes(backend);
        tokio::select! {
            received = stream.receive(wants_bytes) => stream.feed(&mut remote, received),
            command = commands.recv() => match command {
                Some(Command::Act(action)) => stream.act(action),
                Some(Command::Taken) => remote.is_full = false,
                None => break,
            },
        }
    }
    stream.end().await;
    if let Some(relayed) = relayed {
        relayed.end().await;
    }
}

/// Starts the backend. Returns nothing if the backend is stopped before.
async fn start(
    backend: BackendKey,
    mut starting: Starting,
    log_stderr: bool,
    commands: &mut mpsc::UnboundedReceiver<Command>,
) -> Option<io::Result<Opened>> {
    // The machine limits what is to be written.
    let mut early = Vec::new();
    let started = loop {
        tokio::select! {
            started = &mut starting => break started,
            command = commands.recv() => match command {
                Some(Command::Act(action)) => early.push(action),
                Some(Command::Taken) => {}
                None => return None,
            },
        }
    };
    let opened = started.and_then(|started| started.open(backend, log_stderr));
    Some(opened.map(|mut opened| {
        for action in early {
            opened.stream.act(action);
        }
        opened
    }))
}
