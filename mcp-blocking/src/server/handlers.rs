//! The threads on which requests are handled.

use std::collections::BTreeMap;
use std::io::{self, ErrorKind};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;
use std::{fmt, thread};

use mcp_application::NoticeLoad;
use mcp_proto::client::CloseReason;
use mcp_proto::{ErrorObject, Notification, SessionKey, TicketKey};

use super::Service;
use super::incoming::Incoming;
use super::subscriptions::Subscriptions;

/// How long a thread without work waits for a job before it ends.
const IDLE: Duration = Duration::from_secs(10);

/// One job for the application.
pub(super) enum Job {
    Call { service: Arc<dyn Service>, incoming: Incoming },
    Notified { service: Arc<dyn Service>, session: SessionKey, notification: Notification },
    Ended { service: Arc<dyn Service>, session: SessionKey, reason: CloseReason },
    Subscriptions { service: Arc<dyn Service>, subscriptions: Arc<Subscriptions> },
}

impl fmt::Debug for Job {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Job")
    }
}

impl Job {
    fn run(self) {
        match self {
            // The call's client has disconnected or has cancelled it (K6).
            Self::Call { incoming, .. } if incoming.is_cancelled() => {}
            Self::Call { service, incoming } => {
                // If a handler panics, its request gets an error; the thread continues.
                let outcome = catch_unwind(AssertUnwindSafe(|| service.serve(&incoming)));
                incoming.answer(outcome.unwrap_or_else(|_| {
                    log::error!("the handler of {} panicked", incoming.method());
                    Err(ErrorObject::internal())
                }));
            }
            Self::Ended { service, session, reason } => {
                if catch_unwind(AssertUnwindSafe(|| service.ended(session, reason))).is_err() {
                    log::error!("the handler of a session's end panicked");
                }
            }
            Self::Notified { service, session, notification } => {
                let method = notification.method.clone();
                if catch_unwind(AssertUnwindSafe(|| service.notified(session, notification))).is_err() {
                    log::error!("the handler of {method} panicked");
                }
            }
            Self::Subscriptions { service, subscriptions } => subscriptions.report(&*service),
        }
    }
}

/// A thread pool that grows up to its limit.
#[derive(Debug)]
pub(super) struct Handlers {
    shared: Arc<Pool>,
    most: usize,
}

#[derive(Debug)]
struct Pool {
    state: Mutex<State>,
    changed: Condvar,
    /// How long a thread without work waits for a job before it ends.
    idle: Duration,
}

#[derive(Debug, Default)]
struct State {
    queue: Queue,
    threads: usize,
    idle: usize,
    is_closed: bool,
}

/// Jobs in their order. Notifications are bounded here. Calls are bounded by the machine, each session ends only once,
/// and new subscription changes are queued only after the earlier ones were handled.
#[derive(Debug, Default)]
struct Queue {
    next: u64,
    jobs: BTreeMap<u64, Box<Job>>,
    calls: BTreeMap<TicketKey, u64>,
    notifications: NoticeLoad,
}

impl Queue {
    /// Returns `false` if there is no room.
    fn push(&mut self, job: Box<Job>) -> bool {
        match &*job {
            Job::Call { incoming, .. } => {
                self.calls.insert(incoming.ticket(), self.next);
            }
            Job::Notified { notification, .. } => {
                if !self.notifications.add(notification) {
                    return false;
                }
            }
            Job::Ended { .. } | Job::Subscriptions { .. } => {}
        }
        self.jobs.insert(self.next, job);
        self.next += 1;
        true
    }

    fn pop(&mut self) -> Option<Box<Job>> {
        let (_, job) = self.jobs.pop_first()?;
        match &*job {
            Job::Call { incoming, .. } => {
                self.calls.remove(&incoming.ticket());
            }
            Job::Notified { notification, .. } => self.notifications.remove(notification),
            Job::Ended { .. } | Job::Subscriptions { .. } => {}
        }
        Some(job)
    }

