//! Handles the signals that end the process: SIGINT, SIGTERM and SIGHUP, and their like on Windows.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;
use std::{io, thread};

use mcp_blocking::ServerProcess;

use crate::platform::{Reopen, on_signal};

/// Exit code of a process that a signal ended at once: the second one, or the first during `--check`.
const INTERRUPTED: i32 = 130;
/// Exit code of a process that did not end in time after a signal.
const OVERDUE: i32 = 1;

/// How many signals have arrived. A process has one handler of signals.
#[derive(Default)]
pub(crate) struct Signals(Arc<AtomicUsize>);

impl Signals {
    /// The first signal calls `stop`; the process then has to end within this time. A second signal, or the end of this
    /// time, calls `kill` and ends the process at once. With `reopen`, SIGHUP calls that instead.
    ///
    /// # Errors
    ///
    /// The system does not allow a handler.
    pub(crate) fn stop(
        within: Duration,
        stop: impl Fn() + Send + 'static,
        kill: impl Fn() + Clone + Send + 'static,
        reopen: Option<Reopen>,
    ) -> io::Result<Self> {
        let signals = Self::default();
        let count = Arc::clone(&signals.0);
        let handle = move || {
            if count.fetch_add(1, Ordering::SeqCst) > 0 {
                kill();
                std::process::exit(INTERRUPTED);
            }
            log::info!("stopped by a signal");
            // Nothing that blocks may delay the end, such as a recording on a file system that does not respond, or a program
            // that cannot be stopped.
            let kill = kill.clone();
            let watching = thread::Builder::new().name("mcp-end".to_owned()).spawn(move || {
                thread::sleep(within);
                kill();
                std::process::exit(OVERDUE);
            });
            if let Err(error) = watching {
                log::warn!("cannot start a thread: {error}");
            }
            stop();
        };
        on_signal(handle, reopen)?;
        Ok(signals)
    }

    /// The first signal kills this server and ends the process. Without a handler, the signal would end only the process,
    /// because the server has its own process group.
    ///
    /// # Errors
    ///
    /// The system does not allow a handler.
    pub(crate) fn kill(&self, server: ServerProcess) -> io::Result<()> {
        let count = Arc::clone(&self.0);
        let handle = move || {
            count.fetch_add(1, Ordering::SeqCst);
            server.kill();
            std::process::exit(INTERRUPTED);
        };
        on_signal(handle, None)
    }

    /// Ends the process if this many signals have arrived, as the thread that handles them is about to do.
    pub(crate) fn exit_after(&self, signals: usize) {
        if self.0.load(Ordering::SeqCst) >= signals {
            std::process::exit(INTERRUPTED);
        }
    }
}
