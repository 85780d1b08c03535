//! Tools whose results are fetched later, as tasks.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::future::ready;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use mcp_proto::client::{Call, Outcome};
use mcp_proto::model::{
    CallToolRequest, CreateMessageRequest, CreateMessageRequestParams, CreateMessageResult, ElicitRequest,
    ElicitRequestParams, ElicitResult, ListRootsRequest, ListRootsResult, Payload, RequestMethod, RequestParams,
};
use mcp_proto::router::{HandlerError, IntoAnswer, RoutedCall};
use mcp_proto::server::{InputRequired, TaskEvent, TaskId, TaskLimits, Tasks};
use mcp_proto::{ErrorObject, Json};
use tokio::sync::oneshot;
use tokio::task::AbortHandle;
use tokio::time::sleep;
use tracing::Instrument;

use super::Answer;
use crate::clock::{now, unix_time};
use crate::panics::caught;
use crate::server::Publishers;
use crate::{Incoming, ServerPublisher};

/// The tasks of a router, and the functions that work on them.
pub(super) struct TaskRunner {
    limits: TaskLimits,
    state: Mutex<State>,
}

struct State {
    tasks: Tasks,
    running: BTreeMap<TaskId, Running>,
    publishers: Publishers,
    /// The tasks whose last change is not published yet.
    changed: BTreeSet<TaskId>,
    is_publishing: bool,
}

/// A function that works on a task.
#[derive(Debug, Default)]
struct Running {
    work: Option<AbortHandle>,
    /// The function waits for input.
    input: Option<oneshot::Sender<Json>>,
}

impl TaskRunner {
    pub(super) fn new(limits: TaskLimits) -> Self {
        let state = State {
            tasks: Tasks::new(limits.clone()),
            running: BTreeMap::new(),
            publishers: Publishers::default(),
            changed: BTreeSet::new(),
            is_publishing: false,
        };
        Self { limits, state: Mutex::new(state) }
    }

    pub(super) fn created(&self, publisher: ServerPublisher) {
        self.state().publishers.add(publisher);
    }

    /// Answers a request about a task; `None` for every other request.
    pub(super) fn answer(self: &Arc<Self>, incoming: &Incoming) -> Option<Result<Json, ErrorObject>> {
        self.change(|state| state.tasks.answer(incoming.method(), incoming.params(), incoming.context(), now()))
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
        if !Tasks::are_supported(incoming.context()) {
            let outcome = function(TaskContext(Caller::Waits(Box::new(incoming))));
            return Box::pin(async move { call.answer(outcome.await) });
        }
        let mut random = [0; 16];
        if getrandom::fill(&mut random).is_err() {
            return Box::pin(ready(Err(ErrorObject::internal())));
        }
        let id = TaskId::new(random);
        // Before the task exists: a function that panics here leaves none behind.
        let work = function(TaskContext(Caller::Fetches { runner: Arc::clone(self), id: id.clone() }));
        let created = self.change(|state| {
            let unix = Duration::from_secs(unix_time());
            let created = state.tasks.create(&id, incoming.context(), unix, now())?;
            state.running.insert(id.clone(), Running::default());
            Ok(created)
        });
        if created.is_err() {
            return Box::pin(ready(created));
        }
        let (runner, worked_on) = (Arc::clone(self), id.clone());
        let work = async move {
            let outcome =
                caught(work).await.map_or_else(|| Err(ErrorObject::internal()), |outcome| call.answer(outcome));
            runner.change(|state| {
                state.running.remove(&worked_on);
                state.tasks.finish(&worked_on, outcome, now());
            });
        };
        let work = tokio::spawn(work.in_current_span());
        let (runner, lifetime) = (Arc::downgrade(self), self.limits.lifetime);
        tokio::spawn(async move {
            sleep(lifetime).await;
            if let Some(runner) = runner.upgrade() {
                runner.change(|state| state.tasks.handle_timeout(now()));
            }
        });
        self.change(|state| {
            // The function may have ended meanwhile.
            if let Some(running) = state.running.get_mut(&id) {
                running.work = Some(work.abort_handle());
            }
        });
        Box::pin(ready(created))
    }

