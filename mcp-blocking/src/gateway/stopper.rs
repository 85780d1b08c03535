//! Stops a gateway from another thread.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::Duration;

use crate::child::Process;
use crate::inbox::Inbox;

/// Stops a gateway from another thread, such as one that waits for signals.
#[derive(Clone, Default)]
pub struct GatewayStopper(Arc<Shared>);

#[derive(Default)]
struct Shared {
    drivers: Mutex<Drivers>,
    is_stopped: AtomicBool,
    /// Connections are closed once they are idle.
    is_stopping: Arc<AtomicBool>,
    processes: Mutex<Processes>,
}

/// The threads of all servers.
#[derive(Default)]
struct Drivers {
    inboxes: BTreeMap<u64, Arc<dyn Inbox<Ending>>>,
    next: u64,
    /// How they end; `None` while the gateway runs.
    ending: Option<Ending>,
}

/// How a gateway is to end.
#[derive(Debug, Clone, Copy)]
pub(super) enum Ending {
    /// Once all requests are answered, or after this time.
    Drained(Duration),
    AtOnce,
}

/// The processes of all servers.
#[derive(Default)]
struct Processes {
    running: BTreeMap<u64, Process>,
    next: u64,
    /// No further process may be started.
    is_final: bool,
}

/// The thread of a server that receives the end of the gateway, until this is dropped.
pub(super) struct RegisteredDriver {
    stopper: GatewayStopper,
    key: u64,
}

/// A process that can be killed by the stopper until this is dropped.
pub(super) struct Registered {
    stopper: GatewayStopper,
    key: u64,
}

/// Stops all servers if the thread of one of them panics, so that the gateway does not go on without it.
pub(super) struct StopOnPanic(pub(super) GatewayStopper);

impl GatewayStopper {
    /// Registers the thread of a server. It receives the end at once if the gateway is ending already.
    pub(super) fn add(&self, inbox: impl Inbox<Ending> + 'static) -> RegisteredDriver {
        let inbox: Arc<dyn Inbox<Ending>> = Arc::new(inbox);
        let mut drivers = self.drivers();
        let key = drivers.next;
        drivers.next += 1;
        drivers.inboxes.insert(key, Arc::clone(&inbox));
        let ending = drivers.ending;
        drop(drivers);
        if let Some(ending) = ending {
            inbox.send(ending);
        }
        RegisteredDriver { stopper: self.clone(), key }
    }

    /// Stops the gateway: pending requests are answered with an error, all sessions end, and all processes are stopped.
    /// Then [`Gateway::serve`](super::Gateway::serve) returns; this method does not wait for that. A process has 0.7 s to
    /// end after its stdin was closed, and as long again after SIGTERM; then it is killed. If the gateway does not run yet,
    /// it will end at once.
    pub fn stop(&self) {
        self.0.is_stopping.store(true, Ordering::Release);
        if !self.0.is_stopped.swap(true, Ordering::AcqRel) {
            self.send(Ending::AtOnce);
        }
    }

    /// Stops the gateway once the requests in progress are answered, or after `timeout`; they are cancelled then. New
    /// requests are refused meanwhile. Then all processes are stopped, with 2 s for both times of
    /// [`GatewayStopper::stop`].
    pub fn shutdown(&self, timeout: Duration) {
        self.0.is_stopping.store(true, Ordering::Release);
        self.send(Ending::Drained(timeout));
    }

    /// Kills all processes, and those that they have started, for a program that exits immediately afterwards.
    pub fn kill(&self) {
        let mut processes = self.processes();
        processes.is_final = true;
        for process in processes.running.values() {
            process.kill_finally();
        }
    }

    fn send(&self, ending: Ending) {
        let mut drivers = self.drivers();
        drivers.ending = Some(ending);
        let inboxes: Vec<_> = drivers.inboxes.values().cloned().collect();
        drop(drivers);
        for inbox in inboxes {
            // One that has ended needs not to be stopped.
            let _ = inbox.send(ending);
        }
    }

    /// Whether [`GatewayStopper::stop`] was called, so that the end is urgent.
    pub(super) fn is_urgent(&self) -> bool {
        self.0.is_stopped.load(Ordering::Acquire)
    }

    pub(super) fn is_stopping(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.0.is_stopping)
    }

    /// Registers a process that is about to be started. If no further one may be, starting it fails.
    pub(super) fn register(&self, process: &Process) -> Registered {
        let mut processes = self.processes();
        if processes.is_final {
            process.kill_finally();
        }
        let key = processes.next;
        processes.next += 1;
        processes.running.insert(key, process.clone());
        Registered { stopper: self.clone(), key }
    }

    fn drivers(&self) -> MutexGuard<'_, Drivers> {
        self.0.drivers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn processes(&self) -> MutexGuard<'_, Processes> {
        self.0.processes.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

mcp_application::opaque_debug!(GatewayStopper);

impl Drop for RegisteredDriver {
    fn drop(&mut self) {
        self.stopper.drivers().inboxes.remove(&self.key);
    }
}

impl Drop for Registered {
    fn drop(&mut self) {
        self.stopper.processes().running.remove(&self.key);
    }
}

impl Drop for StopOnPanic {
    fn drop(&mut self) {
        if thread::panicking() {
            self.0.stop();
        }
    }
}
