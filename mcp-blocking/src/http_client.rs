//! HTTP exchanges on a bounded pool of threads.
//!
//! Each worker has its own agent with one connection, which is kept alive and reused. This makes an abort simple and
//! quick: the agent is shut down, which closes its connection under the blocked read, and the worker continues with a
//! new agent. The worker that was used last is used next, because its connection is most likely still open.
//!
//! | file | what it does |
//! |---|---|
//! | `options` | certificates, proxies, timeouts: the configuration of an agent |
//! | `roots` | the certificate authorities that are trusted |
//! | `settings` | headers and options that change while proxies use them |
//! | `chunk` | the buffers for bodies |
//! | `address_cache` | a cache of server addresses |
//! | `connection` | connections |
//! | `growing_buffers` | their buffers |
//! | `local_server` | a server of this machine that is found by a file, and may be started |
//! | `worker` | a thread that performs one exchange at a time |
//! | `fetch` | requests whose responses are read in full: those of a sign-in |

mod address_cache;
mod chunk;
mod connection;
pub(crate) mod fetch;
mod growing_buffers;
mod local_server;

mod options;
mod roots;
mod settings;
#[cfg(test)]
mod tests;
mod worker;

use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use address_cache::AddressCache;
use bytes::Bytes;
use chunk::Chunk;
use http::Request;
use http::response::Parts;
use mcp_auth::Cryptography as _;
use mcp_proto::Instant;
use mcp_proto::auth::ProofClaims;
use mcp_proto::client::{ExchangeKey, Failure, HttpAction};
use mcp_proto::machine::HandleResponses;
use worker::{Job, Worker};

pub use options::{HttpOptions, InvalidProxy, OptionsError};
pub use settings::HttpSettings;

use crate::backpressure::Backpressure;
use crate::clock::unix_time;
use crate::inbox::Inbox;
use crate::link::{Feed, Link};
use crate::signing::Ring;

/// How often the pool checks whether the requests not yet reported as sent have been sent.
const UNSENT: Duration = Duration::from_millis(20);

/// What a worker sends to the inbox.
#[derive(Debug)]
pub(crate) enum FromWorker {
    /// The head of the response, with the body if it is short.
    Head { head: Box<Parts>, body: Chunk, is_whole: bool },
    /// A further part of the body.
    Body(Chunk),
    /// The body has ended.
    End,
    /// There is no response, or it was cut off.
    Failed(Failure),
}

/// The threads that perform exchanges.
#[derive(Debug)]
pub(crate) struct Pool<I> {
    /// Replaced when they change. Workers have those of their start.
    options: Arc<HttpOptions>,
    /// Where headers and options change, and the number of changes that are in force.
    settings: Option<(HttpSettings, usize)>,
    /// The most threads: `Limits::exchanges`, because each performs one exchange at a time.
    max_workers: usize,
    addresses: AddressCache,
    /// Where workers send what they receive.
    inbox: Arc<dyn Inbox<I>>,
    /// Closed while no more bodies should be read.
    backpressure: Arc<Backpressure>,
    /// The worker that was used last is taken first.
    idle: Vec<Worker>,
    busy: BTreeMap<ExchangeKey, Busy>,
    /// Requests that wait for a free worker.
    waiting: VecDeque<Opening>,
    workers: usize,
}

/// An exchange that is to be opened.
#[derive(Debug)]
struct Opening {
    exchange: ExchangeKey,
    request: Request<Bytes>,
    proof: Option<ProofClaims>,
}

#[derive(Debug)]
struct Busy {
    worker: Worker,
    /// Set by the worker once the whole request was passed to the connection.
    sent: Arc<AtomicBool>,
    is_sent_reported: bool,
    aborted: Arc<AtomicBool>,
    is_aborted: bool,
}