    /// Changes the tasks, and carries out what follows from it.
    fn change<T>(self: &Arc<Self>, change: impl FnOnce(&mut State) -> T) -> T {
        let mut state = self.state();
        let outcome = change(&mut state);
        while let Some(event) = state.tasks.poll_event() {
            match event {
                TaskEvent::Ended(task) => {
                    if let Some(work) = state.running.remove(&task).and_then(|running| running.work) {
                        work.abort();
                    }
                }
                TaskEvent::Answered { task, answers } => {
                    if let Some(input) = state.running.get_mut(&task).and_then(|running| running.input.take()) {
                        let _ = input.send(answers);
                    }
                }
                TaskEvent::Changed(task) => {
                    state.changed.insert(task);
                }
                _ => {}
            }
        }
        if !state.changed.is_empty() && !std::mem::replace(&mut state.is_publishing, true) {
            let runner = Arc::clone(self);
            tokio::spawn(async move { runner.publish().await });
        }
        outcome
    }

    /// Publishes changes until there is none, one after the other, so that the last one of a task arrives last.
    async fn publish(&self) {
        loop {
            let (notification, publishers) = {
                let mut state = self.state();
                let Some(task) = state.changed.pop_first() else {
                    state.is_publishing = false;
                    return;
                };
                let Some(notification) = state.tasks.notification(&task) else { continue };
                (notification, state.publishers.clone())
            };
            // A server that has not declared the extension has no subscribers of tasks.
            let _ = publishers.publish(&notification).await;
        }
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The client of a tool that was added with [`Router::task_tool_with_schema`](super::Router::task_tool_with_schema).
#[derive(Debug)]
pub struct TaskContext(Caller);

enum Caller {
    /// The client waits for the result.
    Waits(Box<Incoming>),
    /// The client fetches the result later.
    Fetches { runner: Arc<TaskRunner>, id: TaskId },
}

impl fmt::Debug for Caller {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Waits(_) => "Waits",
            Self::Fetches { .. } => "Fetches",
        })
    }
}

impl TaskContext {
    /// Sets the text about what the tool is doing, which clients that fetch the result can show.
    pub fn set_message(&self, message: &str) {
        if let Caller::Fetches { runner, id } = &self.0 {
            runner.change(|state| state.tasks.set_message(id, message, now()));
        }
    }

    /// Shows a form to the client's user, or sends the user to a URL, and waits for the answer. The key is unique in the
    /// call.
    ///
    /// # Errors
    ///
    /// The client cannot be asked, or its answer does not have the form that it must have.
    pub async fn elicit(
        &self,
        key: &str,
        params: impl Into<ElicitRequestParams>,
    ) -> Result<ElicitResult, HandlerError> {
        self.ask::<ElicitRequest>(key, &params.into()).await
    }

    /// Requests a message of the client's language model. The key is unique in the call.
    ///
    /// # Errors
    ///
    /// As for [`TaskContext::elicit`].
    pub async fn sample(
        &self,
        key: &str,
        params: &CreateMessageRequestParams,
    ) -> Result<CreateMessageResult, HandlerError> {
        self.ask::<CreateMessageRequest>(key, params).await
    }

    /// Requests the roots of the client. The key is unique in the call.
    ///
    /// # Errors
    ///
    /// As for [`TaskContext::elicit`].
    pub async fn roots(&self, key: &str) -> Result<ListRootsResult, HandlerError> {
        self.ask::<ListRootsRequest>(key, &RequestParams::new()).await
    }

    async fn ask<R: RequestMethod>(&self, key: &str, params: &R::Params) -> Result<R::Result, HandlerError> {
        let answer = match &self.0 {
            Caller::Waits(incoming) => {
                Tasks::check_question(incoming.context())?;
                match incoming.ask(Call::new(R::METHOD).params(params.to_json())).await? {
                    Outcome::Result(answer) => Some(answer),
                    Outcome::Error(_) | Outcome::Failed(_) => None,
                }
            }
            Caller::Fetches { runner, id } => {
                let (input, answered) = oneshot::channel();
                let required = InputRequired::new().ask(key, R::METHOD, params.to_json());
                let is_asked = runner.change(|state| {
                    if let Some(running) = state.running.get_mut(id) {
                        running.input = Some(input);
                    }
                    state.tasks.require_input(id, &required, now())
                });
                if is_asked { answered.await.ok().and_then(|answers| answers.first_member(key)) } else { None }
            }
        };
        let answer = answer.ok_or_else(|| HandlerError::new("the client did not give what the tool needs"))?;
        Ok(R::Result::from_json(&answer).map_err(ErrorObject::from)?)
    }
}
