//! Counts what happens in a gateway, for other threads.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use http::StatusCode;

/// Counts sessions, processes and requests of a gateway. Clones count the same.
#[derive(Debug, Clone, Default)]
pub struct GatewayStatus(Arc<Mutex<Vec<Arc<Counters>>>>);

/// The counts of one server, at one moment.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
#[non_exhaustive]
pub struct ServerStatus {
    /// The path of its endpoint, such as `/mcp`; empty if it has none.
    pub path: Box<str>,
    /// Open sessions.
    pub sessions: usize,
    /// Processes that were started and have not ended.
    pub backends: usize,
    /// Processes that were ever started, or tried to.
    pub backends_started: u64,
    /// Processes that exited, or did not answer, before they could be used.
    pub backends_failed: u64,
    /// Processes that have ended, or could not be started.
    pub backends_stopped: u64,
    /// HTTP requests.
    pub requests: u64,
    /// HTTP requests that were refused, by the status of the answer: 400 or above.
    pub refusals: BTreeMap<StatusCode, u64>,
    /// Bytes of the bodies of requests.
    pub bytes_received: u64,
    /// Bytes of the bodies of responses.
    pub bytes_sent: u64,
}

/// The counts of one server, all written by its driver.
#[derive(Debug, Default)]
pub(super) struct Counters {
    path: Box<str>,
    pub(super) sessions: AtomicUsize,
    pub(super) backends: AtomicUsize,
    pub(super) backends_started: AtomicU64,
    pub(super) backends_failed: AtomicU64,
    pub(super) backends_stopped: AtomicU64,
    pub(super) requests: AtomicU64,
    refusals: Mutex<BTreeMap<StatusCode, u64>>,
    pub(super) bytes_received: AtomicU64,
    pub(super) bytes_sent: AtomicU64,
}

impl GatewayStatus {
    /// The counts of each server, in the order in which they were added.
    #[must_use]
    pub fn servers(&self) -> Vec<ServerStatus> {
        self.counters().iter().map(|counters| counters.read()).collect()
    }

    pub(super) fn add(&self, path: &str) -> Arc<Counters> {
        let counters = Arc::new(Counters { path: path.into(), ..Counters::default() });
        self.counters().push(Arc::clone(&counters));
        counters
    }

    /// Counts these servers from now on.
    pub(super) fn replace(&self, counters: Vec<Arc<Counters>>) {
        *self.counters() = counters;
    }

    fn counters(&self) -> MutexGuard<'_, Vec<Arc<Counters>>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Counters {
    /// Counts an answer with this status, if it refuses the request.
    pub(super) fn answered(&self, status: StatusCode) {
        if status.is_client_error() || status.is_server_error() {
            *self.refusals.lock().unwrap_or_else(PoisonError::into_inner).entry(status).or_default() += 1;
        }
    }

    /// Counts a request that is refused, with this status, before it reaches the server.
    pub(super) fn refused(&self, status: StatusCode) {
        add(&self.requests, 1);
        self.answered(status);
    }

    fn read(&self) -> ServerStatus {
        let count = |count: &AtomicU64| count.load(Ordering::Relaxed);
        ServerStatus {
            path: self.path.clone(),
            sessions: self.sessions.load(Ordering::Relaxed),
            backends: self.backends.load(Ordering::Relaxed),
            backends_started: count(&self.backends_started),
            backends_failed: count(&self.backends_failed),
            backends_stopped: count(&self.backends_stopped),
            requests: count(&self.requests),
            refusals: self.refusals.lock().unwrap_or_else(PoisonError::into_inner).clone(),
            bytes_received: count(&self.bytes_received),
            bytes_sent: count(&self.bytes_sent),
        }
    }
}

pub(super) fn add(counter: &AtomicU64, number: usize) {
    counter.fetch_add(number as u64, Ordering::Relaxed);
}
