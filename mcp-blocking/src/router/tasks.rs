//! Tools whose results are fetched later, as tasks.

use std::ops::Deref;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{SyncSender, sync_channel};
use std::sync::{Arc, Condvar, PoisonError};
use std::thread;
use std::time::Duration;

use mcp_application::router::{HandlerError, IntoAnswer, RoutedCall};
use mcp_application::{
    CallSender, LONGEST_TIMEOUT, SharedTaskRuns, TaskCaller, TaskEffect, TaskInput, TaskInputs, TaskRuns,
};
use mcp_model::{
    CallToolRequest, CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, ElicitRequest,
    ElicitRequestParams, ElicitResult, ListRootsRequest, ListRootsResult, RequestMethod, RequestParams,
};
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
        let id = TaskId::for_call(incoming.context(), random);
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

    /// Changes the tasks, and carries out what follows from it.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut Runs) -> T) -> T {
        let mut state = self.state.lock();
        let outcome = change(&mut state.runs);
        carry_out(&mut state.runs);
        let mut started = Ok(());
        if state.is_neglected() {
            let runner = Arc::clone(self);
            // The new thread first waits for the lock that is held here.
            let attend = move || runner.attend();
            started = thread::Builder::new().name("mcp-tasks".to_owned()).spawn(attend).map(drop);
            state.is_attended = started.is_ok();
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
                state.is_attended = false;
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

impl Deref for TaskContext<'_> {
    type Target = CallSender;

    fn deref(&self) -> &CallSender {
        &self.sender
    }
}

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

    /// Sets the text about what the tool is doing, which clients that fetch the result can show.
    pub fn set_message(&self, message: &str) {
        if let TaskCaller::Fetches { runner, id } = &self.caller {
            runner.change(|runs| runs.set_message(id, message, now()));
        }
    }

    /// Shows a form to the client's user, or sends the user to a URL, and waits for the answer. The key is unique in the
    /// call.
    ///
    /// # Errors
    ///
    /// The client cannot be asked, the task has ended, or the answer does not have the form that it must have.
    pub fn elicit(&mut self, key: &str, params: impl Into<ElicitRequestParams>) -> Result<ElicitResult, HandlerError> {
        self.ask::<ElicitRequest>(key, &params.into())
    }

    /// Requests a message of the client's language model. The key is unique in the call.
    ///
    /// # Errors
    ///
    /// As for [`TaskContext::elicit`].
    pub fn sample(
        &mut self,
        key: &str,
        params: &CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, HandlerError> {
        self.ask::<CreateMessageRequest>(key, params)
    }

    /// Requests the roots of the client. The key is unique in the call.
    ///
    /// # Errors
    ///
    /// As for [`TaskContext::elicit`].
    pub fn roots(&mut self, key: &str) -> Result<ListRootsResult, HandlerError> {
        self.ask::<ListRootsRequest>(key, &RequestParams::new())
    }

    /// Requests several inputs at one time, and waits for all answers: an object with each answer under its key. The keys
    /// are unique in the call. A client that waits for the result receives the requests one after the other.
    ///
    /// # Errors
    ///
    /// The client cannot be asked, does not give one of them, or the task has ended.
    pub fn ask_all(&mut self, required: InputRequired) -> Result<Json, HandlerError> {
        let mut inputs = TaskInputs::new(required);
        match &self.caller {
            TaskCaller::Waits(incoming) => {
                Tasks::check_question(incoming.context())?;
                while let Some((key, call)) = inputs.next_call() {
                    inputs.add(&key, incoming.ask(call)?)?;
                }
                Ok(inputs.answers())
            }
            TaskCaller::Fetches { runner, id } => {
                let (to, answers) = sync_channel(1);
                runner.change(|runs| runs.ask(id, inputs.required(), to, now()));
                TaskInputs::from_answers(answers.recv().ok())
            }
        }
    }

    fn ask<R: RequestMethod>(&self, key: &str, params: &R::Params) -> Result<R::Result, HandlerError> {
        let input = TaskInput::<R>::new(key, params);
        match &self.caller {
            TaskCaller::Waits(incoming) => {
                Tasks::check_question(incoming.context())?;
                input.from_outcome(incoming.ask(input.call())?)
            }
            TaskCaller::Fetches { runner, id } => {
                let (to, answers) = sync_channel(1);
                runner.change(|runs| runs.ask(id, &input.required(), to, now()));
                // The sender was dropped if the client is not asked, or the task has ended.
                input.from_answers(answers.recv().ok().as_ref())
            }
        }
    }
}
