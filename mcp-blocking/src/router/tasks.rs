//! Tools whose results are fetched later, as tasks.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, PoisonError};
use std::thread;
use std::time::Duration;

use mcp_application::router::{HandlerError, IntoAnswer, RoutedCall};
use mcp_application::{CallSender, LONGEST_TIMEOUT, SharedTaskRuns, TaskCaller, TaskEffect, TaskRuns};
use mcp_model::CallToolRequest;
use mcp_proto::server::{InputRequired, TaskId, TaskLimits, Tasks};
use mcp_proto::{ErrorObject, Json};

use crate::clock::{now, unix_time};
use crate::server::publish_to_all;
use crate::{Incoming, ServerPublisher};

/// The tasks of a router, and the functions that work on them: each on a thread of its own. One more thread publishes
/// changes, and drops the tasks whose time is over; it ends when there is no task.
pub(super) struct TaskRunner {
    state: State,
    /// There is a change to publish, or a task was created.
    changed: Condvar,
}

/// A thread cannot be stopped: its function finds out with [`TaskContext::is_cancelled`].
type State = SharedTaskRuns<(), SyncSender<Json>, ServerPublisher>;
type Runs = TaskRuns<(), SyncSender<Json>>;

impl TaskRunner {
    pub(super) fn new(limits: TaskLimits) -> Self {
        Self { state: State::new(limits), changed: Condvar::new() }
    }

    pub(super) fn created(&self, publisher: ServerPublisher) {
        self.state.created(publisher);
    }

    /// Answers a request about a task; `None` for every other request.
    pub(super) fn answer(self: &Arc<Self>, incoming: &Incoming) -> Option<Result<Json, ErrorObject>> {
        self.change(|runs| runs.answer(incoming.method(), incoming.params(), incoming.context(), now()))
    }

    /// Answers a call of a tool with a task, if the client can fetch its result, else with the result.
    pub(super) fn call<O: IntoAnswer<CallToolRequest>>(
        self: &Arc<Self>,
        call: &RoutedCall,
        incoming: &Incoming,
        function: impl FnOnce(&mut TaskContext<'_>) -> Result<O, HandlerError> + Send + 'static,
    ) -> Result<Json, ErrorObject> {
        let sender = incoming.sender();
        if !Tasks::are_supported(incoming.context()) {
            let mut context = TaskContext { caller: TaskCaller::Waits(incoming), sender };
            return call.answer(function(&mut context));
        }
        let mut random = [0; 16];
        getrandom::fill(&mut random).map_err(|_| ErrorObject::internal())?;
        let id = incoming.task_id(random);
        let (runner, worked_on, call) = (Arc::clone(self), id.clone(), call.clone());
        let work = move || {
            let caller = TaskCaller::Fetches { runner: Arc::clone(&runner), id: worked_on.clone() };
            let mut context = TaskContext { caller, sender };
            let outcome = catch_unwind(AssertUnwindSafe(|| call.answer(function(&mut context))));
            let outcome = outcome.unwrap_or_else(|_| {
                log::error!("the function of a task panicked");
                Err(ErrorObject::internal())
            });
            runner.change(|runs| runs.finish(&worked_on, outcome, now()));
        };
        let mut started = Ok(());
        let created = self.change(|runs| {
            let start = || started = thread::Builder::new().name("mcp-task".to_owned()).spawn(work).map(drop);
            runs.create(&id, incoming.context(), Duration::from_secs(unix_time()), now(), start)
        });
        if let Err(error) = started {
            log::warn!("cannot start a thread for a task: {error}");
            self.change(|runs| runs.finish(&id, Err(ErrorObject::overloaded()), now()));
        }
        created
    }

    fn set_message(self: &Arc<Self>, task: &TaskId, message: &str) {
        self.change(|runs| runs.set_message(task, message, now()));
    }

    /// The answers of the client to what a task requires; `None` if it is not asked, or the task has ended.
    fn ask(self: &Arc<Self>, task: &TaskId, required: &InputRequired) -> Option<Json> {
        let (to, answers) = sync_channel(1);
        self.change(|runs| runs.ask(task, required, to, now()));
        answers.recv().ok()
    }

    /// Changes the tasks, and carries out what follows from it.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut Runs) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = change(&mut state.runs);
        carry_out(&mut state.runs);
        let mut started = Ok(());
        if state.needs_driver() {
            let runner = Arc::clone(self);
            // The new thread first waits for the lock that is held here.
            let attend = move || runner.attend();
            started = thread::Builder::new().name("mcp-tasks".to_owned()).spawn(attend).map(drop);
            state.has_driver = started.is_ok();
        }
        drop(state);
        self.changed.notify_one();
        if let Err(error) = started {
            log::warn!("cannot start the thread that publishes the changes of tasks: {error}");
        }
        outcome
    }

    /// Publishes changes, one after the other, and drops tasks whose time is over, until there is no task.
    fn attend(&self) {
        let mut state = self.state.lock();
        loop {
            state.runs.handle_timeout(now());
            carry_out(&mut state.runs);
            if let Some(notification) = state.runs.poll_notification() {
                let publishers = state.publishers.clone();
                drop(state);
                // A server that has not declared the extension has no subscribers of tasks.
                let _ = publish_to_all(&publishers, &notification);
                state = self.state.lock();
                continue;
            }
            let Some(due) = state.runs.poll_timeout() else {
                state.has_driver = false;
                return;
            };
            let time = due.saturating_duration_since(now()).min(LONGEST_TIMEOUT);
            (state, _) = self.changed.wait_timeout(state, time).unwrap_or_else(PoisonError::into_inner);
        }
    }
}

fn carry_out(runs: &mut Runs) {
    while let Some(effect) = runs.poll_effect() {
        if let TaskEffect::Answer { to, answers } = effect {
            // There is room for it, and the function waits.
            let _ = to.try_send(answers);
        }
    }
}

/// The client of a tool that was added with [`Router::task_tool_with_schema`](super::Router::task_tool_with_schema). It has
/// all methods of [`CallSender`].
#[derive(Debug)]
pub struct TaskContext<'a> {
    caller: TaskCaller<&'a Incoming, TaskRunner>,
    sender: CallSender,
}

mcp_application::deref_to!(TaskContext<'_>, sender: CallSender);

impl TaskContext<'_> {
    /// Whether the client has cancelled the call or the task, or the time of the task is over. A function that takes long
    /// should ask now and then, and return: its result is dropped.
    #[must_use]
    pub fn is_cancelled(&self) -> bool {
        match &self.caller {
            TaskCaller::Waits(incoming) => incoming.is_cancelled(),
            TaskCaller::Fetches { runner, id } => !runner.state.lock().runs.is_running(id),
        }
    }

    mcp_application::task_context_methods! { asynchronous: [] [] }
}