    fn remove_call(&mut self, ticket: TicketKey) -> Option<Box<Job>> {
        self.jobs.remove(&self.calls.remove(&ticket)?)
    }

    fn len(&self) -> usize {
        self.jobs.len()
    }
}

impl Pool {
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn work(&self) {
        let mut state = self.state();
        loop {
            if let Some(job) = state.queue.pop() {
                drop(state);
                job.run();
                state = self.state();
                continue;
            }
            if state.is_closed {
                break;
            }
            state.idle += 1;
            let (guard, waited) = self.changed.wait_timeout(state, self.idle).unwrap_or_else(PoisonError::into_inner);
            state = guard;
            state.idle -= 1;
            if waited.timed_out() && state.queue.len() == 0 {
                break;
            }
        }
        state.threads -= 1;
    }
}

impl Handlers {
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if there may be no thread.
    pub(super) fn new(most: usize) -> io::Result<Self> {
        if most == 0 {
            return Err(io::Error::new(ErrorKind::InvalidInput, "max_handlers is 0: no request would be handled"));
        }
        Ok(Self::with_idle(most, IDLE))
    }

    pub(super) fn with_idle(most: usize, idle: Duration) -> Self {
        let shared = Arc::new(Pool { state: Mutex::default(), changed: Condvar::new(), idle });
        Self { shared, most }
    }

    /// Queues a job. A notification is dropped if too many are queued.
    pub(super) fn push(&self, job: Job) {
        let mut state = self.shared.state();
        if !state.queue.push(Box::new(job)) {
            drop(state);
            log::warn!("a notification was dropped: the service is too slow");
            return;
        }
        if state.idle >= state.queue.len() || state.threads >= self.most {
            drop(state);
            self.shared.changed.notify_one();
            return;
        }
        let shared = Arc::clone(&self.shared);
        let spawned = thread::Builder::new().name("mcp-handler".to_owned()).spawn(move || shared.work());
        // The new thread first waits for this lock, so it is counted before it takes a job.
        state.threads += usize::from(spawned.is_ok());
        // The lock is released before logging: a slow log must not delay the handlers (K3).
        drop(state);
        if let Err(error) = spawned {
            log::warn!("cannot start another thread: {error}");
        }
    }

    /// Drops a queued call, because its client has disconnected or has cancelled it (K6).
    pub(super) fn cancel(&self, ticket: TicketKey) {
        let removed = self.shared.state().queue.remove_call(ticket);
        // The parameters may be large, so they are freed without holding the lock.
        drop(removed);
    }
}

