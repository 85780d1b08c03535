//! The threads that call the application's handler.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::sync_channel;
use std::{io, thread};

use mcp_application::{NOTICE_BYTES, NOTICES, Notice};
use mcp_proto::{ErrorObject, Json, Method, Ticket};

use super::Handler;
use super::commands::{Commands, Input};
use crate::bounded::{self, Next, Sender, bounded};

/// The most requests of the server that are handled at one time. Each has a thread.
const MAX_REQUESTS: usize = 256;

/// Calls the application's handler: on one thread for notifications and observations, in order, and on a thread of its
/// own for each request, so that a request that waits for a person delays nothing else.
pub(super) struct Handlers {
    handler: Arc<dyn Handler>,
    notices: Sender<Notice>,
    answers: Commands,
    /// Each thread that handles a request holds a clone.
    running: Arc<()>,
}

impl Handlers {
    /// Starts the thread for notifications.
    pub(super) fn start(handler: Arc<dyn Handler>, answers: Commands) -> io::Result<Self> {
        let (notices, queued) = bounded(NOTICES, NOTICE_BYTES);
        let notified = Arc::clone(&handler);
        thread::Builder::new().name("mcp-handler".to_owned()).spawn(move || notify(&*notified, &queued))?;
        Ok(Self::new(handler, notices, answers))
    }

    pub(super) fn new(handler: Arc<dyn Handler>, notices: Sender<Notice>, answers: Commands) -> Self {
        Self { handler, notices, answers, running: Arc::new(()) }
    }

    /// Queues a notification or an observation. If the queue is full, it is dropped and counted.
    pub(super) fn notice(&self, notice: Notice) {
        let weight = notice.weight();
        if self.notices.try_send(notice, weight).is_err() {
            self.notices.miss();
        }
    }

    /// Starts to handle a request, whose answer becomes a command.
    ///
    /// # Errors
    ///
    /// Returns the ticket if too many requests are being handled.
    pub(super) fn request(&self, ticket: Ticket, method: Method, params: Option<Json>) -> Result<(), Ticket> {
        // The handler itself holds one.
        if Arc::strong_count(&self.running) > MAX_REQUESTS {
            return Err(ticket);
        }
        let (handler, answers, running) = (Arc::clone(&self.handler), self.answers.clone(), Arc::clone(&self.running));
        // The ticket must not be lost with the closure of a thread that cannot be started.
        let (give, take) = sync_channel::<Ticket>(1);
        let handle = move || {
            let Ok(ticket) = take.recv() else { return };
            // INV-1: each request of the server is answered.
            let answer = catch_panic(|| handler.requested(method, params));
            let answer = answer.unwrap_or_else(|| Err(ErrorObject::internal()));
            // The client may have ended.
            let _ = answers.send(Input::Answer { ticket, answer });
            drop(running);
        };
        match thread::Builder::new().name("mcp-request".to_owned()).spawn(handle) {
            Ok(_) => give.send(ticket).map_err(|unsent| unsent.0),
            Err(error) => {
                log::warn!("cannot start a thread for a request of the server: {error}");
                Err(ticket)
            }
        }
    }
}

/// Calls the handler until the client has ended. A panic affects only the event that caused it.
fn notify(handler: &dyn Handler, notices: &bounded::Receiver<Notice>) {
    while let Some(next) = notices.recv() {
        let notice = match next {
            Next::Entry(notice) => notice,
            Next::Missed(count) => {
                log::warn!("{count} notifications were dropped: the handler is too slow");
                Notice::dropped(count)
            }
        };
        match notice {
            Notice::Notified(notification) => catch_panic(|| handler.notified(notification)),
            Notice::Observed(observation) => catch_panic(|| handler.observed(observation)),
        };
    }
}

/// Returns what the handler returned; `None` if it panicked. The panic hook has already reported the panic.
pub(super) fn catch_panic<R>(call: impl FnOnce() -> R) -> Option<R> {
    let outcome = catch_unwind(AssertUnwindSafe(call));
    if outcome.is_err() {
        log::error!("the client's handler panicked");
    }
    outcome.ok()
}
