//! Tools whose results are fetched later, as tasks.

use std::future::ready;
use std::sync::Arc;
use std::time::Duration;

use mcp_application::router::{HandlerError, IntoAnswer, RoutedCall};
use mcp_application::{CallSender, LONGEST_TIMEOUT, SharedTaskRuns, TaskCaller, TaskEffect, TaskRuns};
use mcp_model::CallToolRequest;
use mcp_proto::server::{InputRequired, TaskId, TaskLimits, Tasks};
use mcp_proto::{ErrorObject, Json};
use tokio::sync::{Notify, oneshot};
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::Instrument;

use super::Answer;
use crate::clock::{now, unix_time};
use crate::panics::caught;
use crate::server::publish_to_all;
use crate::{Incoming, ServerPublisher};

/// The tasks of a router, and the functions that work on them: each in a task of the runtime. One more publishes changes,
/// and drops the tasks whose time is over; it ends when there is none.
pub(super) struct TaskRunner {
    state: State,
    /// There is a change to publish, or a task was created.
    changed: Notify,
}

type State = SharedTaskRuns<AbortHandle, oneshot::Sender<Json>, ServerPublisher>;
type Runs = TaskRuns<AbortHandle, oneshot::Sender<Json>>;

impl TaskRunner {
    pub(super) fn new(limits: TaskLimits) -> Self {
        Self { state: State::new(limits), changed: Notify::new() }
    }

    pub(super) fn created(&self, publisher: ServerPublisher) {
        self.state.created(publisher);
    }

    /// Answers a request about a task; `None` for every other request.
    pub(super) fn answer(self: &Arc<Self>, incoming: &Incoming) -> Option<Result<Json, ErrorObject>> {
        self.change(|runs| runs.answer(incoming.method(), incoming.params(), incoming.context(), now()))
    }

    /// Answers a call of a tool with a task, if the client can fetch its result, else with the result.
    pub(super) fn call<O, T>(
        self: &Arc<Self>,
        call: RoutedCall,
        incoming: Incoming,
        function: impl FnOnce(TaskContext) -> T,
    ) -> Answer
    where
        O: IntoAnswer<CallToolRequest>,
        T: Future<Output = Result<O, HandlerError>> + Send + 'static,
    {
        let sender = incoming.sender();
        if !Tasks::are_supported(incoming.context()) {
            let caller = TaskCaller::Waits(Box::new(incoming));
            let outcome = function(TaskContext { caller, sender });
            return Box::pin(async move { call.answer(outcome.await) });
        }
        let mut random = [0; 16];
        if getrandom::fill(&mut random).is_err() {
            return Box::pin(ready(Err(ErrorObject::internal())));
        }
        let id = incoming.task_id(random);
        // Before the task exists: a function that panics here leaves none behind.
        let caller = TaskCaller::Fetches { runner: Arc::clone(self), id: id.clone() };
        let work = function(TaskContext { caller, sender });
        let (runner, worked_on) = (Arc::clone(self), id.clone());
        let work = async move {
            let outcome =
                caught(work).await.map_or_else(|| Err(ErrorObject::internal()), |outcome| call.answer(outcome));
            runner.change(|runs| runs.finish(&worked_on, outcome, now()));
        };
        let created = self.change(|runs| {
            let start = || tokio::spawn(work.in_current_span()).abort_handle();
            runs.create(&id, incoming.context(), Duration::from_secs(unix_time()), now(), start)
        });
        Box::pin(ready(created))
    }

    fn set_message(self: &Arc<Self>, task: &TaskId, message: &str) {
        self.change(|runs| runs.set_message(task, message, now()));
    }

    /// The answers of the client to what a task requires; `None` if it is not asked, or the task has ended.
    async fn ask(self: &Arc<Self>, task: &TaskId, required: &InputRequired) -> Option<Json> {
        let (to, answers) = oneshot::channel();
        self.change(|runs| runs.ask(task, required, to, now()));
        answers.await.ok()
    }

    /// Changes the tasks, and carries out what follows from it.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut Runs) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = change(&mut state.runs);
        carry_out(&mut state.runs);
        if state.needs_driver() {
            state.has_driver = true;
            let runner = Arc::clone(self);
            tokio::spawn(async move { runner.attend().await });
        }
        drop(state);
        self.changed.notify_one();
        outcome
    }

    /// Publishes changes, one after the other, and drops tasks whose time is over, until there is no task.
    async fn attend(&self) {
        loop {
            let (notification, publishers, due) = {
                let mut state = self.state.lock();
                state.runs.handle_timeout(now());
                carry_out(&mut state.runs);
                let notification = state.runs.poll_notification();
                let due = state.runs.poll_timeout();
                state.has_driver = notification.is_some() || due.is_some();
                (notification, state.publishers.clone(), due)
            };
            if let Some(notification) = notification {
                // A server that has not declared the extension has no subscribers of tasks.
                let _ = publish_to_all(&publishers, &notification).await;
                continue;
            }
            let Some(due) = due else { return };
            let time = due.saturating_duration_since(now()).min(LONGEST_TIMEOUT);
            tokio::select! {
                () = self.changed.notified() => {}
                () = sleep(time) => {}
            }
        }
    }
}

fn carry_out(runs: &mut Runs) {
    while let Some(effect) = runs.poll_effect() {
        match effect {
            TaskEffect::Stop { task, work } => {
                work.abort();
                runs.stopped(&task);
            }
            TaskEffect::Answer { to, answers } => {
                let _ = to.send(answers);
            }
            _ => {}
        }
    }
}

/// The client of a tool that was added with [`Router::task_tool_with_schema`](super::Router::task_tool_with_schema). It has
/// all methods of [`CallSender`].
#[derive(Debug)]
pub struct TaskContext {
    caller: TaskCaller<Box<Incoming>, TaskRunner>,
    sender: CallSender,
}

mcp_application::deref_to!(TaskContext, sender: CallSender);

impl TaskContext {
    mcp_application::task_context_methods! { asynchronous: [async] [.await] }
}