/// Threads end once the queue is empty.
impl Drop for Handlers {
    fn drop(&mut self) {
        self.shared.state().is_closed = true;
        self.shared.changed.notify_all();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use ::mcp_testkit::waiting::wait_until;
    use mcp_application::{IncomingRequest, NOTICE_BYTES, NOTICES};
    use mcp_proto::server::{Config, Event, Server};
    use mcp_proto::{Json, Output, Stdio, Ticket};

    use super::super::commands::Commands;
    use super::super::incoming::Shared;
    use super::*;
    use crate::clock;

    fn service() -> Arc<dyn Service> {
        Arc::new(|_: &Incoming| Ok(Json::empty_object()))
    }

    fn notified() -> Job {
        notified_with(Notification::new("n"))
    }

    fn notified_with(notification: Notification) -> Job {
        Job::Notified { service: service(), session: session(), notification }
    }

    fn session() -> SessionKey {
        Server::new(Stdio::new(), Config::new("s", "1")).unwrap().session()
    }

    /// Calls from one client, with their tickets.
    fn calls(count: usize) -> Vec<(Box<Job>, Ticket)> {
        calls_of(count, &Arc::default())
    }

    /// Like [`calls`], but all calls have this shared state, through which they can be cancelled at once.
    fn calls_of(count: usize, shared: &Arc<Shared>) -> Vec<(Box<Job>, Ticket)> {
        let now = clock::now();
        let mut machine = Server::new(Stdio::new(), Config::new("s", "1")).unwrap();
        let initialize = r#"{"jsonrpc":"2.0","id":0,"method":"initialize","params":{"protocolVersion":"2025-11-25"}}"#;
        let call = "{\"jsonrpc\":\"2.0\",\"id\":1,\"method\":\"m\"}\n";
        machine.handle_bytes(format!("{initialize}\n{}", call.repeat(count)).as_bytes(), now);
        let outputs: Vec<_> = std::iter::from_fn(|| machine.poll_output()).collect();
        let commands = Commands::to::<()>(sync_channel(1).0);
        let calls = outputs.into_iter().filter_map(|output| {
            let Output::Event(Event::Requested { ticket, method, params }) = output else { return None };
            let request = IncomingRequest::new(&machine, &ticket, method, params, clock::unix_time)?;
            let incoming = Incoming::new(request, Arc::clone(shared), commands.clone());
            Some((Box::new(Job::Call { service: service(), incoming }), ticket))
        });
        calls.collect()
    }

    #[test]
    fn a_cancelled_call_leaves_the_queue() {
        let mut queue = Queue::default();
        let mut tickets = Vec::new();
        for (call, ticket) in calls(1000) {
            assert!(queue.push(call));
            tickets.push(ticket.key());
        }
        for ticket in &tickets[..999] {
            assert!(queue.remove_call(*ticket).is_some() && queue.remove_call(*ticket).is_none());
        }
        assert_eq!((queue.len(), queue.calls.len()), (1, 1));
        let last = queue.pop();
        assert!(matches!(last.as_deref(), Some(Job::Call { incoming, .. }) if incoming.ticket() == tickets[999]));
        assert!(queue.pop().is_none() && queue.calls.is_empty());
    }

    #[test]
    fn rp9_notifications_that_wait_are_bounded_and_keep_out_nothing_else() {
        let mut queue = Queue::default();
        for _ in 0..NOTICES {
            assert!(queue.push(Box::new(notified())));
        }
        assert!(!queue.push(Box::new(notified())));
        assert!(queue.push(Box::new(Job::Ended { service: service(), session: session(), reason: CloseReason::Peer })));
        assert!(calls(1).into_iter().all(|(call, _)| queue.push(call)));
        assert!(queue.pop().is_some() && queue.push(Box::new(notified())) && !queue.push(Box::new(notified())));
        let left: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(left.len(), NOTICES + 2);
        // Notifications are bounded in bytes, too.
        let params = Json::from("x".repeat(NOTICE_BYTES / 2 - 2).as_str());
        let large = || Box::new(notified_with(Notification::with_params("n", params.clone())));
        assert!(queue.push(large()) && queue.push(large()) && !queue.push(large()));
        assert!(queue.pop().is_some() && queue.push(large()));
    }

    /// A service whose `notified` blocks until the test releases it, one call at a time.
    struct Gated {
        begun: std::sync::mpsc::Sender<()>,
        may_end: Mutex<std::sync::mpsc::Receiver<()>>,
    }

    impl Service for Gated {
        fn serve(&self, _: &Incoming) -> Result<Json, ErrorObject> {
            Ok(Json::empty_object())
        }

        fn notified(&self, _: SessionKey, _: Notification) {
            self.begun.send(()).unwrap();
            self.may_end.lock().unwrap().recv().unwrap();
        }
    }

    #[test]
    fn threads_are_started_up_to_the_limit_used_again_and_end_with_the_pool() {
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (ends, may_end) = std::sync::mpsc::channel();
        let service: Arc<dyn Service> = Arc::new(Gated { begun, may_end: Mutex::new(may_end) });
        let job = || {
            let (service, notification) = (Arc::clone(&service), Notification::new("n"));
            Job::Notified { service, session: session(), notification }
        };
        let handlers = Handlers::new(2).unwrap();
        let pool = Arc::clone(&handlers.shared);
        let counts = || {
            let state = pool.state();
            (state.threads, state.idle, state.queue.len())
        };
        handlers.push(job());
        has_begun.recv().unwrap();
        assert_eq!(counts(), (1, 0, 0));
        ends.send(()).unwrap();
        wait_until(|| counts() == (1, 1, 0));
        // An idle thread is reused; two jobs at the same time need two threads.
        handlers.push(job());
        has_begun.recv().unwrap();
        assert_eq!(counts(), (1, 0, 0));
        handlers.push(job());
        has_begun.recv().unwrap();
        handlers.push(job());
        assert_eq!(counts(), (2, 0, 1));
        for _ in 0..3 {
            ends.send(()).unwrap();
        }
        has_begun.recv().unwrap();
        wait_until(|| counts() == (2, 2, 0));
        // Idle threads end at once, not after their idle time.
        drop(handlers);
        wait_until(|| counts() == (0, 0, 0));
    }

    #[test]
    fn a_cancelled_call_is_not_run_and_queued_calls_are_done_before_the_end() {
        let (begun, has_begun) = std::sync::mpsc::channel();
        let (ends, may_end) = std::sync::mpsc::channel();
        let service: Arc<dyn Service> = Arc::new(Gated { begun, may_end: Mutex::new(may_end) });
        let job = || {
            let (service, notification) = (Arc::clone(&service), Notification::new("n"));
            Job::Notified { service, session: session(), notification }
        };
        let handlers = Handlers::new(1).unwrap();
        handlers.push(job());
        has_begun.recv().unwrap();
        let mut tickets = Vec::new();
        for (call, ticket) in calls(2) {
            tickets.push(ticket.key());
            handlers.push(*call);
        }
        assert_eq!(handlers.shared.state().queue.len(), 2);
        handlers.cancel(tickets[0]);
        assert_eq!(handlers.shared.state().queue.len(), 1);
        handlers.push(job());
        let pool = Arc::clone(&handlers.shared);
        drop(handlers);
        ends.send(()).unwrap();
        has_begun.recv().unwrap();
        ends.send(()).unwrap();
        wait_until(|| pool.state().threads == 0 && pool.state().queue.len() == 0);
    }

    #[test]
    fn a_thread_without_work_ends_after_some_time_and_not_when_it_is_woken_for_nothing() {
        let handlers = Handlers::with_idle(1, Duration::from_millis(300));
        let pool = Arc::clone(&handlers.shared);
        handlers.push(notified());
        wait_until(|| pool.state().idle == 1);
        for _ in 0..3 {
            pool.changed.notify_all();
            thread::sleep(Duration::from_millis(5));
            assert_eq!(pool.state().threads, 1);
        }
        wait_until(|| pool.state().threads == 0);
        assert_eq!(pool.state().idle, 0);
        // A new thread is started.
        handlers.push(notified());
        wait_until(|| pool.state().threads == 1 && pool.state().queue.len() == 0);
    }

    /// The call is cancelled after a thread has taken it from the queue.
    #[test]
    fn a_call_that_is_cancelled_in_the_queue_is_not_run() {
        let served = Arc::new(Mutex::new(0));
        let count = Arc::clone(&served);
        let service: Arc<dyn Service> = Arc::new(move |_: &Incoming| {
            *count.lock().unwrap() += 1;
            Ok(Json::empty_object())
        });
        for (is_cancelled, expected) in [(true, 0), (false, 1)] {
            let shared = Arc::default();
            let Some((call, _)) = calls_of(1, &shared).pop() else { panic!("a call") };
            let Job::Call { incoming, .. } = *call else { panic!("a call") };
            if is_cancelled {
                shared.cancel();
            }
            Job::Call { service: Arc::clone(&service), incoming }.run();
            assert_eq!(*served.lock().unwrap(), expected);
        }
    }
}