impl<I: From<(ExchangeKey, FromWorker)> + Send + 'static> Pool<I> {
    pub(crate) fn new(
        options: HttpOptions,
        max_workers: usize,
        inbox: Arc<dyn Inbox<I>>,
        backpressure: Arc<Backpressure>,
    ) -> Self {
        Self {
            options: Arc::new(options),
            settings: None,
            max_workers,
            addresses: AddressCache::default(),
            inbox,
            backpressure,
            idle: Vec::new(),
            busy: BTreeMap::new(),
            waiting: VecDeque::new(),
            workers: 0,
        }
    }

    /// Uses the changes of these settings, of which it may have an earlier state.
    pub(crate) fn following(mut self, settings: HttpSettings) -> Self {
        self.settings = Some((settings, 0));
        self
    }

    /// Passes changed headers to the machine, and opens further connections with changed options.
    fn apply_changes(&mut self, machine: &mut impl HandleResponses) {
        let Some((settings, seen)) = &mut self.settings else { return };
        // The number is read before the headers, so that no change after it is missed.
        let changes = settings.changes();
        if std::mem::replace(seen, changes) == changes {
            return;
        }
        let (http, mut options) = settings.current();
        // The settings have compared the headers with the earlier ones.
        let _ = machine.set_headers(&http);
        if let Err(error) = options.read_env(&http) {
            log::error!("changed options of a server are not used: {error}");
            return;
        }
        self.options = Arc::new(options);
        // A worker that is in use ends after its exchange.
        self.workers -= self.idle.len();
        self.idle.clear();
    }

    fn open(&mut self, opening: Opening) {
        let worker = match self.idle.pop() {
            Some(worker) => Some(worker),
            None if self.workers < self.max_workers => self.spawn(),
            None => None,
        };
        let Some(worker) = worker else {
            self.waiting.push_back(opening);
            return;
        };
        let Opening { exchange, mut request, proof } = opening;
        // A proof is valid for a short time: it is signed when the request is sent (OA-X-06).
        match proof.as_ref().map(|claims| Ring::proof_header(claims, unix_time())) {
            Some(Some(proof)) => {
                request.headers_mut().insert("dpop", proof);
            }
            // The server refuses the request.
            Some(None) => log::error!("the key to which the access token is bound cannot sign"),
            None => {}
        }
        // A request without a body is never reported as sent.
        let is_sent_reported = request.body().is_empty();
        let sent = Arc::new(AtomicBool::new(false));
        let aborted = Arc::new(AtomicBool::new(false));
        worker.start(Job { exchange, request, sent: Arc::clone(&sent), aborted: Arc::clone(&aborted) });
        self.busy.insert(exchange, Busy { worker, sent, is_sent_reported, aborted, is_aborted: false });
    }

    /// Closes the connection of an exchange, at whatever point its worker is blocked.
    fn abort(&mut self, exchange: ExchangeKey) {
        self.waiting.retain(|waiting| waiting.exchange != exchange);
        if let Some(busy) = self.busy.get_mut(&exchange) {
            busy.is_aborted = true;
            // The flag comes first: a worker that has not begun sees it, or still uses the agent that is closed next.
            self.backpressure.abort(&busy.aborted);
            busy.worker.abort(&self.options, &self.addresses);
        }
    }

    fn spawn(&mut self) -> Option<Worker> {
        let worker =
            Worker::spawn(&self.options, &self.addresses, Arc::clone(&self.inbox), Arc::clone(&self.backpressure));
        match worker {
            Ok(worker) => {
                self.workers += 1;
                Some(worker)
            }
            Err(error) => {
                // The request waits for one of the other workers.
                log::warn!("cannot start another thread: {error}");
                None
            }
        }
    }
}

impl<I: From<(ExchangeKey, FromWorker)> + Send + 'static> Link for Pool<I> {
    type Action = HttpAction;
    type Received = (ExchangeKey, FromWorker);

    fn act(&mut self, action: HttpAction) {
        match action {
            HttpAction::Open { exchange, request, proof } => self.open(Opening { exchange, request, proof }),
            HttpAction::Abort { exchange } => self.abort(exchange),
            _ => {}
        }
    }

    fn max_wait(&self, _is_stalled: bool, _now: Instant) -> Duration {
        if self.busy.values().any(|busy| !busy.is_sent_reported) { UNSENT } else { Duration::MAX }
    }

    /// Opens the backpressure. There is nothing to wait for: the machine has already ended the session.
    fn end(&mut self, _pause: &mut dyn FnMut(Duration) -> bool) {
        // A worker that waits at closed backpressure would otherwise wait forever.
        self.backpressure.set(true);
    }
}

impl<M: HandleResponses, I: From<(ExchangeKey, FromWorker)> + Send + 'static> Feed<M> for Pool<I> {
    /// Reports to the machine the requests that were sent since the last call, and changed headers.
    fn catch_up(&mut self, machine: &mut M, now: Instant) {
        self.apply_changes(machine);
        for (exchange, busy) in &mut self.busy {
            if !busy.is_sent_reported && busy.sent.load(Ordering::Acquire) {
                busy.is_sent_reported = true;
                if !busy.is_aborted {
                    machine.handle_sent(*exchange, now);
                }
            }
        }
    }

    fn feed(&mut self, machine: &mut M, (exchange, received): (ExchangeKey, FromWorker), now: Instant) {
        let is_over =
            matches!(received, FromWorker::End | FromWorker::Failed(_) | FromWorker::Head { is_whole: true, .. });
        let Some(busy) = self.busy.get_mut(&exchange) else { return };
        // After `Abort`, nothing more about an exchange is passed to the machine.
        let is_aborted = busy.is_aborted;
        // A response implies that the request was sent; the machine infers this itself.
        busy.is_sent_reported = true;
        if is_over {
            if let Some(busy) = self.busy.remove(&exchange) {
                if busy.worker.has_options(&self.options) {
                    self.idle.push(busy.worker);
                } else {
                    self.workers -= 1;
                }
            }
            if let Some(waiting) = self.waiting.pop_front() {
                self.open(waiting);
            }
        }
        if is_aborted {
            return;
        }
        match received {
            FromWorker::Head { head, body, is_whole } => {
                machine.handle_response(exchange, &head, now);
                if !body.is_empty() {
                    machine.handle_body(exchange, &body, now);
                }
                if is_whole {
                    machine.handle_end(exchange, now);
                }
            }
            FromWorker::Body(chunk) => machine.handle_body(exchange, &chunk, now),
            FromWorker::End => machine.handle_end(exchange, now),
            FromWorker::Failed(failure) => machine.handle_failure(exchange, failure, now),
        }
    }
}
